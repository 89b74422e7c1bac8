"""Filters over indices of many kinds: a scan without them, and the peer, select the same."""

import json
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_ops as lo
from tests.support.geometries import values

pytestmark = pytest.mark.peer

ROWS = 240
INDICES = [
    ("i", "BTREE", "i_tree"),
    ("k", "BITMAP", "k_bits"),
    ("labels", "LABEL_LIST", "labels_list"),
    ("s", "NGRAM", "s_grams"),
    ("f", "ZONEMAP", "f_zones"),
    ("b", "BLOOMFILTER", "b_bloom"),
    ("doc", "JSON", "doc_member"),
    ("p", "RTREE", "p_boxes"),
]
PARAMETERS = {"JSON": {"path": "a", "target": "btree"}}
LATER = [("s", "BTREE", "s_tree"), ("i", "ZONEMAP", "i_zones"), ("f", "BTREE", "f_tree")]
"""Built after an append, over all of the rows."""

CONDITIONS = (
    "i = 7",
    "i > 30",
    "i BETWEEN 5 AND 9",
    "i NOT IN (1, 2, 3)",
    "i IS NULL",
    "k = 'k3'",
    "k <> 'k1'",
    "k IN ('k0', 'k5')",
    "k IS NOT NULL",
    "k LIKE 'k%'",
    "array_has(labels, 'red')",
    "array_has_any(labels, ['green', 'blue'])",
    "array_has_all(labels, ['red', 'blue'])",
    "contains(s, 'abc')",
    "contains(s, 'zz')",
    "s LIKE 'abc%'",
    "starts_with(s, 'ab')",
    "s = 'abcabc'",
    "s IS NULL",
    "f < -1.5",
    "f >= 2.0",
    "f IS NULL",
    "b = 17",
    "b IN (1, 99, 200)",
    "b IS NULL",
    "json_get_int(doc, 'a') = 3",
    "json_get_int(doc, 'a') > 5",
    "st_intersects(p, st_geomfromtext('POLYGON((1 1, 6 1, 6 6, 1 6, 1 1))'))",
    "p IS NULL",
    "free < 3",
    "i = free",
)
MORE_CONDITIONS = (
    "i + 1 = 8",
    "COALESCE(i, 3) = 3",
    "lower(k) = 'k3'",
    "k IS DISTINCT FROM 'k1'",
    "k IS NOT DISTINCT FROM NULL",
    "(i = 7) IS NOT TRUE",
    "(i > 3) IS NULL",
    "i IN (1, NULL)",
    "i NOT IN (1, NULL)",
    "length(s) > 3",
    "regexp_like(s, 'abc')",
    "s ILIKE '%ABC%'",
    "s LIKE '%bca%'",
    "s NOT LIKE '%ab_'",
    "ends_with(s, 'bc')",
    "labels IS NULL",
    "array_has(labels, NULL)",
    "f = CAST('NaN' AS DOUBLE)",
    "f IN (0.0, 2.0, 4.0)",
    "f > 1 AND f < 3 AND i > 3 AND i < 30",
    "b <> 17",
    "b > 250",
    "CASE WHEN i > 3 THEN k ELSE 'x' END = 'k1'",
    "json_get_string(doc, 'b') = 'x'",
    "NOT (json_get_int(doc, 'a') < 5)",
    "doc IS NULL",
    "NOT st_intersects(p, st_point(3, 3))",
)
"""Not all of these are known to the peer."""


def trees(conditions: tuple[str, ...]) -> st.SearchStrategy[str]:
    return st.recursive(
        st.sampled_from(conditions),
        lambda inner: st.one_of(
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"({' AND '.join(parts)})"),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"({' OR '.join(parts)})"),
            inner.map(lambda sql: f"(NOT {sql})"),
        ),
        max_leaves=6,
    )


def rows(seed: int) -> pa.Table:
    """Rows with nulls in all columns but one."""
    rng = np.random.default_rng(seed)

    def nullable(values: object, kind: pa.DataType | None = None) -> pa.Array:
        return pa.array(values, kind, mask=rng.random(ROWS) < 0.15)

    colours = ["red", "green", "blue", None]
    floats = rng.normal(size=ROWS).round(1) * 2
    floats[rng.random(ROWS) < 0.05] = np.nan
    documents = [{"a": int(value), "b": "x"} if value else {} for value in rng.integers(0, 9, ROWS)]
    points = values(range(ROWS)).select(["p"])
    table = pa.table(
        {
            "id": np.arange(ROWS) + 1000 * seed,
            "i": nullable(rng.integers(0, 40, ROWS)),
            "k": nullable([f"k{value}" for value in rng.integers(0, 7, ROWS)]),
            "labels": nullable(
                [list(rng.choice(colours, rng.integers(0, 4))) for _ in range(ROWS)], pa.list_(pa.string())
            ),
            "s": nullable(["".join(rng.choice(list("abcz"), 6)) for _ in range(ROWS - 2)] + ["abcabc"] * 2),
            "f": nullable(floats),
            "b": nullable(rng.integers(0, 300, ROWS)),
            "doc": nullable([json.dumps(document) for document in documents], pa.json_()),
            "free": rng.integers(0, 40, ROWS),
        }
    )
    return table.append_column(points.schema.field(0), points[0])


@pytest.fixture(scope="module", params=[False, True], ids=["addresses", "stable ids"])
def opened(request, tmp_path_factory):
    """One dataset as we and as the peer open it; kinds cover different fragments, and the last none."""
    uri = str(tmp_path_factory.mktemp("kinds") / "t.lance")
    lo.write_dataset(rows(1), uri, max_rows_per_file=100, enable_stable_row_ids=request.param)
    for column, kind, name in INDICES:
        lo.create_index(uri, column, kind, name=name, parameters=PARAMETERS.get(kind))
    lo.append(uri, rows(2))
    for column, kind, name in LATER:
        lo.create_index(uri, column, kind, name=name)
    lo.append(uri, rows(3).slice(0, 50))
    lo.delete(uri, "free = 7")
    lance.dataset(uri).delete("free = 8")
    return lo.dataset(uri), lance.dataset(uri)


@given(trees(CONDITIONS))
@settings(deadline=None, max_examples=60)
def test_trees_select_what_a_scan_and_the_peer_select(opened, sql):
    ours, theirs = opened
    found = ours.to_table(["id"], sql)["id"].to_pylist()
    assert found == ours.to_table(["id"], sql, use_scalar_index=False)["id"].to_pylist()
    assert sorted(found) == sorted(theirs.to_table(["id"], sql)["id"].to_pylist())


@given(trees((*CONDITIONS, *MORE_CONDITIONS)))
@settings(deadline=None)
def test_all_that_a_filter_may_hold_selects_what_a_scan_selects(opened, sql):
    ours, _ = opened
    found = ours.to_table(["id"], sql)
    assert found == ours.to_table(["id"], sql, use_scalar_index=False)
    assert ours.count_rows(sql) == found.num_rows


@pytest.mark.parametrize(
    ("sql", "used"),
    [
        ("i = 7", ["i_tree"]),
        ("k = 'k3' AND array_has(labels, 'red')", ["k_bits", "labels_list"]),
        ("contains(s, 'abc') OR i = 3", ["s_grams", "i_tree"]),
        ("s = 'abcabc'", ["s_tree"]),
        ("json_get_int(doc, 'a') = 3 AND st_intersects(p, st_point(3, 3))", ["doc_member", "p_boxes"]),
        ("b = 17 AND f >= 2.0", ["b_bloom", "f_tree"]),
        ("NOT (k = 'k1' OR i > 3)", ["k_bits", "i_tree"]),
    ],
)
def test_the_indices_that_can_answer_are_used(opened, sql, used):
    plan = opened[0].scanner(["id"], sql).plan
    assert {use.index for use in plan.uses} >= set(used)
    assert all(name in opened[0].explain(["id"], sql) for name in used)


def test_a_zone_map_of_pylance_on_a_column_of_nulls_hides_no_row(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    nested = pa.StructArray.from_arrays([pa.nulls(5)], ["n"])
    lance.write_dataset(pa.table({"id": range(5), "c": pa.nulls(5), "s": nested}), uri)
    for column in ("c", "s.n"):
        lance.dataset(uri).create_scalar_index(column, "ZONEMAP")
        for condition, count in ((f"{column} IS NULL", 5), (f"{column} IS NOT NULL", 0)):
            assert lo.dataset(uri).count_rows(condition) == count
    assert lo.update(uri, {"id": "id + 1"}, "c IS NULL").rows_updated == 5
