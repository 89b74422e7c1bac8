"""A survey: verdicts, the oldest look first, shards, deadlines, requests, and datasets that are unwell."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.fleet.judge.dataset import judge
from lance_ops.fleet.judge.estimate import Corrections, fit
from lance_ops.fleet.ledger.ledger import FleetLedger
from lance_ops.fleet.stores.opened import FleetStores
from lance_ops.fleet.survey.operation import SurveyOptions, survey_fleet
from lance_ops.maintenance.index.refresh_estimate import foresee_refresh
from lance_ops.storage import open_store
from tests.fleet.ledger.test_ledger import operation
from tests.support.distant_store import DistantStore
from tests.support.fleets import policy, rows, write

ALL = SurveyOptions(if_changed=False)


def test_stricter_thresholds_count_for_datasets_that_did_not_change(tmp_path):
    write(tmp_path, "t.lance", 6)
    loose = policy(tmp_path, default="{max_small_fragments: 50}")
    assert survey_fleet(loose).known["t.lance"].verdict == "healthy"
    assert survey_fleet(loose).known["t.lance"].verdict == "healthy"
    strict = policy(tmp_path, default="{max_small_fragments: 4}")
    assert survey_fleet(strict).known["t.lance"].due == ("compact",)


def test_a_ledger_of_an_earlier_release_is_measured_anew_and_written_on(tmp_path):
    write(tmp_path, "t.lance", 6)
    loose = policy(tmp_path, default="{max_small_fragments: 50}")
    survey_fleet(loose)
    lo.drop_columns(f"{loose.ledger_uri}/looks.lance", ["rules"])
    strict = policy(tmp_path, default="{max_small_fragments: 4}")
    assert survey_fleet(strict).known["t.lance"].due == ("compact",)
    looks = FleetLedger.of(strict).looks()
    assert [look.verdict for look in looks] == ["healthy", "due"]
    assert looks[0].rules is None
    assert looks[1].rules == strict.of_dataset("t.lance").fingerprint()


def test_verdicts_say_what_is_due_and_why(tmp_path):
    write(tmp_path, "few.lance", 2)
    write(tmp_path, "many.lance", 6)
    write(tmp_path, "far.lance", 11)
    rules = policy(tmp_path)
    found = {look.dataset: look for look in survey_fleet(rules).looks}
    assert found["few.lance"].verdict == "healthy"
    assert found["many.lance"].verdict == "due"
    assert found["many.lance"].due == ("compact", "cleanup")
    assert "6 small fragments (limit 2)" in found["many.lance"].why
    assert found["many.lance"].rank > 0
    assert found["many.lance"].cost_bytes > 0
    assert found["many.lance"].reclaimable_bytes > 0
    assert found["far.lance"].verdict == "overdue"
    assert {look.dataset for look in FleetLedger.of(rules).looks()} == set(found)


def test_what_is_due_for_long_is_overdue_and_since_then(tmp_path):
    write(tmp_path, "a.lance", 4)
    rules = policy(tmp_path)
    begin = datetime(2026, 11, 1, tzinfo=UTC)
    looks = [survey_fleet(rules, now=begin + timedelta(days=days)).looks[0] for days in (0, 6, 8)]
    assert [look.verdict for look in looks] == ["due", "due", "overdue"]
    assert {look.due_since for look in looks} == {begin}


def test_damage_is_told_and_stays_with_its_dataset(tmp_path):
    write(tmp_path, "good.lance")
    uri = write(tmp_path, "bad.lance")
    manifest = next((tmp_path / "bad.lance" / "_versions").glob("*.manifest"))
    manifest.write_bytes(b"x" * 100)
    lost = write(tmp_path, "lost.lance", 2)
    next((tmp_path / "lost.lance" / "data").glob("*.lance")).unlink()
    (tmp_path / "empty.lance").mkdir()
    (tmp_path / "empty.lance" / "note").touch()
    found = survey_fleet(policy(tmp_path), SurveyOptions(check_every=timedelta(days=1)))
    verdicts = {look.dataset: look.verdict for look in found.looks}
    assert verdicts == {"good.lance": "healthy", "bad.lance": "damaged", "lost.lance": "damaged"}
    assert found.gone == ("empty.lance",)
    assert uri
    assert lost
    # Nobody looks for files again so soon, and the damage is not forgotten.
    again = survey_fleet(policy(tmp_path), SurveyOptions(check_every=timedelta(days=1)))
    assert {look.verdict for look in again.looks if look.dataset == "lost.lance"} == {"damaged"}


def test_a_dataset_without_change_costs_one_request_or_two(tmp_path):
    write(tmp_path, "a.lance", 2)
    rules = policy(tmp_path)
    first, second = (survey_fleet(rules).looks[0] for _ in range(2))
    assert first.requests > second.requests
    assert second.requests <= 2
    assert (first.rows, first.verdict) == (second.rows, second.verdict)
    lo.append(str(tmp_path / "a.lance"), rows(90, 95))
    assert survey_fleet(rules).looks[0].rows == 25


def test_a_dataset_that_is_due_costs_few_requests_and_fewer_the_second_time(tmp_path):
    """The listing of its versions, the newest and the oldest manifest; no rate is worked out again."""
    uri = write(tmp_path, "a.lance", 4)
    rules = policy(Path(uri))
    stores = [FleetStores(rules) for _ in range(2)]
    for opened in stores:
        opened.use("s", DistantStore(open_store(uri), patience=0))
    first, second = (survey_fleet(rules, stores=opened).looks[0] for opened in stores)
    assert (first.due, second.due) == (("compact",), ("compact",))
    assert first.requests <= 3
    assert second.requests <= 2


def test_shards_share_all_datasets(tmp_path):
    for number in range(9):
        write(tmp_path, f"{number}.lance")
    rules = policy(tmp_path)
    parts = [survey_fleet(rules, SurveyOptions(shard=(part, 3))) for part in range(3)]
    names = [look.dataset for part in parts for look in part.looks]
    assert sorted(names) == [f"{number}.lance" for number in range(9)]
    assert len(parts[-1].known) == 9


def test_a_deadline_leaves_some_which_come_first_next_time(tmp_path):
    for number in range(4):
        write(tmp_path, f"{number}.lance")
    rules = policy(tmp_path)
    late = survey_fleet(rules, SurveyOptions(seconds=0))
    assert late.looks == ()
    begin = datetime(2026, 11, 1, tzinfo=UTC)
    survey_fleet(rules, SurveyOptions(shard=(0, 2)), now=begin)
    seen = set(FleetLedger.of(rules).latest())
    order = []

    def note(event):
        order.append(event)

    found = survey_fleet(rules, SurveyOptions(threads=1), now=begin + timedelta(hours=1), progress=note)
    assert len(found.looks) == 4
    old = FleetLedger.of(rules).looks(since=begin + timedelta(minutes=1))
    assert {look.dataset for look in old} == {f"{n}.lance" for n in range(4)}
    assert seen < {look.dataset for look in old}


def test_rates_come_from_the_newest_versions(tmp_path):
    uri = write(tmp_path, "a.lance", 5)
    dataset = lo.dataset(uri)
    found = judge(dataset, policy(tmp_path).of_dataset("a.lance"), now=datetime.now(UTC))
    assert found.due == ("compact", "cleanup")


def test_a_cleanup_frees_what_was_estimated(tmp_path):
    uri = write(tmp_path, "a.lance", 6)
    lo.compact(uri)
    lo.delete(uri, "id < 20")
    rules = policy(tmp_path).of_dataset("a.lance")
    found = judge(lo.dataset(uri), rules, now=datetime.now(UTC))
    planned = next(item for item in found.estimates if item.operation == "cleanup")
    done = lo.cleanup(uri, older_than=timedelta(0), retain_versions=1)
    assert planned.bytes == done.bytes_removed


def test_corrections_are_the_median_of_what_was_missed():
    missed = [
        operation(str(n), seconds_raw=1.0, seconds=float(s), bytes_raw=10, bytes_read=20)
        for n, s in enumerate((2, 3, 30))
    ]
    found = Corrections.learn(missed)
    assert found.seconds["s", "compact"].of(1.0) == pytest.approx(3.0)
    assert found.bytes["s", "compact"].of(10.0) == pytest.approx(20.0)
    assert Corrections.learn(missed[:2]).seconds == {}


def test_corrections_tell_what_there_is_in_any_case_from_what_grows():
    done = [(0.1 * n, 2.0 + 0.5 * n) for n in range(1, 30)]
    wild = [(1.0, 500.0), (2.0, 0.001), (0.5, 900.0)]
    found = fit([*done, *wild])
    assert found.of(0.1) == pytest.approx(2.5, rel=0.1)
    assert found.of(10.0) == pytest.approx(52.0, rel=0.1)


@given(st.lists(st.tuples(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3)), min_size=3, max_size=40))
def test_whatever_was_measured_no_estimate_is_below_nothing(pairs):
    found = fit(pairs)
    assert found.base >= 0
    assert found.slope >= 0
    assert all(found.of(raw) > 0 for raw, _ in pairs)


@pytest.mark.parametrize("count", [1, 3])
def test_what_a_refresh_writes_is_foreseen_from_the_segments_that_are_there(tmp_path, count):
    uri = str(tmp_path / "a.lance")
    for part in range(count + 1):
        lo.append(uri, rows(part * 3000, part * 3000 + 3000))
        if not part:
            lo.create_index(uri, "id")
    found = foresee_refresh(lo.dataset(uri), 4)
    done = lo.optimize_indices(uri)
    assert found.segments == 1
    assert found.rows == 3000 * (count + 1)
    assert found.bytes == pytest.approx(done.bytes_written, rel=0.2)
