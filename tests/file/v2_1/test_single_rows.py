"""A single row of a plain column takes a way of its own, to the same page as any other row."""

import datetime as dt

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import SchemaMismatchError
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.v2_1 import write as module
from lance_ops.file.v2_1.layout import LAYOUT_2_2
from lance_ops.file.writer import FileWriter
from lance_ops.storage import open_store

VALUES = {
    "int8": pa.array([-7], pa.int8()),
    "uint64": pa.array([2**64 - 1], pa.uint64()),
    "half": pa.array(np.array([1.5], dtype=np.float16)),
    "double": pa.array([float("-inf")]),
    "day": pa.array([dt.date(2024, 2, 29)]),
    "stamp": pa.array([1_709_208_001], pa.timestamp("us", "UTC")),
    "flag": pa.array([True]),
    "text": pa.array(["äh"]),
    "decimal": pa.array([1], pa.decimal128(20, 3)),
    "vector": pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2)),
    "list": pa.array([[1, 2]]),
    "struct": pa.array([{"a": 1, "b": None}], pa.struct({"a": pa.int64(), "b": pa.int32()})),
}
FULL_ZIP = {"lance-encoding:structural-encoding": "fullzip"}


def rows(*, null):
    padded = {name: pa.concat_arrays([one, pa.nulls(1, one.type), one]) for name, one in VALUES.items()}
    fields = [pa.field(name, one.type) for name, one in VALUES.items()]
    data = pa.table(padded, schema=pa.schema(fields)).append_column(
        pa.field("zipped", pa.int64(), metadata=FULL_ZIP), pa.array([1, None, 3])
    )
    # A slice, so that places in buffers count.
    return data.slice(1 if null else 2, 1)


def write(path, data, version):
    store = open_store(str(path))
    with FileWriter(store, "f.lance", Schema.from_arrow(data.schema), version=version) as writer:
        writer.write(data)
    return store.read("f.lance", 0, FileReader.open(store, "f.lance").size_bytes).to_pybytes()


@pytest.mark.parametrize("null", [False, True])
@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_the_bytes_are_those_of_the_general_way(tmp_path, monkeypatch, null, version):
    data = rows(null=null)
    quick = write(tmp_path / "quick", data, version)
    monkeypatch.setattr(module, "hold_row", lambda *_: None)
    assert write(tmp_path / "general", data, version) == quick


@pytest.mark.parametrize("null", [False, True])
def test_the_peer_reads_single_rows_and_what_follows_them(tmp_path, null):
    uri = str(tmp_path / "d")
    lo.write_dataset(rows(null=null), uri, data_storage_version="2.2")
    lo.append(uri, rows(null=not null))
    lance.write_dataset(rows(null=null), uri, mode="append")
    found = lance.dataset(uri).to_table()
    assert found.equals(pa.concat_tables([rows(null=null), rows(null=not null), rows(null=null)]))
    assert lo.dataset(uri).to_table().equals(found)


def test_a_schema_is_checked_once_while_a_table_is_appended_to(tmp_path, monkeypatch):
    uri = str(tmp_path / "d")
    data = pa.table({f"checked once {number}": [number] for number in range(20)})
    lo.write_dataset(data, uri)
    lo.append(uri, data)
    found = []
    monkeypatch.setattr(type(LAYOUT_2_2), "find_problems", lambda *given: found.append(given) or [])
    lo.append(uri, data)
    assert not found
    first, second = (lo.dataset(uri, version=version).lance_schema for version in (2, 3))
    assert first is second
    assert lance.dataset(uri).to_table().num_rows == 3


def test_rows_that_follow_the_first_one_share_its_pages(tmp_path):
    store = open_store(str(tmp_path))
    data = pa.table({"a": pa.array([1, None, 3], pa.int32()), "b": pa.array([4, 5, 6], pa.int32())})
    with FileWriter(store, "f.lance", Schema.from_arrow(data.schema), version="2.2") as writer:
        for number in range(3):
            writer.write(data.slice(number, 1))
        assert writer.tell() > 0
    assert FileReader.open(store, "f.lance").read_table().equals(data)


def test_a_single_row_without_a_required_value_is_refused_when_it_comes(tmp_path):
    schema = pa.schema([pa.field("a", pa.int32()), pa.field("b", pa.int32(), nullable=False)])
    writer = FileWriter(open_store(str(tmp_path)), "f.lance", Schema.from_arrow(schema), version="2.2")
    row = pa.record_batch([pa.array([None], pa.int32()), pa.array([None], pa.int32())], schema=schema)
    with pytest.raises(SchemaMismatchError, match="'b' must not be null"):
        writer.write(row)
    writer.abort()
