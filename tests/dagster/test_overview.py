"""What a person finds on the page of an asset: verdict, last maintenance, versions, indices, columns."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import dagster as dg
import pyarrow as pa

import lance_ops as lo
from lance_ops.dagster import (
    LanceDatasetRef,
    build_fleet_definitions,
    build_lance_definitions,
    version_materialization,
)
from lance_ops.dagster.keys import VERDICT_TAG
from lance_ops.dagster.overview import state_rows
from lance_ops.fleet.run.operation import run_fleet
from lance_ops.fleet.survey.operation import survey_fleet
from lance_ops.maintenance.health.measure import DatasetHealth
from lance_ops.maintenance.health.policy import MaintenancePolicy
from tests.support.fleets import policy, rows, write

HEALTH = DatasetHealth(
    version=1,
    rows=1,
    physical_rows=1,
    deleted_rows=0,
    deleted_ratio=0.0,
    fragments=1,
    small_fragments=1,
    data_files=1,
    data_bytes=1,
    indices=0,
    unindexed_rows=0,
    index_coverage=1.0,
    index_segments=0,
    deferred_compactions=0,
    live_versions=1,
    manifest_bytes=1,
)


def event(uri, *, newest=True, **limits):
    ref = LanceDatasetRef("t", uri, policy=MaintenancePolicy(**limits))
    return version_materialization(ref, lo.dataset(uri), newest=newest).metadata


def rows_of(metadata, key):
    """Return the rows of a table in Markdown by column."""
    header, _, *lines = (line.split("|")[1:-1] for line in metadata[key].value.strip().splitlines())
    return [dict(zip(header, line, strict=True)) for line in lines]


def test_the_newest_version_says_what_is_due_and_what_was_done(tmp_path):
    uri = write(tmp_path, "t.lance", 4, index=True)
    due = event(uri, max_small_fragments=2)
    assert due["lance/verdict"].value.startswith("due: ")
    assert "3 small fragments (limit 2)" in due["lance/verdict"].value
    assert due["lance/next_maintenance"].value.startswith("compact")
    assert list(due)[:5] == [
        "lance/verdict",
        "lance/next_maintenance",
        "lance/last_maintenance",
        "lance/state",
        "lance/history",
    ]
    lo.optimize_indices(uri)
    lo.compact(uri)
    lo.append(uri, rows(90, 91), properties={"dagster.run_id": "r-1", "dagster.job": "load"})
    after = event(uri, min_index_coverage=0.5)
    assert after["lance/verdict"].value == "healthy: all measures are within the limits"
    assert re.fullmatch(r"(compact|index|cleanup) (in|within) .*", after["lance/next_maintenance"].value)
    assert "compaction on " in after["lance/last_maintenance"].value
    newest = rows_of(after, "lance/history")[0]
    assert newest["by"] == "Dagster,\N{NO-BREAK SPACE}load"
    assert (newest["run"], newest["rows"], newest["fragments"]) == ("[r-1](/runs/r-1)", "41", "2")
    (index,) = rows_of(after, "lance/index_table")
    assert (index["index"], index["columns"], index["segments"]) == ("id\\_idx", "id", "1")
    assert index["covers"] == "97.6%"
    assert index["kind"] == "BTree"
    assert index["size"].endswith("kB")
    # Above the columns, which come before all metadata.
    badges = after["dagster/column_schema"].schema.constraints.other
    assert badges[0] == "healthy"
    assert [badge.partition(":")[0] for badge in badges[1:]] == ["next", "last"]


def test_the_state_has_what_there_is_to_count_beside_its_limit(tmp_path):
    uri = write(tmp_path, "t.lance", 4)
    plain = {row["measure"]: (row["now"], row["limit"]) for row in rows_of(event(uri), "lance/state")}
    assert list(plain) == ["rows", "size", "fragments", "small", "versions"]
    assert plain["small"] == ("4", "20")
    lo.delete(uri, "id < 4")
    lo.create_index(uri, "id", "BTREE")
    found = rows_of(event(uri, max_small_fragments=1, max_deleted_ratio=0.5), "lance/state")
    busy = {row["measure"]: (row["now"], row["limit"]) for row in found}
    assert busy["small"] == ("**4**", "1")
    assert busy["deleted"] == ("10.0%", "50.0%")
    assert busy["coverage"] == ("100.0%", "95.0%")
    assert all(len(name) <= 10 for name in busy)


def test_wide_tables_are_in_dialogs(tmp_path):
    metadata = event(write(tmp_path, "t.lance", 1, index=True))
    for key in ("lance/history", "lance/index_table"):
        # Dagster shows shorter ones in place, where they are cut.
        assert len(metadata[key].value) >= 1000
        assert all(" " not in cell for row in rows_of(metadata, key) for cell in row.values())


def test_large_counts_fit_their_column():
    health = replace(HEALTH, rows=1_234_567_890, fragments=12_000, small_fragments=11_000)
    state = {name: (now, limit) for name, now, limit in state_rows(health, MaintenancePolicy())}
    assert state["rows"][0] == "1,234.6\N{NO-BREAK SPACE}M"
    assert state["small"] == ("**11,000**", "20")


def test_a_version_says_how_long_it_took_where_its_writer_noted_when_it_began(tmp_path):
    uri = write(tmp_path, "t.lance", 4)
    run_fleet(policy(tmp_path))
    began = datetime.now(UTC) - timedelta(seconds=90)
    lo.append(uri, rows(90, 91), properties={"lance_ops.began": began.isoformat()})
    lo.append(uri, rows(91, 92), properties={"lance_ops.began": "long ago"})
    lo.append(uri, rows(92, 93), properties={"lance_ops.began": "2999-01-01T00:00:00+00:00"})
    found = [row["took"].replace("\N{NO-BREAK SPACE}", " ") for row in rows_of(event(uri), "lance/history")]
    assert found[:2] == ["", ""]
    assert found[2] in ("90 s", "91 s", "1.5 min")
    assert found[3].endswith("s")


def test_a_dropped_index_is_called_so(tmp_path):
    uri = write(tmp_path, "t.lance", 1, index=True)
    assert event(uri)["lance/last_maintenance"].value.startswith("index on ")
    lo.drop_index(uri, "id_idx")
    drop, build = event(uri)["lance/last_maintenance"].value.split("; ")
    assert drop.startswith("drop of index on ")
    assert build.startswith("index on ")


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


def test_a_fleet_beside_references_makes_no_second_asset_of_a_dataset(tmp_path):
    uri = write(tmp_path, "a.lance")
    write(tmp_path, "b.lance")
    mine = build_lance_definitions([LanceDatasetRef("mine/a", uri)])
    both = dg.Definitions.merge(mine, build_fleet_definitions(policy(tmp_path), prefix="lake"))
    names = {spec.key.to_user_string() for spec in both.resolve_all_asset_specs()}
    assert names == {"mine/a", "b", "lake_lance_fleet/report"}
