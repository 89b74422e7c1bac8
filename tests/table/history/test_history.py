"""Lists of versions."""

import threading
from datetime import timedelta

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.storage import open_store
from lance_ops.table.history.history import VersionSize, read_history, read_versions
from lance_ops.table.manifest.file.write import encode_manifest
from lance_ops.table.transaction.operations import Append, ForeignOperation
from lance_ops.table.transaction.transaction import Transaction, encode_transaction
from tests.support.faulty_store import FaultyStore
from tests.support.snapshots import location
from tests.support.table_values import NOW, fragment, manifest


@pytest.fixture
def store(tmp_path):
    made = open_store(tmp_path)
    fragments = ()
    for version in range(1, 6):
        fragments = (*fragments, fragment(version, 10 * version, deleted=version // 3))
        transaction = Transaction(
            version - 1, f"u{version}", Append(fragments[-1:]), {"lance_ops.job_key": f"job {version}"}
        )
        made.put(
            location(version).path,
            encode_manifest(
                manifest(
                    *fragments,
                    version=version,
                    transaction=encode_transaction(transaction),
                    transaction_file=transaction.file_name,
                ).replace(timestamp=NOW + timedelta(seconds=version))
            ),
        )
    return made


def test_versions_are_listed_oldest_first(store):
    versions = read_versions(store)
    assert [item.version for item in versions] == [1, 2, 3, 4, 5]
    assert [item.fragments for item in versions] == [1, 2, 3, 4, 5]
    assert [item.transaction_uuid for item in versions] == ["u1", "u2", "u3", "u4", "u5"]
    assert versions[2].timestamp == NOW + timedelta(seconds=3)
    assert versions[2].manifest_bytes == store.size(location(3).path)


def test_history_is_newest_first_and_says_what_happened(store):
    entries = read_history(store, 2)
    assert [(item.version, item.operation, item.read_version) for item in entries] == [
        (5, "Append", 4),
        (4, "Append", 3),
    ]
    assert entries[0].job_key == "job 5"
    assert "50 rows" in entries[0].description
    assert entries[0].size == VersionSize(fragments=5, files=5, rows=147, deleted_rows=3, data_bytes=500)
    assert len(read_history(store)) == 5
    assert read_history(store, 0) == []


@pytest.mark.peer
@pytest.mark.parametrize("stable", [True, False])
def test_sizes_of_any_history_are_those_of_each_version(tmp_path, stable):
    uri = str(tmp_path / "t.lance")
    rows = pa.table({"k": range(40)})
    lo.write_dataset(rows, uri, max_rows_per_file=5, enable_stable_row_ids=stable)
    for step in range(3):
        lo.delete(uri, f"k % 7 = {step}")
        lance.write_dataset(rows, uri, mode="append", max_rows_per_file=9)
        lo.delete(uri, f"k < {5 * step}")
        lance.dataset(uri).delete(f"k = {30 + step}")
        lo.compact(uri, target_rows_per_fragment=10 + 5 * step)
        lo.update(uri, {"k": "k + 1"}, where="k = 20")
    lo.restore(uri, 4)
    lo.write_dataset(rows, uri, mode="overwrite")
    lo.append(uri, rows)
    for limit in (None, 9):
        entries = lo.dataset(uri).history(limit)
        for entry in entries:
            version = lo.dataset(uri, entry.version)
            present = version.fragments
            assert entry.size == VersionSize(
                len(present),
                sum(len(one.files) for one in present),
                version.count_rows(),
                sum(one.num_deleted_rows for one in present),
                sum(one.data_bytes for one in present),
            )


def test_lost_and_foreign_transactions_are_said_to_be_so(store):
    foreign = Transaction(5, "u6", ForeignOperation("UpdateMemWalState"))
    for version, more in (
        (6, {"transaction": encode_transaction(foreign)}),
        (7, {"transaction_file": "6-gone.txn"}),
        (8, {}),
    ):
        store.put(location(version).path, encode_manifest(manifest(version=version, **more)))
    nothing, lost, other = read_history(store, 3)
    assert (nothing.operation, nothing.read_version, nothing.uuid) == ("", None, "")
    assert (lost.operation, lost.description) == ("", "its transaction was removed")
    assert other.uuid == "u6"


def test_versions_that_vanish_while_they_are_listed_are_left_out(store):
    class Vanishing:
        def __init__(self, inner):
            self.inner = inner

        def __getattr__(self, name):
            return getattr(self.inner, name)

        def read(self, path, *more):
            if path == location(3).path:
                self.inner.delete(path)
            return self.inner.read(path, *more)

    assert [item.version for item in read_versions(Vanishing(store))] == [1, 2, 4, 5]


@pytest.mark.parametrize("damage", ["nothing of the kind", "cut", "another number"])
def test_a_damaged_version_is_named_and_hides_no_other(store, damage):
    sound = bytes(memoryview(store.read(location(3).path)))
    other = bytes(memoryview(store.read(location(2).path)))
    store.put(
        location(3).path,
        {"nothing of the kind": b"nothing of the kind", "cut": sound[:-30], "another number": other}[damage],
    )
    versions, entries = read_versions(store), read_history(store)
    assert [item.version for item in versions] == [1, 2, 3, 4, 5]
    assert [item.version for item in entries] == [5, 4, 3, 2, 1]
    assert [item.version for item in (*versions, *entries) if item.damage] == [3, 3]
    for item in (versions[2], entries[2]):
        assert location(3).path in item.damage
        assert item.timestamp.year >= 2025
    assert entries[2].size.rows is None
    assert "cannot be opened" in entries[2].description


def test_a_damaged_transaction_is_named_and_hides_no_version(store):
    store.put("_transactions/5-u6.txn", b"\xff\xff nothing of the kind")
    store.put(location(6).path, encode_manifest(manifest(version=6, transaction_file="5-u6.txn")))
    store.put(location(7).path, encode_manifest(manifest(fragment(1, 3), version=7)))
    _, damaged, *others = read_history(store)
    assert "5-u6.txn" in damaged.damage
    assert "transaction cannot be" in damaged.description
    assert [item.version for item in others] == [5, 4, 3, 2, 1]


def test_versions_below_a_restore_over_a_damaged_one_are_listed(tmp_path):
    for number in range(3):
        lo.append(tmp_path, pa.table({"x": [number]}))
    newest = tmp_path / location(3).path
    newest.write_bytes(newest.read_bytes()[:-20])
    lo.restore(tmp_path, 2)
    dataset = lo.dataset(tmp_path)
    assert [(item.version, bool(item.damage)) for item in dataset.versions()] == [
        (1, False),
        (2, False),
        (3, True),
        (4, False),
    ]
    assert [item.operation for item in dataset.history()] == ["Restore", "", "Append", "Overwrite"]


def test_stores_with_latency_are_asked_several_things_at_once(store):
    together = threading.Barrier(3, timeout=30)

    class Remote(FaultyStore):
        uri = "s3://bucket/table"

        def read(self, path, *more):
            if path != location(1).path and path != location(5).path:
                together.wait()
            return self.inner.read(path, *more)

    assert [item.version for item in read_versions(Remote(store))] == [1, 2, 3, 4, 5]


@pytest.mark.peer
def test_entries_name_the_writer_the_job_and_what_they_were_carried_over(tmp_path):
    uri = str(tmp_path / "h.lance")
    lo.append(uri, pa.table({"a": [1]}))
    read = lo.dataset(uri)
    lance.write_dataset(pa.table({"a": [2]}), uri, mode="append")
    part = lo.write_fragments(pa.table({"a": [3]}), read)
    lo.commit(read, lo.operations.Append(part), job_key="k")
    newest, theirs, first = read.latest().history()
    assert (list(newest.rebased_over), newest.job_key, newest.size.rows) == ([2], "k", 3)
    assert newest.writer.startswith("lance_ops ")
    assert theirs.writer == f"lance {lance.__version__}"
    assert not theirs.rebased_over
    assert not first.rebased_over
