"""RTREE files of both libraries: levels, bounds, statistics; lines and polygons; what is refused."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.indices import IndexConfig

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError
from lance_ops.index.registry import kind_of
from lance_ops.index.search.pruner import IndexPruner
from tests.support.geometries import values

pytestmark = pytest.mark.peer


@pytest.mark.parametrize("rows", [1, 3, 4, 13, 200])
@pytest.mark.parametrize("page", [2, 3, 4096])
def test_the_tree_has_the_pages_of_the_peer(tmp_path: Path, rows: int, page: int) -> None:
    found = []
    for name in ("ours", "theirs"):
        path = tmp_path / name
        lo.write_dataset(values(range(rows)), path, max_rows_per_file=50)
        if name == "ours":
            lo.create_index(path, "p", "RTREE", parameters={"page_size": page}, rows_per_task=50)
        else:
            config = IndexConfig(index_type="rtree", parameters={"page_size": page})
            lance.dataset(str(path)).create_scalar_index("p", config)
        found.append(lance.dataset(str(path)).stats.index_stats("p_idx")["indices"])
        dataset = lo.dataset(path)
        (segment,) = dataset.indices
        kind = kind_of(segment)
        assert kind is not None
        assert kind.parameters_of(dataset, segment) == {"page_size": page}
        own = dict(kind.statistics(dataset, segment))
        bounds, told = own.pop("bbox"), found[-1][0].pop("bbox")
        assert own == found[-1][0]
        assert list(bounds.values()) == pytest.approx(list(told.values()))
        assert lo.fsck(path, deep=True).ok
    assert found[0] == found[1]


def test_a_table_without_geometries_has_a_tree_without_pages(tmp_path: Path) -> None:
    table = values([5, 16, 27])
    assert table["p"].null_count == 3
    lo.write_dataset(table, tmp_path)
    lo.create_index(tmp_path, "p", "RTREE")
    peer = lance.dataset(str(tmp_path))
    assert peer.stats.index_stats("p_idx")["indices"][0]["num_pages"] == 0
    for sql, rows in (("p IS NULL", 3), ("st_intersects(p, st_point(1, 1))", 0)):
        assert peer.count_rows(sql) == lo.dataset(tmp_path).count_rows(sql) == rows
        assert "ScalarIndexQuery" in peer.scanner(filter=sql).explain_plan()


def test_lines_are_indexed_for_readers_that_evaluate_them(tmp_path: Path) -> None:
    points = values(range(40)).drop_columns(["b"])
    line = pa.array(
        [None if p is None else [p, {"x": p["x"] + 3, "y": p["y"] + 4}] for p in points["p"].to_pylist()],
        pa.list_(pa.field("vertices", points["p"].type, False)),
    )
    field = pa.field("l", line.type, metadata={"ARROW:extension:name": "geoarrow.linestring"})
    lo.write_dataset(points.append_column(field, line), tmp_path, max_rows_per_file=15)
    lo.create_index(tmp_path, "l", "RTREE", parameters={"page_size": 4})
    peer = lance.dataset(str(tmp_path))
    for sql in ("st_intersects(l, st_geomfromtext('POLYGON((0 0, 50 0, 50 50, 0 50, 0 0))'))", "l IS NULL"):
        assert "ScalarIndexQuery" in peer.scanner(filter=sql).explain_plan()
        assert peer.to_table(filter=sql).num_rows
        assert sorted(peer.to_table(filter=sql)["id"].to_pylist()) == (
            peer.to_table(filter=sql, use_scalar_index=False)["id"].to_pylist()
        )


def test_a_small_box_leaves_most_geometries_alone(tmp_path: Path) -> None:
    lo.write_dataset(values(range(400)), tmp_path)
    lo.create_index(tmp_path, "p", "RTREE", parameters={"page_size": 8})
    dataset = lo.dataset(tmp_path)
    pruning = IndexPruner().prune(dataset, dataset.parse_filter("st_within(p, st_point(37, 53))"))
    assert pruning is not None
    assert len(pruning.rows) < 8


@pytest.mark.parametrize(
    ("column", "parameters", "message"),
    [
        ("id", {}, "which an RTREE cannot index"),
        ("p", {"page_size": 1}, "not a valid page size"),
        ("p", {"page_size": True}, "not a valid page size"),
        ("p", {"fill": 2}, "no parameter 'fill'"),
    ],
)
def test_what_cannot_be_built_is_refused(
    tmp_path: Path, column: str, parameters: dict[str, int], message: str
) -> None:
    lo.write_dataset(values(range(4)), tmp_path)
    with pytest.raises(InvalidArgumentError, match=message):
        lo.create_index(tmp_path, column, "RTREE", parameters=parameters)
