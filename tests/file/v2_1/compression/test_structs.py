"""Fixed-size lists and packed structs in chunks, read back by us and by the peer."""

from pathlib import Path

import lance.file
import numpy as np
import pyarrow as pa
import pytest

from lance_ops.encoding.values.array_values import from_arrow
from lance_ops.encoding.values.values import Lists, Packed, to_arrow
from lance_ops.errors import UnsupportedTypeError
from lance_ops.file.v2_1.compression.decode import decode_chunk_values
from lance_ops.file.v2_1.compression.encoded import ChunkedValues
from lance_ops.file.v2_1.compression.structs import compress_lists, compress_packed
from lance_ops.file.v2_1.options import FieldOptions
from tests.support.mini_block_file import write_mini_block_file


def _lists(item: pa.DataType, size: int, rows: int, *, null_every: int = 0) -> pa.Array:
    numbers = np.arange(rows * size) % 100
    items = pa.array(numbers).cast(item) if not pa.types.is_boolean(item) else pa.array(numbers % 3 == 0)
    if null_every:
        mask = pa.array(np.arange(rows * size) % null_every == 0)
        items = pa.compute.if_else(mask, pa.scalar(None, item), items)
    return pa.FixedSizeListArray.from_arrays(items, size)


def _nested(rows: int) -> pa.Array:
    inner = _lists(pa.int16(), 3, rows * 5, null_every=7)
    mask = pa.array([row % 11 == 0 for row in range(rows * 5)])
    inner = pa.Array.from_buffers(
        inner.type,
        len(inner),
        [pa.py_buffer(np.packbits(~np.asarray(mask), bitorder="little"))],
        children=[inner.values],
    )
    return pa.FixedSizeListArray.from_arrays(inner, 5)


def _structs(rows: int) -> pa.Array:
    members = {
        "a": pa.array(range(rows), pa.int32()),
        "b": pa.array([row / 4 for row in range(rows)]),
        "c": pa.array([row % 100 for row in range(rows)], pa.int8()),
        "d": pa.array([b"%03d" % (row % 1000) for row in range(rows)], pa.binary(3)),
    }
    return pa.StructArray.from_arrays(list(members.values()), names=list(members))


_ARRAYS = {
    "numbers": _lists(pa.int32(), 3, 5000),
    "one row": _lists(pa.int32(), 3, 1),
    "null items": _lists(pa.float32(), 3, 5000, null_every=5),
    "bools": _lists(pa.bool_(), 3, 9001),
    "null bools": _lists(pa.bool_(), 5, 9001, null_every=4),
    "null bytes": _lists(pa.int8(), 701, 30, null_every=4),
    "wide bools": _lists(pa.bool_(), 4095, 100),
    "nested": _nested(700),
    "packed": _structs(5000),
    "one packed row": _structs(1),
}


def _compress(array: pa.Array, version: str) -> ChunkedValues:
    values = from_arrow(array)
    if isinstance(values, Packed):
        return compress_packed(values, FieldOptions(), version)
    assert isinstance(values, Lists)
    return compress_lists(values, FieldOptions(), version)


@pytest.mark.peer
@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("name", _ARRAYS)
def test_chunks_are_read_by_us_and_by_the_peer(name: str, version: str, tmp_path: Path) -> None:
    array = _ARRAYS[name]
    expected = array.to_pylist()
    compressed = _compress(array, version)

    decoded = decode_chunk_values(compressed.encoding, compressed.buffers, compressed.counts)
    assert to_arrow(decoded, array.type).to_pylist() == expected

    path = tmp_path / "x.lance"
    metadata = {"lance-encoding:packed": "true"} if pa.types.is_struct(array.type) else None
    write_mini_block_file(path, array.type, compressed, version, metadata=metadata)
    peer = lance.file.LanceFileReader(str(path))
    assert peer.read_all().to_table()["x"].to_pylist() == expected
    last = len(array) - 1
    assert peer.take_rows([last]).to_table()["x"].to_pylist() == [expected[last]]


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_all_chunks_but_the_last_have_a_power_of_two(version: str) -> None:
    compressed = _compress(_lists(pa.int32(), 3, 5000), version)
    counts = compressed.counts.tolist()

    assert sum(counts) == 5000
    assert all(count & (count - 1) == 0 and count >= 2 for count in counts[:-1])


def test_two_rows_too_large_for_short_sizes_are_refused() -> None:
    array = _lists(pa.int64(), 2000, 4)
    with pytest.raises(UnsupportedTypeError, match="too large for the chunks"):
        _compress(array, "2.1")
    assert _compress(array, "2.2").counts.tolist() == [2, 2]


@pytest.mark.parametrize(
    "member", [pa.array(["a"]), pa.array([True]), pa.array([[1]], pa.list_(pa.int8(), 1))]
)
def test_packed_members_fill_whole_bytes(member: pa.Array) -> None:
    with pytest.raises(UnsupportedTypeError, match="whole bytes"):
        _compress(pa.StructArray.from_arrays([pa.array([1]), member], names=["a", "b"]), "2.2")
