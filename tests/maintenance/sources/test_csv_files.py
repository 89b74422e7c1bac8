"""CSV files: options, lines in errors, blocks, and many reads side by side."""

import csv
import io
import os
import random
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError
from lance_ops.maintenance.sources import text_blocks
from lance_ops.maintenance.sources.open import open_paths
from lance_ops.maintenance.sources.read_options import ReadOptions


def written(tmp_path, content, name="in.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(path, **options):
    source = open_paths([path], ReadOptions.of(**options))
    schema = source.read_schemas()[0][1]
    return pa.Table.from_batches(list(source.batches()), schema)


def test_many_reads_side_by_side_while_other_files_are_opened_and_closed_have_their_own_rows(tmp_path):
    """A descriptor that is closed while a reader still reads ahead is that of another file soon."""
    count = 70_000
    numbers, texts = pa.array(range(count)), pa.repeat("x" * 40, count)
    for number in range(4):
        rows = pa.table({"n": numbers, "f": pa.repeat(number, count), "s": texts})
        pacsv.write_csv(rows, tmp_path / f"{number}.csv")
    assert (tmp_path / "0.csv").stat().st_size > 2 << 20

    def check(turn):
        number = turn % 4
        found = read(tmp_path / f"{number}.csv")
        for other in range(4):
            with (tmp_path / f"{other}.csv").open("rb") as file:
                file.read(10)
        return found["n"].combine_chunks().equals(numbers) and found["f"].unique().to_pylist() == [number]

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(check, range(16)))
    assert len(os.listdir("/proc/self/fd")) < 200


def test_a_read_that_is_left_early_leaves_nothing_behind(tmp_path):
    path = written(tmp_path, "n\n" + "123456\n" * 400_000)
    for _ in range(10):
        assert next(iter(open_paths([path]).batches())).num_rows > 0


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL], ids=["some", "all"])
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_quoted_values_with_delimiters_and_lines_are_those_of_the_csv_module(
    tmp_path, monkeypatch, quoting, end
):
    monkeypatch.setattr(text_blocks, "FIRST_BYTES", 64)
    monkeypatch.setitem(text_blocks.read_blocks.__kwdefaults__, "size", 64)
    rng = random.Random(3)
    texts = ['a"b', "x,y", "\n", '"', "plain", "q\r\nz", 'v"', '"",""']
    rows = [[str(n), rng.choice(texts), rng.choice(texts)] for n in range(60)]
    buffer = io.StringIO(newline="")
    csv.writer(buffer, lineterminator=end, quoting=quoting).writerows([["i", "s", "t"], *rows])
    found = read(written(tmp_path, buffer.getvalue()))
    assert [[str(row["i"]), row["s"], row["t"]] for row in found.to_pylist()] == rows


def test_options_say_how_a_file_is_read(tmp_path):
    content = "1;1,5;31.12.2024;01234\n2;-;01.01.2025;M\u00fcller\n".encode("latin-1")
    found = read(
        written(tmp_path, content),
        delimiter=";",
        encoding="latin-1",
        column_names=["id", "v", "d", "s"],
        column_types={"s": "string"},
        null_values=["-"],
        decimal_point=",",
        timestamp_format="%d.%m.%Y",
    )
    assert [str(kind) for kind in found.schema.types] == ["int64", "double", "date32[day]", "string"]
    assert found["v"].to_pylist() == [1.5, None]
    assert [day.isoformat() for day in found["d"].to_pylist()] == ["2024-12-31", "2025-01-01"]
    assert found["s"].to_pylist() == ["01234", "M\u00fcller"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "cp1252", "utf-8-sig"])
def test_stated_encodings_are_read(tmp_path, encoding):
    content = "id,n\u00e4me\n1,M\u00fcller\n".encode(encoding)
    assert read(written(tmp_path, content), encoding=encoding).to_pylist() == [
        {"id": 1, "n\u00e4me": "M\u00fcller"}
    ]


@pytest.mark.parametrize(
    ("content", "said", "hint"),
    [
        ("id,s\n1,a\n\n2,b,c\n", "line 4 has 3 columns instead of 2", "double quotes"),
        ('id,s\n1,"a\n2,b\n', "ends early, .* line 2", "correct that line"),
        (
            "id,s\n" + "1,a\n" * 300_000 + "N/A-3,b\n",
            "line 300002: 'N/A-3' in column 'id'",
            "--column-type id=",
        ),
        ("", "is empty", "remove"),
    ],
    ids=["ragged", "quote", "late type", "empty"],
)
def test_a_file_that_does_not_hold_names_the_line_and_nothing_is_written(tmp_path, content, said, hint):
    path = written(tmp_path, content)
    with pytest.raises(InvalidArgumentError, match=said) as caught:
        lo.append(tmp_path / "t.lance", path)
    assert caught.value.path == str(path)
    assert hint in caught.value.hint
    assert not (tmp_path / "t.lance" / "_versions").exists()


def test_a_column_without_values_in_the_first_block_has_the_type_of_a_later_one(tmp_path):
    found = read(written(tmp_path, "id,v\n" + "1,\n" * 600_000 + "2,7\n"))
    assert found.schema.field("v").type == pa.int64()
    assert found["v"].null_count == 600_000


def test_files_whose_types_widen_are_read_as_the_widest(tmp_path):
    written(tmp_path, "a,d\n1,2024-05-01\n", "1.csv")
    written(tmp_path, "a,d\n1.5,2024-05-01 10:00:00\n", "2.csv")
    lo.append(tmp_path / "t.lance", tmp_path)
    assert lo.dataset(tmp_path / "t.lance").to_table()["a"].to_pylist() == [1.0, 1.5]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"encoding": "nope"}, "encoding"),
        ({"delimiter": ";;"}, "delimiter"),
        ({"column_types": {"a": "nope"}}, "column_types"),
        ({"format": "xlsx"}, "format"),
        ({"null_values": "NA"}, "null_values"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(options, field):
    with pytest.raises(InvalidArgumentError) as caught:
        ReadOptions.of(**options)
    assert caught.value.field == field
