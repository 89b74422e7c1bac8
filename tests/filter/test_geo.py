"""Conditions on geometries: what lies where, as the peer has it."""

from pathlib import Path

import lance
import pytest

import lance_ops as lo
from lance_ops.errors import PredicateError
from lance_ops.filter.functions.geo import RELATIONS
from tests.support.geometries import values

pytestmark = pytest.mark.peer

SHAPES = (
    "st_geomfromtext('POLYGON((10 10, 60 12, 50 70, 5 40, 10 10))')",
    "st_geomfromtext('MULTIPOLYGON(((0 0, 9 0, 9 9, 0 9, 0 0)), ((40 40, 90 40, 90 90, 40 90, 40 40)))')",
    "st_geomfromtext('LINESTRING(0 0, 50 50, 90 20)')",
    "st_geomfromtext('POINT(37 53)')",
    "st_point(37, 53)",
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("geo") / "t.lance"
    lo.write_dataset(values(range(300)), path)
    return path


def selected(path: Path, sql: str) -> tuple[list[int], list[int], list[int]]:
    """What we select, what the peer selects, and what it selects by our canonical text."""
    ours, theirs = lo.dataset(path), lance.dataset(str(path))
    expression = ours.parse_filter(sql)
    assert ours.parse_filter(expression.to_sql()) == expression
    return (
        ours.to_table(columns=["id"], filter=sql)["id"].to_pylist(),
        theirs.to_table(columns=["id"], filter=sql)["id"].to_pylist(),
        theirs.to_table(columns=["id"], filter=expression.to_sql())["id"].to_pylist(),
    )


@pytest.mark.parametrize("name", RELATIONS)
@pytest.mark.parametrize("column", ["p", "b"])
def test_relations_hold_where_the_peer_finds_them(path: Path, name: str, column: str) -> None:
    for shape in SHAPES:
        for sql in (f"{name}({column}, {shape})", f"NOT {name}({column}, {shape})"):
            ours, theirs, canonical = selected(path, sql)
            assert ours == theirs == canonical, sql


@pytest.mark.parametrize(
    "sql",
    [
        "st_distance(p, st_point(10, 10)) < 20",
        "st_x(p) > 50 AND st_y(p) <= 20",
        "st_area(b) > 4",
        "st_intersects(p, b)",
        "st_within(p, b) OR p IS NULL",
    ],
)
def test_measures_are_those_of_the_peer(path: Path, sql: str) -> None:
    ours, theirs, canonical = selected(path, sql)
    assert ours == theirs == canonical
    assert ours


def test_a_constant_may_come_first(path: Path) -> None:
    # The peer takes the operands the other way round then.
    first = lo.dataset(path).to_table(filter=f"st_contains({SHAPES[0]}, p)")
    assert first.equals(lo.dataset(path).to_table(filter=f"st_within(p, {SHAPES[0]})"))
    assert first.num_rows


def test_a_null_geometry_lies_nowhere(path: Path) -> None:
    for sql in ("st_intersects(p, st_geomfromtext(NULL))", "st_disjoint(p, st_point(NULL, 1))"):
        assert lo.dataset(path).count_rows(sql) == 0


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("st_within(p, st_geomfromtext('POLY'))", "is not a valid geometry"),
        ("st_within(p, 'POINT(1 1)')", "does not take a value of type string"),
        ("st_within(id, p)", "does not take a value of type int64"),
        ("st_within(p)", "takes 2 arguments"),
    ],
)
def test_what_is_no_geometry_is_refused(path: Path, sql: str, message: str) -> None:
    with pytest.raises(PredicateError, match=message):
        lo.dataset(path).to_table(filter=sql)
