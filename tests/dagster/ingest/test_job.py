"""Jobs and schedules of ingests, with what Dagster's own have: conditions, hooks, retries, code versions."""

from datetime import UTC, datetime

import dagster as dg
import pytest

from lance_ops.dagster import (
    LanceDatasetRef,
    LanceDatasetTranslator,
    LanceIngest,
    build_ingest_asset,
    build_ingest_job,
    build_ingest_schedule,
    build_lance_definitions,
)
from lance_ops.dagster import keys as names
from lance_ops.errors import InvalidArgumentError
from tests.support.tables import rows

DAYS = dg.DailyPartitionsDefinition(start_date="2024-05-01", timezone="Europe/Berlin")
CODES = dg.StaticPartitionsDefinition(["a", "b"])


@pytest.fixture
def ref(tmp_path):
    return LanceDatasetRef("numbers", str(tmp_path / "numbers.lance"))


def ten_rows(request):
    del request
    return rows(0, 10)


@pytest.fixture(scope="module")
def tick():
    """Evaluates a schedule; Dagster opens its instance again there, so one of a folder."""
    with dg.DagsterInstance.local_temp() as instance:

        def evaluate(schedule, at):
            with dg.build_schedule_context(instance, scheduled_execution_time=at) as context:
                return schedule(context)

        yield evaluate


def test_a_schedule_of_an_ingest_loads_the_newest_complete_day_once(ref, tick):
    ingest = LanceIngest(ref, ten_rows, partitions=DAYS, partition_column="day", cron_schedule="15 0 * * *")
    schedule = build_ingest_schedule(ingest)
    assert (schedule.name, schedule.job_name) == ("numbers_ingest_schedule", "numbers_ingest_job")
    assert schedule.execution_timezone == "Europe/Berlin"
    (request,) = tick(schedule, datetime(2024, 5, 2, 22, 15, tzinfo=UTC))
    assert (request.partition_key, request.run_key) == ("2024-05-02", "2024-05-02")
    assert request.tags[names.DATASET_TAG] == "numbers"
    early = tick(schedule, datetime(2024, 4, 30, 22, 15, tzinfo=UTC))
    assert isinstance(early, dg.SkipReason)
    assert "no complete partition" in early.skip_message


@pytest.mark.parametrize(
    ("partitions", "wanted"),
    [
        (None, [(None, None)]),
        (CODES, [("a", None), ("b", None)]),
        (
            dg.MultiPartitionsDefinition({"day": DAYS, "code": CODES}),
            [("a|2024-05-02", "a|2024-05-02"), ("b|2024-05-02", "b|2024-05-02")],
        ),
    ],
    ids=["none", "static", "days of codes"],
)
def test_a_schedule_asks_for_what_its_partitions_have_to_load(ref, tick, partitions, wanted):
    schedule = build_ingest_schedule(
        LanceIngest(ref, ten_rows, partitions=partitions), cron_schedule="@daily", name="nightly"
    )
    assert schedule.name == "nightly"
    requests = tick(schedule, datetime(2024, 5, 3, tzinfo=UTC))
    assert [(request.partition_key, request.run_key) for request in requests] == wanted


def test_a_schedule_needs_its_times(ref):
    with pytest.raises(InvalidArgumentError, match="has no cron_schedule"):
        build_ingest_schedule(LanceIngest(ref, ten_rows))


def test_ingests_are_loaded_on_time_by_the_definitions_and_by_a_schedule_of_dagster(ref):
    ingest = LanceIngest(
        ref,
        ten_rows,
        partitions=DAYS,
        partition_column="day",
        cron_schedule="15 0 * * *",
        automation_condition=dg.AutomationCondition.on_missing(),
    )
    nightly = dg.build_schedule_from_partitioned_job(build_ingest_job(ingest, name="nightly"))
    defs = dg.Definitions.merge(
        build_lance_definitions([ref], ingests=[ingest], running=True, schedules_running=True),
        dg.Definitions(schedules=[nightly]),
    )
    dg.Definitions.validate_loadable(defs)
    schedule = defs.resolve_schedule_def("numbers_ingest_schedule")
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING
    sensor = defs.resolve_sensor_def("lance_ingest_automation_sensor")
    assert sensor.default_status is dg.DefaultSensorStatus.RUNNING


def test_an_ingest_has_what_an_asset_of_dagster_has(ref):
    condition = dg.AutomationCondition.on_missing()

    @dg.failure_hook
    def tell(context):
        seen.append(("failed", context.op.name))

    @dg.success_hook
    def celebrate(context):
        seen.append(("loaded", context.op.name))

    attempts: list[int] = []

    def unsteady(request):
        attempts.append(1)
        if len(attempts) < 4:
            raise OSError("not yet")
        return ten_rows(request)

    seen: list[tuple[str, str]] = []
    ingest = LanceIngest(
        ref,
        unsteady,
        automation_condition=condition,
        code_version="7",
        retry_policy=dg.RetryPolicy(max_retries=2),
        hooks={tell, celebrate},
        op_name="load",
        op_tags={"size": "small"},
        pool="loads",
    )
    asset = build_ingest_asset(ingest)
    spec = asset.specs_by_key[ingest.key]
    assert (spec.automation_condition, spec.code_version) == (condition, "7")
    assert (asset.op.name, asset.op.pool, asset.op.tags["size"]) == ("load", "loads", "small")
    defs = build_lance_definitions([ref], ingests=[ingest])
    job = defs.resolve_job_def("numbers_ingest_job")
    with dg.DagsterInstance.ephemeral() as instance:
        failed = job.execute_in_process(instance=instance, raise_on_error=False)
        assert not failed.success
        assert len(attempts) == 3
        assert job.execute_in_process(instance=instance).success
    assert seen == [("failed", "load"), ("loaded", "load")]


def test_a_job_of_an_ingest_has_hooks_tags_and_config_of_its_own(ref):
    seen: list[str] = []

    @dg.success_hook
    def celebrate(context):
        seen.append(context.op.name)

    ingest = LanceIngest(ref, ten_rows)
    job = build_ingest_job(
        ingest,
        name="nightly",
        description="At night.",
        tags={"team": "sales"},
        hooks={celebrate},
        config={"ops": {"numbers_ingest": {"config": {"rerun_token": "x"}}}},
    )
    defs = dg.Definitions.merge(build_lance_definitions([ref], ingests=[ingest]), dg.Definitions(jobs=[job]))
    resolved = defs.resolve_job_def("nightly")
    assert resolved.description == "At night."
    with dg.DagsterInstance.ephemeral() as instance:
        done = resolved.execute_in_process(instance=instance)
    assert done.dagster_run.tags.items() >= {"team": "sales", names.DATASET_TAG: "numbers"}.items()
    assert seen == ["numbers_ingest"]


def test_maintenance_jobs_have_hooks_and_retries(ref):
    seen: list[str] = []

    @dg.failure_hook
    def tell(context):
        seen.append(context.op.name)

    defs = build_lance_definitions([ref], hooks={tell}, op_retry_policy=dg.RetryPolicy(max_retries=0))
    with dg.DagsterInstance.ephemeral() as instance:
        done = defs.resolve_job_def("lance_compact").execute_in_process(
            instance=instance, partition_key="numbers", raise_on_error=False
        )
    assert not done.success
    assert seen == ["compact"]


def test_a_translator_says_how_an_ingest_looks_and_changes_no_key(ref):
    class Ours(LanceDatasetTranslator):
        def get_ingest_spec(self, ingest):
            return super().get_ingest_spec(ingest).replace_attributes(owners=["team:ours"], key=self.key)

        key = "numbers_ingest"

    ingest = LanceIngest(ref, ten_rows)
    defs = build_lance_definitions([ref], ingests=[ingest], translator=Ours())
    (spec,) = [spec for spec in defs.resolve_all_asset_specs() if spec.key == ingest.key]
    assert spec.owners == ["team:ours"]
    Ours.key = "other"
    with pytest.raises(
        InvalidArgumentError, match="the translator changed the key of numbers_ingest to other"
    ):
        build_lance_definitions([ref], ingests=[ingest], translator=Ours())


def test_execute_has_to_return_what_was_loaded(ref):
    ingest = LanceIngest(ref, ten_rows, execute=lambda _, load: load().asset_key)
    job = build_lance_definitions([ref], ingests=[ingest]).resolve_job_def("numbers_ingest_job")
    with dg.DagsterInstance.ephemeral() as instance:
        done = job.execute_in_process(instance=instance, raise_on_error=False)
    assert not done.success
    (event,) = [event for event in done.all_events if event.event_type_value == "STEP_FAILURE"]
    assert "must return a MaterializeResult" in event.step_failure_data.user_failure_data.description
