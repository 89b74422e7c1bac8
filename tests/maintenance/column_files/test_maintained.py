"""Health, policy and `maintain` see data files and dropped columns, and act when they are due."""

from pathlib import Path

import lance
import pyarrow as pa

import lance_ops as lo
from lance_ops.maintenance.health.policy import judge_health
from tests.maintenance.column_files.tables import content, evolved, files_of_fragments


def verdict(uri: str, policy: lo.MaintenancePolicy) -> str:
    return judge_health(lo.measure_health(uri), policy)[0].state


def test_health_counts_files_and_the_bytes_of_dropped_columns(tmp_path: Path):
    uri = evolved(tmp_path / "t", indexed=False)
    health = lo.measure_health(uri)
    assert (health.most_files, health.data_files) == (5, 20)
    # 60 random bytes of each of 1,000 rows.
    assert 50_000 < health.dead_column_bytes < 80_000
    assert health.debt_bytes >= health.dead_column_bytes
    assert health.dead_column_ratio == health.dead_column_bytes / health.data_bytes
    lo.compact_columns(uri)
    after = lo.measure_health(uri)
    assert (after.most_files, after.dead_column_bytes) == (1, 0)


def test_a_table_whose_columns_are_almost_all_dropped_says_so(tmp_path: Path):
    uri = str(tmp_path / "t")
    fat = [bytes([i % 251, i % 13]) * 700 for i in range(2000)]
    lo.append(uri, pa.table({"id": range(2000), "fat": fat}))
    lo.drop_columns(uri, ["fat"])
    health = lo.measure_health(uri)
    assert health.dead_column_ratio > 0.5
    assert verdict(uri, lo.MaintenancePolicy()) == "due"


def test_maintain_joins_files_when_there_are_too_many(tmp_path: Path):
    uri = evolved(tmp_path / "t")
    rows = content(uri)
    policy = lo.MaintenancePolicy(max_files_per_fragment=4, max_small_fragments=50, max_deleted_ratio=0.5)
    plan = lo.maintain(uri, policy, dry_run=True)
    assert "compact" in plan.due
    assert "data files of fragments 0-3" in str(plan)
    # Fragments are merged where one compaction is due.
    done = lo.maintain(uri, policy).outcome("compact")
    assert (done.state, done.before["most_files"], done.after["most_files"]) == ("done", 5, 1)
    assert done.bytes_written > 0
    assert content(uri) == rows
    assert lo.maintain(uri, policy).outcome("compact").state == "nothing due"


def test_files_that_have_to_stay_apart_block_it(tmp_path: Path):
    uri = str(tmp_path / "t")
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("j", pa.json_())])
    lance.write_dataset(
        pa.table([pa.array(range(9)), pa.array(['{"a": 1}'] * 9, pa.json_())], schema=schema),
        uri,
        data_storage_version="2.2",
    )
    lance.dataset(uri).add_columns({"x": "id + 1"})
    policy = lo.MaintenancePolicy(max_files_per_fragment=1)
    outcome = lo.maintain(uri, policy).outcome("compact")
    assert outcome.state == "nothing due"
    assert "JSON" in outcome.blocked
    assert files_of_fragments(uri) == [2]


def test_a_budget_of_bytes_bounds_it(tmp_path: Path):
    uri = evolved(tmp_path / "t")
    policy = lo.MaintenancePolicy(
        max_files_per_fragment=4, strategy="rows", target_rows=100, max_deleted_ratio=0.5
    )
    whole = lo.compact_columns(uri, dry_run=True)
    budget = (whole.bytes_read + whole.bytes_written) // 2 + 2000
    done = lo.maintain(uri, policy, budget_bytes=budget).outcome("compact")
    assert done.state == "done"
    assert sorted(files_of_fragments(uri)) == [1, 1, 5, 5]
