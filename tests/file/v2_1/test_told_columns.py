"""Columns of one value are read of the file's metadata alone, and are what their pages would have given."""

import datetime as dt

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.file.io.row_selection import RowSelection
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.v2_1.layout import LAYOUT_2_2
from lance_ops.file.v2_1.told_columns import read_told_column
from lance_ops.file.writer import FileWriter
from lance_ops.pb import encodings21_pb2 as pb
from lance_ops.pb import file2_pb2
from lance_ops.storage import open_store

DAY = dt.date(2024, 2, 29)

TOLD = {
    "int8": pa.array([-7], pa.int8()),
    "uint16": pa.array([65_535], pa.uint16()),
    "int64": pa.array([-(2**63)]),
    "half": pa.array(np.array([1.5], dtype=np.float16)),
    "float": pa.array([0.1], pa.float32()),
    "double": pa.array([float("inf")]),
    "day": pa.array([DAY]),
    "time": pa.array([dt.time(1, 2, 3)], pa.time64("us")),
    "stamp": pa.array([1_709_208_001], pa.timestamp("ns", "Europe/Berlin")),
    "span": pa.array([dt.timedelta(5)], pa.duration("ms")),
}
OTHERS = {
    "flag": pa.array([True]),
    "text": pa.array(["äh"]),
    "decimal": pa.array([1], pa.decimal128(20, 3)),
    "vector": pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2)),
    "list": pa.array([[1, 2]]),
    "struct": pa.array([{"a": 1, "b": None}], pa.struct({"a": pa.int64(), "b": pa.int32()})),
    "digest": pa.array([b"abcd"], pa.binary(4)),
    "label": pa.array(["x"]).dictionary_encode(),
}


def repeated(one, count, *, null):
    return pa.nulls(count, one.type) if null else pa.concat_arrays([one] * count)


def table(count, *, null):
    return pa.table({name: repeated(one, count, null=null) for name, one in (TOLD | OTHERS).items()})


def write(path, data):
    store = open_store(str(path))
    with FileWriter(store, "f.lance", Schema.from_arrow(data.schema), version="2.2") as writer:
        writer.write(data)
    return FileReader.open(store, "f.lance")


def refuse(*_):
    raise AssertionError("pages are read")


@pytest.mark.parametrize("count", [1, 2, 1000])
@pytest.mark.parametrize("null", [False, True])
def test_no_page_is_looked_at(tmp_path, monkeypatch, count, null):
    data = table(count, null=null).select(list(TOLD))
    reader = write(tmp_path, data)
    monkeypatch.setattr(type(LAYOUT_2_2), "read_fields", refuse)
    assert reader.read_table().equals(data)
    assert reader.take([0]).equals(data.slice(0, 1))
    assert reader.read_table(start=count // 2).equals(data.slice(count // 2))


@pytest.mark.parametrize("count", [1, 2, 1000, 100_000])
@pytest.mark.parametrize("null", [False, True])
@pytest.mark.parametrize("by", ["ours", "peer"])
def test_the_same_comes_of_pages(tmp_path, count, null, by):
    data = table(count, null=null)
    uri = str(tmp_path / "d")
    module = lo if by == "ours" else lance
    module.write_dataset(data, uri, data_storage_version="2.2")
    found = lo.dataset(uri).to_table()
    found.validate(full=True)
    assert found.equals(lance.dataset(uri).to_table())
    assert found.equals(data.cast(found.schema))
    rows = [0, count // 3, count - 1] if count > 3 else [0]
    assert lo.dataset(uri).take(rows).equals(lance.dataset(uri).take(rows))


def test_appended_rows_and_added_columns_read_as_the_peer_reads_them(tmp_path):
    uri = str(tmp_path / "d")
    lance.write_dataset(table(1, null=False), uri, data_storage_version="2.2")
    lo.append(uri, table(1, null=True))
    lance.write_dataset(table(3, null=False), uri, mode="append")
    lance.dataset(uri).add_columns({"more": "int64 + 1"})
    assert lo.dataset(uri).to_table().equals(lance.dataset(uri).to_table())
    some = ["more", "int8", "text"]
    assert (
        lo.dataset(uri)
        .to_table(columns=some, filter="int8 is not null")
        .equals(lance.dataset(uri).to_table(columns=some, filter="int8 is not null"))
    )


class Described:
    """The description of a column of one value, to be bent."""

    def __init__(self, *, length=5, **layout):
        layout = {"layers": [pb.REPDEF_ALL_VALID_ITEM], "inline_value": b"\x07" + bytes(7)} | layout
        self.layout = pb.PageLayout(constant_layout=pb.ConstantLayout(**layout))
        self.column = file2_pb2.ColumnMetadata()
        self.page = self.column.pages.add(length=length)

    def read(self, stop=5, kind="int64"):
        value = self.layout.SerializeToString()
        url = b"/lance.encodings21.PageLayout"
        wrapped = b"\x0a" + bytes([len(url)]) + url + b"\x12" + bytes([len(value)]) + value
        self.page.encoding.direct.encoding = wrapped
        field = Schema.from_arrow(pa.schema({"x": pa.type_for_alias(kind)})).fields[0]
        return read_told_column(self.column.SerializeToString(), field, RowSelection(0, stop))


def test_what_is_as_it_should_be_is_told():
    assert Described().read().to_pylist() == [7] * 5
    assert Described().read(stop=2).to_pylist() == [7] * 2


def test_whatever_is_unusual_is_left_to_those_who_read_pages():
    assert Described().read(stop=6) is None
    assert Described(length=2**40).read() is None
    assert Described(inline_value=b"short").read() is None
    assert Described(layers=[pb.REPDEF_NULLABLE_ITEM]).read() is None
    assert Described(layers=[pb.REPDEF_ALL_VALID_ITEM] * 2).read() is None
    assert Described().read(kind="int32") is None
    assert Described().read(kind="string") is None
    several, shared, with_buffers, other = Described(), Described(), Described(), Described()
    several.column.pages.add(length=1)
    shared.column.buffer_offsets.append(0)
    with_buffers.page.buffer_offsets.append(0)
    other.layout.full_zip_layout.bits_per_value = 64
    for described in (several, shared, with_buffers, other):
        assert described.read() is None
    field = Schema.from_arrow(pa.schema({"x": pa.int64()})).fields[0]
    assert read_told_column(b"\xff" * 40, field, RowSelection(0, 1)) is None


def test_columns_that_were_parsed_before_read_as_before(tmp_path):
    data = table(4, null=False)
    reader = write(tmp_path, data)
    first = reader.read_table()
    reader.window_rows()
    assert reader.description(0) is None
    assert reader.read_table().equals(first)
