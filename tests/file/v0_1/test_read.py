"""Files of storage version 0.1 that the peer writes, read row by row as the peer reads them."""

import datetime as dt
import decimal
import struct

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_ops.errors import (
    CorruptFileError,
    InvalidArgumentError,
    LanceOpsError,
    UnsupportedError,
    UnsupportedVersionError,
)
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter, check_writable
from lance_ops.pb import file_pb2
from lance_ops.storage import open_store
from lance_ops.storage.store import Store

pytestmark = pytest.mark.peer

ROWS = 300
GROUP = 70


def _moments(count: int) -> list[dt.datetime]:
    return [dt.datetime(2020, 2, 28, tzinfo=dt.UTC) + dt.timedelta(minutes=17 * row) for row in range(count)]


def columns(count: int) -> dict[str, pa.Array]:
    """A column for each kind of storage."""
    numbers = range(count)
    member = pa.struct([("p", pa.float32()), ("q", pa.string())])
    deep = pa.struct(
        [("a", pa.int32()), ("b", pa.struct([("c", pa.list_(pa.string())), ("z", pa.large_binary())]))]
    )
    return {
        **{
            f"{kind}": pa.array([row % 100 for row in numbers], kind)
            for kind in map(
                pa.type_for_alias, ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
            )
        },
        "half": pa.array(np.arange(count).astype(np.float16)),
        "single": pa.array([None if row % 7 == 0 else row / 3 for row in numbers], pa.float32()),
        "double": pa.array([row / 3 for row in numbers], pa.float64()),
        "flag": pa.array([None if row % 5 == 0 else row % 3 == 0 for row in numbers]),
        "text": pa.array([None if row % 5 == 0 else "" if row % 5 == 1 else f"v{row}é" for row in numbers]),
        "large_text": pa.array([f"{row}" * (row % 9) for row in numbers], pa.large_string()),
        "bytes": pa.array([bytes([row % 256]) * (row % 4) for row in numbers], pa.binary()),
        "five_bytes": pa.array([bytes([row % 256]) * 5 for row in numbers], pa.binary(5)),
        "day": pa.array(numbers, pa.int32()).cast(pa.date32()),
        "moment": pa.array(_moments(count), pa.timestamp("us", "UTC")),
        "time": pa.array(numbers, pa.int64()).cast(pa.time64("ns")),
        "span": pa.array(numbers, pa.int64()).cast(pa.duration("ms")),
        "price": pa.array([decimal.Decimal(row) / 8 for row in numbers], pa.decimal128(12, 3)),
        "vector": pa.array([[float(row)] * 4 for row in numbers], pa.list_(pa.float32(), 4)),
        "code": pa.array([f"d{row % 9}" for row in numbers]).dictionary_encode(),
        "small_code": pa.DictionaryArray.from_arrays(
            pa.array([row % 3 for row in numbers], pa.int8()), pa.array([7, 8, 9])
        ),
        "nothing": pa.nulls(count),
        "list": pa.array(
            [None if row % 6 == 0 else [row] * (row % 4) for row in numbers], pa.list_(pa.int16())
        ),
        "texts": pa.array([[f"{row}", ""] * (row % 3) for row in numbers], pa.large_list(pa.string())),
        "lists": pa.array(
            [[[n] * (n % 3) for n in range(row % 4)] for row in numbers], pa.list_(pa.large_list(pa.uint8()))
        ),
        "structs": pa.array(
            [[{"p": n, "q": str(n)} for n in range(row % 3)] for row in numbers], pa.list_(member)
        ),
        "flags": pa.array([[n % 2 == 0 for n in range(row % 11)] for row in numbers], pa.list_(pa.bool_())),
        "deep": pa.array(
            [
                None if row % 8 == 0 else {"a": row, "b": {"c": ["x"] * (row % 4), "z": b"z" * (row % 3)}}
                for row in numbers
            ],
            deep,
        ),
    }


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, str, pa.Table]:
    """A file of several batches, and what the peer reads from it."""
    uri = str(tmp_path_factory.mktemp("legacy") / "all")
    lance.write_dataset(pa.table(columns(ROWS)), uri, data_storage_version="legacy", max_rows_per_group=GROUP)
    store = open_store(uri)
    (file,) = store.list("data")
    return store, file.path, lance.dataset(uri).to_table()


def test_every_type_reads_as_the_peer_reads_it(written: tuple[Store, str, pa.Table]) -> None:
    store, path, expected = written
    reader = FileReader.open(store, path)
    assert (reader.version, reader.num_rows, reader.num_global_buffers) == ("0.1", ROWS, 0)
    table = reader.read_table()
    table.validate(full=True)
    for name in expected.column_names:
        assert table[name].type == expected[name].type, name
        assert table[name].to_pylist() == expected[name].to_pylist(), name


@pytest.mark.parametrize(
    ("start", "stop"), [(0, 0), (0, 1), (69, 71), (3, 4), (70, 140), (1, 299), (299, 300), (300, 300)]
)
def test_row_ranges_cross_batches(written: tuple[Store, str, pa.Table], start: int, stop: int) -> None:
    store, path, expected = written
    table = FileReader.open(store, path).read_table(start=start, stop=stop)
    table.validate(full=True)
    assert table.to_pylist() == expected.slice(start, stop - start).to_pylist()


@pytest.mark.parametrize("rows", [[], [0], [299], [0, 69, 70, 71, 299], list(range(0, 300, 7))])
def test_single_rows(written: tuple[Store, str, pa.Table], rows: list[int]) -> None:
    store, path, expected = written
    reader = FileReader.open(store, path)
    assert reader.take(rows).to_pylist() == expected.take(pa.array(rows, pa.int64())).to_pylist()
    with pytest.raises(InvalidArgumentError):
        reader.take([300])


def test_batches_follow_each_other(written: tuple[Store, str, pa.Table]) -> None:
    store, path, expected = written
    batches = list(FileReader.open(store, path).iter_batches(batch_rows=32, start=5))
    assert max(batch.num_rows for batch in batches) <= 32
    assert pa.Table.from_batches(batches).to_pylist() == expected.slice(5).to_pylist()


def test_fields_without_a_column_are_null(written: tuple[Store, str, pa.Table]) -> None:
    store, path, _ = written
    wanted = Schema.from_arrow(pa.schema([("int8", pa.int8()), ("new", pa.list_(pa.string()))]))
    table = FileReader.open(store, path).read_table(wanted, {wanted.fields[0].id: 0}, start=68, stop=72)
    assert table.to_pylist() == [{"int8": row % 100, "new": None} for row in range(68, 72)]


@pytest.mark.parametrize("count", [0, 1, 8, 1023, 1024, 1025])
def test_sizes(tmp_path, count: int) -> None:
    table = pa.table(
        {"n": pa.array(range(count), pa.int64()), "s": pa.array([str(row) for row in range(count)])}
    )
    uri = str(tmp_path / "sizes")
    lance.write_dataset(table, uri, data_storage_version="legacy")
    store = open_store(uri)
    read = [FileReader.open(store, file.path).read_table() for file in store.list("data")]
    assert [row for part in read for row in part.to_pylist()] == table.to_pylist()


def without_manifest(data: bytes) -> bytes:
    """The same file without a schema of its own."""
    position = struct.unpack("<q", data[-16:-8])[0]
    length = struct.unpack("<I", data[position : position + 4])[0]
    metadata = file_pb2.Metadata.FromString(data[position + 4 : position + 4 + length])
    metadata.ClearField("manifest_position")
    encoded = metadata.SerializeToString()
    return data[:position] + struct.pack("<I", len(encoded)) + encoded + data[-16:]


def test_a_file_without_a_schema_of_its_own_is_read_by_that_of_its_table(
    written: tuple[Store, str, pa.Table],
) -> None:
    store, path, expected = written
    described = FileReader.open(store, path)
    other = open_store("memory://legacy-without-manifest")
    other.put("bare.lance", without_manifest(store.read(path).to_pybytes()))
    reader = FileReader.open(other, "bare.lance")
    with pytest.raises(UnsupportedError, match="the file has no schema"):
        reader.read_table()
    plain = described.schema.project([name for name in expected.column_names if "code" not in name])
    columns = {node.id: node.id for node in described.schema.walk()}
    assert reader.read_table(plain, columns).to_pylist() == expected.select(plain.names).to_pylist()
    with pytest.raises(UnsupportedError, match="dictionary"):
        reader.read_table(described.schema.project(["code"]), columns)


def test_nothing_is_written() -> None:
    schema = pa.schema([("a", pa.int8())])
    with pytest.raises(UnsupportedVersionError, match=r"0\.1 is read but not written"):
        check_writable(schema, "0.1")
    store = open_store("memory://legacy-unwritten")
    with pytest.raises(UnsupportedVersionError, match=r"0\.1 is read but not written"):
        FileWriter(store, "a.lance", Schema.from_arrow(schema), version="0.1")
    assert list(store.list("")) == []


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    uri = str(tmp_path_factory.mktemp("legacy") / "small")
    # Any bytes are values of most types, but not of these, which Arrow checks only when it is asked to.
    unchecked = ("price", "time")
    table = pa.table({name: column for name, column in columns(20).items() if name not in unchecked})
    lance.write_dataset(table, uri, data_storage_version="legacy", max_rows_per_group=7)
    store = open_store(uri)
    (file,) = store.list("data")
    return store.read(file.path).to_pybytes()


def read_damaged(data: bytes) -> pa.Table | LanceOpsError:
    """Everything that can be read of a file: a valid table, or the error of the package."""
    store = open_store("memory://legacy-damaged")
    store.put("bad.lance", data)
    try:
        reader = FileReader.open(store, "bad.lance")
        reader.page_bounds([node.id for node in reader.schema.walk()])
        table = reader.read_table()
        table.validate(full=True)
    except LanceOpsError as error:
        return error
    return table


def test_a_page_table_beyond_the_file_is_refused_before_it_is_read(small: bytes) -> None:
    position = struct.unpack("<q", small[-16:-8])[0]
    length = struct.unpack("<I", small[position : position + 4])[0]
    metadata = file_pb2.Metadata.FromString(small[position + 4 : position + 4 + length])
    for offsets, message in (([0, 5, 3], "ascend"), ([1, 2], "ascend"), (range(2000), "does not fit")):
        metadata.batch_offsets[:] = offsets
        encoded = metadata.SerializeToString()
        result = read_damaged(small[:position] + struct.pack("<I", len(encoded)) + encoded + small[-16:])
        assert isinstance(result, CorruptFileError)
        assert message in str(result)
