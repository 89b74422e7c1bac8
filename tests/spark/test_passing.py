"""Zone maps and bloom filters of a compaction on Spark: made of the rows as executors write them."""

import lance
import pytest

import lance_ops as lo
from lance_ops.maintenance.compact import rewrite
from lance_ops.maintenance.tasks import Attempted
from lance_ops.spark.runner import SparkRunner
from tests.maintenance.compact.test_passing import KINDS, answers_are_those_of_a_scan, create

pytestmark = [pytest.mark.spark, pytest.mark.peer]


class Watched(SparkRunner):
    """Keeps what comes back from executors."""

    def __init__(self, spark) -> None:
        super().__init__(spark)
        self.results: list[object] = []

    def map(self, function, tasks, *, on_done=None):
        found = super().map(function, tasks, on_done=on_done)
        self.results += found
        return found


@pytest.mark.parametrize("noted", [True, False])
def test_executors_that_rewrite_rows_feed_zone_maps_and_blooms(spark, tmp_path, monkeypatch, noted):
    uri = create(tmp_path)
    lance.dataset(uri).delete("id % 9 = 4")
    live = lance.dataset(uri).count_rows()
    if not noted:
        # Nothing is carried: executors read the new fragments.
        monkeypatch.setattr(rewrite, "_CARRIED_BYTES", 0)
    runner = Watched(spark)

    done = lo.compact(uri, method="rewrite", target_rows_per_fragment=250, runner=runner)

    rewrites = [item.result for item in runner.results if isinstance(item, Attempted)]
    assert done.groups == len(rewrites) > 1
    for result in rewrites:
        kinds = [note.watch.kind for note in result.noted]
        assert sorted(kinds) == (sorted(KINDS.values()) if noted else [])
        # All fragments that the executor wrote, none of them left to be read again.
        assert all(None not in note.notes for note in result.noted)
    assert [item.route for item in done.index_segments] == ["look at the new rows"] * len(KINDS)
    assert set(done.rows_indexed_after.values()) == {live}
    assert len(done.rows_indexed_after) == len(KINDS)
    answers_are_those_of_a_scan(uri)
