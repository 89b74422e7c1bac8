import json
import re

import dagster as dg
import pyarrow as pa
import pytest

from lance_ops.dagster import LanceDatasetRef, version_materialization, version_metadata
from lance_ops.dagster.version_event import read_facts, table_schema
from lance_ops.errors import CorruptManifestError
from lance_ops.maintenance.compact.operation import compact
from lance_ops.maintenance.delete.operation import delete
from lance_ops.maintenance.health.policy import MaintenancePolicy
from lance_ops.maintenance.ingest.operation import write_dataset
from lance_ops.table.dataset import Dataset
from tests.support.dagster import write

PLOTTED = {
    "dagster/row_count": 9,
    "lance/version": 3,
    "lance/fragments": 2,
    "lance/small_fragments": 2,
    "lance/deleted_rows": 1,
    "lance/deleted_ratio": 0.1,
    "lance/live_versions": 3,
}
RAW = {"read_version": 2, "operation": "Delete", "policy": {}}


@pytest.fixture
def dataset(tmp_path):
    uri = str(tmp_path / "t.lance")
    write(uri, 0, 5)
    write(uri, 5, 10)
    delete(uri, "a = 3")
    return Dataset.open(uri)


def test_numbers_stay_numbers(dataset):
    metadata = version_metadata(dataset)
    assert {name: metadata[name].value for name in PLOTTED} == PLOTTED
    assert all(isinstance(metadata[name], dg.IntMetadataValue | dg.FloatMetadataValue) for name in PLOTTED)
    assert metadata["dagster/size_bytes"].value > 0


def test_one_entry_has_everything_for_programs(dataset):
    raw = version_metadata(dataset)["lance/raw"].value
    assert {name: raw[name] for name in RAW} == RAW
    assert raw["health"]["unindexed_rows"] == 0
    assert raw["health"]["manifest_bytes"] > 0
    event = version_materialization(LanceDatasetRef("t", dataset.uri), dataset)
    assert event.metadata["lance/raw"].value["policy"]["max_small_fragments"] == 20
    # Dagster shows JSON of fewer characters in place.
    assert len(json.dumps(event.metadata["lance/raw"].value)) >= 1000


def test_numbers_have_their_limits_beside_them(dataset):
    ref = LanceDatasetRef("t", dataset.uri, policy=MaintenancePolicy(max_small_fragments=7))
    metadata = version_materialization(ref, dataset).metadata
    assert (metadata["lance/small_fragments"].value, metadata["lance/small_limit"].value) == (2, 7)
    assert (metadata["lance/deleted_ratio"].value, metadata["lance/deleted_limit"].value) == (0.1, 0.1)
    assert (metadata["lance/live_versions"].value, metadata["lance/live_limit"].value) == (3, 100)
    assert not {"lance/index_coverage", "lance/index_limit"} & set(metadata)


def test_dagster_finds_columns_place_and_name(dataset):
    metadata = version_metadata(dataset, table_name="warehouse.t")
    assert [column.name for column in metadata["dagster/column_schema"].value.columns] == ["a", "b"]
    assert metadata["dagster/uri"].value == dataset.uri
    assert metadata["dagster/table_name"].value == "warehouse.t"
    assert metadata["lance/committed_at"].value == dataset.manifest.timestamp.timestamp()
    assert "Delete" in metadata["lance/transaction"].value


def test_the_data_version_is_hexadecimal_of_fixed_length(dataset):
    event = version_materialization(LanceDatasetRef("t", dataset.uri), dataset)
    assert re.fullmatch("[0-9a-f]{32}", event.tags["dagster/data_version"])
    assert event.tags["lance/version"] == "3"
    assert event.tags["lance/operation"] == "Delete"
    assert event.tags["lance/transaction_uuid"] == dataset.read_transaction().uuid
    assert "Delete" in event.description


def test_a_rewrite_keeps_the_data_version_and_drops_the_fragments(dataset):
    ref = LanceDatasetRef("t", dataset.uri)
    compact(dataset.uri)
    before, after = (version_materialization(ref, item) for item in (dataset, dataset.latest()))
    assert before.tags["dagster/data_version"] == after.tags["dagster/data_version"]
    assert [event.metadata["lance/fragments"].value for event in (before, after)] == [2, 1]
    # The version in which they are gone ends the plot at zero; the next one has nothing to plot.
    write(dataset.uri, 10, 15)
    then = version_materialization(ref, dataset.latest())
    plotted = [event.metadata.get("lance/deleted_rows") for event in (before, after, then)]
    assert [item and item.value for item in plotted] == [1, 0, None]


def test_an_empty_dataset_has_an_event(tmp_path):
    uri = str(tmp_path / "t.lance")
    write_dataset(pa.schema([("a", pa.int64())]).empty_table(), uri)
    metadata = version_metadata(Dataset.open(uri))
    assert metadata["dagster/row_count"].value == 0
    assert "lance/deleted_ratio" not in metadata
    assert "lance/enrichment_error" not in metadata


def test_what_cannot_be_found_out_is_left_out_and_said(monkeypatch, dataset):
    from lance_ops.dagster import version_event

    def broken(*args, **options):
        raise CorruptManifestError("gone")

    for name in ("read_transaction", "measure_by_policy", "table_schema"):
        monkeypatch.setattr(version_event, name, broken)
    monkeypatch.setattr(Dataset, "data_version", property(broken))

    event = version_materialization(LanceDatasetRef("t", dataset.uri), dataset)

    assert re.fullmatch("[0-9a-f]{32}", event.tags["dagster/data_version"])
    assert event.tags["lance/version"] == "3"
    assert "lance/operation" not in event.tags
    assert "dagster/row_count" not in event.metadata
    told = event.metadata["lance/enrichment_error"].value
    assert [line.split(":")[0] for line in told.splitlines()] == [
        "transaction",
        "data version",
        "health",
        "column schema",
    ]


def test_a_lost_transaction_gives_facts_without_an_operation(monkeypatch, dataset):
    from lance_ops.dagster import version_event

    monkeypatch.setattr(version_event, "read_transaction", lambda *_: None)
    facts = read_facts(dataset)
    assert facts.operation == ""
    assert facts.run_id is None
    assert facts.errors == ()


def test_a_very_wide_schema_is_cut():
    schema = table_schema(pa.schema([(f"c{number}", pa.int8()) for number in range(1200)]))
    assert len(schema.columns) == 500
    assert schema.constraints.other == ["700 more columns"]


def test_a_very_long_type_is_cut():
    deep = pa.struct([(f"a rather long name {number}", pa.int8()) for number in range(100)])
    (column,) = table_schema(pa.schema([("a", deep)])).columns
    assert len(column.type) <= 200
