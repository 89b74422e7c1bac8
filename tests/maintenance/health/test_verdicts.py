"""Healthy, due or blocked: what could not help is not due, whatever keeps it, and the reason is told."""

from datetime import timedelta

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.maintenance.health.policy import MaintenancePolicy, Verdict
from lance_ops.maintenance.health.verdicts import judge_dataset
from tests.support.unknown_index import add_unknown_index

STRICT = MaintenancePolicy(
    max_small_fragments=2, max_deleted_ratio=0.05, min_index_coverage=0.9, max_versions=3
)


def table(start: int, rows: int = 40) -> pa.Table:
    numbers = np.arange(start, start + rows)
    vectors = np.stack([numbers % 7, numbers % 5, numbers, numbers % 2], axis=1).astype("f4").reshape(-1)
    return pa.table(
        {
            "a": numbers,
            "k": numbers % 3,
            "words": [f"word{number % 4} again" for number in numbers],
            "tags": [[str(number % 3)] for number in numbers],
            "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors), 4),
        }
    )


def verdicts(uri: str, policy: MaintenancePolicy = STRICT) -> dict[str, Verdict]:
    return {item.operation: item for item in judge_dataset(lo.dataset(uri), policy)}


@pytest.fixture
def uri(tmp_path) -> str:
    uri = str(tmp_path / "t.lance")
    for number in range(4):
        lo.append(uri, table(40 * number))
    return uri


@pytest.mark.peer
def test_an_index_that_cannot_be_moved_blocks_compaction_as_long_as_it_is_there(uri):
    assert verdicts(uri)["compact"].state == "due"
    add_unknown_index(uri, "a", "idx")

    found = verdicts(uri)["compact"]

    assert (found.state, found.due) == ("blocked", False)
    assert "'idx'" in found.blocked
    assert found.reason.startswith("4 small fragments (limit 2); blocked: ")
    # It is the truth: the operation does nothing.
    assert not lo.compact(uri, **STRICT.compaction_options()).changed
    lo.drop_index(uri, "idx")
    assert verdicts(uri)["compact"].state == "due"


@pytest.mark.peer
def test_an_index_that_cannot_be_brought_up_to_date_blocks_its_refresh_only(uri):
    add_unknown_index(uri, "a", "idx")
    lo.create_index(uri, "a", name="ours")
    lo.append(uri, table(200))

    both = verdicts(uri)["index"]
    assert both.state == "due"
    assert lo.optimize_indices(uri).changed

    found = verdicts(uri)["index"]
    assert found.state == "blocked"
    assert "idx" in found.blocked
    assert "ours" not in found.blocked
    assert not lo.optimize_indices(uri).changed
    # A few rows more do not make the refresh due for an index that it cannot help.
    lo.append(uri, table(300, rows=5))
    assert verdicts(uri)["index"].state == "blocked"


def test_a_refresh_by_the_policy_gets_below_its_limit_of_segments(uri):
    lo.create_index(uri, "a")
    for start in range(200, 320, 40):
        lo.append(uri, table(start))
        lo.optimize_indices(uri, merge_segments=0)
    few = MaintenancePolicy(max_index_segments=2)
    assert verdicts(uri, few)["index"].state == "due"
    assert lo.optimize_indices(uri, most_segments=few.most_segments).changed
    assert verdicts(uri, few)["index"].state == "healthy"
    assert len(lo.dataset(uri).indices) <= 2


@pytest.mark.peer
def test_compactions_to_follow_make_a_refresh_due_beside_an_index_that_stays_behind(tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.append(uri, table(0))
    add_unknown_index(uri, "k", "theirs")
    for start in (40, 80, 120):
        lo.append(uri, table(start))
    lo.create_index(uri, "a", name="ours")
    assert lo.compact(uri, defer_index_remap=True).remaps_deferred == 1
    at_once = MaintenancePolicy(min_index_coverage=0.9, max_deferred_compactions=0)
    assert verdicts(uri, at_once)["index"].state == "due"
    assert lo.optimize_indices(uri, most_segments=at_once.most_segments).compactions_caught_up == 1
    found = verdicts(uri, at_once)["index"]
    assert (found.state, "theirs" in found.blocked) == ("blocked", True)


def test_what_helps_is_due_until_it_is_done(uri):
    lo.create_index(uri, "a")
    lo.append(uri, table(200))
    lo.delete(uri, "a < 30")
    assert [item.state for item in verdicts(uri).values()][:2] == ["due", "due"]
    lo.compact(uri, **STRICT.compaction_options())
    lo.optimize_indices(uri)
    assert [item.state for item in verdicts(uri).values()][:2] == ["healthy", "healthy"]


def test_a_fragment_without_a_neighbour_to_merge_with_is_healthy(tmp_path):
    uri = str(tmp_path / "one.lance")
    lo.append(uri, table(0))
    found = verdicts(uri, MaintenancePolicy(max_small_fragments=0))["compact"]
    assert (found.state, found.blocked) == ("healthy", "")
    assert not lo.compact(uri).changed


def test_a_policy_below_the_usual_threshold_of_deleted_rows_is_kept(tmp_path):
    uri = str(tmp_path / "one.lance")
    lo.append(uri, table(0, rows=100))
    lo.delete(uri, "a < 8")
    policy = MaintenancePolicy(target_rows=50, max_deleted_ratio=0.05)
    assert verdicts(uri, policy)["compact"].state == "due"
    assert lo.compact(uri, **policy.compaction_options()).changed
    assert verdicts(uri, policy)["compact"].state == "healthy"


def test_a_cleanup_that_may_remove_nothing_is_blocked(uri):
    few = verdicts(uri)["cleanup"]
    assert few.state == "blocked"
    assert few.blocked == "10 newest versions are kept by the policy, and all others have references"
    young = verdicts(uri, MaintenancePolicy(max_versions=3, retain_versions=2))["cleanup"]
    assert young.blocked == "no removable version is older than 14 days"
    old = MaintenancePolicy(max_versions=2, older_than=timedelta(0), retain_versions=2)
    assert verdicts(uri, old)["cleanup"].state == "due"
    for version in (1, 2):
        lo.create_tag(uri, f"t{version}", version)
    named = verdicts(uri, old)["cleanup"]
    assert named.blocked == "2 newest versions are kept by the policy, and all others have references"
    assert lo.cleanup(uri, older_than=timedelta(0), retain_versions=2).versions_removed == 0


@pytest.mark.peer
def test_where_branches_start_at_all_old_versions_no_cleanup_is_due(uri):
    old = MaintenancePolicy(max_versions=2, older_than=timedelta(0), retain_versions=1)
    for info in lo.dataset(uri).versions()[:-1]:
        assert verdicts(uri, old)["cleanup"].state == "due"
        lance.dataset(uri).checkout_version(info.version).create_branch(f"b{info.version}")
    assert "all others have references" in verdicts(uri, old)["cleanup"].blocked


def test_a_worn_index_is_due_and_what_its_refresh_mends(tmp_path):
    uri = str(tmp_path / "worn.lance")
    lo.write_dataset(pa.table({"a": np.arange(17_000), "k": np.arange(17_000) % 3}), uri)
    lo.create_index(uri, "a")
    lo.delete(uri, "a < 4000")
    usual = MaintenancePolicy()
    assert verdicts(uri, usual)["index"].state == "healthy"
    strict = MaintenancePolicy(max_index_dead_ratio=0.2)
    found = verdicts(uri, strict)["index"]
    assert found.state == "due"
    assert "1 index degraded: at most 23.5% of rows deleted (limit 20.0%)" in found.reason
    assert not lo.optimize_indices(uri).changed
    assert lo.optimize_indices(uri, limits=strict.wear_limits).changed
    assert verdicts(uri, strict)["index"].state == "healthy"
