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

from lance_ops.errors import CorruptFileError, FileMissingError, InvalidArgumentError
from lance_ops.storage import open_store
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.base_paths import Bases
from lance_ops.table.manifest.deletion_vector import (
    BITMAP_FROM,
    DeletionVector,
    decode_deletion_vector,
    encode_deletion_vector,
    read_deletion_vector,
    write_deletion_file,
)
from lance_ops.table.manifest.fragment import DeletionFileType
from tests.support.table_values import fragment

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


@pytest.mark.parametrize(
    ("count", "extension"), [(1, "arrow"), (BITMAP_FROM - 1, "arrow"), (BITMAP_FROM, "bin")]
)
def test_the_kind_follows_the_number_of_rows(tmp_path, count, extension):
    store = open_store(tmp_path)
    rows = vector(range(count))
    reference = write_deletion_file(store, 7, 3, rows, physical_rows=count + 1)
    path = reference.path(7)
    assert path.startswith("_deletions/7-3-")
    assert path.endswith(f".{extension}")
    assert [info.path for info in store.list("_deletions")] == [path]
    deleted = fragment(7, count + 1).replace(deletion_file=reference)
    assert read_deletion_vector(Bases(store), deleted) == rows


def test_what_the_manifest_says_must_be_true(tmp_path):
    store = open_store(tmp_path)
    reference = write_deletion_file(store, 0, 1, vector([1, 2]), physical_rows=10)
    item = fragment(0, 10).replace(deletion_file=reference)
    data = bytes(store.read(reference.path(0)))
    store.put(reference.path(0), encode_deletion_vector(vector([1]), reference.file_type))
    with pytest.raises(CorruptFileError, match="deletes 1 rows and the manifest says 2"):
        read_deletion_vector(Bases(store), item)
    store.put(reference.path(0), data)
    with pytest.raises(CorruptFileError, match="row 2 of a fragment of 2 rows"):
        read_deletion_vector(Bases(store), item.replace(physical_rows=2))
    store.delete(reference.path(0))
    with pytest.raises(FileMissingError):
        read_deletion_vector(Bases(store), item)
    assert read_deletion_vector(Bases(store), item.replace(deletion_file=None)) is None


@pytest.mark.parametrize("offsets", [[], [10]])
def test_files_that_no_reader_would_accept_are_not_written(tmp_path, offsets):
    with pytest.raises(InvalidArgumentError):
        write_deletion_file(open_store(tmp_path), 0, 1, vector(offsets), physical_rows=10)


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
