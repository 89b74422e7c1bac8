"""What a person finds on the page of an asset: verdict, last maintenance, versions, indices, columns."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa

import lance_ops as lo
from lance_ops.dagster import LanceDatasetRef, build_fleet_definitions, version_materialization
from lance_ops.dagster.fleet.refs import VERDICT_TAG
from lance_ops.fleet.run.operation import run_fleet
from lance_ops.fleet.survey.operation import survey_fleet
from lance_ops.maintenance.health.policy import MaintenancePolicy
from tests.support.fleets import policy, rows, write


def event(uri, *, newest=True, **limits):
    ref = LanceDatasetRef("t", uri, policy=MaintenancePolicy(**limits))
    return version_materialization(ref, lo.dataset(uri), newest=newest).metadata


def test_the_newest_version_says_what_is_due_and_what_was_done(tmp_path):
    uri = write(tmp_path, "t.lance", 4, index=True)
    due = event(uri, max_small_fragments=2)
    assert due["lance/verdict"].value.startswith("due: ")
    assert "4 small fragments (limit 2)" in due["lance/verdict"].value
    assert "compact" in due["lance/next_maintenance"].value
    lo.optimize_indices(uri)
    lo.compact(uri)
    lo.append(uri, rows(90, 91), properties={"dagster.run_id": "r-1", "dagster.job": "load"})
    after = event(uri, min_index_coverage=0.5)
    assert after["lance/next_maintenance"].value == "nothing is due"
    assert "compaction at " in after["lance/last_maintenance"].value
    newest = after["lance/history"].records[0].data
    assert (newest["by"], newest["run"], newest["rows"], newest["fragments"]) == (
        "Dagster, load",
        "r-1",
        41,
        2,
    )
    assert newest["run page"] == "/runs/r-1"
    assert "(/runs/r-1)" in after["lance/history_runs"].value
    (index,) = [record.data for record in after["lance/index_table"].records]
    assert (index["index"], index["columns"], index["segments"]) == ("id_idx", "id", 1)
    assert index["covers"] == "97.6%"
    assert index["kind"] == "BTree"
    assert index["size"].endswith("kB")
    assert index["age"] == "0 min"


def test_a_version_says_how_long_it_took_where_its_writer_noted_when_it_began(tmp_path):
    uri = write(tmp_path, "t.lance", 4)
    run_fleet(policy(tmp_path))
    began = datetime.now(UTC) - timedelta(seconds=90)
    lo.append(uri, rows(90, 91), properties={"lance_ops.began": began.isoformat()})
    lo.append(uri, rows(91, 92), properties={"lance_ops.began": "long ago"})
    lo.append(uri, rows(92, 93), properties={"lance_ops.began": "2999-01-01T00:00:00+00:00"})
    found = [record.data["seconds"] for record in event(uri)["lance/history"].records]
    assert found[:2] == ["", ""]
    assert found[2] in ("90 s", "91 s", "1.5 min")
    assert found[3].endswith("s")


def test_a_dropped_index_is_called_so(tmp_path):
    uri = write(tmp_path, "t.lance", 1, index=True)
    assert event(uri)["lance/last_maintenance"].value.startswith("index at ")
    lo.drop_index(uri, "id_idx")
    drop, build = event(uri)["lance/last_maintenance"].value.split("; ")
    assert drop.startswith("drop of index at ")
    assert build.startswith("index at ")


def test_older_versions_of_a_burst_do_not_tell_the_state_of_the_dataset(tmp_path):
    assert not {"lance/verdict", "lance/history"} & set(event(write(tmp_path, "t.lance"), newest=False))


def test_columns_have_the_words_that_their_writer_gave_them(tmp_path):
    uri = str(tmp_path / "t.lance")
    fields = [
        pa.field("a", pa.int64(), metadata={"description": "Number of the order."}),
        pa.field("b", pa.int64(), metadata={"comment": "By Spark."}),
        pa.field("c", pa.int64()),
    ]
    lo.write_dataset(pa.table([[1], [2], [3]], schema=pa.schema(fields)), uri)
    columns = event(uri)["dagster/column_schema"].schema.columns
    assert [column.description for column in columns] == ["Number of the order.", "By Spark.", None]


def test_datasets_of_a_fleet_are_tagged_with_their_verdict(tmp_path):
    write(tmp_path, "a.lance", 5)
    write(tmp_path, "b.lance")
    rules = policy(tmp_path)

    def tags():
        specs = build_fleet_definitions(rules).resolve_all_asset_specs()
        return {spec.key.path[-1]: spec.tags.get(VERDICT_TAG) for spec in specs}

    assert tags()["a"] is None
    survey_fleet(rules)
    assert (tags()["a"], tags()["b"]) == ("due", "healthy")
