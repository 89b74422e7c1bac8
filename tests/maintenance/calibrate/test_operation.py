"""Calibration: what it measures, keeps and leaves."""

import json
from pathlib import Path

import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError
from lance_ops.maintenance.calibrate.operation import calibrate
from lance_ops.maintenance.calibrate.probes import PROBES, smaller
from lance_ops.maintenance.compact.accuracy import ACCURACY_KEY, learn_costs
from lance_ops.maintenance.compact.cost_store import CONFIG_KEY, costs_of
from lance_ops.maintenance.compact.costs import TaskCosts
from tests.support.commands import lance_ops, lance_ops_json
from tests.support.interop import our_dataset

FEW = [probe for probe in smaller(0.002) if probe.name in ("one task", "numbers", "texts, some deleted")]


@pytest.fixture(autouse=True)
def own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LANCE_OPS_COSTS", str(tmp_path / "kept" / "costs.json"))
    return tmp_path / "kept" / "costs.json"


def ticking():
    """A clock on which everything takes a tenth of a second."""
    now = 0.0
    while True:
        now += 0.1
        yield now


def test_a_calibration_leaves_a_model_and_nothing_else(tmp_path: Path, own_file: Path):
    our_dataset(tmp_path / "t", [5, 5])
    before = sorted(path for path in (tmp_path / "t").rglob("*"))
    clock = ticking()
    done = calibrate(tmp_path / "t", repeats=1, probes=FEW, clock=lambda: next(clock))
    assert sorted(path for path in (tmp_path / "t").rglob("*")) == before
    assert lo.dataset(tmp_path / "t").version == 2
    assert {task.method for task in done.tasks} == {"copy", "rewrite"}
    assert all(task.measured == pytest.approx(0.1) for task in done.tasks)
    assert done.median_error is not None
    assert done.median_error < 0.25
    assert json.loads(own_file.read_text())["file"]["rewrite"] == done.costs.to_dict()["rewrite"]
    costs, warnings = costs_of(lo.dataset(tmp_path / "t"))
    assert (costs.rewrite, costs.source, warnings) == (done.costs.rewrite, "the calibration of file", ())
    plan = lo.compact(tmp_path / "t", dry_run=True)
    assert "expected, by the calibration of file: " in str(plan)
    assert plan.estimate.seconds > 0.05


def test_a_calibration_tells_what_indices_and_the_work_around_tasks_take(tmp_path: Path):
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 0.1
        return now

    done = calibrate(tmp_path, repeats=1, probes=FEW, clock=clock, save="none")
    # All takes the same time on this clock: nothing is around the tasks, and no index can be told apart.
    assert (done.costs.run, done.costs.index) == (0.0, lo.CostModel().index)
    assert not list(tmp_path.glob("_lance_ops*"))
    real = calibrate(tmp_path, repeats=1, probes=FEW, save="none")
    assert 0 < real.costs.index < 1000
    assert not list(tmp_path.glob("_lance_ops*"))


def test_notes_of_releases_without_a_unit_still_teach():
    units = dict.fromkeys(TaskCosts.names(), 1.0)
    del units["filtered_vector_byte"]
    noted = {ACCURACY_KEY: json.dumps({"copy": {"planned": 1.0, "measured": 2.0, "units": units}})}
    costs, counts = learn_costs(lo.CostModel(), [noted] * 3)
    assert counts == {"copy": 3}
    assert costs.copy.group > 100 * lo.CostModel().copy.group


def test_a_table_may_keep_a_model_of_its_own(tmp_path: Path, own_file: Path):
    our_dataset(tmp_path / "t", [5, 5])
    done = calibrate(tmp_path / "t", save="table", repeats=1, probes=FEW)
    assert not own_file.exists()
    assert done.version == 3
    costs, _ = costs_of(lo.dataset(tmp_path / "t"))
    assert costs.copy == done.costs.copy
    assert costs.source == "the config of the table"


def test_what_cannot_be_read_of_a_model_is_said_and_the_next_is_taken(tmp_path: Path, own_file: Path):
    our_dataset(tmp_path / "t", [5, 5])
    lo.update_config(tmp_path / "t", {CONFIG_KEY: '{"run": -1}'})
    own_file.parent.mkdir()
    own_file.write_text("[")
    plan = lo.compact(tmp_path / "t", dry_run=True)
    assert [CONFIG_KEY in note or "costs.json" in note for note in plan.notes] == [True, True]
    assert plan.estimate.source == "the defaults"
    assert lo.compact(tmp_path / "t").changed


def test_earlier_compactions_of_a_table_teach_its_model(tmp_path: Path):
    our_dataset(tmp_path / "t", [4, 4])
    slow = lo.CostModel.from_dict({"rewrite": dict.fromkeys(("group", "file"), 9.0)})
    for _ in range(3):
        done = lo.compact(tmp_path / "t", costs=slow, method="rewrite")
        assert done.task_seconds_planned > 9 > done.task_seconds > 0
        assert done.estimate_error == pytest.approx(done.seconds / done.seconds_planned - 1)
        our_rows = lo.dataset(tmp_path / "t").to_table()
        lo.append(tmp_path / "t", our_rows)
    learned = calibrate(tmp_path / "t", from_history=True, save="none")
    assert dict(learned.learned_from) == {"rewrite": 3}
    assert learned.costs.source == "3 earlier compactions"
    plan = lo.compact(tmp_path / "t", costs=learned.costs, dry_run=True, method="rewrite")
    assert plan.estimate.task_seconds == pytest.approx(done.task_seconds, rel=5)
    history = lance_ops("history", tmp_path / "t").stdout
    assert history.count(" expected") == 3


def test_nothing_is_learned_from_a_table_that_was_never_compacted(tmp_path: Path, own_file: Path):
    our_dataset(tmp_path / "t", [4, 4])
    done = calibrate(tmp_path / "t", from_history=True)
    assert "nothing to learn from" in str(done)
    assert not own_file.exists()


def test_the_command_learns_and_tells(tmp_path: Path):
    our_dataset(tmp_path / "t", [4, 4])
    lo.compact(tmp_path / "t")
    values = lance_ops_json("calibrate", tmp_path / "t", "--from-history", "--save", "none")
    assert (values["operation"], values["tasks"], values["learned_from"]) == ("calibrate", [], {})
    with pytest.raises(InvalidArgumentError, match="save"):
        calibrate(tmp_path / "t", save="somewhere")


def test_the_probes_differ_and_are_small():
    assert len({probe.name for probe in PROBES}) == len(PROBES)
    assert sum(probe.files * probe.rows for probe in PROBES) < 4_000_000
