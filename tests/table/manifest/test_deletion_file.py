"""Deletion files: their names, and what is left when a put fails or its answer is lost."""

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import CorruptFileError, FileMissingError, InvalidArgumentError, StorageError
from lance_ops.storage import open_store
from lance_ops.table.manifest import deletion_file as module
from lance_ops.table.manifest.base_paths import Bases
from lance_ops.table.manifest.deletion_file import write_deletion_file
from lance_ops.table.manifest.deletion_vector import (
    BITMAP_FROM,
    DeletionVector,
    encode_deletion_vector,
    read_deletion_vector,
)
from tests.support.faulty_store import FaultyStore
from tests.support.table_values import fragment

MARK = 0x123456789ABC
MARKS = pytest.mark.parametrize("mark", [None, MARK], ids=["chance", "mark"])
SIZES = pytest.mark.parametrize("count", [3, BITMAP_FROM], ids=["arrow", "bitmap"])


def vector(offsets):
    return DeletionVector.from_offsets(offsets)


def files(store):
    return {info.path for info in store.list("_deletions")}


def write(store, count=3, mark=MARK):
    return write_deletion_file(store, 7, 3, vector(range(count)), physical_rows=count + 1, mark=mark)


@pytest.mark.parametrize(
    ("count", "extension"), [(1, "arrow"), (BITMAP_FROM - 1, "arrow"), (BITMAP_FROM, "bin")]
)
def test_the_kind_follows_the_number_of_rows(tmp_path, count, extension):
    store = open_store(tmp_path)
    rows = vector(range(count))
    reference = write_deletion_file(store, 7, 3, rows, physical_rows=count + 1).file
    path = reference.path(7)
    assert path.startswith("_deletions/7-3-")
    assert path.endswith(f".{extension}")
    assert [info.path for info in store.list("_deletions")] == [path]
    deleted = fragment(7, count + 1).replace(deletion_file=reference)
    assert read_deletion_vector(Bases(store), deleted) == rows


def test_what_the_manifest_says_must_be_true(tmp_path):
    store = open_store(tmp_path)
    reference = write_deletion_file(store, 0, 1, vector([1, 2]), physical_rows=10).file
    item = fragment(0, 10).replace(deletion_file=reference)
    data = bytes(store.read(reference.path(0)))
    store.put(reference.path(0), encode_deletion_vector(vector([1]), reference.file_type))
    with pytest.raises(CorruptFileError, match="expected 2, got 1"):
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


@SIZES
@MARKS
def test_what_was_written_is_read_and_as_long_as_was_said(tmp_path, count, mark):
    store = open_store(tmp_path)
    stored = write(store, count, mark)
    deleted = fragment(7, count + 1).replace(deletion_file=stored.file)
    assert read_deletion_vector(Bases(store), deleted) == vector(range(count))
    assert stored.size == store.size(stored.file.path(7))
    assert mark is None or stored.file.id >> 16 == mark


@SIZES
@MARKS
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_put_that_fails_leaves_no_file_whether_it_was_done_or_not(tmp_path, count, mark, when):
    store = FaultyStore(open_store(tmp_path), fail_at=1, when=when, mode="error")
    with pytest.raises(StorageError):
        write(store, count, mark)
    assert store.fired
    assert files(store) == set()


@pytest.fixture
def one_name(monkeypatch):
    """All runs of a job draw the same number where a mark leaves but 16 bits to chance."""
    draw = module.secrets.randbits
    monkeypatch.setattr(module.secrets, "randbits", lambda bits: 5 if bits == 16 else draw(bits))


@SIZES
def test_two_runs_of_a_job_that_meet_in_a_name_have_a_file_each(tmp_path, one_name, count):
    store = open_store(tmp_path)
    first, second = write(store, count), write(store, count)
    assert first.file.id == MARK << 16 | 5
    assert files(store) == {first.file.path(7), second.file.path(7)}
    assert first.file.path(7) != second.file.path(7)


@SIZES
def test_a_lost_answer_never_costs_another_run_its_file_of_the_same_name_and_rows(tmp_path, one_name, count):
    store = open_store(tmp_path)
    theirs = write(store, count).file.path(7)
    content = bytes(store.read(theirs))
    # The store says that the put failed, while the file of the other run was there first.
    faulty = FaultyStore(store, fail_at=1, when="before", mode="error")
    with pytest.raises(StorageError):
        write(faulty, count)
    assert [call.name for call in faulty.calls] == ["put", "read"]
    assert files(store) == {theirs}
    assert bytes(store.read(theirs)) == content


class TriesTwice(FaultyStore):
    """A store whose first answer is lost and that finds its own object at the second try."""

    def put(self, path, data, *, if_absent=False, durable="now"):
        super().put(path, data, if_absent=if_absent, durable=durable)
        if if_absent:
            super().put(path, data, if_absent=True, durable=durable)


@SIZES
def test_a_file_of_ours_that_a_second_try_of_the_store_met_does_not_stay(tmp_path, count):
    store = TriesTwice(open_store(tmp_path))
    stored = write(store, count)
    assert files(store) == {stored.file.path(7)}


@pytest.mark.peer
@SIZES
def test_the_peer_passes_over_the_stamp(tmp_path, count):
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"i": pa.array(range(10_000))}), uri)
    lo.delete(uri, f"i < {count}", job_key="the job")
    peer = lance.dataset(uri)
    assert peer.to_table()["i"].to_pylist() == list(range(count, 10_000))
    peer.delete(f"i = {count}")
    assert lo.dataset(uri).to_table()["i"].to_pylist() == list(range(count + 1, 10_000))
