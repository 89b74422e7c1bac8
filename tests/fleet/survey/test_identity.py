"""A dataset that was destroyed or replaced is seen; what is known of the old one is not taken for the new."""

import datetime as dt
import shutil
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.alerts.rule import AlertRule
from lance_ops.fleet.alerts.evaluate import evaluate
from lance_ops.fleet.forecast.operation import forecast_fleet
from lance_ops.fleet.ledger.ledger import FleetLedger
from lance_ops.fleet.plan.operation import PlanOptions, plan_fleet
from lance_ops.fleet.run.operation import RunOptions, approved, run_fleet
from lance_ops.fleet.stores.opened import FleetStores
from lance_ops.fleet.survey.look import is_another, mark_in
from lance_ops.fleet.survey.operation import survey_fleet
from lance_ops.storage import open_store
from tests.support.distant_store import DistantStore
from tests.support.fleets import ids, policy, write

OLD = dt.datetime(2020, 1, 1, tzinfo=UTC)


def survey(root, rules, *, distant):
    stores = FleetStores(rules)
    if distant:
        stores.use("s", DistantStore(open_store(str(root)), patience=0))
    return survey_fleet(rules, stores=stores).known["a.lance"]


@pytest.mark.parametrize("distant", [False, True])
def test_a_manifest_that_was_overwritten_is_damage(tmp_path, distant):
    write(tmp_path, "a.lance", 2)
    rules = policy(tmp_path)
    assert [survey(tmp_path, rules, distant=distant).verdict for _ in range(2)] == ["healthy", "healthy"]
    for manifest in (tmp_path / "a.lance" / "_versions").glob("*.manifest"):
        manifest.write_bytes(b"junk")
    assert survey(tmp_path, rules, distant=distant).verdict == "damaged"


@pytest.mark.parametrize("distant", [False, True])
def test_another_dataset_with_as_many_versions_is_looked_at_and_told_of(tmp_path, distant):
    write(tmp_path, "a.lance", 2)
    rules = policy(tmp_path)
    before = survey(tmp_path, rules, distant=distant)
    shutil.rmtree(tmp_path / "a.lance")
    for part in range(2):
        lo.append(str(tmp_path / "a.lance"), pa.table({"other": ["x"] * (part + 5)}))
    after = survey(tmp_path, rules, distant=distant)
    assert (before.rows, after.rows) == (20, 11)
    assert (before.version, after.version) == (2, 2)
    assert before.since is None
    assert after.since == after.at
    rule = AlertRule("log")
    seen = evaluate(rules, rule, [], [before], [], before.at)
    found = evaluate(rules, rule, seen, [after], [], after.at)
    assert "schema" in {row.kind for row in found if row.state == "passed"}


@pytest.mark.parametrize("distant", [False, True])
def test_commits_and_cleanups_leave_a_dataset_what_it_is(tmp_path, distant):
    uri = write(tmp_path, "a.lance", 2)
    rules = policy(tmp_path, default="{max_small_fragments: 50}")
    survey(tmp_path, rules, distant=distant)
    lo.delete(uri, "id = 3")
    lo.compact(uri)
    lo.cleanup(uri, older_than=timedelta(0), retain_versions=1)
    assert survey(tmp_path, rules, distant=distant).since is None


def test_rows_that_are_too_old_are_looked_for_in_a_dataset_that_replaced_another(tmp_path):
    uri = str(tmp_path / "a.lance")
    rules = policy(tmp_path, default="{ttl: keep where at > now - 30d, ttl_max_fraction: 1}")
    for first in (0, 100):
        shutil.rmtree(uri, ignore_errors=True)
        lo.append(uri, pa.table({"id": [first, first + 1], "at": [OLD, datetime.now(UTC)]}))
        run_fleet(rules)
        assert ids(uri) == [first + 1]
        assert run_fleet(rules).rows == []


def test_a_plan_that_was_approved_is_not_run_on_another_dataset(tmp_path):
    write(tmp_path, "a.lance", 5)
    rules = policy(tmp_path, mode="propose")
    looks = survey_fleet(rules).known.values()
    options = PlanOptions(modes=frozenset({"propose"}))
    plan = approved(plan_fleet(rules, looks, [], now=datetime.now(UTC), options=options), "me")
    shutil.rmtree(tmp_path / "a.lance")
    write(tmp_path, "a.lance", 6)
    done = run_fleet(rules, RunOptions(plan=plan))
    assert done.row.failed == 1
    assert "another dataset" in done.outcomes["a.lance"].why
    assert lo.dataset(str(tmp_path / "a.lance")).version == 6


def test_growth_of_the_dataset_before_is_not_foreseen_for_the_next_one(tmp_path):
    write(tmp_path, "a.lance", 3)
    rules = policy(tmp_path, default="{max_small_fragments: 100}")
    begin = datetime.now(UTC) - timedelta(days=2)
    survey_fleet(rules, now=begin)
    write(tmp_path, "a.lance", 30)
    survey_fleet(rules, now=begin + timedelta(days=1))
    shutil.rmtree(tmp_path / "a.lance")
    write(tmp_path, "a.lance", 2)
    survey_fleet(rules, now=begin + timedelta(days=2))
    ledger = FleetLedger.of(rules)
    found = forecast_fleet(rules, ledger.latest(), ledger.looks(), [], now=datetime.now(UTC))
    assert found.bytes_per_day == 0


def test_what_a_cleanup_removed_tells_nothing(tmp_path):
    uri = write(tmp_path, "a.lance", 3)
    infos = list(open_store(uri).list("_versions"))
    head = mark_in(infos, 2)
    assert not is_another(head, infos, 3)
    assert not is_another(head, [], 3)
    assert not is_another(None, infos, 3)
    assert is_another(head, infos, 1)
    assert is_another(f"{head} other", infos, 3)
