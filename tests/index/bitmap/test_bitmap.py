"""BITMAP: what it can be on, what it says, and what becomes of damage."""

import datetime as dt
import decimal
from pathlib import Path

import lance
import lance.file
import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, UnreadableIndexWarning
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter
from lance_ops.index.bitmap import group
from lance_ops.index.bitmap.lookup import LOOKUP_FILE
from lance_ops.index.registry import kind_of
from lance_ops.index.search.pruner import IndexPruner
from lance_ops.table.manifest.row_set import RowSet

pytestmark = pytest.mark.peer

DAY = dt.date(2020, 2, 29)
COLUMNS = {
    "i8": (pa.array([1, None, -5], pa.int8()), "{} = 1"),
    "u64": (pa.array([2**63, None, 2], pa.uint64()), "{} = 9223372036854775808"),
    "f16": (pa.array([1.5, None, np.nan], pa.float16()), "{} = 1.5"),
    "f32": (pa.array([1.5, None, np.nan], pa.float32()), "{} > 0"),
    "dec": (pa.array([decimal.Decimal("1.25"), None, decimal.Decimal(2)], pa.decimal128(9, 2)), "{} < 2"),
    "bool": (pa.array([True, None, False]), "{}"),
    "text": (pa.array(["a", None, ""]), "{} = ''"),
    "large": (pa.array(["a", None, "b"], pa.large_string()), "{} >= 'b'"),
    "bytes": (pa.array([b"a", None, b""]), "{} = X'61'"),
    "fixed": (pa.array([b"ab", None, b"cd"], pa.binary(2)), "{} = X'6162'"),
    "day": (pa.array([DAY, None, DAY + dt.timedelta(1)]), "{} = date '2020-02-29'"),
    "moment": (pa.array([5, None, 7], pa.timestamp("us")), "{} > timestamp '1970-01-01 00:00:00.000006'"),
}


def ids(table: pa.Table) -> list[int]:
    return sorted(table["id"].to_pylist())


def lookup(uri: Path) -> pa.Table:
    (file,) = (uri / "_indices").glob(f"*/{LOOKUP_FILE}")
    return lance.file.LanceFileReader(str(file)).read_all().to_table()


@pytest.mark.parametrize("name", COLUMNS)
def test_keys_and_rows_are_those_that_the_peer_writes(tmp_path: Path, name: str) -> None:
    values, condition = COLUMNS[name]
    rows = pa.table({"id": range(300), "x": values.take(pa.array(np.arange(300) * 7 % 3))})
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for uri in (ours, theirs):
        lo.write_dataset(rows, uri, max_rows_per_file=120, data_storage_version="2.2")
    lo.create_index(ours, "x", "Bitmap")
    lance.dataset(str(theirs)).create_scalar_index("x", "BITMAP")
    mine, peers = lookup(ours), lookup(theirs)
    assert mine.schema.equals(peers.schema, check_metadata=True)
    assert repr(mine["keys"].to_pylist()) == repr(peers["keys"].to_pylist())

    def read(data: bytes) -> RowSet:
        return RowSet.deserialize(data, path="", rows_of=lambda _: 120)

    assert list(map(read, mine["bitmaps"].to_pylist())) == list(map(read, peers["bitmaps"].to_pylist()))
    for uri in (ours, theirs):
        for sql in (condition.format("x"), "x IS NULL", f"NOT ({condition.format('x')})"):
            dataset, peer = lo.dataset(uri), lance.dataset(str(uri))
            scanned = ids(dataset.to_table(["id"], sql, pruners=[]))
            assert ids(dataset.to_table(["id"], sql, pruners=[IndexPruner()])) == scanned
            assert ids(peer.to_table(columns=["id"], filter=sql)) == scanned
            # The peer does not ask an index of half floats for what is not equal.
            used = "ScalarIndexQuery" in peer.scanner(filter=sql).explain_plan(True)
            assert used or (name == "f16" and "NOT" in sql)
    (segment,) = lo.dataset(ours).indices
    kind = kind_of(segment)
    assert kind is not None
    kind.verify(lo.dataset(ours), segment, deep=True)
    stats = lance.dataset(str(ours)).stats.index_stats("x_idx")["indices"][0]
    assert kind.statistics(lo.dataset(ours), segment) == stats


@pytest.mark.parametrize(
    "values", [pa.array([[1], [2]]), pa.array([{"a": 1}]), pa.array(["a"]).dictionary_encode()]
)
def test_columns_that_the_peer_cannot_index_are_refused(tmp_path: Path, values: pa.Array) -> None:
    uri = tmp_path / "t.lance"
    lo.write_dataset(pa.table({"x": values}), uri)
    with pytest.raises(InvalidArgumentError, match="which a BITMAP cannot index"):
        lo.create_index(uri, "x", "bitmap")


def test_many_values_in_many_runs_become_one_lookup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "RUN_ROWS", 500)
    monkeypatch.setattr(group, "_PART_BYTES", 3000)
    uri = tmp_path / "t.lance"
    rng = np.random.default_rng(1)
    values = pa.array([f"v{n:05}" for n in rng.integers(0, 3000, 6000)], mask=rng.random(6000) < 0.05)
    lo.write_dataset(pa.table({"id": range(6000), "x": values}), uri, max_rows_per_file=700)
    lo.create_index(uri, "x", "bitmap", rows_per_task=1500)
    keys = lookup(uri)["keys"].to_pylist()
    assert keys == sorted(set(values.to_pylist()), key=lambda key: (key is not None, key))
    for sql in ("x = 'v00007'", "x < 'v00100'", "x IS NULL", "x IN ('v00001', 'v02999')"):
        dataset = lo.dataset(uri)
        expected = ids(dataset.to_table(["id"], sql, pruners=[]))
        assert ids(dataset.to_table(["id"], sql)) == expected
        assert ids(lance.dataset(str(uri)).to_table(columns=["id"], filter=sql)) == expected


def test_a_function_of_the_column_is_answered_value_by_value(tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    lo.write_dataset(pa.table({"x": ["a", "bb", None, "ccc"] * 5}), uri)
    lo.create_index(uri, "x", "bitmap")
    dataset = lo.dataset(uri)
    for sql, count in {"length(x) = 2": 5, "upper(x) = 'A' OR x IS NULL": 10, "x LIKE '%c'": 5}.items():
        pruning = IndexPruner().prune(dataset, dataset.parse_filter(sql))
        assert pruning is not None
        assert pruning.exact
        assert len(pruning.addresses) == count


def replace_lookup(uri: Path, table: pa.Table) -> None:
    (file,) = (uri / "_indices").glob(f"*/{LOOKUP_FILE}")
    store = lo.dataset(uri).store
    path = str(file.relative_to(uri))
    with FileWriter(store, path, Schema.from_arrow(table.schema), version="2.0") as writer:
        writer.write(table)


def damaged(table: pa.Table, how: str) -> pa.Table:
    bitmaps = table["bitmaps"].to_pylist()
    match how:
        case "other columns":
            return table.rename_columns(["key", "bitmaps"])
        case "other type":
            return table.set_column(0, "keys", pa.array(["a"] * table.num_rows))
        case "cut":
            bitmaps[1] = bitmaps[1][:-3]
        case "missing":
            bitmaps[1] = None
        case "far":
            bitmaps[1] = RowSet.of_ranges([(0, 0, 2**32)]).serialize()
        case "unknown fragment":
            bitmaps[1] = RowSet.of_ranges([(9, 0, 2)]).serialize()
    return table.set_column(1, "bitmaps", pa.array(bitmaps, pa.binary()))


@pytest.mark.parametrize("how", ["other columns", "other type", "cut", "missing", "far", "unknown fragment"])
def test_a_damaged_lookup_is_a_slower_scan_with_a_warning(tmp_path: Path, how: str) -> None:
    uri = tmp_path / "t.lance"
    lo.write_dataset(pa.table({"x": [1, 2, None] * 10}), uri)
    lo.create_index(uri, "x", "bitmap")
    replace_lookup(uri, damaged(lookup(uri), how))
    with pytest.warns(UnreadableIndexWarning, match="'x_idx' cannot be read"):
        assert lo.dataset(uri).count_rows("x = 1") == 10
    assert any("x_idx" in problem.message for problem in lo.fsck(uri).findings)
    lo.append(uri, pa.table({"x": [1]}))
    assert lo.optimize_indices(uri).skipped or how in ("other columns", "other type")
    assert lo.create_index(uri, "x", "bitmap", replace=True).coverage_after == 1.0
    assert lo.dataset(uri).count_rows("x = 1") == 11


def test_a_row_under_two_values_is_found_by_a_deep_check(tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    lo.write_dataset(pa.table({"x": [1, 2, None] * 10}), uri)
    lo.create_index(uri, "x", "bitmap")
    table = lookup(uri)
    bitmaps = table["bitmaps"].to_pylist()
    bitmaps[2] = bitmaps[1]
    replace_lookup(uri, table.set_column(1, "bitmaps", pa.array(bitmaps, pa.binary())))
    assert any("two values" in problem.message for problem in lo.fsck(uri, deep=True).findings)
