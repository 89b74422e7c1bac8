import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, RetryableCommitConflictError, VersionNotFoundError
from lance_ops.maintenance.metadata.actions import (
    create_tag,
    delete_tag,
    drop_columns,
    move_tag,
    restore,
    update_config,
)
from lance_ops.table.commit.committer import PutIfAbsentCommitter
from lance_ops.table.dataset import Dataset
from lance_ops.table.transaction.operations import CreateIndex
from tests.support.table_actions import commit, reserve_fragments
from tests.support.table_values import index
from tests.support.tables import append, create, rows, values

pytestmark = pytest.mark.peer


@pytest.fixture
def dataset(tmp_path) -> Dataset:
    return create(str(tmp_path / "table"), rows(0, 10))


def test_restore_by_number_and_by_tag(dataset):
    create_tag(dataset, "start", 1)
    append(dataset, rows(10, 15))
    assert values(restore(dataset.uri, 1).dataset) == list(range(10))
    assert values(restore(dataset, 2).dataset) == list(range(15))
    result = restore(dataset.uri, "start")
    assert result.version == 5
    assert result.transaction.operation.version == 1
    assert lance.dataset(dataset.uri).count_rows() == 10
    with pytest.raises(VersionNotFoundError):
        restore(dataset.uri, "no-such-tag")
    with pytest.raises(VersionNotFoundError):
        restore(dataset.uri, 77)


def test_a_restored_dataset_is_written_on(dataset):
    append(dataset, rows(10, 15))
    back = restore(dataset.uri, 1).dataset
    result = append(back, rows(20, 22))
    # Fragment 1 belongs to version 2 for ever.
    assert [f.id for f in result.dataset.fragments] == [0, 2]
    lance.write_dataset(rows(30, 31), dataset.uri, mode="append")
    assert values(Dataset.open(dataset.uri)) == [*range(10), 20, 21, 30]


def test_a_version_of_another_branch_is_not_restored(dataset):
    lance.dataset(dataset.uri).create_branch("dev")
    with pytest.raises(InvalidArgumentError, match="another branch"):
        restore(dataset, ("dev", 1))


def test_config_and_metadata_are_read_by_the_peer(dataset):
    update_config(dataset, {"k": "1", "gone": "1"}, table_metadata={"t": "1"})
    result = update_config(
        dataset.uri,
        {"k": "2"},
        ["gone"],
        schema_metadata={"s": "1"},
        field_metadata={"b": {"unit": "m"}},
    )
    peer = lance.dataset(dataset.uri)
    assert peer.config() == result.dataset.config == {"k": "2"}
    assert peer.metadata == {"t": "1"}
    assert peer.schema.metadata == {b"s": b"1"}
    assert peer.schema.field("b").metadata == {b"unit": b"m"}
    assert result.dataset.schema == peer.schema
    result = update_config(dataset.uri, table_metadata={"t": None}, field_metadata={"b": {"unit": None}})
    assert lance.dataset(dataset.uri).metadata == {}
    assert not result.dataset.schema.field("b").metadata
    with pytest.raises(InvalidArgumentError, match="nothing would change"):
        update_config(dataset.uri)
    with pytest.raises(InvalidArgumentError, match="no column"):
        update_config(dataset.uri, field_metadata={"zz": {"unit": "m"}})


def test_an_index_is_dropped_with_all_its_segments(dataset):
    dataset = append(dataset, rows(10, 15)).dataset
    segments = (index("a_idx", {0}), index("a_idx", {1}), index("b_idx", {0}, fields=(1,)))
    dataset = commit(dataset, CreateIndex(segments)).dataset
    assert lo.drop_index(dataset, "a_idx").segments_removed == 2
    assert [segment.name for segment in dataset.latest().indices] == ["b_idx"]
    assert [entry.name for entry in lance.dataset(dataset.uri).describe_indices()] == ["b_idx"]
    with pytest.raises(InvalidArgumentError, match="indices: b_idx"):
        lo.drop_index(dataset, "a_idx")


def test_columns_are_dropped_with_their_indices(dataset):
    dataset = commit(dataset, CreateIndex((index("a_idx", {0}), index("b_idx", {0}, fields=(1,))))).dataset
    result = drop_columns(dataset, ["b"])
    assert result.dataset.schema.names == ["a"]
    assert [segment.name for segment in result.dataset.indices] == ["a_idx"]
    peer = lance.dataset(dataset.uri)
    peer.validate()
    assert peer.schema.names == ["a"]
    for columns in (["zz"], ["a"], []):
        with pytest.raises(InvalidArgumentError, match="cannot drop"):
            drop_columns(dataset.uri, columns)


def test_reserved_ids_are_nobody_elses(dataset):
    _, mine = reserve_fragments(dataset, 3)
    _, theirs = reserve_fragments(dataset, 2)
    assert (list(mine), list(theirs)) == ([1, 2, 3], [4, 5])
    assert [f.id for f in append(dataset, rows(10, 11)).dataset.fragments] == [0, 6]
    lance.write_dataset(rows(30, 31), dataset.uri, mode="append")
    assert [f.id for f in dataset.latest().fragments] == [0, 6, 7]


def test_an_action_of_a_job_happens_once(dataset):
    first = update_config(dataset, {"k": "1"}, job_key="job")
    again = update_config(dataset.uri, {"k": "2"}, job_key="job")
    assert again.already_committed
    assert again.version == first.version
    assert dataset.latest().config["k"] == "1"


class Overtaken:
    """Another writer commits right before the first manifest of ours is stored."""

    def __init__(self, other):
        self.other = other
        self.times = 0

    def commit(self, store, location, manifest):
        self.times += 1
        if self.times == 1:
            self.other()
        return PutIfAbsentCommitter().commit(store, location, manifest)


def test_a_conflict_is_planned_again_on_the_head_unless_the_caller_looked_at_a_version(tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.append(uri, pa.table({"a": [1], "b": [1], "c": [1], "d": [1]}))
    looked_at = lo.dataset(uri)
    committer = Overtaken(lambda: drop_columns(uri, ["b"]))
    done = drop_columns(uri, ["c"], committer=committer)
    assert (done.version, done.read_version, done.attempts) == (3, 2, 2)
    assert done.dataset.schema.names == ["a", "d"]
    with pytest.raises(RetryableCommitConflictError):
        drop_columns(looked_at, ["d"])
    assert drop_columns(looked_at, ["d"], max_replans=1).dataset.schema.names == ["a"]


@pytest.mark.parametrize(
    ("name", "arguments"), [("restore", (1,)), ("update_config", ({"k": "v"},)), ("drop_columns", (["b"],))]
)
def test_what_changes_metadata_takes_the_options_of_all_operations(dataset, name, arguments):
    lo.update_config(dataset.uri, {"lance.auto_cleanup.interval": "0", "lance.auto_cleanup.older_than": "0s"})
    append(dataset.latest(), rows(10, 12))
    events = []
    options = {"progress": events.append, "properties": {"run": "7"}, "job_key": "the job"}
    done = getattr(lo, name)(dataset.uri, *arguments, **options)
    assert done.operation == name
    assert done.version == 4
    assert done.seconds >= 0
    assert done.transaction.properties["run"] == "7"
    assert {event.operation for event in events} == {name}
    assert [event.message for event in events][-2:] == ["committing", "committed"]
    again = getattr(lo, name)(dataset.uri, *arguments, **options)
    assert (again.already_committed, again.version, again.attempts) == (True, 4, 0)
    assert again.dataset.version == 4
    # A restore of version 1 brings back its config, which asks for no cleanup.
    kept = [version.version for version in dataset.latest().versions()]
    assert kept == ([1, 2, 3, 4] if name == "restore" else [3, 4])
    with pytest.raises(TypeError, match="jobkey"):
        getattr(lo, name)(dataset.uri, *arguments, jobkey="x")


def test_a_stale_version_and_a_job_that_is_done_since_then(dataset):
    first = update_config(dataset, {"k": "1"}, job_key="job")
    again = update_config(dataset, {"k": "2"}, job_key="job")
    assert (again.already_committed, again.version) == (True, first.version)


def test_a_tag_is_made_moved_and_removed_and_the_peer_sees_it(dataset):
    first = dataset.version
    create_tag(dataset.uri, "release")
    assert lance.dataset(dataset.uri).tags.list()["release"]["version"] == first
    second = update_config(dataset.uri, {"a": "b"}).version
    move_tag(dataset.uri, "release")
    assert lance.dataset(dataset.uri, version="release").version == second
    create_tag(dataset, "old", first)
    delete_tag(dataset.uri, "release")
    assert set(lance.dataset(dataset.uri).tags.list()) == {"old"}


def test_a_tag_on_nothing_is_refused(dataset):
    with pytest.raises(VersionNotFoundError):
        create_tag(dataset.uri, "release", 99)
    with pytest.raises(VersionNotFoundError):
        move_tag(dataset.uri, "release")
    with pytest.raises(VersionNotFoundError):
        delete_tag(dataset.uri, "release")
