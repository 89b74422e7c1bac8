"""BTREE indices that lance_ops builds, used by the peer, and the other way round."""

import datetime as dt
import decimal
import shutil
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, UnreadableIndexWarning
from lance_ops.filter.junctions import conjuncts
from lance_ops.index.search.pruner import IndexPruner
from tests.support.interop import peer_dataset

pytestmark = pytest.mark.peer

ROWS = 20_000
COLUMNS = ("i", "f", "s", "b", "d", "ts", "dec", "st.a")
FILTERS = (
    "i = 3",
    "i > 490",
    "i >= -500 AND i < -490",
    "i IN (1, 2, 3)",
    "i IS NULL",
    "i IS NOT NULL",
    "NOT (i < 480)",
    "i = 3 OR i = 5",
    "i = 3 OR s IS NULL",
    "i = 3 AND s = 'k0001'",
    "f = 0.0",
    "f > 3.0",
    "f < -3.0",
    "f IS NULL",
    "s = 'k0001'",
    "s LIKE 'k00%'",
    "starts_with(s, 'k29')",
    "s > 'k2990'",
    "b = true",
    "d = date '1970-02-01'",
    "ts < timestamp '1970-01-01 01:00:00'",
    "dec = CAST(12.34 AS DECIMAL(10, 2))",
    "st.a = 5",
)


def table() -> pa.Table:
    rng = np.random.default_rng(5)

    def nullable(values: object, arrow_type: pa.DataType | None = None) -> pa.Array:
        return pa.array(values, arrow_type, mask=rng.random(ROWS) < 0.1)

    floats = rng.normal(size=ROWS).round(2)
    floats[rng.random(ROWS) < 0.05] = np.nan
    floats[rng.random(ROWS) < 0.02] = -0.0
    floats[:50] = np.inf
    return pa.table(
        {
            "id": np.arange(ROWS),
            "i": nullable(rng.integers(-500, 500, ROWS)),
            "f": nullable(floats),
            "s": nullable([f"k{value:04d}" for value in rng.integers(0, 3000, ROWS)]),
            "b": nullable(rng.random(ROWS) < 0.5),
            "d": pa.array(rng.integers(0, 1000, ROWS), pa.int32()).cast(pa.date32()),
            "ts": pa.array(rng.integers(0, 10**12, ROWS)).cast(pa.timestamp("us")),
            "dec": [decimal.Decimal(int(value)) / 100 for value in rng.integers(0, 10000, ROWS)],
            "st": [{"a": int(value)} for value in rng.integers(0, 100, ROWS)],
        }
    )


@pytest.fixture(scope="module")
def indexed_by_us(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ours") / "t.lance"
    lo.write_dataset(table(), path, max_rows_per_file=3000, data_storage_version="2.0")
    for column in COLUMNS:
        lo.create_index(path, column)
    return path


@pytest.fixture(scope="module")
def indexed_by_peer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("peer") / "t.lance"
    dataset = lance.write_dataset(table(), str(path), max_rows_per_file=3000, data_storage_version="2.0")
    for column in COLUMNS:
        dataset.create_scalar_index(column, "BTREE")
    return path


def selected(path: Path, sql: str) -> tuple[list[int], list[int], list[int]]:
    """Ids that the peer selects by index, and that we select with and without."""
    dataset = lo.dataset(path)
    return (
        sorted(lance.dataset(str(path)).to_table(columns=["id"], filter=sql)["id"].to_pylist()),
        dataset.scanner(["id"], sql, pruners=[IndexPruner()]).to_table()["id"].to_pylist(),
        dataset.scanner(["id"], sql, pruners=[]).to_table()["id"].to_pylist(),
    )


@pytest.mark.parametrize("sql", FILTERS)
def test_the_peer_answers_from_our_index_what_a_scan_answers(indexed_by_us: Path, sql: str) -> None:
    plan = lance.dataset(str(indexed_by_us)).scanner(columns=["id"], filter=sql).explain_plan()
    assert "ScalarIndexQuery" in plan
    by_peer, pruned, scanned = selected(indexed_by_us, sql)
    assert by_peer == scanned
    assert pruned == scanned


@pytest.mark.parametrize("sql", FILTERS)
def test_we_answer_from_the_index_of_the_peer_what_a_scan_answers(indexed_by_peer: Path, sql: str) -> None:
    by_peer, pruned, scanned = selected(indexed_by_peer, sql)
    assert by_peer == scanned
    assert pruned == scanned


def test_an_index_narrows_the_scan_to_the_rows_that_match(indexed_by_us: Path) -> None:
    dataset = lo.dataset(indexed_by_us)
    pruning = IndexPruner().prune(dataset, dataset.parse_filter("i = 3"))
    assert pruning is not None
    assert pruning.exact
    assert len(pruning.rows) == dataset.count_rows("i = 3")


def test_a_filter_that_keeps_most_rows_is_left_to_the_scan(indexed_by_us: Path) -> None:
    dataset = lo.dataset(indexed_by_us)
    assert IndexPruner().prune(dataset, dataset.parse_filter("i IS NOT NULL")) is None


@pytest.mark.parametrize("stable", [False, True])
def test_filters_on_columns_that_no_file_holds_work_beside_an_index(tmp_path: Path, stable: bool) -> None:
    uri = str(tmp_path / "t.lance")
    values = pa.table({"i": range(20)})
    lo.write_dataset(values, uri, enable_stable_row_ids=stable, max_rows_per_file=8)
    lo.create_index(uri, "i")
    rows = lo.dataset(uri).to_table(with_row_id=True, with_row_address=True)
    row_id, address = rows["_rowid"][9].as_py(), rows["_rowaddr"][9].as_py()
    expected = {
        f"_rowid = {row_id}": [9],
        f"_rowid IN ({row_id})": [9],
        f"i > 5 AND _rowid = {row_id}": [9],
        f"i = 5 OR _rowid = {row_id}": [5, 9],
        f"_rowaddr >= {address}": list(range(9, 20)),
        f"i < 12 AND _rowaddr >= {address}": [9, 10, 11],
    }
    if stable:
        expected["_row_created_at_version = 1 AND i = 3"] = [3]
        expected["_row_last_updated_at_version = 2"] = []
    for sql, selected in expected.items():
        assert lo.dataset(uri).to_table(["i"], sql)["i"].to_pylist() == selected, sql
        assert lo.dataset(uri).count_rows(sql) == len(selected), sql
        if "IN (" not in sql:
            assert lance.dataset(uri).to_table(["i"], filter=sql)["i"].to_pylist() == selected, sql


def test_an_index_whose_files_are_lost_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    peer_dataset(path, [200])
    lo.create_index(path, "x")
    shutil.rmtree(path / "_indices")
    with pytest.warns(UnreadableIndexWarning, match="'x_idx' cannot be read: no such file"):
        scan = lo.dataset(path).scanner(["x"], "x = 7", pruners=[IndexPruner()])
    assert scan.to_table()["x"].to_pylist() == [7]


def test_deleted_rows_do_not_come_back_through_the_index(indexed_by_us: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    shutil.copytree(indexed_by_us, path)
    lo.delete(path, "i = 3 AND id % 2 = 0")
    by_peer, pruned, scanned = selected(path, "i = 3")
    assert by_peer == pruned == scanned
    assert all(value % 2 == 1 for value in scanned)


def test_columns_of_many_pages_of_nulls_answer_right(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    values = [None] * 10_000 + list(range(100))
    lo.write_dataset(pa.table({"id": range(10_100), "v": values}), path, data_storage_version="2.0")
    lo.create_index(path, "v")
    for sql in ("v IS NULL", "v = 5", "v < 3", "v >= 98"):
        by_peer, pruned, scanned = selected(path, sql)
        assert by_peer == pruned == scanned


def test_an_index_on_an_empty_dataset_is_there_for_later_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    lo.write_dataset(pa.table({"x": pa.array([], pa.int64())}), path, data_storage_version="2.0")
    lo.create_index(path, "x")
    lo.append(path, pa.table({"x": [1, 2, 3]}))
    result = lo.optimize_indices(path)
    assert result.coverage_after == 1.0
    assert lance.dataset(str(path)).to_table(filter="x = 2")["x"].to_pylist() == [2]


TYPED_VALUES = {
    "int8": pa.array([1, None, -5] * 100, pa.int8()),
    "uint64": pa.array([1, None, 2**63] * 100, pa.uint64()),
    "float32": pa.array([1.5, None, -2.5] * 100, pa.float32()),
    "large_string": pa.array(["a", None, "b"] * 100, pa.large_string()),
    "binary": pa.array([b"a", None, b"b"] * 100),
    "large_binary": pa.array([b"a", None, b"b"] * 100, pa.large_binary()),
    "fixed_size_binary": pa.array([b"aa", None, b"bb"] * 100, pa.binary(2)),
    "decimal128": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("-3.25")] * 100),
    "date32": pa.array([dt.date(2024, 1, 1), None, dt.date(1960, 1, 1)] * 100),
    "date64": pa.array([dt.date(2024, 1, 1), None, dt.date(1960, 1, 1)] * 100, pa.date64()),
    "time64": pa.array([dt.time(1, 2, 3), None, dt.time(23, 0)] * 100, pa.time64("us")),
    "timestamp": pa.array([1, None, -(10**12)] * 100, pa.timestamp("ms")),
    "timestamp_utc": pa.array([1, None, -(10**15)] * 100, pa.timestamp("us", "UTC")),
    "duration": pa.array([1, None, -5] * 100, pa.duration("ns")),
}


@pytest.mark.parametrize("name", list(TYPED_VALUES))
def test_every_type_that_the_peer_indexes_is_indexed_alike(tmp_path: Path, name: str) -> None:
    path = tmp_path / "t.lance"
    lo.write_dataset(pa.table({"id": range(300), "v": TYPED_VALUES[name]}), path, data_storage_version="2.0")
    lo.create_index(path, "v")
    for sql, rows in (("v IS NULL", 100), ("v IS NOT NULL", 200)):
        by_peer, pruned, scanned = selected(path, sql)
        assert by_peer == pruned == scanned
        assert len(scanned) == rows
    result = lance.dataset(str(path)).optimize
    lo.append(path, lo.dataset(path).to_table())
    result.optimize_indices()
    assert len(selected(path, "v IS NULL")[0]) == 200


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["a", "b", None]).dictionary_encode(),
        pa.array([[1], None, [2]]),
        pa.array([[1.0, 2.0]] * 3, pa.list_(pa.float32(), 2)),
        pa.array([{"a": 1}] * 3),
    ],
    ids=lambda values: str(values.type),
)
def test_columns_that_the_peer_cannot_index_are_refused(tmp_path: Path, values: pa.Array) -> None:
    path = tmp_path / "t.lance"
    lo.write_dataset(pa.table({"v": values}), path, data_storage_version="2.0")
    with pytest.raises(InvalidArgumentError, match="which a BTREE cannot index"):
        lo.create_index(path, "v")


@pytest.mark.parametrize(
    ("sql", "parts"),
    [
        ("i <> 485 AND i > 480", 2),
        ("i > 480 AND i NOT IN (481, 490)", 2),
        ("i > 470 AND NOT (i BETWEEN 480 AND 490)", 2),
        ("s LIKE 'k00%' AND s NOT LIKE 'k000%'", 2),
        ("s = 'k0001' AND s IS NOT NULL", 2),
        ("i > 480 AND i <> 485 AND s <> 'k0001' AND s < 'k0100'", 4),
    ],
)
def test_what_a_value_is_not_is_answered_beside_what_it_is(indexed_by_us: Path, sql: str, parts: int) -> None:
    dataset = lo.dataset(indexed_by_us)
    expression = dataset.parse_filter(sql)
    assert len(conjuncts(expression)) >= parts
    pruning = IndexPruner().prune(dataset, expression)
    assert pruning is not None
    by_peer, pruned, scanned = selected(indexed_by_us, sql)
    assert by_peer == pruned == scanned
    assert len(pruning.rows) == len(scanned)
