"""Compaction while others delete and update: it is committed at once, and every index finds what is left."""

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.maintenance.compact.rewrite import RewriteTask
from tests.support.interop import data_files, peer_table

pytestmark = pytest.mark.peer


def table(start: int, stop: int) -> pa.Table:
    numbers = range(start, stop)
    return pa.table({"x": pa.array(numbers, pa.int64()), "s": [f"text {n}" for n in numbers]})


class Meddler:
    """Runs tasks here, and lets other writers in after the tasks of each round."""

    def __init__(self, *actions):
        self.actions, self.rows_read = list(actions), 0

    def map(self, function, tasks, *, on_done=None):
        results = lo.LocalRunner(1).map(function, tasks, on_done=on_done)
        reads = [task for task in tasks if isinstance(task, RewriteTask)]
        self.rows_read += sum(task.group.live_rows for task in reads)
        if self.actions and reads:
            self.actions.pop(0)()
        return results


@pytest.fixture(params=[False, True], ids=["addresses", "stable ids"])
def uri(request, tmp_path) -> str:
    """Six fragments of ten rows, a BTREE over x; row 3 is deleted."""
    path = str(tmp_path / "t.lance")
    lance.write_dataset(table(0, 60), path, max_rows_per_file=10, enable_stable_row_ids=request.param)
    lance.dataset(path).create_scalar_index("x", "BTREE")
    lance.dataset(path).delete("x = 3")
    return path


def check(uri: str, expected: set[int]) -> None:
    """Both libraries find all rows, each of them by the index as well, and no other."""
    ds, peer = lo.dataset(uri), lance.dataset(uri)
    peer.validate()
    assert sorted(ds.to_table()["x"].to_pylist()) == sorted(expected)
    assert sorted(peer_table(uri)["x"].to_pylist()) == sorted(expected)
    for x in range(62):
        wanted = [x] if x in expected else []
        assert ds.to_table(filter=f"x = {x}")["x"].to_pylist() == wanted
        assert peer.to_table(filter=f"x = {x}")["x"].to_pylist() == wanted
    assert lo.fsck(uri, deep=True).ok


def meddle(uri: str) -> None:
    lance.dataset(uri).delete("x in (1, 11, 59)")
    lance.dataset(uri).update({"s": "'changed'"}, where="x = 12")
    lo.delete(uri, "x = 40")
    lo.replace_where(uri, table(25, 27), "x >= 25 and x < 27")


LEFT = set(range(60)) - {3, 1, 11, 59, 40}


@pytest.mark.parametrize("options", [{}, {"commit_every": 1}, {"defer_index_remap": True}], ids=str)
def test_rows_deleted_and_updated_meanwhile_cost_nothing(uri, options):
    runner = Meddler(lambda: meddle(uri))
    result = lo.compact(uri, target_rows_per_fragment=20, runner=runner, max_replans=0, **options)
    # The groups were read once, all of them; those that came later are read as they are then.
    assert (result.groups, result.fragments_removed) == (2, 6)
    assert runner.rows_read == result.rows_written
    check(uri, LEFT)
    assert lo.dataset(uri).count_rows("s = 'changed'") == 1
    lo.optimize_indices(uri)
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=100)
    check(uri, LEFT)


def test_a_fragment_emptied_meanwhile_is_left_out(uri):
    runner = Meddler(lambda: lance.dataset(uri).delete("x < 10 or x >= 30 and x < 50"))
    result = lo.compact(uri, target_rows_per_fragment=20, runner=runner, max_replans=0)
    assert runner.rows_read == result.rows_written
    check(uri, set(range(10, 30)) | set(range(50, 60)))


def test_an_index_and_deletes_at_once_cost_no_second_reading(uri):
    def both():
        meddle(uri)
        lance.dataset(uri).create_scalar_index("s", "BITMAP")
        lance.dataset(uri).delete("x >= 50")

    runner = Meddler(both)
    result = lo.compact(uri, target_rows_per_fragment=30, runner=runner)
    assert runner.rows_read == result.rows_written
    check(uri, {x for x in LEFT if x < 50})
    assert lance.dataset(uri).count_rows("s = 'changed'") == 1


def test_files_of_a_group_without_rows_are_removed(uri):
    before = data_files(uri)
    runner = Meddler(lambda: lance.dataset(uri).delete("x < 20"))
    lo.compact(uri, target_rows_per_fragment=20, runner=runner, max_replans=0)
    versions = [lo.Dataset.open(uri, entry.version) for entry in lo.dataset(uri).history()]
    named = {f"data/{file.path}" for ds in versions for item in ds.fragments for file in item.files}
    there = {path for path in data_files(uri) - before if path.startswith("data/")}
    assert there <= named
    check(uri, set(range(20, 60)))


def test_a_version_that_is_cleaned_away_while_indices_follow_is_a_reason_to_plan_anew(tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(pa.table({"x": range(20)}), uri, max_rows_per_file=10)
    lo.create_index(uri, "x", "ZONEMAP", parameters={"rows_per_zone": 16})
    lo.delete(uri, "x = 3")
    met = []

    def others(event: lo.ProgressEvent) -> None:
        if event.message == "committing" and not met:
            met.append(event)
            lo.delete(uri, "x = 5 or x = 15")
            lo.cleanup(uri, retain_versions=1)

    assert lo.compact(uri, progress=others).groups == 1
    dataset = lo.dataset(uri)
    assert dataset.to_table()["x"].to_pylist() == [x for x in range(20) if x not in (3, 5, 15)]
