"""Texts and bytes of 2.0 as pylance up to 0.13 wrote them: lists of bytes, the items in the next column."""

import numpy as np
import pyarrow as pa
import pytest

from lance_ops.errors import CorruptFileError
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter
from lance_ops.storage import open_store

VALUES = [b"foo", b"", None, b"bar", "mäh".encode(), None, b"x" * 100, b"end"] * 37
NUMBERS = list(range(len(VALUES)))


def store_lists(tmp_path, values, storage_pages: int = 1) -> FileReader:
    """A file of numbers, lists of bytes, and numbers again: columns 0, 1 with 2, and 3."""
    lists = pa.array([None if value is None else list(value) for value in values], pa.list_(pa.uint8()))
    table = pa.table({"n": NUMBERS[: len(values)], "text": lists, "m": NUMBERS[: len(values)]})
    store = open_store(tmp_path)
    with FileWriter(store, "f.lance", Schema.from_arrow(table.schema), version="2.0") as writer:
        for start in range(0, len(values), -(-len(values) // storage_pages)):
            writer.write(table.slice(start, -(-len(values) // storage_pages)))
        writer.finish()
    return FileReader.open(store, "f.lance")


def as_text(data_type: pa.DataType) -> tuple[Schema, dict[int, int]]:
    schema = Schema.from_arrow(pa.schema({"n": pa.int64(), "text": data_type, "m": pa.int64()}))
    return schema, dict(zip((field.id for field in schema.fields), (0, 1, 3), strict=True))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()], ids=str)
@pytest.mark.parametrize("pages", [1, 3])
def test_they_are_read_in_whole_in_part_and_row_by_row(tmp_path, kind, pages):
    reader = store_lists(tmp_path, VALUES, pages)
    schema, columns = as_text(kind)
    expected = pa.table({"n": NUMBERS, "text": pa.array(VALUES, pa.binary()).cast(kind), "m": NUMBERS})
    table = reader.read_table(schema, columns)
    table.validate(full=True)
    assert table == expected
    for start, stop in ((0, 1), (3, 9), (8, 200), (101, 103), (295, 296)):
        assert reader.read_table(schema, columns, start=start, stop=stop) == expected.slice(
            start, stop - start
        )
    rows = np.array([0, 1, 2, 5, 98, 99, 100, 295])
    assert reader.take(rows, schema, columns) == expected.take(rows)


def test_bytes_that_are_no_text_are_damage(tmp_path):
    reader = store_lists(tmp_path, [b"\xff\xfe", b"x"])
    with pytest.raises(CorruptFileError, match="text"):
        reader.read_table(*as_text(pa.string()))
    assert reader.read_table(*as_text(pa.binary()))["text"].to_pylist() == [b"\xff\xfe", b"x"]
