"""What wear asks for: one reason for each segment, and nothing twice for the same rows."""

from pathlib import Path
from uuid import uuid4

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError
from lance_ops.index.kind import ModelFit
from lance_ops.index.upkeep.wear import IndexWear, SegmentWear, measure_wear
from lance_ops.maintenance.index.decision import WearLimits, decide
from lance_ops.maintenance.index.plan import IndexPlan
from tests.support.interop import peer_table

MANY = 1 << 15


def worn(dead: float, rows: int = MANY) -> IndexWear:
    return IndexWear("i", (SegmentWear(uuid4(), rows, dead),))


def fit(**numbers: object) -> IndexWear:
    usual = {"rows": MANY, "newer_rows": MANY // 2, "imbalance": 1.4, "imbalance_trained": 1.4, "drift": 1.0}
    return IndexWear("i", (), ModelFit(**{**usual, **numbers}))


@pytest.mark.parametrize(
    ("wear", "asked"),
    [
        (worn(0.34), True),
        (worn(0.33), False),
        (worn(0.9, rows=100), False),
        (fit(), False),
        (fit(drift=1.6), True),
        (fit(drift=1.4), False),
        (fit(drift=9.0, newer_rows=MANY // 5), False),
        (fit(drift=9.0, rows=1000, newer_rows=900), False),
        (fit(drift=None), False),
        (fit(imbalance=2.9), True),
        (fit(imbalance=2.7), False),
        (fit(imbalance=3.9, imbalance_trained=None), False),
        (fit(imbalance=4.1, imbalance_trained=None), True),
    ],
)
def test_limits_decide(wear: IndexWear, asked: bool) -> None:
    decision = decide(wear, WearLimits())
    assert bool(decision.rebuild or decision.rewrite) == asked


@pytest.mark.parametrize("wrong", [{"max_dead_ratio": 1.1}, {"max_drift": 0.9}, {"max_imbalance": 0}])
def test_limits_make_sense(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
        WearLimits(**wrong)


def numbers(rows: int) -> pa.Table:
    return pa.table({"x": pa.array(range(rows), pa.int64()), "y": pa.array(range(rows), pa.int64())})


def test_a_segment_of_many_dead_rows_is_written_without_them_and_then_left(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    lo.write_dataset(numbers(20_000), path)
    lo.create_index(path, "x")
    lo.create_index(path, "y", "BITMAP")
    lo.delete(path, "x < 5000")
    assert not lo.optimize_indices(path).changed
    lo.delete(path, "x < 8000")
    plan = lo.optimize_indices(path, dry_run=True)
    assert isinstance(plan, IndexPlan)
    assert {(choice.index, choice.action) for choice in plan.choices} == {
        ("x_idx", "rebuild"),
        ("y_idx", "rebuild"),
    }
    assert "40.0% of 20,000 rows are deleted (limit 33.3%)" in str(plan)
    result = lo.optimize_indices(path)
    assert result.segments_added == 2
    assert result.choices == plan.choices
    assert [item.dead_ratio for item in measure_wear(lo.dataset(path))] == [0.0, 0.0]
    assert not lo.optimize_indices(path).changed
    assert peer_table(path, filter="x < 8010").num_rows == 10


def test_whoever_says_what_to_merge_is_obeyed(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    lo.write_dataset(numbers(20_000), path)
    lo.create_index(path, "x")
    lo.delete(path, "x < 15000")
    assert not lo.optimize_indices(path, merge_segments=1).changed


def clusters(center: float, rows: int, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    centers = center + np.random.default_rng(int(center)).normal(size=(16, 8)) * 3
    vectors = (centers[random.integers(0, 16, rows)] + random.normal(size=(rows, 8))).astype(np.float32)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 8)
    return pa.table({"x": pa.array(range(rows), pa.int64()), "v": lists})


def test_rows_that_drift_away_have_the_model_learned_anew_once_they_are_many(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    lo.write_dataset(clusters(0, 16_000, 1), path)
    lo.create_index(path, "v", "IVF_FLAT", parameters={"num_partitions": 16})
    lo.append(path, clusters(9, 4000, 2))
    first = lo.optimize_indices(path)
    (wear,) = measure_wear(lo.dataset(path))
    assert wear.fit is not None
    assert wear.fit.drift is not None
    assert wear.fit.drift > 3
    assert wear.fit.newer_rows == 4000
    assert not first.rebuilt
    lo.append(path, clusters(9, 4000, 3))
    plan = lo.optimize_indices(path, dry_run=True)
    assert isinstance(plan, IndexPlan)
    assert [choice.action for choice in plan.choices] == ["rebuild"]
    assert "33.3% of rows are newer than its training" in plan.choices[0].reason
    assert lo.optimize_indices(path).rebuilt
    (after,) = measure_wear(lo.dataset(path))
    assert after.fit is not None
    assert (after.fit.newer_rows, after.fit.drift) == (0, None)
    lo.append(path, clusters(9, 100, 4))
    assert not lo.optimize_indices(path).rebuilt


@pytest.mark.peer
@pytest.mark.parametrize(("column", "kind"), [("v", "IVF_FLAT"), ("v", "IVF_HNSW_SQ"), ("s", "INVERTED")])
def test_row_ids_that_a_compaction_took_away_leave_segments_of_scores(
    tmp_path: Path, column: str, kind: str
) -> None:
    path = tmp_path / "t.lance"
    table = clusters(0, 300, 1).append_column("s", pa.array([f"word{x % 7} text" for x in range(300)]))
    lo.write_dataset(table, path, max_rows_per_file=100, enable_stable_row_ids=True)
    lo.create_index(path, column, kind)

    def found() -> int:
        if column == "s":
            full_text = {"columns": ["s"], "query": "text"}
            return lance.dataset(str(path)).to_table(full_text_query=full_text, limit=20).num_rows
        nearest = {"column": "v", "q": np.zeros(8, np.float32), "k": 20, "nprobes": 20}
        return lance.dataset(str(path)).to_table(nearest=nearest).num_rows

    lo.delete(path, "x % 3 = 0")
    assert not lo.optimize_indices(path).changed
    assert found() == 20
    lo.compact(path, target_rows_per_fragment=1000)
    assert found() < 20
    result = lo.optimize_indices(path)
    assert [choice.action for choice in result.choices] == ["rewrite"]
    assert result.rows_indexed == 0
    assert "a compaction removed 100 rows" in result.choices[0].reason
    assert found() == 20
    assert not lo.optimize_indices(path).changed


@pytest.mark.peer
def test_what_training_left_is_known_after_merges_and_harms_none_of_the_peers(
    tmp_path: Path,
) -> None:
    path = tmp_path / "t.lance"
    lo.write_dataset(clusters(0, 2000, 1), path)
    lo.create_index(path, "v", "IVF_PQ", parameters={"num_partitions": 4, "num_sub_vectors": 4})

    def trained() -> float | None:
        (wear,) = measure_wear(lo.dataset(path))
        assert wear.fit is not None
        return wear.fit.imbalance_trained

    before = trained()
    assert before is not None
    lo.append(path, clusters(0, 500, 2))
    lo.optimize_indices(path)
    assert trained() == before
    lo.append(path, clusters(0, 500, 3))
    lance.dataset(str(path)).optimize.optimize_indices(num_indices_to_merge=1)
    (wear,) = measure_wear(lo.dataset(path))
    assert wear.fit is not None
    assert wear.fit.drift == pytest.approx(1, abs=0.3)
    nearest = {"column": "v", "q": np.zeros(8, np.float32), "k": 20, "nprobes": 4}
    assert peer_table(path, nearest=nearest).num_rows == 20
