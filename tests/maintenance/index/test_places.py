"""Indices in all places: on branches, several on one column, on members of structs, where rows have ids."""

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.index.coverage import coverage

pytestmark = pytest.mark.peer


def rows(start: int, stop: int) -> pa.Table:
    numbers = range(start, stop)
    vectors = np.random.default_rng(start).normal(size=(len(numbers) * 4)).astype(np.float32)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors), 4)
    texts = pa.array([f"word{x % 7} text" for x in numbers])
    deep = pa.StructArray.from_arrays([pa.array(numbers, pa.int64())], ["d"])
    struct = pa.StructArray.from_arrays([texts, lists, deep], ["s", "v", "deep"])
    return pa.table({"x": pa.array(numbers, pa.int64()), "s": texts, "v": lists, "n": struct})


def answers(peer: lance.LanceDataset, ours: lo.Dataset, prefix: str = "") -> None:
    """Filters, words and vectors: as by a scan, with indices in the peer's plan, and the same by us."""
    column = f"{prefix}deep.d" if prefix else "x"
    condition = f"{column} >= 40 AND {column} < 48"
    scanned = sorted(peer.to_table(filter=condition, use_scalar_index=False)["x"].to_pylist())
    assert sorted(peer.to_table(filter=condition)["x"].to_pylist()) == scanned
    assert sorted(ours.to_table(filter=condition)["x"].to_pylist()) == scanned
    words = {"columns": [f"{prefix}s"], "query": "word3"}
    found = sorted(ours.to_table(full_text_query=words)["x"].to_pylist())
    assert sorted(peer.to_table(full_text_query=words)["x"].to_pylist()) == found
    nearest = {"column": f"{prefix}v", "q": np.zeros(4, np.float32), "k": 5, "nprobes": 20}
    near = ours.to_table(nearest=nearest)["x"].to_pylist()
    assert peer.to_table(nearest=nearest)["x"].to_pylist() == near
    exact = peer.to_table(nearest={**nearest, "use_index": False})["x"].to_pylist()
    assert near == exact
    assert "ScalarIndexQuery" in peer.scanner(filter=condition).explain_plan()
    assert "ANN" in peer.scanner(nearest=nearest).explain_plan()
    assert "MatchQuery" in peer.scanner(full_text_query=words).explain_plan()


def build(uri: str, prefix: str = "") -> None:
    lo.create_index(uri, f"{prefix}deep.d" if prefix else "x", "BTREE", name="numbers")
    lo.create_index(uri, f"{prefix}s", "INVERTED", name="words")
    lo.create_index(uri, f"{prefix}v", "IVF_FLAT", name="near", parameters={"num_partitions": 2})


def full(dataset: lo.Dataset) -> bool:
    return all(item.ratio == 1.0 for item in coverage(dataset))


@pytest.mark.parametrize("defer", [False, True])
@pytest.mark.parametrize("stable", [False, True])
def test_on_a_branch_indices_are_those_of_main_and_go_their_own_way(
    tmp_path: Path, stable: bool, defer: bool
) -> None:
    main = str(tmp_path / "t.lance")
    lance.write_dataset(rows(0, 150), main, max_rows_per_file=50, enable_stable_row_ids=stable)
    build(main)
    lance.dataset(main).create_branch("dev")
    branch = f"{main}/tree/dev"

    def check() -> None:
        answers(lance.dataset(main).checkout_version(("dev", None)), lo.Dataset.open(branch))

    check()
    lo.create_index(branch, "n.deep.d", "BITMAP", name="of_dev")
    lo.append(branch, rows(150, 180))
    lo.optimize_indices(branch)
    check()
    lo.delete(branch, "x % 5 = 0")
    lo.compact(branch, defer_index_remap=defer, target_rows_per_fragment=1000)
    assert full(lo.Dataset.open(branch))
    lo.append(branch, rows(180, 200))
    lo.optimize_indices(branch)
    assert full(lo.Dataset.open(branch))
    assert lo.Dataset.open(branch).fragment_reuse is None
    check()
    lance.dataset(main).checkout_version(("dev", None)).optimize.optimize_indices()
    check()
    lo.create_index(branch, "x", "BTREE", name="numbers", replace=True)
    lo.drop_index(branch, "of_dev")
    check()
    answers(lance.dataset(main), lo.dataset(main))
    assert {item.name for item in lo.dataset(main).indices} == {"numbers", "words", "near"}


@pytest.mark.parametrize("stable", [False, True])
def test_members_of_structs_have_indices_through_all_upkeep(tmp_path: Path, stable: bool) -> None:
    path = str(tmp_path / "t.lance")
    lo.write_dataset(rows(0, 150), path, max_rows_per_file=50, enable_stable_row_ids=stable)
    build(path, "n.")
    answers(lance.dataset(path), lo.dataset(path), "n.")
    lo.append(path, rows(150, 180))
    lo.delete(path, "n.deep.d % 5 = 0")
    lo.optimize_indices(path)
    answers(lance.dataset(path), lo.dataset(path), "n.")
    lo.compact(path, target_rows_per_fragment=1000)
    lo.optimize_indices(path)
    assert full(lo.dataset(path))
    answers(lance.dataset(path), lo.dataset(path), "n.")
    lance.dataset(path).optimize.optimize_indices()
    answers(lance.dataset(path), lo.dataset(path), "n.")


@pytest.mark.parametrize("stable", [False, True])
def test_several_indices_of_one_column_are_built_used_refreshed_and_dropped_one_by_one(
    tmp_path: Path, stable: bool
) -> None:
    path = str(tmp_path / "t.lance")
    lo.write_dataset(rows(0, 150), path, max_rows_per_file=50, enable_stable_row_ids=stable)
    build(path)
    for kind in ("BITMAP", "ZONEMAP", "BLOOMFILTER"):
        lo.create_index(path, "x", kind, name=f"x_{kind}")
    lo.create_index(path, "v", "IVF_SQ", name="v_other", parameters={"num_partitions": 1})
    lo.create_index(path, "s", "BITMAP", name="s_values")
    lo.append(path, rows(150, 180))
    lo.delete(path, "x % 5 = 0")
    lo.optimize_indices(path)
    lo.compact(path, target_rows_per_fragment=1000)
    lo.optimize_indices(path)
    assert full(lo.dataset(path))
    condition, kept = "x >= 40 AND x < 48", [41, 42, 43, 44, 46, 47]
    for name in ("v_other", "x_BITMAP", "x_ZONEMAP", "x_BLOOMFILTER"):
        assert "ScalarIndexQuery" in lance.dataset(path).scanner(filter=condition).explain_plan()
        assert sorted(lance.dataset(path).to_table(filter=condition)["x"].to_pylist()) == kept
        assert sorted(lo.dataset(path).to_table(filter=condition)["x"].to_pylist()) == kept
        lo.drop_index(path, name)
    answers(lance.dataset(path), lo.dataset(path))
