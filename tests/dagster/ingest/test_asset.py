import dagster as dg
import pyarrow as pa
import pytest

from lance_ops.dagster import LanceDatasetRef, LanceIngest, build_ingest_asset
from lance_ops.dagster.ingest.job import build_ingest_job
from lance_ops.errors import RetryableCommitConflictError
from lance_ops.maintenance.cleanup.operation import cleanup
from lance_ops.table.dataset import Dataset
from tests.support.dagster import (
    STORE,
    WITHOUT_INDEX,
    evaluations,
    failure_of,
    materializations,
    published_versions,
    write,
)
from tests.support.tables import rows

MONTHS = dg.MonthlyPartitionsDefinition(start_date="2013-01-01", end_date="2014-01-01")


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def ref(tmp_path):
    return LanceDatasetRef("numbers", str(tmp_path / "numbers.lance"))


def month_rows(request):
    month = request.time_window.start.month
    return rows(month * 10, month * 10 + 10)


def load(ingest, instance, partition=None, *, token="", store=STORE, **config):
    run_config = {"ops": {ingest.asset_name: {"config": {"rerun_token": token, **config}}}}
    return dg.materialize(
        [build_ingest_asset(ingest)],
        partition_key=partition,
        instance=instance,
        resources={"lance_store": store},
        run_config=run_config,
        raise_on_error=False,
    )


def test_a_partition_is_appended_and_the_version_published(ref, instance):
    ingest = LanceIngest(ref, month_rows, partitions=MONTHS)

    first = load(ingest, instance, "2013-01-01")
    second = load(ingest, instance, "2013-02-01")

    assert first.success
    assert second.success
    assert sorted(Dataset.open(ref.uri).to_table()["a"].to_pylist()) == list(range(10, 30))
    assert published_versions(instance, ref) == [1, 2]
    assert len(evaluations(second)) == len(WITHOUT_INDEX) + 1
    assert evaluations(second)["rows_loaded"].passed
    (event,) = [
        m for m in second.asset_materializations_for_node("numbers_ingest") if m.asset_key == ingest.key
    ]
    assert event.partition == "2013-02-01"
    assert event.metadata["dagster/partition_row_count"].value == 10
    assert event.metadata["lance/version"].value == 2
    # The dataset's own event belongs to no partition.
    assert materializations(instance, ref)[-1].partition is None
    assert Dataset.open(ref.uri).read_transaction().properties["dagster.partition"] == "2013-02-01"


def test_a_partition_launched_again_adds_nothing(ref, instance):
    ingest = LanceIngest(ref, month_rows, partitions=MONTHS)
    load(ingest, instance, "2013-01-01")

    again = load(ingest, instance, "2013-01-01")

    assert again.success
    assert Dataset.open(ref.uri).count_rows() == 10
    assert published_versions(instance, ref) == [1]
    events = instance.fetch_materializations(ingest.key, limit=10).records
    versions = {record.asset_materialization.tags["dagster/data_version"] for record in events}
    assert len(events) == 2
    assert len(versions) == 1


def test_a_token_forces_a_partition_once_more(ref, instance):
    ingest = LanceIngest(ref, month_rows, partitions=MONTHS)
    load(ingest, instance, "2013-01-01")

    assert load(ingest, instance, "2013-01-01", token="correction").success
    assert Dataset.open(ref.uri).count_rows() == 20
    assert load(ingest, instance, "2013-01-01", token="correction").success
    assert Dataset.open(ref.uri).count_rows() == 20


def test_another_instance_finds_the_commit_in_the_dataset(ref, instance):
    ingest = LanceIngest(ref, month_rows, partitions=MONTHS)
    load(ingest, instance, "2013-01-01")

    with dg.DagsterInstance.ephemeral() as other:
        assert load(ingest, other, "2013-01-01").success

    assert Dataset.open(ref.uri).count_rows() == 10


def test_a_partition_is_remembered_when_its_version_is_cleaned_away(ref, instance):
    from datetime import timedelta

    ingest = LanceIngest(ref, month_rows, partitions=MONTHS)
    load(ingest, instance, "2013-01-01")
    load(ingest, instance, "2013-02-01")
    cleanup(ref.uri, older_than=timedelta(0), retain_versions=1)
    assert len(Dataset.open(ref.uri).versions()) == 1

    assert load(ingest, instance, "2013-01-01").success

    assert Dataset.open(ref.uri).count_rows() == 20


def test_a_dataset_made_anew_is_filled_again(ref, instance):
    import shutil

    ingest = LanceIngest(ref, month_rows, partitions=MONTHS)
    for month in ("2013-01-01", "2013-02-01"):
        load(ingest, instance, month)
    shutil.rmtree(ref.uri)

    assert load(ingest, instance, "2013-02-01").success

    assert Dataset.open(ref.uri).to_table()["a"].to_pylist() == list(range(20, 30))


def test_without_partitions_every_materialization_appends(ref, instance):
    ingest = LanceIngest(ref, lambda request: rows(0, 5))
    assert load(ingest, instance).success
    assert load(ingest, instance).success
    assert Dataset.open(ref.uri).count_rows() == 10


def test_an_overwriting_ingest_replaces_everything(ref, instance):
    write(ref.uri, 0, 100)
    ingest = LanceIngest(ref, lambda request: rows(0, 5), mode="overwrite")
    assert load(ingest, instance).success
    assert Dataset.open(ref.uri).count_rows() == 5


def test_a_source_may_be_files(tmp_path, ref, instance):
    import pyarrow.parquet as pq

    pq.write_table(rows(0, 5), tmp_path / "x.parquet")
    ingest = LanceIngest(ref, lambda request: [str(tmp_path / "x.parquet")])
    assert load(ingest, instance).success
    assert Dataset.open(ref.uri).count_rows() == 5


def test_rows_that_do_not_fit_fail_with_every_mismatch(ref, instance):
    write(ref.uri, 0, 5)
    ingest = LanceIngest(ref, lambda request: pa.table({"a": ["text"], "c": [1]}))

    result = load(ingest, instance)

    description, _ = failure_of(result)
    assert "a" in description
    assert "c" in description
    assert Dataset.open(ref.uri).version == 1


def test_a_conflict_is_retried(monkeypatch, ref, instance):
    from lance_ops.spark import row_writer as module

    original, calls = module.write_dataset, []

    def once_in_the_way(*args, **options):
        calls.append(options["job_key"])
        if len(calls) == 1:
            raise RetryableCommitConflictError("in the way", ours="Append", theirs="Overwrite", version=1)
        return original(*args, **options)

    monkeypatch.setattr(module, "write_dataset", once_in_the_way)
    ingest = LanceIngest(ref, month_rows, partitions=MONTHS)

    assert load(ingest, instance, "2013-01-01", conflict_pause_seconds=0.0).success
    assert len(calls) == 2
    assert len(set(calls)) == 1


def test_the_job_of_an_ingest_carries_the_tag_that_limits_concurrency(ref):
    job = build_ingest_job(LanceIngest(ref, month_rows, partitions=MONTHS))
    assert job.name == "numbers_ingest_job"
    assert job.tags == {"lance_ops/dataset": "numbers"}


@pytest.mark.parametrize("column", ["t", "order", "Column with spaces"])
def test_rows_of_an_hour_that_clocks_show_twice_are_there_once_whatever_the_order(ref, instance, column):
    hours = dg.HourlyPartitionsDefinition(
        "2024-10-27-01:00", end_date="2024-10-27-04:00", timezone="Europe/Berlin"
    )
    shown = pa.array([f"2024-10-27T0{hour}:{minute}0" for hour in (1, 2, 2, 3) for minute in range(6)])
    everything = pa.table({column: shown.cast(pa.timestamp("us")), "n": range(24)})

    def source(request):
        low, high = request.wall_clock_window
        times = everything[column].to_pylist()
        return everything.filter(pa.array([low <= time < high for time in times]))

    ingest = LanceIngest(ref, source, partitions=hours, partition_column=column)
    keys = hours.get_partition_keys()
    assert len(keys) == 4
    for key in [*keys, *reversed(keys), *keys]:
        assert load(ingest, instance, key).success
    assert sorted(Dataset.open(ref.uri).to_table()["n"].to_pylist()) == list(range(24))


def test_rows_of_the_hour_shown_again_are_refused_in_its_own_partition(ref, instance):
    hours = dg.HourlyPartitionsDefinition(
        "2024-10-27-01:00", end_date="2024-10-27-04:00", timezone="Europe/Berlin"
    )
    row = pa.table({"t": pa.array(["2024-10-27T02:30"]).cast(pa.timestamp("us"))})
    ingest = LanceIngest(ref, lambda _request: row, partitions=hours, partition_column="t")
    assert load(ingest, instance, "2024-10-27-02:00").success
    again = load(ingest, instance, "2024-10-27-02:00+0100")
    assert not again.success
    assert "do not match" in failure_of(again)[0]
    assert Dataset.open(ref.uri).count_rows() == 1


def test_the_time_of_a_partition_of_several_dimensions_is_told(ref, instance):
    days = dg.DailyPartitionsDefinition("2024-03-01", end_date="2024-03-04")
    grid = dg.MultiPartitionsDefinition({"shop": dg.StaticPartitionsDefinition(["a", "b"]), "day": days})
    asked = []

    def source(request):
        asked.append(request.time_window.start.date().isoformat())
        return pa.table({"day": [request.time_window.start.date()], "shop": ["b"]})

    columns = {"day": "day", "shop": "shop"}
    ingest = LanceIngest(ref, source, partitions=grid, partition_column=columns)
    assert load(ingest, instance, dg.MultiPartitionKey({"day": "2024-03-02", "shop": "b"})).success
    assert asked == ["2024-03-02"]
