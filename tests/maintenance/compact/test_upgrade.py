"""State of release 0.1.0: calibrated costs, notes of estimates, and compactions under way."""

import shutil
from pathlib import Path

import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError
from lance_ops.maintenance.compact.accuracy import ACCURACY_KEY, accuracy_text

STATE = Path(__file__).parents[2] / "fixtures" / "calibrated-0.1.0.zip"


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    shutil.unpack_archive(STATE, tmp_path)
    return tmp_path


def test_calibrated_costs_are_ignored_with_a_warning(tables):
    plan = lo.compact(tables / "plain", dry_run=True, target_rows_per_fragment=8)
    assert "lance_ops.compaction.costs" in plan.notes[0]
    # The calibration in the config puts two seconds around every run.
    assert plan.estimate.seconds < 1


def test_notes_of_estimates_are_read_on(tables):
    noted = [entry.properties for entry in lo.dataset(tables / "plain").history()]
    (text,) = [accuracy_text(item) for item in noted if ACCURACY_KEY in item]
    assert text.startswith("tasks took ")


def test_an_interrupted_compaction_is_continued(tables):
    done = lo.resume_job(tables / "plain", "nightly")
    assert (done.groups, done.groups_resumed) == (4, 2)
    assert lo.list_jobs(tables / "plain") == []


def test_a_compaction_with_a_budget_in_money_is_refused_and_can_be_begun_with_another(tables):
    with pytest.raises(InvalidArgumentError, match="budget_requests"):
        lo.resume_job(tables / "bounded", "nightly")
    done = lo.compact(tables / "bounded", target_rows_per_fragment=8, budget_requests=1000, job_key="nightly")
    assert done.fragments_removed == 8
    assert lo.list_jobs(tables / "bounded") == []
