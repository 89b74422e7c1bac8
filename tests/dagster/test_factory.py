import warnings
from pathlib import Path

import dagster as dg
import pytest

from lance_ops.dagster import (
    LanceDatasetRef,
    LanceDatasetTranslator,
    LanceDownstream,
    LanceIngest,
    LanceStoreResource,
    build_lance_assets,
    build_lance_definitions,
    keys,
)
from lance_ops.errors import InvalidArgumentError
from tests.support.tables import rows


@dg.job
def recompute():
    pass


def build(tmp_path, **options):
    refs = [
        LanceDatasetRef("flights", str(tmp_path / "flights.lance"), owners=["team:data"], tags={"tier": "1"}),
        LanceDatasetRef("warehouse/weather", str(tmp_path / "weather.lance")),
    ]
    ingest = LanceIngest(refs[0], lambda request: rows(0, 1), deps=["raw_flights"])
    return build_lance_definitions(
        refs, ingests=[ingest], downstream=[LanceDownstream(recompute, ["flights"])], **options
    )


def test_definitions_load(tmp_path):
    defs = build(tmp_path)
    dg.Definitions.validate_loadable(defs)
    assert {job.name for job in defs.resolve_all_job_defs()} >= {
        "flights_ingest_job",
        "lance_append",
        "lance_delete",
        "lance_compact",
        "lance_compact_wal",
        "lance_index",
        "lance_add_columns",
        "lance_cleanup",
    }
    assert {sensor.name for sensor in defs.sensors} == {
        "lance_manifest_sensor",
        "lance_failure_alert_sensor",
        "lance_check_alert_sensor",
        "lance_retry_sensor",
    }
    assert len(defs.schedules) == 3


def test_the_dataset_is_downstream_of_its_ingest(tmp_path):
    graph = build(tmp_path).resolve_asset_graph()
    flights = graph.get(dg.AssetKey("flights"))
    assert flights.parent_keys == {dg.AssetKey("flights_ingest")}
    assert graph.get(dg.AssetKey("flights_ingest")).parent_keys == {dg.AssetKey("raw_flights")}
    assert not flights.is_partitioned
    assert not flights.is_executable


def test_specs_say_what_there_is_to_say(tmp_path):
    specs = {spec.key.to_user_string(): spec for spec in build(tmp_path).resolve_all_asset_specs()}
    flights = specs["flights"]
    assert flights.kinds == {"lance"}
    assert flights.description
    assert list(flights.owners) == ["team:data"]
    assert flights.tags["tier"] == "1"
    assert "|max\\_small\\_fragments|20|" in flights.metadata["lance/policy"].value
    assert flights.automation_condition.get_label() == "schedules lance_*_when_due"
    assert specs["warehouse/weather"].group_name == "warehouse"


def test_kinds_and_texts_are_those_of_the_dataset_and_of_what_an_ingest_does(tmp_path):
    ref = LanceDatasetRef("flights", str(tmp_path / "x"), kinds=frozenset({"lance", "pyspark"}))
    ingests = [LanceIngest(ref, list), LanceIngest(ref, list, name="own", kinds=frozenset({"polars"}))]
    specs = {
        spec.key.to_user_string(): spec
        for asset in build_lance_assets([ref], ingests=ingests)
        for spec in (asset.specs if isinstance(asset, dg.AssetsDefinition) else [asset])
    }
    assert specs["flights"].kinds == specs["flights_ingest"].kinds == {"lance", "pyspark"}
    assert specs["own"].kinds == {"polars"}
    # Brackets around a name would be a link to nowhere.
    assert specs["own"].description == "Appends to flights: each partition exactly once."


def test_nothing_runs_from_the_start_unless_asked(tmp_path):
    stopped, running = dg.DefaultSensorStatus.STOPPED, dg.DefaultSensorStatus.RUNNING
    assert {sensor.default_status for sensor in build(tmp_path).sensors} == {stopped}
    assert {sensor.default_status for sensor in build(tmp_path, running=True).sensors} == {running}
    for schedule in build(tmp_path, running=True).schedules:
        assert schedule.default_status is dg.DefaultScheduleStatus.STOPPED


def test_a_translator_has_the_last_word(tmp_path):
    class Ours(LanceDatasetTranslator):
        def get_asset_spec(self, ref):
            return super().get_asset_spec(ref).replace_attributes(group_name="ours")

    ref = LanceDatasetRef("flights", str(tmp_path / "x"))
    (spec,) = build_lance_assets([ref], translator=Ours())
    assert spec.group_name == "ours"


def test_no_beta_of_dagster_is_used(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dg.Definitions.validate_loadable(build(tmp_path))


def test_the_instance_settings_are_accepted_by_dagster(tmp_path, monkeypatch):
    source = Path(__file__).parents[2] / "dagster_home" / "dagster.yaml"
    (tmp_path / "dagster.yaml").write_text(source.read_text())
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    with dg.DagsterInstance.get() as instance:
        concurrency = instance.get_concurrency_config()
        assert concurrency.pool_config.default_pool_limit == 1
        limits = concurrency.run_queue_config.tag_concurrency_limits
        assert [limit["key"] for limit in limits] == [keys.DATASET_TAG, keys.DOWNSTREAM_TAG]
        assert all(limit["value"] == {"applyLimitPerUniqueValue": True} for limit in limits)
        assert {limit["limit"] for limit in limits} == {1}
        assert not instance.telemetry_enabled


def two_teams(tmp_path, monkeypatch):
    """Two calls of the factory with a store each, and one dataset with options of its own."""
    eu = LanceDatasetRef("eu/events", str(tmp_path / "eu.lance"))
    us = LanceDatasetRef(
        "us/events", str(tmp_path / "us.lance"), storage_options={"fsync": dg.EnvVar("US_FSYNC")}
    )
    stores = [LanceStoreResource(storage_options={"fsync": "true"}, threads=1) for _ in range(2)]
    calls = [
        build_lance_definitions(
            [ref],
            store=store,
            prefix=prefix,
            ingests=[LanceIngest(ref, lambda request: rows(0, 10))],
            downstream=[LanceDownstream(recompute, [ref.name])] if prefix == "eu" else (),
        )
        for prefix, ref, store in zip(("eu", "us"), (eu, us), stores, strict=True)
    ]
    return eu, us, dg.Definitions.merge(*calls, dg.Definitions(jobs=[recompute]))


def test_two_calls_of_the_factory_live_in_one_code_location(tmp_path, monkeypatch):
    from lance_ops.spark.submitted import operations as module

    eu, us, defs = two_teams(tmp_path, monkeypatch)
    monkeypatch.setenv("US_FSYNC", "false")
    dg.Definitions.validate_loadable(defs)
    names = {job.name for job in defs.resolve_all_job_defs()}
    assert names >= {"eu_lance_compact", "us_lance_compact", "eu_events_ingest_job", "us_events_ingest_job"}
    seen = {}
    original = module.compact

    def compact(uri, **options):
        seen[uri] = options["storage_options"]
        return original(uri, **options)

    monkeypatch.setattr(module, "compact", compact)
    with dg.DagsterInstance.ephemeral() as instance:
        for prefix, ref in (("eu", eu), ("us", us)):
            for name, partition in (
                (f"{prefix}_events_ingest_job", None),
                (f"{prefix}_lance_compact", ref.name),
            ):
                job = defs.resolve_job_def(name)
                assert job.execute_in_process(instance=instance, partition_key=partition).success
            sensor = defs.resolve_sensor_def(f"{prefix}_lance_manifest_sensor")
            with dg.build_sensor_context(
                instance=instance, definitions=defs, resources=defs.resources, sensor_name=sensor.name
            ) as context:
                assert isinstance(sensor(context), dg.SensorResult)
            assert instance.get_latest_materialization_event(ref.key) is not None
    assert seen == {eu.uri: {"fsync": "true"}, us.uri: {"fsync": "false"}}


def test_a_variable_that_is_not_set_is_named_and_no_option_is_shown(tmp_path, monkeypatch):
    monkeypatch.delenv("US_FSYNC", raising=False)
    _, us, _ = two_teams(tmp_path, monkeypatch)
    with pytest.raises(InvalidArgumentError, match="US_FSYNC"):
        LanceStoreResource().open(us)
    secret = LanceDatasetRef("t", str(tmp_path / "t"), storage_options={"key": "hush"})
    assert "hush" not in repr(secret)


@pytest.mark.parametrize("prefix", ["a b", "a-b", "a/b"])
def test_a_prefix_that_dagster_would_not_take_is_refused(tmp_path, prefix):
    with pytest.raises(InvalidArgumentError, match="prefix"):
        build(tmp_path, prefix=prefix)
