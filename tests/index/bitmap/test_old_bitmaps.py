"""BITMAP and LABEL_LIST of an early release: searched, merged and moved; see fixtures/write_bitmaps.py."""

import shutil
from pathlib import Path

import pytest

import lance_ops as lo
from lance_ops.index.search.pruner import IndexPruner
from lance_ops.table.dataset import Dataset

FIXTURE = Path(__file__).parents[2] / "fixtures" / "bitmaps-0.30.0"
CONDITIONS = ("i = 3", "i IS NULL", "i <> 3", "s >= 'k3'", "s IN ('k0', 'k4')", "array_has(l, 'x1')")
NEGATIONS = ("NOT array_has(l, 'x1')", "l IS NULL")


@pytest.fixture
def uri(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FIXTURE, tmp_path / "t.lance"))


def answers(dataset: Dataset, sql: str) -> bool:
    """Whether an index answers; what it says has to be so."""
    pruning = IndexPruner().prune(dataset, dataset.parse_filter(sql))
    scanned = dataset.to_table(["id"], sql, pruners=[])["id"].to_pylist()
    assert sorted(dataset.to_table(["id"], sql, pruners=[IndexPruner()])["id"].to_pylist()) == sorted(scanned)
    return pruning is not None


def test_they_are_searched_but_for_lists_that_may_be_null(uri: Path) -> None:
    assert [answers(lo.dataset(uri), sql) for sql in CONDITIONS] == [True] * len(CONDITIONS)
    # The peer believes the index here, and finds lists that are null.
    assert [answers(lo.dataset(uri), sql) for sql in NEGATIONS] == [False] * len(NEGATIONS)


def test_they_are_moved_as_they_are(uri: Path) -> None:
    lo.delete(uri, "id % 10 = 0")
    assert lo.compact(uri).changed
    dataset = lo.dataset(uri)
    assert [answers(dataset, sql) for sql in (*CONDITIONS, *NEGATIONS)] == [True] * 6 + [False] * 2
    assert lo.fsck(uri, deep=True).ok


def test_what_is_merged_with_new_rows_knows_the_lists_that_are_null(uri: Path) -> None:
    lo.append(uri, lo.dataset(uri).to_table(limit=50))
    assert lo.optimize_indices(uri, merge_segments=1).coverage_after == 1.0
    dataset = lo.dataset(uri)
    assert [answers(dataset, sql) for sql in (*CONDITIONS, *NEGATIONS)] == [True] * 8
    assert lo.fsck(uri, deep=True).ok
