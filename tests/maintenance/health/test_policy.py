"""Health in numbers, and what a policy makes of it."""

from pathlib import Path

import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError
from lance_ops.maintenance.health.measure import measure_health
from lance_ops.maintenance.health.policy import MaintenancePolicy, Verdict, judge_health
from lance_ops.maintenance.health.verdicts import judge_dataset
from tests.support.interop import our_dataset


def verdicts(path: Path, **policy: object) -> dict[str, Verdict]:
    return {
        verdict.operation: verdict
        for verdict in judge_health(measure_health(lo.dataset(path)), MaintenancePolicy(**policy))
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Three fragments of 20 rows, of which 12 are deleted, and an index on the first two fragments."""
    uri = tmp_path / "t.lance"
    our_dataset(uri, [20, 20])
    lo.create_index(uri, "x")
    our = lo.dataset(uri).to_table().slice(0, 20)
    lo.append(uri, our)
    lo.delete(uri, "x < 6")
    return uri


def test_health_counts_what_is_there(path: Path) -> None:
    health = measure_health(lo.dataset(path), target_rows=25)
    assert health.rows == 48
    assert health.physical_rows == 60
    assert health.deleted_rows == 12
    assert health.deleted_ratio == pytest.approx(0.2)
    assert health.fragments == 3
    assert health.small_fragments == 2
    assert health.indices == 1
    assert health.unindexed_rows == 14
    assert health.index_coverage == pytest.approx(34 / 48)
    assert health.live_versions == 5
    assert health.manifest_bytes == lo.dataset(path).location.size or health.manifest_bytes > 0
    assert health.data_bytes > 0


def test_an_empty_dataset_is_healthy(tmp_path: Path) -> None:
    our_dataset(tmp_path / "t.lance", [0])
    assert not any(verdict.due for verdict in verdicts(tmp_path / "t.lance").values())


def test_compaction_is_due_for_small_fragments_and_for_deleted_rows(path: Path) -> None:
    assert not verdicts(path, max_small_fragments=3, max_deleted_ratio=0.5)["compact"].due
    # The third one has another coverage: it has no neighbour to merge with.
    small = verdicts(path, max_small_fragments=1, max_deleted_ratio=0.5)["compact"]
    assert small.due
    assert small.reason == "2 small fragments (limit 1)"
    deleted = verdicts(path, max_small_fragments=3, max_deleted_ratio=0.1)["compact"]
    assert deleted.due
    assert "20.0% of rows deleted" in deleted.reason


def test_an_index_refresh_is_due_when_coverage_is_low(path: Path) -> None:
    assert verdicts(path)["index"].due
    assert not verdicts(path, min_index_coverage=0.5)["index"].due
    lo.optimize_indices(path)
    assert not verdicts(path)["index"].due


def test_cleanup_is_due_with_many_versions(path: Path) -> None:
    assert verdicts(path, max_versions=4)["cleanup"].due
    assert not verdicts(path, max_versions=5)["cleanup"].due


@pytest.mark.parametrize(
    "wrong", [{"max_deleted_ratio": 2.0}, {"min_index_coverage": -1.0}, {"max_versions": 0}]
)
def test_thresholds_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidArgumentError):
        MaintenancePolicy(**wrong)


def test_a_policy_may_merge_by_size_tiers_and_says_what_waits_in_them(tmp_path: Path) -> None:
    policy = MaintenancePolicy(target_rows=1024, tier_growth=4, target_bytes=1 << 20, max_small_fragments=1)
    our_dataset(tmp_path / "t", [300, 10, 5])
    options = policy.compaction_options()
    plan = lo.compact(tmp_path / "t", dry_run=True, **options)
    assert plan.groups == ()
    assert plan.notes == (
        "fragments 0-2: merging them would not reach a larger size tier yet (strategy 'rows' merges them)",
    )
    before = lo.dataset(tmp_path / "t")
    # What a compaction leaves alone makes none due, however many there are.
    assert judge_dataset(before, policy)[0].state == "healthy"
    our = lo.dataset(tmp_path / "t").to_table().slice(0, 10)
    lo.append(tmp_path / "t", our)
    (group,) = lo.compact(tmp_path / "t", dry_run=True, **options).groups
    assert group.fragment_ids == (1, 2, 3)
    assert judge_dataset(lo.dataset(tmp_path / "t"), policy)[0].due
    with pytest.raises(InvalidArgumentError, match="tier_growth"):
        MaintenancePolicy(tier_growth=1)
