"""LABEL_LIST: what it can be on, what it answers, and files that do not know which lists are null."""

import datetime as dt
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
from lance_ops.index.bitmap.lookup import LOOKUP_FILE
from lance_ops.index.registry import kind_of
from lance_ops.index.search.pruner import IndexPruner
from lance_ops.table.manifest.row_set import RowSet

pytestmark = pytest.mark.peer

LISTS = {
    "text": (pa.list_(pa.string()), [["a", "b"], None, [], ["a", None, "a"], ["c"]], "'a'"),
    "large": (pa.large_list(pa.large_string()), [["a", "b"], None, [], ["a", None], ["c"]], "'a'"),
    "int64": (pa.list_(pa.int64()), [[1, 2], None, [], [1, None, 1], [-3]], "1"),
    "int32": (pa.list_(pa.int32()), [[1, 2], None, [], [1, None, 1], [-3]], "1"),
    "float": (pa.list_(pa.float64()), [[1.0, -0.0], None, [], [float("nan"), None, 0.0], [2.5]], "2.5"),
    "day": (pa.list_(pa.date32()), [[dt.date(2020, 1, 1)], None, [], [None]], "date '2020-01-01'"),
    "bool": (pa.list_(pa.bool_()), [[True, False], None, [], [None], [True]], "true"),
}
QUESTIONS = (
    "array_has(x, {0})",
    "NOT array_has(x, {0})",
    "array_has_any(x, [{0}])",
    "array_has_all(x, [{0}, NULL])",
    "NOT array_has_all(x, [{0}, NULL])",
    "x IS NULL",
    "x IS NOT NULL",
    "x IS NULL OR array_has(x, {0})",
)


def table_of(name: str) -> pa.Table:
    list_type, lists, _ = LISTS[name]
    return pa.table({"id": range(300), "x": pa.array([lists[n % len(lists)] for n in range(300)], list_type)})


def ids(table: pa.Table) -> list[int]:
    return sorted(table["id"].to_pylist())


def lookup(uri: Path) -> tuple[pa.Table, RowSet]:
    (file,) = (uri / "_indices").glob(f"*/{LOOKUP_FILE}")
    reader = lance.file.LanceFileReader(str(file))
    table = reader.read_all().to_table()
    number = int(table.schema.metadata[b"lance:label_list_nulls"])
    return table, read(bytes(reader.read_global_buffer(number)))


def read(data: bytes) -> RowSet:
    return RowSet.deserialize(data, path="", rows_of=lambda _: 120)


@pytest.mark.parametrize("name", LISTS)
def test_items_and_rows_are_those_that_the_peer_writes(tmp_path: Path, name: str) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for uri in (ours, theirs):
        lo.write_dataset(table_of(name), uri, max_rows_per_file=120, data_storage_version="2.2")
    lo.create_index(ours, "x", "label_list")
    lance.dataset(str(theirs)).create_scalar_index("x", "LABEL_LIST")
    (mine, my_nulls), (peers, their_nulls) = lookup(ours), lookup(theirs)
    assert mine.schema.equals(peers.schema, check_metadata=True)
    assert repr(mine["keys"].to_pylist()) == repr(peers["keys"].to_pylist())
    assert list(map(read, mine["bitmaps"].to_pylist())) == list(map(read, peers["bitmaps"].to_pylist()))
    assert my_nulls == their_nulls
    for uri in (ours, theirs):
        dataset = lo.dataset(uri)
        for question in QUESTIONS:
            sql = question.format(LISTS[name][2])
            scanned = ids(dataset.to_table(["id"], sql, pruners=[]))
            pruning = IndexPruner().prune(dataset, dataset.parse_filter(sql))
            assert pruning is not None
            assert len(pruning.rows) == len(scanned), sql
            assert ids(dataset.to_table(["id"], sql, pruners=[IndexPruner()])) == scanned, sql
            assert ids(lance.dataset(str(uri)).to_table(columns=["id"], filter=sql)) == scanned, sql
    (segment,) = lo.dataset(ours).indices
    kind = kind_of(segment)
    assert kind is not None
    kind.verify(lo.dataset(ours), segment, deep=True)
    stats = lance.dataset(str(ours)).stats.index_stats("x_idx")["indices"][0]
    assert kind.statistics(lo.dataset(ours), segment) == stats


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, 2]),
        pa.array([[[1]], None]),
        pa.array([[{"a": 1}], None]),
        pa.array([[1], [2]], pa.list_(pa.int32(), 1)),
        pa.array([["a"], None], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
    ],
)
def test_columns_of_other_things_than_plain_values_are_refused(tmp_path: Path, values: pa.Array) -> None:
    uri = tmp_path / "t.lance"
    lo.write_dataset(pa.table({"x": values}), uri)
    with pytest.raises(InvalidArgumentError, match="which a LABEL_LIST cannot index"):
        lo.create_index(uri, "x", "label_list")


@pytest.mark.parametrize("sql", ["array_has(x, NULL)", "array_has_any(x, [])", "array_has_all(x, [])"])
def test_questions_that_items_do_not_answer_are_left_to_the_scan(tmp_path: Path, sql: str) -> None:
    uri = tmp_path / "t.lance"
    lo.write_dataset(table_of("text"), uri)
    lo.create_index(uri, "x", "label_list")
    dataset = lo.dataset(uri)
    assert IndexPruner().prune(dataset, dataset.parse_filter(sql)) is None
    assert dataset.count_rows(sql) == lance.dataset(str(uri)).count_rows(filter=sql)


def rewrite(uri: Path, bitmaps: list[bytes] | None = None, nulls: bytes | None = None) -> None:
    """The lookup again with other bitmaps, and without the lists that are null unless they are given."""
    table, _ = lookup(uri)
    if bitmaps is not None:
        table = table.set_column(1, "bitmaps", pa.array(bitmaps, pa.binary()))
    (file,) = (uri / "_indices").glob(f"*/{LOOKUP_FILE}")
    path = str(file.relative_to(uri))
    schema = Schema.from_arrow(table.schema.remove_metadata())
    with FileWriter(lo.dataset(uri).store, path, schema, version="2.0") as writer:
        writer.write(table)
        if nulls is not None:
            writer.add_schema_metadata(
                {"lance:label_list_nulls": str(writer.add_global_buffer(nulls)).encode()}
            )


def test_a_lookup_that_does_not_know_the_nulls_answers_no_negation_until_it_is_merged(tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    lo.write_dataset(table_of("text"), uri, max_rows_per_file=120)
    lo.create_index(uri, "x", "label_list")
    rewrite(uri)
    dataset = lo.dataset(uri)
    assert IndexPruner().prune(dataset, dataset.parse_filter("NOT array_has(x, 'a')")) is None
    assert IndexPruner().prune(dataset, dataset.parse_filter("x IS NULL")) is None
    assert dataset.count_rows("array_has(x, 'a')") == 120
    assert dataset.count_rows("NOT array_has(x, 'a')") == 120
    lo.append(uri, table_of("text"))
    lo.optimize_indices(uri)
    dataset = lo.dataset(uri)
    for sql, count in {"NOT array_has(x, 'a')": 240, "x IS NULL": 120}.items():
        pruning = IndexPruner().prune(dataset, dataset.parse_filter(sql))
        assert pruning is not None
        assert len(pruning.rows) == count
        assert lance.dataset(str(uri)).count_rows(filter=sql) == count


def test_a_row_with_items_and_no_list_is_found_by_a_deep_check(tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    lo.write_dataset(table_of("text"), uri)
    lo.create_index(uri, "x", "label_list")
    rewrite(uri, nulls=RowSet.of_ranges([(0, 0, 3)]).serialize())
    assert any("items and no list" in finding.message for finding in lo.fsck(uri, deep=True).findings)


def test_damaged_nulls_are_a_slower_scan_with_a_warning(tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    lo.write_dataset(table_of("text"), uri)
    lo.create_index(uri, "x", "label_list")
    rewrite(uri, nulls=RowSet.of_ranges([(0, 0, 2**32)]).serialize())
    with pytest.warns(UnreadableIndexWarning, match="behind the last one"):
        assert lo.dataset(uri).count_rows("NOT array_has(x, 'a')") == 120


def test_rows_that_an_update_moved_are_not_found_by_what_they_held(tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    lo.write_dataset(table_of("text"), uri, max_rows_per_file=100, enable_stable_row_ids=True)
    lo.create_index(uri, "x", "label_list")
    lance.dataset(str(uri)).update({"x": "['new']"}, where="id = 0")
    for _ in range(2):
        dataset = lo.dataset(uri)
        assert dataset.count_rows("array_has(x, 'a')") == 119
        assert dataset.count_rows("array_has(x, 'new')") == 1
        assert dataset.count_rows("NOT array_has(x, 'a')") == 121
        lo.optimize_indices(uri)
    assert np.isclose(lo.optimize_indices(uri).coverage_after, 1.0)
    assert lance.dataset(str(uri)).count_rows(filter="array_has(x, 'a')") == 119
