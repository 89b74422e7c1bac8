import pickle
import threading
from dataclasses import replace
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import (
    CommitConflictError,
    CorruptFileError,
    FileMissingError,
    InvalidArgumentError,
    RetryableCommitConflictError,
    TaskFailedError,
    UnsupportedVersionError,
)
from lance_ops.maintenance.compact.commit import commit_rewrites, reserve_ids
from lance_ops.maintenance.compact.options import CompactionOptions
from lance_ops.maintenance.compact.plan import plan_compaction
from lance_ops.maintenance.compact.rewrite import discard_rewrites, rewrite_group
from lance_ops.maintenance.compact.state import rewrite_tasks
from lance_ops.maintenance.engine import CommitOptions
from tests.support.interop import (
    data_files,
    fragment_sizes,
    our_dataset,
    peer_dataset,
    peer_table,
    rows,
    xs,
)
from tests.support.unknown_index import add_unknown_index

MAKERS = pytest.mark.parametrize("make", [our_dataset, peer_dataset], ids=["ours", "peers"])


@pytest.fixture
def uri(tmp_path):
    return str(tmp_path / "t.lance")


def peer_delete(uri, predicate):
    lance.dataset(str(uri)).delete(predicate)


class Meddler:
    """Runs tasks here, and lets another writer in after the tasks of each round."""

    def __init__(self, *actions):
        self.actions = list(actions)

    def map(self, function, tasks, *, on_done=None):
        results = lo.LocalRunner(1).map(function, tasks, on_done=on_done)
        if self.actions:
            self.actions.pop(0)()
        return results


@pytest.mark.peer
@MAKERS
def test_small_fragments_become_one_with_the_same_rows_in_the_same_order(uri, make):
    make(uri, [3, 4, 5, 2])
    peer_delete(uri, "x in (0, 5, 6, 13)")
    before = peer_table(uri)
    result = lo.compact(uri)
    assert (result.groups, result.fragments_removed, result.fragments_added) == (1, 4, 1)
    assert (result.rows_written, result.rows_purged, result.commits) == (10, 4, 1)
    assert result.conflicts == ()
    assert peer_table(uri) == before
    assert lo.dataset(uri).to_table() == before
    assert fragment_sizes(uri) == {4: 10}
    # One reservation of ids, one rewrite.
    assert (result.read_version, result.version) == (5, 7)
    assert [entry.operation for entry in lo.dataset(uri).history(2)] == ["Rewrite", "ReserveFragments"]


@pytest.mark.peer
def test_rows_are_spread_evenly_like_the_peer_does(tmp_path):
    ours, theirs = tmp_path / "ours.lance", tmp_path / "theirs.lance"
    for uri in (ours, theirs):
        peer_dataset(uri, [4, 5, 6, 7, 3, 9, 50, 2, 2])
        peer_delete(uri, "x % 6 = 1")
    lo.compact(ours, target_rows_per_fragment=10)
    lance.dataset(str(theirs)).optimize.compact_files(target_rows_per_fragment=10)
    assert fragment_sizes(ours) == fragment_sizes(theirs)
    assert peer_table(ours) == peer_table(theirs)


@pytest.mark.peer
def test_deletion_files_vanish_and_the_peer_goes_on_from_there(uri):
    peer_dataset(uri, [10, 10])
    peer_delete(uri, "x < 4 or x >= 15")
    lo.compact(uri)
    lance.write_dataset(rows(20, 22), uri, mode="append")
    peer_delete(uri, "x = 5")
    assert xs(uri) == [4, *range(6, 15), 20, 21]
    lance.dataset(uri).optimize.compact_files()
    lo.append(uri, rows(22, 23))
    lo.compact(uri)
    assert xs(uri) == [4, *range(6, 15), 20, 21, 22]
    assert lance.dataset(uri).stats.dataset_stats()["num_deleted_rows"] == 0


def test_nothing_to_compact_commits_nothing(uri):
    our_dataset(uri, [3])
    result = lo.compact(uri)
    assert (result.changed, result.version, result.commits) == (False, 1, 0)
    assert lo.dataset(uri).version == 1


def test_a_dry_run_is_the_plan_and_changes_nothing(uri):
    our_dataset(uri, [3, 4])
    before = data_files(uri)
    plan = lo.compact(uri, dry_run=True)
    assert (plan.source_fragments, plan.expected_fragments, plan.live_rows) == (2, 1, 7)
    assert data_files(uri) == before
    assert lo.dataset(uri).version == 2


@pytest.mark.peer
def test_the_options_of_the_table_count_and_the_callers_win(uri):
    peer_dataset(uri, [3, 3, 3])
    config = {"lance.compaction.target_rows_per_fragment": "3", "lance.compaction.surprise": "1"}
    lance.dataset(uri).update_config(config)
    plan = lo.compact(uri, dry_run=True)
    assert plan.groups == ()
    assert "surprise" in str(plan)
    assert not lo.compact(uri).changed
    assert lo.compact(uri, target_rows_per_fragment=4).changed
    with pytest.raises(InvalidArgumentError, match="either"):
        lo.compact(uri, options=CompactionOptions(), batch_rows=4)


@pytest.mark.peer
@pytest.mark.parametrize("batch_rows", [1, 3, 1000])
def test_the_size_of_batches_changes_nothing(uri, batch_rows):
    peer_dataset(uri, [7, 1, 9])
    peer_delete(uri, "x in (0, 6, 7, 9)")
    before = peer_table(uri)
    lo.compact(uri, batch_rows=batch_rows, target_rows_per_fragment=6)
    assert peer_table(uri) == before


@pytest.mark.peer
def test_files_are_capped_at_bytes(uri):
    table = pa.table({"x": np.random.default_rng(0).integers(0, 2**60, 300_000)})
    for start in range(0, 300_000, 100_000):
        lo.append(uri, table.slice(start, 100_000))
    result = lo.compact(uri, max_bytes_per_file=500_000, batch_rows=10_000)
    assert result.fragments_added > 2
    assert peer_table(uri) == table


@pytest.mark.peer
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_dropped_columns_vanish_and_added_ones_are_kept(uri):
    peer_dataset(uri, [3, 3])
    dataset = lance.dataset(uri)
    dataset.add_columns({"y": "x * 10"})
    dataset.drop_columns(["s"])
    dataset.add_columns(pa.field("later", pa.int32()))
    lance.write_dataset(
        pa.table({"x": [6], "f": [0.5], "y": [60], "later": pa.array([7], pa.int32())}), uri, mode="append"
    )
    before = peer_table(uri)
    lo.compact(uri)
    assert peer_table(uri) == before
    assert lo.dataset(uri).to_table() == before
    (fragment,) = lo.dataset(uri).fragments
    assert len(fragment.files) == 1


@pytest.mark.peer
def test_a_column_that_no_fragment_of_a_group_has_stays_missing(uri):
    peer_dataset(uri, [3, 3])
    lance.dataset(uri).add_columns(pa.field("later", pa.int32()))
    lo.compact(uri)
    (fragment,) = lo.dataset(uri).fragments
    later = lo.dataset(uri).lance_schema.field("later").id
    assert later not in fragment.files[0].fields
    assert peer_table(uri)["later"].null_count == 6
    lo.append(uri, pa.table({"x": [6], "s": ["a"], "f": [0.5], "later": pa.array([7], pa.int32())}))
    lo.compact(uri)
    assert peer_table(uri)["later"].to_pylist() == [None] * 6 + [7]


@pytest.mark.peer
def test_fragments_without_live_rows_leave_nothing(uri):
    peer_dataset(uri, [4, 4])
    ds = lo.dataset(uri)
    # The peer removes emptied fragments itself; other writers keep them with all rows deleted.
    from lance_ops.table.manifest.deletion_file import write_deletion_file
    from lance_ops.table.manifest.deletion_vector import DeletionVector
    from lance_ops.table.transaction.operations import Delete
    from tests.support.table_actions import commit

    file = write_deletion_file(
        ds.store, 0, ds.version, DeletionVector.from_offsets(range(4)), physical_rows=4
    ).file
    commit(ds, Delete((ds.fragments[0].replace(deletion_file=file),), (), "x < 4"))
    lo.compact(uri, target_rows_per_fragment=4)
    assert xs(uri) == [4, 5, 6, 7]
    assert fragment_sizes(uri) == {1: 4}


@pytest.mark.peer
@MAKERS
def test_stable_row_ids_and_row_versions_move_along(uri, make):
    make(uri, [4, 4, 3], enable_stable_row_ids=True)
    peer_delete(uri, "x in (1, 4, 10)")
    lance.dataset(uri).merge_insert("x").when_matched_update_all().execute(rows(5, 7))
    columns = ["x", "s", "f", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    before = lance.dataset(uri).to_table(columns=columns).sort_by("x")
    lo.compact(uri, target_rows_per_fragment=5)
    after = lance.dataset(uri).to_table(columns=columns)
    assert after.sort_by("x") == before
    assert lo.dataset(uri).to_table(with_row_id=True)["_rowid"].to_pylist() == after["_rowid"].to_pylist()
    lance.write_dataset(rows(20, 22), uri, mode="append")
    ids = peer_table(uri, with_row_id=True)["_rowid"].to_pylist()
    assert len(set(ids)) == len(ids)


@pytest.mark.peer
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
def test_a_btree_follows_its_rows_and_keeps_its_coverage(uri, stable):
    peer_dataset(uri, [5, 5, 5, 40, 5], enable_stable_row_ids=stable)
    lance.dataset(uri).create_scalar_index("x", "BTREE")
    lance.write_dataset(rows(60, 65), uri, mode="append")
    lance.write_dataset(rows(65, 70), uri, mode="append")
    peer_delete(uri, "x in (2, 7, 61)")
    result = lo.compact(uri, target_rows_per_fragment=20)
    # 0-2 and 4 are covered and do not touch; 5 and 6 are not covered.
    assert result.indices_remapped == 1
    ds = lo.dataset(uri)
    (segment,) = ds.indices
    covered = {fragment.id for fragment in ds.fragments} & segment.fragment_ids
    assert sum(ds.manifest.fragment(number).num_rows for number in covered) == 58
    for value in (0, 2, 6, 7, 8, 14, 15, 59, 60, 61, 69):
        expected = [value] if value not in (2, 7, 61) else []
        query = {"filter": f"x = {value}"}
        assert peer_table(uri, **query)["x"].to_pylist() == expected
        assert ds.to_table(**query)["x"].to_pylist() == expected
    plan = lance.dataset(uri).scanner(filter="x = 8").explain_plan()
    assert "ScalarIndexQuery" in plan


@pytest.mark.peer
def test_fragments_under_an_index_we_cannot_move_are_left_alone(uri):
    peer_dataset(uri, [5, 5])
    add_unknown_index(uri, "s")
    for start in (10, 12):
        lance.write_dataset(rows(start, start + 2), uri, mode="append")
    before = set(lo.dataset(uri).indices[0].fragment_ids)
    result = lo.compact(uri)
    assert result.fragments_removed == 2
    assert {0, 1} <= set(fragment_sizes(uri))
    assert lo.dataset(uri).indices[0].fragment_ids == before
    assert xs(uri) == list(range(14))


@pytest.mark.peer
def test_a_concurrent_compaction_costs_only_the_group_that_it_rewrote(uri):
    peer_dataset(uri, [5, 5, 100, 5, 5])

    def compact_two():
        lo.compact(uri, target_rows_per_fragment=20, max_source_fragments=2)
        lance.write_dataset(rows(120, 122), uri, mode="append")

    result = lo.compact(uri, target_rows_per_fragment=20, runner=Meddler(compact_two))
    assert (result.groups, result.rows_written, result.rows_purged, result.commits) == (2, 32, 0, 2)
    assert any("planned again after" in line and "Rewrite" in line for line in result.conflicts)
    assert sorted(xs(uri)) == list(range(122))
    # The id of the group that lost was used again: one reservation of ours, and one of theirs.
    made = [entry.operation for entry in lo.dataset(uri).history()]
    assert made.count("ReserveFragments") == 2
    versions = [lo.Dataset.open(uri, entry.version) for entry in lo.dataset(uri).history()]
    named = {f"data/{file.path}" for ds in versions for item in ds.fragments for file in item.files}
    assert {path for path in data_files(uri) if path.startswith("data/")} == named


@pytest.mark.peer
def test_an_append_in_between_costs_nothing(uri):
    peer_dataset(uri, [6, 6])
    meddler = Meddler(lambda: lance.write_dataset(rows(12, 14), uri, mode="append"))
    result = lo.compact(uri, runner=meddler)
    assert (result.commits, result.rows_written) == (1, 12)
    # The rewritten rows stand behind those that came in meanwhile only if the ids say so.
    assert sorted(xs(uri)) == list(range(14))


@pytest.mark.peer
def test_an_index_made_meanwhile_is_moved_along_without_writing_the_data_again(uri):
    peer_dataset(uri, [6, 6])
    meddler = Meddler(lambda: lance.dataset(uri).create_scalar_index("x", "BTREE"))
    events = []
    result = lo.compact(uri, runner=meddler, progress=events.append)
    assert (result.commits, result.indices_remapped) == (1, 1)
    assert sum(event.message.startswith("rewriting") and event.done == 1 for event in events) == 1
    assert any("committed on the head" in line and "CreateIndex" in line for line in result.conflicts)
    (segment,) = lo.dataset(uri).indices
    assert segment.fragment_ids >= {fragment.id for fragment in lo.dataset(uri).fragments}
    assert peer_table(uri, filter="x = 9")["x"].to_pylist() == [9]
    assert xs(uri) == list(range(12))


@pytest.mark.peer
def test_an_overwrite_in_between_ends_it_and_leaves_no_files(uri):
    peer_dataset(uri, [6, 6])
    before = data_files(uri)
    new = pa.table({"y": [1]})

    def overwrite():
        lance.write_dataset(new, uri, mode="overwrite", data_storage_version="2.0")

    with pytest.raises(CommitConflictError, match="Overwrite"):
        lo.compact(uri, runner=Meddler(overwrite))
    assert peer_table(uri) == new
    assert len(data_files(uri) - before) == 1


@pytest.mark.peer
def test_without_replans_the_conflict_is_raised_and_nothing_is_left(uri):
    peer_dataset(uri, [6, 6])
    before = data_files(uri)
    other = Meddler(lambda: lance.dataset(uri).optimize.compact_files())
    with pytest.raises(RetryableCommitConflictError, match="Rewrite"):
        lo.compact(uri, runner=other, max_replans=0)
    (file,) = data_files(uri) - before
    assert file == f"data/{lo.dataset(uri).fragments[0].files[0].path}"
    assert xs(uri) == list(range(12))


@pytest.mark.peer
def test_a_version_cleaned_away_meanwhile_is_a_conflict_and_no_row_returns(uri):
    """The peer skips versions that it does not find, and its compaction brings deleted rows back."""
    peer_dataset(uri, [6, 6])
    ds = lo.dataset(uri)
    results = [
        rewrite_group(task) for task in rewrite_tasks(ds, plan_compaction(ds).groups, CompactionOptions())
    ]
    peer_delete(uri, "x < 3")
    lance.write_dataset(rows(20, 21), uri, mode="append")
    from datetime import timedelta

    lance.dataset(uri).cleanup_old_versions(older_than=timedelta(0), delete_unverified=False)
    numbered, _ = reserve_ids(lo.dataset(uri), results, CommitOptions())
    with pytest.raises(RetryableCommitConflictError):
        commit_rewrites(ds, numbered, CommitOptions(), CompactionOptions())
    assert xs(uri) == [*range(3, 12), 20]
    discard_rewrites(ds.store, results)
    assert lo.compact(uri).changed
    assert sorted(xs(uri)) == [*range(3, 12), 20]


def test_commits_can_be_made_group_by_group(uri):
    our_dataset(uri, [5, 5, 30, 5, 5, 30, 5, 5])
    result = lo.compact(uri, target_rows_per_fragment=20, commit_every=1)
    assert (result.groups, result.commits) == (3, 3)
    assert sorted(xs(uri)) == list(range(90))
    assert sorted(fragment_sizes(uri).values()) == [10, 10, 10, 30, 30]


def test_commits_can_be_made_by_the_clock(uri):
    our_dataset(uri, [5, 5, 30, 5, 5, 30, 5, 5])
    options = {"target_rows_per_fragment": 20, "runner": lo.LocalRunner(1)}
    assert lo.compact(uri, commit_every_seconds=1e-9, **options).commits == 3
    our_dataset(f"{uri}-2", [5, 5, 30, 5, 5, 30, 5, 5])
    assert lo.compact(f"{uri}-2", commit_every_seconds=1e9, **options).commits == 1


def test_a_failed_group_costs_only_itself_and_is_named(uri):
    our_dataset(uri, [5, 5, 30, 5, 5])
    ds = lo.dataset(uri)
    victim = Path(uri) / "data" / ds.fragments[4].files[0].path
    content = victim.read_bytes()
    victim.unlink()
    result = lo.compact(uri, target_rows_per_fragment=20)
    assert (result.groups, result.complete) == (1, False)
    (failure,) = result.failed
    assert (failure.fragments, failure.error) == ((3, 4), "FileMissingError")
    assert "failed: fragments 3-4: FileMissingError" in str(result)
    assert sorted(item.num_rows for item in lo.dataset(uri).fragments) == [5, 5, 10, 30]
    before = data_files(uri)
    with pytest.raises(TaskFailedError) as caught:
        lo.compact(uri, target_rows_per_fragment=20)
    assert isinstance(caught.value.__cause__, FileMissingError)
    assert data_files(uri) == before
    victim.write_bytes(content)
    lo.compact(uri, target_rows_per_fragment=20)
    assert sorted(xs(uri)) == list(range(50))


def test_a_budget_holds_over_replanning(uri):
    our_dataset(uri, [5, 5, 30, 5, 5, 30, 5, 5])
    result = lo.compact(
        uri,
        target_rows_per_fragment=20,
        max_source_fragments=4,
        runner=Meddler(lambda: peer_delete(uri, "x = 0")),
    )
    assert result.fragments_removed == 4
    assert sorted(xs(uri)) == list(range(1, 90))


def test_rows_that_do_not_add_up_are_never_committed(uri):
    our_dataset(uri, [5, 5])
    ds = lo.dataset(uri)
    (group,) = plan_compaction(ds).groups
    lying = replace(group, fragments=(group.fragments[0], group.fragments[1].replace(physical_rows=4)))
    before = data_files(uri)
    (task,) = rewrite_tasks(ds, [lying], CompactionOptions())
    with pytest.raises(CorruptFileError):
        rewrite_group(task)
    assert data_files(uri) == before


def test_tasks_and_results_travel(uri):
    our_dataset(uri, [5, 5], enable_stable_row_ids=True)
    ds = lo.dataset(uri).snapshot()
    (task,) = rewrite_tasks(ds, plan_compaction(ds).groups, CompactionOptions())
    result = pickle.loads(pickle.dumps(rewrite_group(pickle.loads(pickle.dumps(task)))))
    assert (result.rows, result.group) == (10, task.group)
    numbered, reservation = reserve_ids(ds, [result], CommitOptions())
    assert reservation.commit.version == 3
    commit_rewrites(ds, numbered, CommitOptions(), CompactionOptions())
    assert xs(uri) == list(range(10))


def test_a_job_is_done_once(uri):
    our_dataset(uri, [5, 5])
    first = lo.compact(uri, job_key="nightly", properties={"run": "r1"})
    lo.append(uri, rows(10, 12))
    second = lo.compact(uri, job_key="nightly")
    assert (first.already_committed, second.already_committed) == (False, True)
    assert second.version == first.version
    assert lo.dataset(uri).read_transaction(first.version).properties["run"] == "r1"
    assert lo.dataset(uri).read_transaction(first.version - 1).properties["run"] == "r1"


def test_two_compactions_at_once_lose_nothing(uri):
    our_dataset(uri, [3] * 8)
    barrier = threading.Barrier(2, timeout=30)

    class Together:
        def map(self, function, tasks, *, on_done=None):
            results = lo.LocalRunner(1).map(function, tasks, on_done=on_done)
            if not self.met:
                self.met = True
                barrier.wait()
            return results

        met = False

    done = []
    threads = [
        threading.Thread(target=lambda: done.append(lo.compact(uri, runner=Together()))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(done) == 2
    assert sum(result.groups for result in done) == 1
    assert xs(uri) == list(range(24))


def test_the_data_version_stays(uri):
    our_dataset(uri, [5, 5])
    before = lo.dataset(uri).data_version
    lo.compact(uri)
    assert lo.dataset(uri).data_version == before


def test_progress_tells_of_every_group_and_the_commit(uri):
    our_dataset(uri, [5, 5, 30, 5, 5])
    events = []
    lo.compact(uri, target_rows_per_fragment=20, progress=events.append)
    assert [(event.done, event.total) for event in events if event.message.startswith("rewriting")] == [
        (0, 2), (1, 2), (2, 2)
    ]  # fmt: skip
    assert events[-1].message == "committed"


@pytest.mark.peer
@pytest.mark.parametrize("version", ["0.1"])
def test_a_storage_version_that_is_not_written_is_refused_before_anything_is(uri, version):
    for start in (0, 5):
        mode = "append" if start else "create"
        lance.write_dataset(rows(start, start + 5), uri, mode=mode, data_storage_version=version)
    before = data_files(uri)
    with pytest.raises(UnsupportedVersionError, match=version.replace(".", r"\.")):
        lo.compact(uri)
    with pytest.raises(UnsupportedVersionError, match=version.replace(".", r"\.")):
        lo.append(uri, rows(10, 11))
    assert data_files(uri) == before


@pytest.mark.peer
@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2", "2.3"])
def test_tables_of_every_storage_version_are_maintained_and_keep_it(uri, version, stable):
    options = {"data_storage_version": version, "enable_stable_row_ids": stable}
    lance.write_dataset(rows(0, 300), uri, max_rows_per_file=60, **options)
    lo.append(uri, rows(300, 400))
    lo.create_index(uri, "x", "BTREE")
    lo.delete(uri, "x % 10 = 3")
    live = [x for x in range(400) if x % 10 != 3]
    assert sorted(xs(uri)) == live
    before = lo.dataset(uri)
    ids = before.to_table(columns=["x"], with_row_id=True) if stable else None
    result = lo.compact(uri, target_rows_per_fragment=1000)
    assert result.version > before.version
    dataset = lo.dataset(uri)
    assert dataset.data_storage_version == lance.dataset(str(uri)).data_storage_version == version
    assert {(file.major, file.minor) for item in dataset.fragments for file in item.files} == {
        tuple(int(part) for part in version.split("."))
    }
    assert sorted(xs(uri)) == live
    if ids is not None:
        kept = dataset.to_table(columns=["x"], with_row_id=True)
        assert kept.sort_by("x").equals(ids.sort_by("x"))
    expected = rows(0, 400).take(live[5:50:7])
    for filter_ in (f"x in ({', '.join(map(str, live[5:50:7]))})",):
        assert dataset.to_table(filter=filter_).sort_by("x").equals(expected)
        assert peer_table(uri, filter=filter_).sort_by("x").equals(expected)
    assert lance.dataset(str(uri)).take([0, 7, 200]).equals(peer_table(uri).take([0, 7, 200]))
    lo.optimize_indices(uri)
    lo.cleanup(uri, retain_versions=1)
    assert lo.fsck(uri).ok
    assert sorted(xs(uri)) == live


@pytest.mark.peer
def test_a_shallow_clone_is_maintained_without_touching_its_source(uri, tmp_path):
    source = tmp_path / "source.lance"
    peer_dataset(source, [5, 5, 5])
    peer_delete(source, "x = 2")
    before = data_files(source)
    lance.dataset(str(source)).shallow_clone(uri, 4)
    lo.append(uri, rows(15, 17))
    lo.delete(uri, "x in (3, 16)")
    assert lo.compact(uri).fragments_removed == 4
    assert xs(uri) == [0, 1, *range(4, 16)]
    assert data_files(source) == before
    assert xs(source) == [0, 1, *range(3, 15)]


@pytest.mark.peer
def test_types_of_all_kinds_survive(uri):
    table = pa.table({
        "i": pa.array([1, None, 3, 4], pa.int8()),
        "b": pa.array([True, None, False, True]),
        "bin": pa.array([b"a", None, b"", b"ccc"]),
        "l": pa.array([[1, 2], None, [], [None, 4]], pa.list_(pa.int32())),
        "st": pa.array([{"a": 1, "b": "x"}, {"a": None, "b": "y"}, {"a": 3, "b": None}, {"a": 4, "b": "z"}]),
        "v": pa.array([[1.0, 2.0]] * 4, pa.list_(pa.float32(), 2)),
        "t": pa.array([1, None, 3, 4], pa.timestamp("us", "UTC")),
        "d": pa.array([1, 2, None, 4], pa.date32()),
        "dec": pa.array([1, None, 3, 4], pa.decimal128(10, 2)),
        "dict": pa.array(["a", "b", None, "a"]).dictionary_encode(),
    })  # fmt: skip
    for start in range(4):
        lo.append(uri, table.slice(start, 1))
    lo.compact(uri)
    lo.delete(uri, "i = 1")
    lo.append(uri, table.slice(0, 1))
    lo.compact(uri)
    expected = pa.concat_tables([table.slice(1), table.slice(0, 1)])
    assert peer_table(uri).to_pylist() == expected.to_pylist()
    assert lo.dataset(uri).to_table().to_pylist() == expected.to_pylist()
