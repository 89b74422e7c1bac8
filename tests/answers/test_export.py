"""export: one file of rows, whole or absent, never in place of another one."""

import datetime as dt
import gzip
import json
import uuid
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import lance_ops as lo
from lance_ops.answers.formats import Format, format_of, open_format
from lance_ops.answers.rows_file import Target
from lance_ops.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    PredicateError,
    StorageFullError,
    UnsupportedTypeError,
)
from lance_ops.maintenance.progress import Reporter
from lance_ops.storage import open_store
from lance_ops.storage.local.atomic_file import AtomicFile

WIDE = pa.table(
    {
        "id": pa.array([1, 2, None], pa.int64()),
        "small": pa.array([1, 2, 3], pa.int8()),
        "text": ['a "b", c', "", None],
        "day": [dt.date(2024, 5, 1)] * 3,
        "ts": pa.array([dt.datetime(2024, 5, 1, tzinfo=dt.UTC)] * 3, pa.timestamp("us", "UTC")),
        "half": pa.array([1.5] * 3, pa.float16()),
        "vector": pa.array([[1.0, 2.0]] * 3, pa.list_(pa.float32(), 2)),
        "price": pa.array([Decimal("1.50")] * 3, pa.decimal128(10, 2)),
        "raw": [b"\xff", b"", None],
        "member": [{"a": 1, "b": ["x"]}, None, {"a": 2, "b": []}],
        "took": pa.array([dt.timedelta(days=1)] * 3, pa.duration("us")),
    }
)


@pytest.fixture(scope="module")
def uri(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("export") / "t.lance")
    lo.write_dataset(WIDE, path)
    return path


@pytest.mark.parametrize("name", ["rows.parquet", "rows.pq", "rows.arrow", "rows.feather"])
def test_parquet_and_arrow_keep_rows_and_types(uri, tmp_path, name):
    done = lo.export(uri, tmp_path / name)
    read = pq.read_table if done.format == "parquet" else lambda path: pa.ipc.open_file(path).read_all()
    back = read(tmp_path / name)
    assert back.equals(lo.dataset(uri).to_table())
    assert back.schema.equals(lo.dataset(uri).schema)
    assert (done.rows, done.version, done.lost_types) == (3, 1, ())
    assert done.bytes == (tmp_path / name).stat().st_size


def test_csv_holds_values_that_readers_understand(uri, tmp_path):
    lo.export(uri, tmp_path / "rows.csv")
    options = pacsv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    rows = pacsv.read_csv(tmp_path / "rows.csv", convert_options=options).to_pylist()
    assert [row["text"] for row in rows] == ['a "b", c', "", None]
    assert [row["id"] for row in rows] == [1, 2, None]
    assert rows[0]["day"] == dt.date(2024, 5, 1)
    assert json.loads(rows[0]["vector"]) == [1.0, 2.0]
    assert [json.loads(row["member"]) if row["member"] else None for row in rows] == WIDE[
        "member"
    ].to_pylist()
    assert [row["raw"] for row in rows] == ["/w==", "", None]
    assert rows[0]["ts"] == dt.datetime(2024, 5, 1, tzinfo=dt.UTC)


def test_csv_names_the_types_that_it_loses(uri, tmp_path):
    done = lo.export(uri, tmp_path / "rows.csv")
    lost = {item.column: item.written for item in done.lost_types}
    assert lost == {
        "small": "number",
        "ts": "text",
        "half": "number",
        "vector": "JSON",
        "price": "text",
        "raw": "base64",
        "member": "JSON",
        "took": "text",
    }
    assert "csv does not keep the types of small (int8 as number)" in str(done)
    assert done.to_dict()["lost_types"][0] == {"column": "small", "type": "int8", "written": "number"}


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.ndjson.gz", "rows.json"])
def test_json_keeps_lists_structs_and_nulls(uri, tmp_path, name):
    done = lo.export(uri, tmp_path / name, ["id", "member", "day"])
    data = (tmp_path / name).read_bytes()
    text = (gzip.decompress(data) if name.endswith("gz") else data).decode()
    rows = json.loads(text) if done.format == "json" else [json.loads(line) for line in text.splitlines()]
    assert rows == [
        {"id": 1, "member": {"a": 1, "b": ["x"]}, "day": "2024-05-01"},
        {"id": 2, "member": None, "day": "2024-05-01"},
        {"id": None, "member": {"a": 2, "b": []}, "day": "2024-05-01"},
    ]
    assert [lost.column for lost in done.lost_types] == ["day"]


def test_an_export_reads_one_version_with_columns_filter_and_limit(tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.append(uri, pa.table({"id": range(10), "x": range(10)}))
    lo.delete(uri, "id < 5")
    done = lo.export(lo.dataset(uri, 1), tmp_path / "a.parquet", ["x"], "id > 1", 3, 2)
    assert pq.read_table(tmp_path / "a.parquet").to_pydict() == {"x": [4, 5, 6]}
    assert done.version == 1
    assert lo.export(uri, tmp_path / "none.json", filter="id > 99").rows == 0
    assert json.loads((tmp_path / "none.json").read_text()) == []
    with pytest.raises(PredicateError):
        lo.export(uri, tmp_path / "b.csv", filter="nope = 1")
    assert not (tmp_path / "b.csv").exists()


def test_no_file_is_replaced_unasked(uri, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("mine")
    with pytest.raises(AlreadyExistsError, match="nothing was written") as caught:
        lo.export(uri, path)
    assert (caught.value.path, caught.value.field) == (str(path), "overwrite")
    assert path.read_text() == "mine"
    assert lo.export(uri, path, overwrite=True).rows == 3
    assert path.read_text().startswith('"id"')


@pytest.mark.parametrize("root", ["local", "memory"])
def test_of_two_exports_to_one_name_the_later_one_fails(uri, tmp_path, root):
    folder = str(tmp_path) if root == "local" else f"memory://{uuid.uuid4().hex}"
    target = Target.of(f"{folder}/rows.csv")
    open_store(folder).put("rows.csv", b"theirs")
    with pytest.raises(AlreadyExistsError):
        target.write(lo.dataset(uri).to_batches(), Reporter("export"))
    assert open_store(folder).read("rows.csv").to_pybytes() == b"theirs"
    assert [item.path for item in open_store(folder).list("")] == ["rows.csv"]


def test_an_export_that_fails_leaves_nothing(uri, tmp_path, monkeypatch):
    def full(self, data):
        raise StorageFullError("no space left")

    monkeypatch.setattr(AtomicFile, "write", full)
    for name in ("rows.parquet", "rows.arrow", "rows.csv", "rows.jsonl.zst"):
        with pytest.raises(StorageFullError):
            lo.export(uri, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_an_export_in_an_object_store_is_one_object(uri):
    folder = f"memory://{uuid.uuid4().hex}"
    done = lo.export(uri, f"{folder}/a/rows.parquet")
    assert done.output == f"{folder}/a/rows.parquet"
    store = open_store(folder)
    assert [item.path for item in store.list("")] == ["a/rows.parquet"]
    assert pq.read_table(pa.BufferReader(store.read("a/rows.parquet"))).num_rows == 3


def test_a_large_export_is_written_in_parts(tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.append(uri, pa.table({"id": pa.array(range(1_200_000), pa.int64())}))
    seen = []
    lo.export(uri, tmp_path / "rows.parquet", progress=lambda event: seen.append(event.done))
    groups = pq.ParquetFile(tmp_path / "rows.parquet").metadata
    assert groups.num_rows == 1_200_000
    assert groups.num_row_groups == len(seen) == 2
    assert seen[-1] == 1_200_000


def test_types_that_a_format_cannot_hold_are_named():
    schema = pa.schema({"id": pa.int64(), "gap": pa.month_day_nano_interval()})
    with pytest.raises(UnsupportedTypeError, match=r"cannot hold gap \(month_day_nano_interval\)") as caught:
        open_format(Format("parquet"), schema, pa.BufferOutputStream())
    assert caught.value.field == "gap"
    assert "arrow" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("name", "chosen", "message"),
    [
        ("rows", None, "cannot tell the format"),
        ("rows.xlsx", None, "cannot tell the format"),
        ("rows.gz", None, "cannot tell the format"),
        ("rows.parquet.gz", None, "compressed inside"),
        ("rows.csv", "excel", "unknown format"),
    ],
)
def test_a_format_that_is_unknown_is_refused(name, chosen, message):
    with pytest.raises(InvalidArgumentError, match=message):
        format_of(name, chosen)


def test_a_chosen_format_overrules_the_suffix():
    assert format_of("rows.txt", "csv") == Format("csv")
    assert format_of("s3://b/rows.TSV.zst") == Format("tsv", "zstd")


@pytest.mark.parametrize("output", ["", "folder", "folder/", "copy.lance"])
def test_a_destination_that_is_no_file_is_refused(uri, tmp_path, monkeypatch, output):
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    with pytest.raises(InvalidArgumentError):
        lo.export(uri, output)
