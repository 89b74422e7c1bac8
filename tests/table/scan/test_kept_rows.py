"""Rows that a filter left are kept for the next search of the same version, within bounds."""

import numpy as np
import pyarrow as pa

import lance_ops as lo
from lance_ops.filter import Expression, parse_filter
from lance_ops.table.manifest.row_set import RowSet
from lance_ops.table.scan import kept_rows
from lance_ops.table.scan.kept_rows import KeptRows

CONDITION = "c = 1"


def rows(*addresses: int) -> RowSet:
    return RowSet.of(np.array(addresses, np.uint64))


def expressions(count: int) -> list[Expression]:
    # Of another dataset each: only the very same object is known again.
    schema = pa.schema([("c", pa.int64())])
    return [parse_filter(f"c = {number}", schema) for number in range(count)]


def refuse() -> RowSet:
    raise AssertionError("it was to be kept")


def test_the_same_condition_is_evaluated_once():
    kept, (first, second) = KeptRows(), expressions(2)
    assert kept.get(first, lambda: rows(1, 2)) == rows(1, 2)
    assert kept.get(first, refuse) == rows(1, 2)
    assert kept.get(second, lambda: rows(3)) == rows(3)


def test_conditions_that_were_not_asked_for_longest_go():
    kept, conditions = KeptRows(), expressions(kept_rows._MOST + 1)
    for condition in conditions:
        kept.get(condition, rows)
    assert kept.get(conditions[0], lambda: rows(9)) == rows(9)
    assert kept.get(conditions[-1], refuse) == rows()


def test_what_is_kept_has_bounds(monkeypatch):
    monkeypatch.setattr(kept_rows, "_MOST_BYTES", 1_000)
    kept, (first, second, large) = KeptRows(), expressions(3)
    kept.get(large, lambda: rows(*range(1_000)))
    assert kept.get(large, lambda: rows(1)) == rows(1)
    kept.get(first, lambda: rows(*range(200)))
    kept.get(second, lambda: rows(*range(300)))
    assert kept.get(first, lambda: rows(7)) == rows(7)


def test_every_version_finds_its_own_rows(tmp_path):
    vectors = np.random.default_rng(1).normal(size=(40, 4)).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 4)
    lo.write_dataset(pa.table({"c": np.arange(40) % 4, "id": range(40), "v": column}), tmp_path)
    nearest = {"column": "v", "q": vectors[5], "k": 20}

    def found(dataset: lo.Dataset) -> list[int]:
        table = dataset.to_table(["id"], filter=CONDITION, nearest=nearest, prefilter=True)
        return sorted(table["id"].to_pylist())

    before = lo.dataset(tmp_path)
    assert found(before) == found(before) == list(range(1, 40, 4))
    lo.delete(tmp_path, "id < 20")
    assert found(lo.dataset(tmp_path)) == list(range(21, 40, 4))
    assert found(before) == list(range(1, 40, 4))
    # Only some fragments are other rows, whatever was kept.
    table = before.to_table(["id"], filter=CONDITION, nearest=nearest, prefilter=True, fragments=[])
    assert table.num_rows == 0
