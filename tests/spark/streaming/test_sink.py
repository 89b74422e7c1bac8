"""Epochs are committed once, whatever became of the process and of the history since."""

import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import (
    InvalidArgumentError,
    SchemaMismatchError,
    StreamUnprovenError,
    TaskFailedError,
)
from lance_ops.spark.streaming.options import SinkOptions
from lance_ops.table.commit.jobs.stream_epochs import EPOCH_ID, QUERY_ID
from lance_ops.table.commit.jobs.stream_notes import DIRECTORY
from lance_ops.table.transaction.operations import JOBS_ENTRY
from tests.safety.stream_crashes import KINDS, crash_everywhere, epoch, ids, query, rows
from tests.support.streams import SPARK_ID


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "t.lance")


@pytest.mark.parametrize("travels", [0, 1 << 20])
def test_an_epoch_is_one_commit_that_names_query_and_epoch(uri, travels):
    stream = query(uri, travels=travels)
    stream.run(0, epoch(0))
    stream.run(1, epoch(1))
    dataset = lo.dataset(uri)
    assert dataset.version == 2
    assert ids(uri) == list(range(20))
    # Few rows of many partitions are one fragment, whether they travelled or were written where they were.
    assert len(dataset.fragments) == 2
    for number in (0, 1):
        properties = dataset.read_transaction(number + 1).properties
        assert (properties[QUERY_ID], properties[EPOCH_ID]) == (SPARK_ID, str(number))
    peer = lance.dataset(uri)
    assert peer.count_rows() == 20
    assert peer.read_transaction(2).transaction_properties[EPOCH_ID] == "1"


def test_an_epoch_that_comes_again_is_skipped_and_leaves_no_files(uri):
    stream = query(uri, travels=0)
    stream.run(0, epoch(0))
    files = sorted(Path(uri, "data").iterdir())
    stream.run(0, epoch(0))
    assert lo.dataset(uri).version == 1
    assert sorted(Path(uri, "data").iterdir()) == files


def test_an_epoch_without_rows_makes_no_version_and_the_next_one_is_known(uri):
    stream = query(uri)
    stream.run(0, epoch(0))
    for number in (1, 2, 3):
        stream.run(number, [rows(0, 0)])
    stream.run(4, epoch(4))
    assert lo.dataset(uri).version == 2
    assert len(list(Path(uri, DIRECTORY).iterdir())) == 1


def test_complete_replaces_what_the_epoch_before_left(uri):
    stream = query(uri, complete=True)
    stream.run(0, epoch(0))
    stream.run(1, [rows(5, 3)])
    stream.run(1, [rows(5, 3)])
    assert ids(uri) == [5, 6, 7]
    stream.run(2, [rows(0, 0)])
    assert (ids(uri), lo.dataset(uri).version) == ([], 3)


@pytest.mark.parametrize("travels", [0, 1 << 20])
def test_merge_updates_the_rows_of_its_keys_and_adds_the_others(uri, travels):
    stream = query(uri, merge_keys=("id",), travels=travels)
    stream.run(0, epoch(0))
    stream.run(1, [rows(5, 10, "new")])
    stream.run(1, [rows(5, 10, "new")])
    found = {row["id"]: row["text"] for row in lo.dataset(uri).to_table().to_pylist()}
    assert sorted(found) == list(range(15))
    assert all(found[number].startswith("new") == (number >= 5) for number in found)
    assert not list(Path(uri, "_lance_ops").glob("stream_rows/*"))
    properties = lo.dataset(uri).read_transaction().properties
    assert (properties[QUERY_ID], properties[EPOCH_ID]) == (SPARK_ID, "1")


def test_small_fragments_are_merged_every_now_and_then(uri):
    stream = query(uri)
    stream.options = SinkOptions(uri, compact_every=8)
    for number in range(24):
        stream.run(number, epoch(number))
    assert ids(uri) == list(range(240))
    assert len(lo.dataset(uri).fragments) <= 3


# What cannot be proven


def test_a_dataset_that_was_made_anew_is_not_written_to(uri):
    stream = query(uri)
    stream.run(0, epoch(0))
    stream.run(1, epoch(1))
    shutil.rmtree(uri)
    with pytest.raises(StreamUnprovenError, match="there is no dataset"):
        stream.run(2, epoch(2))
    lo.append(uri, rows(0, 5))
    with pytest.raises(StreamUnprovenError, match="created again"):
        stream.run(2, epoch(2))
    assert (ids(uri), lo.dataset(uri).version) == (list(range(5)), 1)
    anew = query(uri, query_id="anew", first_epoch=2)
    anew.run(1, epoch(1))  # not meant for this dataset
    anew.run(2, epoch(2))
    anew.run(3, epoch(3))
    assert lo.dataset(uri).count_rows() == 25


def test_a_checkpoint_that_was_set_back_or_begun_anew_is_noticed(uri):
    stream = query(uri, query_id="ours")
    for number in range(4):
        stream.run(number, epoch(number))
    stream.run(2, epoch(2))  # proven by its key
    lo.restore(uri, 2)
    with pytest.raises(StreamUnprovenError, match="was reset"):
        stream.run(2, epoch(2))
    with pytest.raises(StreamUnprovenError, match="another checkpoint"):
        query(uri, query_id="ours", spark_id="another").run(0, epoch(0))
    assert ids(uri) == list(range(20))


def test_the_last_epoch_that_a_restore_has_undone_is_written_again(uri):
    stream = query(uri)
    stream.run(0, epoch(0))
    stream.run(1, epoch(1))
    lo.restore(uri, 1)
    stream.run(1, epoch(1))
    stream.run(2, epoch(2))
    assert ids(uri) == list(range(30))


def test_the_last_epoch_is_known_however_long_the_query_was_stopped(uri):
    stream = query(uri)
    for number in range(3):
        stream.run(number, epoch(number))
    lo.delete(uri, "id >= 20")
    lo.compact(uri)
    lo.append(uri, rows(100, 1))
    lo.cleanup(uri, retain_versions=1, delete_unverified=True)
    assert [info.version for info in lo.dataset(uri).versions()] == [lo.dataset(uri).version]
    stream.run(2, epoch(2))
    assert ids(uri) == [*range(20), 100]


def test_of_past_epochs_no_keys_are_kept(uri):
    stream = query(uri)
    for number in range(5):
        stream.run(number, epoch(number))
    lo.append(uri, rows(100, 1), job_key="another job")
    assert len(lo.dataset(uri).config[JOBS_ENTRY].split("\n")) == 3


# What goes wrong


def test_a_partition_that_cannot_be_written_leaves_nothing(uri):
    lo.append(uri, pa.table({"id": pa.array([1], pa.int8()), "text": ["a"]}))
    before = sorted(path.name for path in Path(uri, "data").iterdir())
    with pytest.raises((TaskFailedError, SchemaMismatchError)):
        query(uri, travels=0).run(0, [rows(0, 3), rows(1000, 3)])
    assert sorted(path.name for path in Path(uri, "data").iterdir()) == before


def test_what_is_replaced_as_a_whole_is_not_merged(uri):
    with pytest.raises(InvalidArgumentError, match="mergeKeys"):
        query(uri, complete=True, merge_keys=("id",)).run(0, epoch(0))


# Crashes: at every call that changes the store, before it and after it.


@pytest.mark.peer
@pytest.mark.parametrize(
    ("kind", "cleaner"), list(zip(KINDS, ("theirs", "ours", "theirs", "ours", "ours"), strict=True))
)
def test_a_crash_at_any_call_loses_and_doubles_nothing(tmp_path, kind, cleaner):
    # All calls, with 1,000 commits of others: make streams.
    every = 1 if kind == "mirror" else 3
    ends = crash_everywhere(tmp_path, kind, 2, cleaner, compacts=False, every=every)
    # Only after a cleanup of the peer it may be that nobody can tell.
    assert ends["stopped"] <= (0 if cleaner == "ours" else ends["done"] // 4)


@pytest.mark.peer
def test_where_the_peer_removed_all_that_could_tell_the_query_stops_and_doubles_nothing(tmp_path):
    ends = crash_everywhere(tmp_path, "files", 2, "theirs", compacts=True, every=3)
    assert ends["done"] > ends["stopped"]
