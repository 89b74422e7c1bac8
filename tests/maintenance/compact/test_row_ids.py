"""Indices that hold stable row ids need no move, of whatever kind: compaction goes on, and they answer on."""

from collections.abc import Callable
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.index.coverage import coverage
from tests.support.unknown_index import forget_kind

pytestmark = pytest.mark.peer


def rows(start: int, stop: int) -> pa.Table:
    ids = np.arange(start, stop)
    vectors = np.random.default_rng(start).normal(size=(stop - start) * 8).astype(np.float32)
    return pa.table(
        {
            "id": ids,
            "b": ids % 7,
            "l": pa.array([[f"t{value % 5}", f"u{value % 3}"] for value in ids]),
            "s": [f"word{value % 50} common" for value in ids],
            "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors), 8),
        }
    )


QUERIES: dict[str, tuple[Callable[[lance.LanceDataset], object], dict[str, object]]] = {
    "BITMAP": (lambda dataset: dataset.create_scalar_index("b", "BITMAP"), {"filter": "b = 3"}),
    "LABEL_LIST": (
        lambda dataset: dataset.create_scalar_index("l", "LABEL_LIST"),
        {"filter": "array_has(l, 't2')"},
    ),
    "NGRAM": (lambda dataset: dataset.create_scalar_index("s", "NGRAM"), {"filter": "contains(s, 'word17')"}),
    "INVERTED": (lambda dataset: dataset.create_scalar_index("s", "INVERTED"), {"full_text_query": "word17"}),
    "IVF_FLAT": (
        lambda dataset: dataset.create_index("v", "IVF_FLAT", num_partitions=2),
        {"nearest": {"column": "v", "q": np.zeros(8, np.float32), "k": 20, "nprobes": 2}},
    ),
}


def answer(path: Path, query: dict[str, object]) -> list[int]:
    return sorted(lance.dataset(str(path)).to_table(columns=["id"], **query)["id"].to_pylist())


@pytest.mark.parametrize("kind", QUERIES)
def test_compaction_goes_on_under_an_index_of_row_ids(tmp_path: Path, kind: str) -> None:
    build, query = QUERIES[kind]
    path = tmp_path / "t.lance"
    for start in (0, 300):
        lance.write_dataset(
            rows(start, start + 300),
            str(path),
            mode="append" if start else "create",
            enable_stable_row_ids=True,
        )
    build(lance.dataset(str(path)))
    lo.delete(path, "id % 9 = 2")
    lo.append(path, rows(600, 650))
    wanted = answer(path, query)
    assert wanted
    result = lo.compact(path)
    assert (result.groups, result.notes, result.indices_remapped) == (1, (), 0)
    (item,) = coverage(lo.dataset(path))
    assert item.unindexed_rows == 50
    assert answer(path, query) == wanted
    plan = lance.dataset(str(path)).scanner(**query).explain_plan()
    assert any(word in plan for word in ("ScalarIndexQuery", "MatchQuery", "ANN"))
    lance.dataset(str(path)).optimize.optimize_indices()
    assert answer(path, query) == wanted
    assert lo.fsck(path, deep=True).findings == ()
    lo.delete(path, "id % 9 = 3")
    assert lo.compact(path).groups >= 1
    assert answer(path, query) == [value for value in wanted if value % 9 != 3] or kind == "IVF_FLAT"


@pytest.mark.parametrize("kind", ["ZONEMAP", "BLOOMFILTER"])
def test_kinds_that_hold_places_and_are_not_known_keep_their_fragments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    forget_kind(monkeypatch, kind)
    path = tmp_path / "t.lance"
    for start in (0, 300):
        lance.write_dataset(
            rows(start, start + 300),
            str(path),
            mode="append" if start else "create",
            enable_stable_row_ids=True,
        )
    lance.dataset(str(path)).create_scalar_index("b", kind)
    result = lo.compact(path)
    assert not result.changed
    assert "cannot be remapped" in result.notes[0]
