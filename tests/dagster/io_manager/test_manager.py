"""Assets that are datasets: written and read through the IO manager, each version one event, in order."""

import dagster as dg
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.dagster import LanceDatasetRef, LanceIOManager, build_lance_definitions, last_published
from lance_ops.dagster.sensor.manifest_sensor import build_manifest_sensor
from lance_ops.table.dataset import Dataset
from tests.support.dagster import STORE, Daemon, checks_of, versions_of

DAYS = dg.StaticPartitionsDefinition(["mon", "tue"])
MONTHS = dg.MonthlyPartitionsDefinition("2024-01-01", end_date="2024-05-01")


@pytest.fixture
def manager(tmp_path):
    return LanceIOManager(root=str(tmp_path), store=STORE)


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def run(assets, manager, instance, **options):
    return dg.materialize(assets, instance=instance, resources={"io_manager": manager}, **options)


def ids(path, **options):
    return sorted(Dataset.open(str(path), **options).to_table(["id"])["id"].to_pylist())


def fails_with(error):
    """The error of ours behind a failed run."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error)


def test_what_an_asset_returns_is_a_version_and_its_event_that_of_the_version(tmp_path, manager, instance):
    @dg.asset
    def prices():
        return pa.table({"id": [1, 2, 3]})

    result = run([prices], manager, instance)
    assert ids(tmp_path / "prices.lance") == [1, 2, 3]
    dataset = Dataset.open(str(tmp_path / "prices.lance"))
    (event,) = result.asset_materializations_for_node("prices")
    assert event.metadata["lance/published_version"].value == dataset.version == 1
    assert event.metadata["dagster/row_count"].value == 3
    assert event.tags["dagster/data_version"] == dataset.data_version
    published = last_published(instance, prices.key)
    assert (published.version, published.data_version) == (1, dataset.data_version)
    assert published.transaction_uuid == dataset.read_transaction().uuid
    run([prices], manager, instance)
    assert ids(tmp_path / "prices.lance") == [1, 2, 3], "an asset without partitions is replaced as a whole"


@pytest.mark.parametrize(
    ("kind", "is_it"),
    [
        (pa.Table, pa.Table),
        (pa.RecordBatchReader, pa.RecordBatchReader),
        (pd.DataFrame, pd.DataFrame),
        (pl.DataFrame, pl.DataFrame),
        (pl.LazyFrame, pl.LazyFrame),
        (lo.Dataset, lo.Dataset),
        (Dataset, Dataset),
    ],
)
def test_an_input_has_the_type_of_its_parameter(manager, instance, kind, is_it):
    met = []

    @dg.asset
    def prices() -> pl.DataFrame:
        return pl.DataFrame({"id": [1, 2]})

    def sums(prices):
        met.append(prices)
        return pd.DataFrame({"id": [3]})

    sums.__annotations__ = {"prices": kind}
    assert run([prices, dg.asset(sums)], manager, instance).success
    assert isinstance(met[0], is_it)


def test_a_frame_keeps_categories_nullable_types_and_a_named_index(manager, instance):
    frame = pd.DataFrame(
        {
            "level": pd.Categorical(["low", None, "low"], ["low", "high", "unused"]),
            "whole": pd.array([2**53 + 1, None, 3], "Int64"),
            "flag": pd.array([True, None, False], "boolean"),
        },
        index=pd.Index([7, 5, 6], name="id"),
    )
    met = []

    @dg.asset
    def prices() -> pd.DataFrame:
        return frame

    @dg.asset
    def sums(prices: pd.DataFrame) -> pd.DataFrame:
        met.append(prices)
        return prices

    for _ in range(2):
        assert run([prices, sums], manager, instance).success
        pd.testing.assert_frame_equal(met.pop(), frame)


def test_a_partition_is_replaced_in_one_commit_and_read_alone(tmp_path, manager, instance):
    given = {"mon": [1, 2], "tue": [3]}
    read = {}

    @dg.asset(partitions_def=DAYS, metadata={"partition_expr": "day"})
    def visits(context):
        rows = given[context.partition_key]
        return pa.table({"id": rows, "day": [context.partition_key] * len(rows)})

    @dg.asset(partitions_def=DAYS, metadata={"partition_expr": "day"})
    def seen(context, visits):
        read[context.partition_key] = visits["id"].to_pylist()
        return visits

    @dg.asset(ins={"visits": dg.AssetIn(partition_mapping=dg.AllPartitionMapping())})
    def total(visits):
        return pa.table({"id": [visits.num_rows]})

    for day in ("mon", "tue"):
        assert run([visits, seen], manager, instance, partition_key=day).success
    assert read == given
    assert ids(tmp_path / "visits.lance") == [1, 2, 3]
    given["mon"] = [7]
    assert run([visits], manager, instance, partition_key="mon").success
    assert ids(tmp_path / "visits.lance") == [3, 7]
    assert Dataset.open(str(tmp_path / "visits.lance")).version == 3
    assert run([visits, total], manager, instance, selection=[total]).success
    assert ids(tmp_path / "total.lance") == [2]


@pytest.mark.filterwarnings("ignore::dagster.BetaWarning")
def test_a_range_of_partitions_is_one_commit(tmp_path, manager, instance):
    @dg.asset(
        partitions_def=MONTHS,
        metadata={"partition_expr": "at"},
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def visits(context):
        keys = list(context.partition_keys)
        return pa.table({"id": list(range(len(keys))), "at": pa.array(pd.to_datetime(keys))})

    tags = {
        "dagster/asset_partition_range_start": "2024-01-01",
        "dagster/asset_partition_range_end": "2024-03-01",
    }
    for _ in range(2):
        assert run([visits], manager, instance, tags=tags).success
    assert ids(tmp_path / "visits.lance") == [0, 1, 2]
    assert Dataset.open(str(tmp_path / "visits.lance")).version == 2
    events = instance.fetch_materializations(visits.key, limit=3).records
    metadata = [record.asset_materialization.metadata for record in events]
    assert {noted["lance/published_version"].value for noted in metadata} == {2}


def test_rows_outside_of_the_partition_are_refused_and_nothing_is_written(tmp_path, manager, instance):
    @dg.asset(partitions_def=DAYS, metadata={"partition_expr": "day"})
    def visits():
        return pa.table({"id": [1], "day": ["tue"]})

    result = run([visits], manager, instance, partition_key="mon", raise_on_error=False)
    assert not result.success
    assert not (tmp_path / "visits.lance" / "_versions").exists()


def test_a_key_merges_and_append_adds(tmp_path, manager, instance):
    rows = [{"id": 1, "x": 1}, {"id": 2, "x": 1}]

    @dg.asset(metadata={"lance/on": ["id"]})
    def merged():
        return pa.Table.from_pylist(rows)

    @dg.asset(metadata={"lance/mode": "append"})
    def appended():
        return pa.Table.from_pylist(rows)

    assert run([merged, appended], manager, instance).success
    rows[:] = [{"id": 2, "x": 2}, {"id": 3, "x": 2}]
    assert run([merged, appended], manager, instance).success
    table = Dataset.open(str(tmp_path / "merged.lance")).to_table().sort_by("id")
    assert table.to_pydict() == {"id": [1, 2, 3], "x": [1, 2, 2]}
    assert ids(tmp_path / "appended.lance") == [1, 2, 2, 3]


def test_a_run_may_choose_another_mode_than_the_asset_declares(tmp_path, manager, instance):
    chosen = [{}, {"lance/mode": "append"}, {}]

    @dg.asset(metadata={"lance/on": ["id"]})
    def orders(context):
        context.add_output_metadata(chosen.pop(0))
        return pa.table({"id": [1]})

    for count in (1, 2):
        assert run([orders], manager, instance).success
        assert ids(tmp_path / "orders.lance") == [1] * count


def test_a_step_that_fails_after_its_commit_commits_once(tmp_path, manager, instance, monkeypatch):
    from lance_ops.dagster.io_manager import manager as module

    store_rows, calls = module.store_rows, []

    def dies_once(*args):
        result = store_rows(*args)
        calls.append(result)
        if len(calls) == 1:
            raise OSError("the machine went away")
        return result

    monkeypatch.setattr(module, "store_rows", dies_once)

    @dg.asset(metadata={"lance/mode": "append"}, retry_policy=dg.RetryPolicy(max_retries=1))
    def appended():
        return pa.table({"id": [1, 2]})

    result = run([appended], manager, instance)
    assert result.success
    assert [one.already_committed for one in calls] == [False, True]
    assert ids(tmp_path / "appended.lance") == [1, 2]
    (event,) = result.asset_materializations_for_node("appended")
    assert event.metadata["lance/published_version"].value == 1


@pytest.mark.parametrize(
    ("metadata", "partitions", "says"),
    [
        ({}, DAYS, "their rows are not identified"),
        ({"lance/mode": "overwrite"}, DAYS, "each partition would replace the previous ones"),
        ({"lance/mode": "replace_where"}, None, "the rows to replace are not identified"),
        ({"lance/mode": "upsert"}, None, "unknown mode"),
        ({"lance/on": ["id"], "lance/mode": "append"}, None, "key columns require mode 'merge'"),
        ({"lance/on": 3}, None, "key columns must be a name"),
        ({"partition_expr": 3}, DAYS, "no column"),
        ({"lance/allow_empty": "yes"}, None, "is no bool"),
    ],
)
def test_metadata_that_say_nothing_are_refused_by_name(manager, instance, metadata, partitions, says):
    @dg.asset(metadata=metadata, partitions_def=partitions)
    def visits():
        return pa.table({"id": [1]})

    with pytest.raises(Exception) as caught:  # noqa: PT011 - Dagster wraps it
        run([visits], manager, instance, partition_key="mon" if partitions else None)
    assert says in fails_with(caught.value)
    assert "visits" in fails_with(caught.value)


def test_nothing_returned_is_no_success(manager, instance):
    @dg.asset
    def prices():
        return None

    with pytest.raises(Exception) as caught:  # noqa: PT011 - Dagster wraps it
        run([prices], manager, instance)
    assert "returned None" in fails_with(caught.value)


@pytest.mark.parametrize("columns", [{}, {"id": pa.array([], pa.int64())}])
def test_no_rows_replace_all_rows_only_where_the_asset_allows_it(tmp_path, manager, instance, columns):
    uri = str(tmp_path / "prices.lance")
    lo.write_dataset(pa.table({"id": [1]}), uri)

    @dg.asset(name="prices")
    def strict():
        return pa.table(columns).to_pandas()

    @dg.asset(name="prices", metadata={"lance/allow_empty": True})
    def lax():
        return pa.table(columns).to_pandas()

    with pytest.raises(Exception) as caught:  # noqa: PT011 - Dagster wraps it
        run([strict], manager, instance)
    assert "nothing was changed" in fails_with(caught.value)
    assert lo.dataset(uri).count_rows() == 1
    if columns:
        assert run([lax], manager, instance).success
        assert lo.dataset(uri).count_rows() == 0
    else:
        with pytest.raises(Exception) as caught:  # noqa: PT011 - Dagster wraps it
            run([lax], manager, instance)
        assert "would drop all columns" in fails_with(caught.value)
    assert lo.dataset(uri).schema.names == ["id"]


def test_the_key_of_an_asset_leads_nowhere_out_of_the_root(tmp_path, instance):
    @dg.asset(key=["..", "evil"])
    def escapes():
        return pa.table({"id": [1]})

    with pytest.raises(Exception) as caught:  # noqa: PT011 - Dagster wraps it
        run([escapes], LanceIOManager(root=str(tmp_path / "lake"), store=STORE), instance)
    assert "outside of the root" in fails_with(caught.value)
    assert not (tmp_path / "evil.lance").exists()


def test_an_asset_without_a_place_and_an_unknown_type_are_refused(tmp_path, instance):
    @dg.asset
    def prices():
        return pa.table({"id": [1]})

    with pytest.raises(Exception) as caught:  # noqa: PT011 - Dagster wraps it
        run([prices], LanceIOManager(store=STORE), instance)
    assert "has no URI" in fails_with(caught.value)

    @dg.asset
    def sums(prices: int):
        return pa.table({"id": [prices]})

    with pytest.raises(Exception) as caught:  # noqa: PT011 - Dagster wraps it
        run([prices, sums], LanceIOManager(root=str(tmp_path), store=STORE), instance)
    assert "cannot read a dataset as" in fails_with(caught.value)


def test_an_input_reads_a_version_a_tag_some_columns_and_a_condition(tmp_path, manager, instance):
    uri = str(tmp_path / "prices.lance")
    lo.write_dataset(pa.table({"id": [1, 2], "x": [1, 2]}), uri)
    lo.create_tag(uri, "first", 1)
    lo.write_dataset(pa.table({"id": [3], "x": [3]}), uri, mode="append")
    met = {}

    def asking(name, **metadata):
        @dg.asset(name=name, ins={"prices": dg.AssetIn(metadata=metadata)})
        def reads(prices):
            met[name] = prices.to_pydict()
            return pa.table({"id": [0]})

        return reads

    prices = dg.AssetSpec("prices")
    readers = [
        asking("old", **{"lance/version": 1, "columns": ["id"]}),
        asking("tagged", **{"lance/version": "first", "lance/filter": "x > 1"}),
        asking("new", columns=["x"]),
    ]
    result = run([prices, *readers], manager, instance)
    assert met["old"] == {"id": [1, 2]}
    assert met["tagged"] == {"id": [2], "x": [2]}
    assert met["new"] == {"x": [1, 2, 3]}
    seen = [event for event in result.get_asset_observation_events() if event.asset_key == prices.key]
    assert {e.asset_observation_data.asset_observation.metadata["lance/version"].value for e in seen} == {
        1,
        2,
    }


def test_versions_of_others_are_published_beside_those_of_runs_each_once_and_in_order(
    tmp_path, manager, instance
):
    uri = str(tmp_path / "prices.lance")
    ref = LanceDatasetRef("prices", uri, group="market")

    @dg.asset(metadata={"lance/mode": "append"})
    def prices():
        return pa.table({"id": [1]})

    definitions = build_lance_definitions([ref], store=STORE, assets=[prices])
    (node,) = [spec for spec in definitions.resolve_all_asset_specs() if spec.key == ref.key]
    assert node.group_name == "market"
    assert node.metadata["dagster/uri"] == dg.MetadataValue.text(uri)

    assert run([prices], manager, instance).success  # version 1, published by the run
    lo.append(uri, pa.table({"id": [2]}))  # version 2, of somebody else
    result = run([prices], manager, instance)  # version 3, which is left to the sensor
    (event,) = result.asset_materializations_for_node("prices")
    assert "lance/published_version" not in event.metadata
    assert event.metadata["lance/written_version"].value == 3
    daemon = Daemon(build_manifest_sensor([ref]), instance)
    assert versions_of(daemon.tick().asset_events) == [2, 3]
    lo.compact(uri)
    daemon.tick()
    assert run([prices], manager, instance).success
    found = instance.fetch_materializations(ref.key, limit=100, ascending=True).records
    told = [record.asset_materialization for record in found]
    versions = [
        int(event.tags.get("lance/version") or event.metadata["lance/published_version"].value)
        for event in told
        if event.tags.get("lance/version") or "lance/published_version" in event.metadata
    ]
    assert versions == sorted(set(versions))
    assert versions == list(range(1, Dataset.open(uri).version + 1))


def test_the_sensor_reports_checks_on_a_version_that_the_io_manager_published(tmp_path, manager, instance):
    ref = LanceDatasetRef("prices", str(tmp_path / "prices.lance"))

    @dg.asset
    def prices():
        return pa.table({"id": [1]})

    daemon = Daemon(build_manifest_sensor([ref]), instance)
    for _ in range(2):
        run([prices], manager, instance)
        events = daemon.tick().asset_events
        assert versions_of(events) == []
        assert checks_of(events)["manifest_readable"].passed
    assert not daemon.tick().asset_events


def test_an_output_of_an_op_is_a_dataset_of_the_run(tmp_path, manager, instance):
    met = []

    @dg.op
    def rows():
        return pa.table({"id": [1, 2]})

    @dg.op(out={})
    def count(rows: pa.Table):
        met.append(rows.num_rows)

    @dg.job(resource_defs={"io_manager": manager})
    def counting():
        count(rows())

    result = counting.execute_in_process(instance=instance)
    assert met == [2]
    assert ids(tmp_path / result.run_id / "rows" / "result.lance") == [1, 2]
