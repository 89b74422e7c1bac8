"""Deletion vectors and their files."""

import contextlib
import io
import pickle
import random

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from lance_ops.errors import CorruptFileError, InvalidArgumentError
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.deletion_vector import (
    DeletionVector,
    decode_deletion_vector,
    encode_deletion_vector,
)
from lance_ops.table.manifest.fragment import DeletionFileType

offset_sets = st.frozensets(st.integers(0, 70_000), max_size=50)


def vector(offsets):
    return DeletionVector.from_offsets(offsets)


def ipc(columns, **options):
    sink = io.BytesIO()
    table = pa.table(columns)
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, **options)
    return sink.getvalue()


def decode(data, kind=DeletionFileType.ARROW_ARRAY, rows=100):
    return decode_deletion_vector(data, kind, physical_rows=rows, path="file")


@given(offset_sets, offset_sets, st.integers(0, 70_000), st.integers(0, 70_000))
def test_a_vector_is_a_set_of_offsets(one, other, first, last):
    a, b = vector(one), vector(np.array(sorted(other), dtype=np.int64))
    assert (len(a), list(a.offsets())) == (len(one), sorted(one))
    assert list(a.union(b).offsets()) == sorted(one | other)
    assert list(a.intersection(b).offsets()) == sorted(one & other)
    assert list(a.difference(b).offsets()) == sorted(one - other)
    start, stop = min(first, last), max(first, last)
    inside = {offset for offset in one if start <= offset < stop}
    assert a.count(start, stop) == len(inside)
    assert set(np.flatnonzero(a.mask(start, stop)) + start) == inside
    assert set(a.live_offsets(stop)) == set(range(stop)) - one
    assert (first in a) == (first in one)
    assert (a == b) == (one == other)
    assert pickle.loads(pickle.dumps(a)) == a


@given(offset_sets, st.sampled_from(DeletionFileType))
def test_files_of_both_kinds_read_back(offsets, kind):
    data = encode_deletion_vector(vector(offsets), kind)
    assert decode(data, kind, rows=70_001) == vector(offsets)


@pytest.mark.parametrize("offset", [-1, 2**32])
def test_offsets_have_32_bits(offset):
    with pytest.raises(InvalidArgumentError):
        vector(np.array([offset], dtype=np.int64))


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", DeletionFileType.ARROW_ARRAY),
        (b"", DeletionFileType.BITMAP),
        (b"ARROW1\0\0 and not much more", DeletionFileType.ARROW_ARRAY),
        (ipc({"row_id": pa.array([1, None], pa.uint32())}), DeletionFileType.ARROW_ARRAY),
        (ipc({"row_id": pa.array([1, -2], pa.int32())}), DeletionFileType.ARROW_ARRAY),
        (ipc({"row_id": pa.array([1], pa.int64())}), DeletionFileType.ARROW_ARRAY),
        (ipc({"a": pa.array([1], pa.uint32()), "b": [1]}), DeletionFileType.ARROW_ARRAY),
        (ipc({"row_id": pa.array([100], pa.uint32())}), DeletionFileType.ARROW_ARRAY),
        (BitMap([100]).serialize(), DeletionFileType.BITMAP),
        (BitMap(range(1 << 31)).serialize(), DeletionFileType.BITMAP),
        (BitMap([1, 2, 70_000]).serialize()[:-1], DeletionFileType.BITMAP),
    ],
)
def test_damaged_files_are_refused(data, kind):
    with pytest.raises(CorruptFileError, match="file"):
        decode(data, kind)


def test_the_array_of_the_specification_is_int32_and_read_too():
    assert list(decode(ipc({"row_id": pa.array([5, 1], pa.int32())})).offsets()) == [1, 5]


@pytest.mark.parametrize("kind", DeletionFileType)
def test_mutated_files_give_a_typed_error_or_rows_of_the_fragment(kind):
    data = encode_deletion_vector(vector(range(0, 100, 3)), kind)
    rng = random.Random(3)
    for _ in range(2000):
        mutated = bytearray(data)[: rng.choice((len(data), rng.randrange(len(data))))]
        for _ in range(rng.randint(1, 4)):
            if mutated:
                mutated[rng.randrange(len(mutated))] = rng.randrange(256)
        with contextlib.suppress(CorruptFileError):
            assert len(decode(bytes(mutated), kind)) <= 100


@pytest.mark.peer
@pytest.mark.parametrize("count", [4999, 5000])
def test_the_peer_writes_the_same_kind_and_reads_our_bytes(tmp_path, count):
    uri = str(tmp_path / "t.lance")
    dataset = lance.write_dataset(pa.table({"i": pa.array(range(10_000))}), uri, data_storage_version="2.0")
    dataset.delete(f"i < {count}")
    ours = Dataset.open(uri)
    (item,) = ours.fragments
    found = ours.deletion_vector(item)
    assert list(found.offsets()) == list(range(count))
    path = item.deletion_file.path(0)
    peer_bytes = bytes(ours.store.read(path))
    ours.store.put(path, encode_deletion_vector(found, item.deletion_file.file_type))
    assert lance.dataset(uri).to_table()["i"].to_pylist() == list(range(count, 10_000))
    if item.deletion_file.file_type is DeletionFileType.ARROW_ARRAY:
        for data in (peer_bytes, bytes(ours.store.read(path))):
            with pa.ipc.open_file(pa.py_buffer(data)) as reader:
                assert reader.schema.equals(pa.schema([pa.field("row_id", pa.uint32(), nullable=False)]))
                assert reader.num_record_batches == 1
                assert len(data) < 4 * count


@given(st.sets(st.integers(0, 80)), st.integers(1, 81))
def test_live_rows_are_found_by_their_rank(deleted: set[int], num_rows: int) -> None:
    vector = DeletionVector.from_offsets(deleted)
    live = vector.live_offsets(num_rows)
    assert vector.skip(np.arange(len(live))).tolist() == live.tolist()
