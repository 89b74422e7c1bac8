"""Ingests that merge: rows of a key are updated, others added, once for each launch, whatever is repeated."""

import types

import dagster as dg
import pyarrow as pa
import pytest

from lance_ops.dagster import LanceDatasetRef, LanceIngest, build_ingest_asset
from lance_ops.errors import InvalidArgumentError
from lance_ops.maintenance.ingest.operation import write_dataset
from lance_ops.table.dataset import Dataset
from tests.support.dagster import STORE, evaluations

DAYS = dg.StaticPartitionsDefinition(["mon", "tue"])
GIVEN = {"mon": {1: 10, 2: 20}, "tue": {2: 21, 3: 30}}


@pytest.fixture
def ref(tmp_path):
    return LanceDatasetRef("prices", str(tmp_path / "prices.lance"))


def prices(request):
    given = GIVEN[request.partition_key]
    return pa.table({"id": list(given), "price": list(given.values())})


def load(ingest, instance, partition):
    return dg.materialize(
        [build_ingest_asset(ingest)],
        partition_key=partition,
        instance=instance,
        resources={"lance_store": STORE},
    )


def content(ref):
    table = Dataset.open(ref.uri).to_table().sort_by("id")
    return dict(zip(table["id"].to_pylist(), table["price"].to_pylist(), strict=True))


def test_partitions_are_merged_by_their_key_and_again_when_they_are_launched_again(ref):
    ingest = LanceIngest(ref, prices, partitions=DAYS, mode="merge", on=["id"])
    with dg.DagsterInstance.ephemeral() as instance:
        assert load(ingest, instance, "mon").success
        second = load(ingest, instance, "tue")
        assert content(ref) == {1: 10, 2: 21, 3: 30}
        assert evaluations(second)["rows_loaded"].passed
        (event,) = [
            item for item in second.asset_materializations_for_node("prices_ingest") if item.partition
        ]
        assert event.metadata["dagster/partition_row_count"].value == 2
        assert load(ingest, instance, "mon").success
        assert content(ref) == {1: 10, 2: 20, 3: 30}
    properties = Dataset.open(ref.uri).read_transaction().properties
    assert properties["dagster.partition"] == "mon"


def test_a_key_names_the_mode_and_goes_with_no_partition_column(ref):
    assert LanceIngest(ref, prices, partitions=DAYS, on=["id"]).effective_mode == "merge"
    for wrong in ({"mode": "append"}, {"partition_column": "day"}):
        with pytest.raises(InvalidArgumentError, match="key columns require mode 'merge'"):
            LanceIngest(ref, prices, partitions=DAYS, on=["id"], **wrong)


def test_the_first_materialization_merges_with_what_another_writer_brings_meanwhile(ref, monkeypatch):
    from lance_ops.spark import row_writer as module

    create = module._create

    def after_another(write, data, common):
        write_dataset(prices(types.SimpleNamespace(partition_key="mon")), ref.uri)
        return create(write, data, common)

    monkeypatch.setattr(module, "_create", after_another)
    ingest = LanceIngest(ref, prices, partitions=DAYS, on=["id"])
    with dg.DagsterInstance.ephemeral() as instance:
        assert load(ingest, instance, "mon").success
    assert Dataset.open(ref.uri).to_table()["id"].to_pylist() == [1, 2]


def test_a_first_batch_with_one_key_twice_is_refused_and_stores_no_row(ref):
    ingest = LanceIngest(ref, lambda _: pa.table({"id": [1, 1], "price": [1, 2]}), on=["id"])
    with dg.DagsterInstance.ephemeral() as instance:
        result = dg.materialize(
            [build_ingest_asset(ingest)],
            instance=instance,
            resources={"lance_store": STORE},
            raise_on_error=False,
        )
    assert not result.success
    assert Dataset.open(ref.uri).count_rows() == 0


@pytest.mark.parametrize("kind", ["reader", "batches", "pandas"])
def test_the_first_merge_takes_rows_of_every_kind(ref, kind):
    table = pa.table({"id": [1, 2], "price": [1, 2]})
    given = {
        "reader": table.to_reader,
        "batches": lambda: iter(table.to_batches()),
        "pandas": table.to_pandas,
    }
    ingest = LanceIngest(ref, lambda _: given[kind](), on=["id"])
    with dg.DagsterInstance.ephemeral() as instance:
        result = dg.materialize(
            [build_ingest_asset(ingest)], instance=instance, resources={"lance_store": STORE}
        )
    assert result.success
    assert content(ref) == {1: 1, 2: 2}
