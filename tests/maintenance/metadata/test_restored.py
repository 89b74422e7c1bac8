"""Dry run of a restore: what comes back and what goes, and nothing changes."""

from pathlib import Path

import lance
import pyarrow as pa

import lance_ops as lo


def test_it_says_what_comes_back_and_what_goes(tmp_path: Path):
    uri = str(tmp_path / "t")
    lo.append(uri, pa.table({"id": range(10), "old": range(10)}))
    lo.create_index(uri, "old")
    start = lo.dataset(uri).version
    lo.delete(uri, "id < 3")
    lance.write_dataset(pa.table({"id": [20, 21], "old": [20, 21]}), uri, mode="append")
    lo.add_columns(uri, {"new": "id + 1"})
    lo.drop_columns(uri, ["old"])
    lo.update_config(uri, {"owner": "night"})
    head = lo.dataset(uri).version
    plan = lo.restore(uri, start, dry_run=True)
    assert lo.dataset(uri).version == head
    assert (plan.rows_before, plan.rows_after) == (9, 10)
    assert (plan.rows_back, plan.rows_lost, plan.rows_changed) == (3, 2, 0)
    assert (plan.columns_back, plan.columns_lost) == (("old",), ("new",))
    assert (plan.indices_back, plan.indices_lost) == (("old_idx",), ())
    assert plan.config_changed == ("owner",)
    assert len(plan.undone) == head - start
    assert not plan.missing
    assert "3 come back, 2 go" in str(plan)
    lo.restore(uri, start)
    assert lance.dataset(uri).to_table().to_pylist() == [{"id": i, "old": i} for i in range(10)]


def test_it_names_missing_files_and_rows_that_cannot_be_compared(tmp_path: Path):
    uri = str(tmp_path / "t")
    for first in (0, 10):
        lo.append(uri, pa.table({"id": range(first, first + 10)}))
    old = lo.dataset(uri, 1).fragments[0].files[0].path
    lo.compact(uri, strategy="rows")
    (tmp_path / "t" / "data" / old).unlink()
    plan = lo.restore(uri, 1, dry_run=True)
    assert any(old in line for line in plan.missing) or len(plan.missing) == 1
    assert plan.rows_lost is None
    assert "moved rows" in plan.unknown
