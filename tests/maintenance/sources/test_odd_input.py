"""Odd input: cut-off streams, empty lines, names that are missing, queries that fail in the middle."""

import gzip
import io
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, LanceOpsError

SCHEMA = pa.schema([("id", pa.int64())])


def stream_of(parts: int, *, legacy: bool = False) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, SCHEMA, options=pa.ipc.IpcWriteOptions(use_legacy_format=legacy)) as writer:
        for part in range(parts):
            writer.write_table(pa.table({"id": range(part * 100, part * 100 + 100)}))
    return sink.getvalue()


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_an_arrow_stream_that_is_cut_off_anywhere_is_refused(tmp_path: Path, packed: bool) -> None:
    whole = stream_of(3)
    ends = {len(stream_of(parts)) - 8 for parts in range(4)}
    path = tmp_path / ("rows.arrows.gz" if packed else "rows.arrows")
    for end in sorted({*range(1, len(whole), 211), *ends}):
        path.write_bytes(gzip.compress(whole[:end]) if packed else whole[:end])
        with pytest.raises(LanceOpsError, match=r"rows\.arrows"):
            lo.append(tmp_path / "t.lance", path)
    assert not list(tmp_path.glob("t.lance/_versions/*"))
    path.write_bytes(gzip.compress(whole) if packed else whole)
    assert lo.append(tmp_path / "t.lance", path).rows_added == 300


def test_two_arrow_streams_in_a_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.arrows"
    path.write_bytes(stream_of(1) + stream_of(2))
    with pytest.raises(InvalidArgumentError, match="more than one Arrow stream"):
        lo.append(tmp_path / "t.lance", path)


def test_a_stream_of_an_early_release_of_arrow_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.arrows"
    path.write_bytes(stream_of(2, legacy=True))
    assert lo.append(tmp_path / "t.lance", path).rows_added == 200


def test_pages_of_parquet_are_compared_with_their_checksums(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": range(1000)}), path, write_page_checksum=True, use_dictionary=False)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(InvalidArgumentError, match=r"CRC.*rows\.parquet"):
        lo.append(tmp_path / "t.lance", path)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("rows", [["a", "", "b"], ["", "a"], ["a", "", ""]])
def test_an_empty_line_is_a_row_of_a_single_column(tmp_path: Path, rows: list[str], end: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(end.join(["name", *rows, ""]), newline="")
    lo.append(tmp_path / "t.lance", path)
    assert lo.dataset(tmp_path / "t.lance").to_table()["name"].to_pylist() == rows
    path.write_text(end.join(["id", *("" if row == "" else "7" for row in rows), ""]), newline="")
    lo.append(tmp_path / "n.lance", path)
    assert lo.dataset(tmp_path / "n.lance").to_table()["id"].to_pylist() == [
        7 if row else None for row in rows
    ]


def test_empty_lines_between_rows_of_several_columns_are_none(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("\nid,name\n1,a\n\n2,b\n\n")
    lo.append(tmp_path / "t.lance", path)
    assert lo.dataset(tmp_path / "t.lance").to_table().to_pylist() == [
        {"id": 1, "name": "a"},
        {"id": 2, "name": "b"},
    ]


def test_a_column_of_nulls_and_values_keeps_its_rows_through_csv(tmp_path: Path) -> None:
    lo.append(tmp_path / "t.lance", pa.table({"id": [1, None, 3, None]}))
    lo.export(tmp_path / "t.lance", tmp_path / "rows.csv")
    lo.append(tmp_path / "copy.lance", tmp_path / "rows.csv")
    assert lo.dataset(tmp_path / "copy.lance").to_table()["id"].to_pylist() == [1, None, 3, None]


@pytest.mark.parametrize("size", [5, 300_000])
def test_a_query_that_fails_in_the_middle_commits_nothing(tmp_path: Path, size: int) -> None:
    query = f"SELECT CASE WHEN range = {size - 1} THEN error('boom')::INT ELSE 1 END AS id FROM range({size})"
    lo.append(tmp_path / "old.lance", pa.table({"id": pa.array([1], pa.int32())}))
    for name in ("new.lance", "old.lance"):
        with pytest.raises(InvalidArgumentError, match="the query failed: boom"):
            lo.append(tmp_path / name, lo.read_query(query), job_key="once")
    assert lo.dataset(tmp_path / "old.lance").version == 1
    assert not list(tmp_path.glob("new.lance/_versions/*"))


def test_a_query_does_not_see_variables_of_the_library(tmp_path: Path) -> None:
    for name in ("sql", "path", "relation", "connection"):
        with pytest.raises(InvalidArgumentError, match="does not exist"):
            lo.append(tmp_path / "t.lance", lo.read_query(f"SELECT * FROM {name}"))


def test_a_mark_of_order_inside_of_a_text_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    # Longer than the first block, so that a later one begins with the mark.
    rows = ["name", "\ufeff" * 400_000, "\ufeffb"]
    path.write_bytes("\n".join(["id", *rows]).encode("utf-16-le"))
    lo.append(tmp_path / "t.lance", lo.read_files(path, encoding="utf-16-le"))
    assert lo.dataset(tmp_path / "t.lance").to_table()["id"].to_pylist() == rows


def test_standard_input_that_is_closed_is_named(tmp_path: Path) -> None:
    line = f"{sys.executable} -m lance_ops append {tmp_path / 't.lance'} - <&-"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: standard input is closed")
