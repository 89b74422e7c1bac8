"""Tables for people: what plans would do, and what operations changed."""

from datetime import timedelta

import dagster as dg
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.dagster import LanceDatasetRef, tables
from lance_ops.dagster.jobs.operations import CLEANUP, COMPACT, DELETE
from lance_ops.dagster.tables import plan_table
from tests.support.dagster import output_metadata, run_job


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def ref(tmp_path):
    ref = LanceDatasetRef("t", str(tmp_path / "t.lance"))
    for start in range(4):
        lo.append(ref.uri, pa.table({"x": range(start * 10, start * 10 + 10)}))
    lo.delete(ref.uri, "x = 3")
    return ref


def records(value):
    assert isinstance(value, dg.TableMetadataValue)
    return [record.data for record in value.records]


def test_a_run_says_first_what_it_did_then_what_that_changed(ref, instance):
    told = output_metadata(run_job(ref, COMPACT, instance))
    assert list(told)[:2] == ["lance/summary", "lance/changes"]
    changes = {row["measure"]: row for row in records(told["lance/changes"])}
    assert changes["fragments"] == {"measure": "fragments", "before": "4", "after": "1", "change": "-3"}
    assert changes["deleted rows"]["change"] == "-1"
    assert changes["deleted share"]["after"].startswith("0")
    assert "rows" not in changes


def test_a_plan_is_a_table_with_its_words_beside_it(ref, instance):
    groups = output_metadata(run_job(ref, COMPACT, instance, dry_run=True))
    (group,) = records(groups["lance/plan_table"])
    assert (group["become"], group["rows"], group["deleted rows"]) == (1, 39, 1)
    assert "lance/plan" in groups
    found = output_metadata(run_job(ref, DELETE, instance, predicate="x in (1, 2, 15)"))
    assert [row["rows that match"] for row in records(found["lance/plan_table"])] == [2, 1]
    assert run_job(ref, COMPACT, instance).success
    victims = output_metadata(run_job(ref, CLEANUP, instance, retain_versions=1, older_than_days=0.0))
    assert {row["kind"] for row in records(victims["lance/plan_table"])} >= {"manifest", "data"}


def test_a_plan_with_nothing_to_do_is_no_table(ref, instance):
    nothing = output_metadata(run_job(ref, DELETE, instance, predicate="x = 99"))
    assert "lance/plan_table" not in nothing
    assert plan_table("a text") is None


def test_a_long_plan_is_cut_and_says_so(ref, instance, monkeypatch):
    monkeypatch.setattr(tables, "MOST_ROWS", 3)
    plan = lo.cleanup(ref.uri, retain_versions=1, older_than=timedelta(0), dry_run=True)
    rows = records(plan_table(plan))
    assert len(rows) == 4
    assert rows[-1]["file"].startswith("... and ")
