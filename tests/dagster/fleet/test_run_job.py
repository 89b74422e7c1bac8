"""A fleet as one job: what is due is maintained, in steps for the Gantt chart, and failures stay apart."""

import os
import sys
from datetime import UTC, datetime, timedelta

import dagster as dg
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.dagster.dataset_ref import LanceDatasetRef
from lance_ops.dagster.factory import build_lance_definitions
from lance_ops.dagster.fleet import definitions as fleet_definitions
from lance_ops.dagster.fleet.definitions import build_fleet_definitions
from lance_ops.dagster.fleet.refs import asset_name, fleet_refs
from lance_ops.dagster.fleet.run_job import shares_of
from lance_ops.fleet.policy.load import parse_policy
from lance_ops.fleet.stores.opened import FleetDataset
from tests.support.dagster import STORE, Daemon, Told

POLICY = """
version: 1
mode: {mode}
stores:
  lake:
    root: {root}
    options: {{fsync: "false"}}
classes:
  default:
    max_small_fragments: 3
    owner: data team
  large:
    large_bytes: 1 kB
assign:
  - match: "big/*"
    class: large
"""


def fill(folder, *, fragments=6, first=0):
    for start in range(first, first + fragments):
        lo.append(
            str(folder), pa.table({"id": [start], "text": ["x" * 400]}), storage_options={"fsync": "false"}
        )


@pytest.fixture
def fleet(tmp_path):
    fill(tmp_path / "lake" / "one.lance")
    fill(tmp_path / "lake" / "two.lance")
    fill(tmp_path / "lake" / "big" / "three.lance")
    fill(tmp_path / "lake" / "calm.lance", fragments=1)
    return tmp_path / "lake"


def policy_of(fleet, mode="auto"):
    return parse_policy(POLICY.format(root=fleet, mode=mode))


def run(policy, instance, **config):
    definitions = build_fleet_definitions(policy, store=STORE)
    return definitions.get_job_def("lance_fleet_run").execute_in_process(
        run_config={"ops": {"plan_fleet": {"config": config}}}, instance=instance, raise_on_error=False
    )


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def kept_instance(tmp_path):
    """One with a home: what evaluates a schedule opens it anew."""
    with dg.DagsterInstance.local_temp(str(tmp_path)) as made:
        yield made


def fragments(fleet):
    names = ("one", "two", "big/three", "calm")
    return {name: len(lo.dataset(str(fleet / f"{name}.lance")).fragments) for name in names}


def test_a_run_maintains_what_is_due_and_nothing_else(fleet, instance):
    result = run(policy_of(fleet), instance)
    assert result.success
    assert fragments(fleet) == {"one": 1, "two": 1, "big/three": 1, "calm": 1}
    steps = {event.step_key for event in result.get_step_success_events()}
    assert steps == {"plan_fleet", "maintain[small]", "maintain[large_0]", "summarise_fleet"}
    (summary,) = [
        event.event_specific_data.metadata
        for event in result.filter_events(lambda e: e.is_successful_output)
        if event.step_key == "summarise_fleet"
    ]
    assert summary["lance/datasets"].value == 3
    assert summary["lance/failed"].value == 0
    again = run(policy_of(fleet), instance)
    assert {event.step_key for event in again.get_step_success_events()} == {"plan_fleet", "summarise_fleet"}


def test_a_dry_run_and_an_observed_fleet_change_nothing(fleet, instance):
    before = fragments(fleet)
    assert run(policy_of(fleet), instance, dry_run=True).success
    assert run(policy_of(fleet, "observe"), instance).success
    assert fragments(fleet) == before


def test_a_damaged_dataset_fails_the_summary_after_the_others_were_maintained(fleet, instance):
    for path in (fleet / "one.lance" / "data").glob("*.lance"):
        path.write_bytes(b"damage")
    result = run(policy_of(fleet), instance)
    assert not result.success
    assert fragments(fleet) == {"one": 6, "two": 1, "big/three": 1, "calm": 1}
    (failure,) = [event for event in result.all_events if event.event_type_value == "STEP_FAILURE"]
    assert failure.step_key == "summarise_fleet"
    assert "one.lance" in str(failure.event_specific_data.error)
    assert run(policy_of(fleet), instance, fail=False).success


def test_the_steps_keep_to_the_budget_that_the_plan_was_made_for(fleet, instance):
    for start in range(0, 1500, 250):
        text = [os.urandom(1200).hex() for _ in range(250)]
        lo.append(
            str(fleet / "big" / "four.lance"), pa.table({"id": range(start, start + 250), "text": text})
        )
    result = run(policy_of(fleet), instance, datasets=["big/four.lance"], budget="3 MB")
    assert result.success
    (summary,) = [
        event.event_specific_data.metadata
        for event in result.filter_events(lambda e: e.is_successful_output)
        if event.step_key == "summarise_fleet"
    ]
    assert 0 < summary["lance/bytes_moved"].value <= 3_300_000
    assert 1 < len(lo.dataset(str(fleet / "big" / "four.lance")).fragments) < 6


def test_only_named_datasets_are_taken(fleet, instance):
    assert run(policy_of(fleet), instance, datasets=["two.lance"], survey=True).success
    assert fragments(fleet) == {"one": 6, "two": 1, "big/three": 6, "calm": 1}


def test_datasets_are_assets_with_the_policy_of_their_class(fleet):
    policy = policy_of(fleet)
    definitions = build_fleet_definitions(policy, store=STORE)
    specs = {spec.key.to_user_string(): spec for spec in definitions.resolve_all_asset_specs()}
    assert set(specs) == {"one", "two", "big/three", "calm", "lance_fleet/report"}
    assert specs["big/three"].tags["lance/class"] == "large"
    assert specs["big/three"].owners == ["team:data_team"]
    assert "|max\\_small\\_fragments|3|" in specs["one"].metadata["lance/policy"].value
    assert specs["one"].automation_condition.get_label() == "schedule lance_fleet_when_due"
    dg.Definitions.validate_loadable(definitions)


@pytest.mark.parametrize(("mode", "starts"), [("auto", True), ("observe", False)])
def test_the_schedule_starts_runs_only_where_something_may_be_maintained(fleet, kept_instance, mode, starts):
    definitions = build_fleet_definitions(policy_of(fleet, mode), store=STORE)
    schedule = definitions.get_repository_def().get_schedule_def("lance_fleet_when_due")
    at = datetime(2026, 1, 1, tzinfo=UTC)
    with dg.build_schedule_context(instance=kept_instance, scheduled_execution_time=at) as context:
        tick = schedule.evaluate_tick(context)
    assert bool(tick.run_requests) is starts
    if not starts:
        assert "no class has the mode 'auto'" in tick.skip_message


def test_names_that_no_key_takes_are_told_apart():
    assert asset_name("sales/orders.lance") == "sales/orders"
    odd = [asset_name("sales/or ders.lance"), asset_name("sales/or+ders.lance")]
    assert len(set(odd)) == 2
    policy = parse_policy("version: 1\nstores: {lake: {root: /lake}}\n")
    names = ["a.b", "a_b", "a-b"]
    refs = fleet_refs(policy, [FleetDataset(name, "lake", name, f"/lake/{name}") for name in names])
    assert len({ref.slug for ref in refs.values()}) == len(names)


def test_secrets_of_a_store_stay_variables(monkeypatch):
    policy = parse_policy(
        "version: 1\nstores: {s: {root: 's3://b/x', options: {aws_secret_access_key: '${SECRET}', "
        "aws_region: eu}}}\n"
    )
    ref = fleet_refs(policy, [FleetDataset("t", "s", "t", "s3://b/x/t")])["t"]
    assert ref.storage_options["aws_secret_access_key"] == dg.EnvVar("SECRET")
    assert ref.storage_options["aws_region"] == "eu"


def test_overdue_large_datasets_have_the_first_steps(fleet, instance):
    from lance_ops.fleet.plan.model import FleetPlan, PlannedDataset

    def item(name, verdict, *, large):
        return PlannedDataset(
            dataset=name,
            store="s",
            path=name,
            uri=name,
            verdict=verdict,
            why="",
            operations=("compact",),
            mode="auto",
            large=large,
        )

    plan = FleetPlan(
        id="p",
        at=datetime.now(UTC),
        items=(
            item("a", "due", large=False),
            item("b", "due", large=True),
            item("c", "overdue", large=True),
            item("d", "overdue", large=False),
        ),
    )
    assert shares_of(plan) == [("large_0", ("c",)), ("small", ("a", "d")), ("large_1", ("b",))]


def test_the_report_tells_totals_the_worst_and_writes_one_file(fleet, tmp_path):
    file = tmp_path / "fleet.html"
    config = {"ops": {"lance_fleet__report": {"config": {"html": str(file)}}}}

    def report(instance):
        definitions = build_fleet_definitions(policy_of(fleet), store=STORE)
        result = definitions.resolve_implicit_global_asset_job_def().execute_in_process(
            run_config=config, instance=instance, asset_selection=[dg.AssetKey(["lance_fleet", "report"])]
        )
        (event,) = result.asset_materializations_for_node("lance_fleet__report")
        return event.metadata

    with dg.DagsterInstance.ephemeral() as instance:
        before = report(instance)
        assert run(policy_of(fleet), instance).success
        after = report(instance)
    assert (before["lance/datasets"].value, after["lance/datasets"].value) == (4, 4)
    assert before["lance/due"].value + before["lance/overdue"].value == 3
    assert after["lance/due"].value + after["lance/overdue"].value == 0
    assert after["lance/30d_moved"].value > 0
    first = before["lance/fleet"].value.splitlines()[2]
    assert "compact" in first
    assert "[big/three](/assets/big/three)" in before["lance/worst"].value
    assert "one.lance" in file.read_text()


def test_no_run_is_asked_for_while_one_waits(fleet, kept_instance):
    definitions = build_fleet_definitions(policy_of(fleet), store=STORE)
    schedule = definitions.resolve_schedule_def("lance_fleet_when_due")
    waiting = kept_instance.create_run_for_job(
        definitions.resolve_job_def("lance_fleet_run"), status=dg.DagsterRunStatus.NOT_STARTED
    )
    at = datetime(2026, 11, 1, tzinfo=UTC)
    with dg.build_schedule_context(instance=kept_instance, scheduled_execution_time=at) as context:
        assert schedule.evaluate_tick(context).run_requests == []
        kept_instance.report_run_canceled(waiting)
        assert len(schedule.evaluate_tick(context).run_requests) == 1


@pytest.mark.parametrize("kind", ["of another fleet", "never launched"])
def test_runs_that_wait_hold_up_no_other_fleet_and_none_for_ever(fleet, kept_instance, monkeypatch, kind):
    definitions = build_fleet_definitions(policy_of(fleet), store=STORE)
    schedule = definitions.resolve_schedule_def("lance_fleet_when_due")
    tags = {"lance_ops/fleet": "/another/fleet.yaml"} if kind == "of another fleet" else {}
    kept_instance.create_run_for_job(
        definitions.resolve_job_def("lance_fleet_run"), status=dg.DagsterRunStatus.NOT_STARTED, tags=tags
    )
    if not tags:
        monkeypatch.setattr(fleet_definitions, "_LONGEST_WAIT", timedelta(minutes=-1))
    at = datetime(2026, 11, 1, tzinfo=UTC)
    with dg.build_schedule_context(instance=kept_instance, scheduled_execution_time=at) as context:
        (asked,) = schedule.evaluate_tick(context).run_requests
        assert asked.tags["lance_ops/fleet"] == str(fleet)
        mine = definitions.resolve_job_def("lance_fleet_run")
        monkeypatch.undo()
        kept_instance.create_run_for_job(mine, status=dg.DagsterRunStatus.NOT_STARTED, tags=asked.tags)
        assert schedule.evaluate_tick(context).run_requests == []


def test_the_schedule_of_the_fleet_runs_from_the_start_when_the_code_says_so(fleet):
    for running in (False, True):
        definitions = build_fleet_definitions(policy_of(fleet), store=STORE, schedules_running=running)
        started = {
            item.name for item in definitions.schedules or () if item.default_status.value == "RUNNING"
        }
        # Those of single datasets would do the same work once more.
        assert started == ({"lance_fleet_when_due"} if running else set())


def test_a_run_of_a_fleet_of_another_code_location_is_told_there(fleet, instance):
    # What says where a run comes from has no public name in Dagster.
    run_module = sys.modules[dg.DagsterRun.__module__]
    origins = sys.modules[run_module.RemoteJobOrigin.__module__]
    told = Told()
    definitions = build_fleet_definitions(policy_of(fleet), store=STORE, notifier=told)
    job = definitions.resolve_job_def("lance_fleet_run")
    sensor = definitions.resolve_sensor_def("lance_fleet_failure_sensor")
    runs = {}
    for place in (("there", "repo"), ("here", "other"), ("here", "repo")):
        location, repository = place
        origin = origins.RemoteRepositoryOrigin(origins.RegisteredCodeLocationOrigin(location), repository)
        origin = origin.get_job_origin(job.name)
        run = instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, remote_job_origin=origin)
        instance.report_run_failed(run, "the process of the run ended")
        runs[place] = run.run_id
    context = dg.SensorEvaluationContext(
        instance_ref=None,
        last_tick_completion_time=None,
        last_run_key=None,
        cursor=None,
        repository_name="repo",
        code_location_origin=origins.RegisteredCodeLocationOrigin("here"),
        instance=instance,
        resources={},
    )
    sensor(context)
    assert [alert.run_id for alert in told.alerts] == [runs["here", "repo"]]


def test_a_run_of_the_fleet_that_fails_is_told(fleet, instance):
    told = Told()
    definitions = build_fleet_definitions(policy_of(fleet), store=STORE, notifier=told)
    job = definitions.resolve_job_def("lance_fleet_run")
    watch = Daemon(definitions.resolve_sensor_def("lance_fleet_failure_sensor"), instance, resources={})
    watch.tick()
    for path in (fleet / "one.lance" / "data").glob("*.lance"):
        path.write_bytes(b"damage")
    failed = job.execute_in_process(instance=instance, raise_on_error=False)
    # So ends one whose process was killed: no step says anything.
    died = instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED)
    instance.report_run_failed(died, "the process of the run ended")
    watch.tick()
    watch.tick()
    assert [(alert.job, alert.dataset, alert.run_id) for alert in told.alerts] == [
        ("lance_fleet_run", "lance_fleet_run", run_id) for run_id in (failed.run_id, died.run_id)
    ]
    assert "one.lance" in told.alerts[0].message
    assert told.alerts[0].uri == str(fleet)


def test_a_fleet_and_single_datasets_load_in_one_code_location(fleet, tmp_path):
    """Names of ops are unique in a code location: both maintain datasets, in jobs of their own."""
    single = LanceDatasetRef("single", str(tmp_path / "single.lance"))
    merged = dg.Definitions.merge(
        build_lance_definitions([single], store=STORE, prefix="own"),
        build_fleet_definitions(policy_of(fleet), store=STORE),
    )
    dg.Definitions.validate_loadable(merged)
    jobs = {job.name for job in merged.resolve_all_job_defs()}
    assert jobs >= {"lance_fleet_run", "lance_maintain", "own_lance_maintain"}
