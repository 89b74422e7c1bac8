"""Filters over several indices that cover different fragments select what a scan selects."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_ops as lo

ROWS = 90
CONDITIONS = (
    "a = 3",
    "a > 5",
    "a <> 2",
    "a IS NULL",
    "a IS NOT NULL",
    "a IN (1, 2, NULL)",
    "a NOT IN (1, 2)",
    "b < 0.0",
    "b = CAST('NaN' AS DOUBLE)",
    "b IS NULL",
    "s LIKE 'k1%'",
    "s = 'k2'",
    "s IS NULL",
    "starts_with(s, 'k')",
    "free < 3",
    "a = free",
)
"""Of three indexed columns and one that is not."""

TREES = st.recursive(
    st.sampled_from(CONDITIONS),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]} AND {pair[1]})"),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]} OR {pair[1]})"),
        inner.map(lambda sql: f"(NOT {sql})"),
        inner.map(lambda sql: f"({sql} IS TRUE)"),
        inner.map(lambda sql: f"({sql} IS NOT FALSE)"),
    ),
    max_leaves=6,
)


def rows(seed: int) -> pa.Table:
    """Rows with nulls in all indexed columns."""
    rng = np.random.default_rng(seed)

    def nullable(values: object) -> pa.Array:
        return pa.array(values, mask=rng.random(ROWS) < 0.2)

    floats = rng.normal(size=ROWS)
    floats[rng.random(ROWS) < 0.1] = np.nan
    return pa.table(
        {
            "a": nullable(rng.integers(0, 8, ROWS)),
            "b": nullable(floats),
            "s": nullable([f"k{value}" for value in rng.integers(0, 20, ROWS)]),
            "free": rng.integers(0, 8, ROWS),
        }
    )


@pytest.fixture(scope="module", params=[False, True], ids=["addresses", "stable ids"])
def dataset(request, tmp_path_factory):
    """One index covers all fragments, one half of them, one all but those of the last append."""
    uri = tmp_path_factory.mktemp("several") / "t.lance"
    lo.write_dataset(rows(1), uri, max_rows_per_file=40, enable_stable_row_ids=request.param)
    lo.create_index(uri, "a")
    lo.append(uri, rows(2))
    lo.create_index(uri, "s")
    lo.append(uri, rows(3))
    lo.create_index(uri, "b")
    lo.delete(uri, "free = 7")
    return lo.dataset(uri)


@given(TREES)
@settings(deadline=None)
def test_trees_of_conditions_select_what_a_scan_selects(dataset, sql):
    assert dataset.to_table(["_rowid"], sql).equals(dataset.to_table(["_rowid"], sql, pruners=()))
    assert dataset.count_rows(sql) == dataset.count_rows(sql, pruners=())


def test_only_the_fragments_that_no_index_covers_are_scanned_whole(dataset):
    plan = dataset.scanner(filter="a = 3 AND b < 0.0 AND free < 5").plan
    # The index on b covers everything, so that not even what that on a leaves out is scanned.
    assert all(part.candidates is not None for part in plan.fragments)
    assert [use.index for use in plan.uses] == ["a_idx", "b_idx"]
    either = dataset.scanner(filter="a = 3 OR s = 'k2'").plan
    whole = [part.fragment.id for part in either.fragments if part.candidates is None]
    assert whole == [part.id for part in dataset.fragments[3:]]


def test_rows_are_checked_where_an_index_does_not_tell_everything(dataset):
    exact = dataset.scanner(filter="a = 3 AND s = 'k2'").plan
    # In the fragments of the first write both indices are exact, in those of the second only one knows.
    first = {part.id for part in dataset.fragments[:3]}
    assert all(part.exact == (part.fragment.id in first) for part in exact.fragments)
    assert dataset.scanner(filter="a = 3 AND free < 5").plan.rechecked > 0
