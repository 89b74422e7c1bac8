"""Scans against a model: the rows as Python values."""

import gc
import threading

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.errors import CorruptFileError, CorruptManifestError, InvalidArgumentError, PredicateError
from lance_ops.file.schema.model import Schema
from lance_ops.storage import open_store
from lance_ops.table.manifest.row_set import RowSet
from lance_ops.table.scan import run as scan_module
from lance_ops.table.scan import unit_sizes
from lance_ops.table.scan.pruner import Pruning
from lance_ops.table.scan.run import Scan
from tests.support.faulty_store import FaultyStore
from tests.support.snapshots import put_snapshot, write_snapshot

SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("s", pa.string()),
        ("p", pa.struct([("x", pa.int32()), ("y", pa.string())])),
    ],
    metadata={"made by": "a test"},
)
SIZES = (40, 7, 1, 25)
DELETED = {0: [0, 3, 4, 5, 39], 2: [0], 3: list(range(10, 25))}


def rows(start, stop):
    return [
        {"k": k, "s": None if k % 3 == 0 else f"s{k % 5}", "p": {"x": k % 4, "y": str(k)}}
        for k in range(start, stop)
    ]


def model():
    """All live rows, with their addresses."""
    found, start = [], 0
    for number, size in enumerate(SIZES):
        for offset, row in enumerate(rows(start, start + size)):
            if offset not in DELETED.get(number, ()):
                found.append({**row, "_rowaddr": (number << 32) + offset})
        start += size
    return found


MODEL = model()


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    tables, start = [], 0
    for size in SIZES:
        tables.append(pa.Table.from_pylist(rows(start, start + size), schema=SCHEMA))
        start += size
    return write_snapshot(open_store(tmp_path_factory.mktemp("scan")), tables, deleted=DELETED)


FILTERS = {
    "k >= 30": lambda row: row["k"] >= 30,
    "k = 45 or k = 2": lambda row: row["k"] in (2, 45),
    "s = 's1'": lambda row: row["s"] == "s1",
    "s is null and p.x = 0": lambda row: row["s"] is None and row["p"]["x"] == 0,
    "p.y like '%1' and k < 60": lambda row: row["p"]["y"].endswith("1") and row["k"] < 60,
    "k < 0": lambda row: False,
    "_rowaddr >= 4294967296": lambda row: row["_rowaddr"] >= 1 << 32,
    "true": lambda row: True,
}
COLUMNS = {
    "k": lambda row: row["k"],
    "s": lambda row: row["s"],
    "p": lambda row: row["p"],
    "p.x": lambda row: row["p"]["x"],
    "p.y": lambda row: row["p"]["y"],
    "_rowaddr": lambda row: row["_rowaddr"],
    "_rowid": lambda row: row["_rowaddr"],
    "_rowoffset": lambda row: MODEL.index(row),
}


@settings(max_examples=150)
@given(
    columns=st.lists(st.sampled_from(sorted(COLUMNS)), unique=True),
    condition=st.none() | st.sampled_from(sorted(FILTERS)),
    limit=st.none() | st.integers(0, 80),
    offset=st.none() | st.integers(0, 80),
    fragments=st.none() | st.permutations(range(4)).flatmap(lambda p: st.integers(0, 4).map(lambda n: p[:n])),
    batch_size=st.sampled_from((1, 4, 1000)),
    threads=st.sampled_from((None, 1, 3)),
)
def test_every_scan_returns_the_rows_of_the_model(
    dataset, columns, condition, limit, offset, fragments, batch_size, threads
):
    chosen = [row for row in MODEL if condition is None or FILTERS[condition](row)]
    if fragments is not None:
        chosen = [row for number in fragments for row in chosen if row["_rowaddr"] >> 32 == number]
    start = offset or 0
    chosen = chosen[start:] if limit is None else chosen[start : start + limit]
    expected = [{name: COLUMNS[name](row) for name in columns} for row in chosen]
    options = {"limit": limit, "offset": offset, "fragments": fragments, "batch_size": batch_size}
    options["threads"] = threads

    table = dataset.to_table(columns, condition, **options)
    table.validate(full=True)
    assert (table.num_rows, table.column_names) == (len(chosen), columns)
    assert table.schema.metadata == SCHEMA.metadata
    if columns:
        assert table.to_pylist() == expected
    reader = dataset.to_batches(columns, condition, **options)
    assert reader.schema.equals(table.schema, check_metadata=True)
    batches = list(reader)
    assert all(0 < batch.num_rows <= batch_size for batch in batches)
    assert sum(batch.num_rows for batch in batches) == len(chosen)
    if columns and batches:
        assert pa.Table.from_batches(batches).equals(table)


@pytest.mark.parametrize("condition", FILTERS)
def test_counting_reads_no_column_but_those_of_the_filter(dataset, condition):
    assert dataset.count_rows(condition) == sum(map(FILTERS[condition], MODEL))
    assert dataset.count_rows() == len(MODEL)


@pytest.mark.parametrize("unit_bytes", [1, 100, 1 << 30])
@pytest.mark.parametrize("threads", [1, 3])
def test_neither_units_nor_threads_change_the_result(dataset, monkeypatch, unit_bytes, threads):
    monkeypatch.setattr(scan_module, "_UNIT_BYTES", unit_bytes)
    monkeypatch.setattr(unit_sizes, "TABLE_UNIT_BYTES", unit_bytes)
    monkeypatch.setattr(unit_sizes, "_WORTH_A_THREAD", 0)
    for condition in (None, "s = 's1'"):
        plan = dataset.scanner(["k"], condition).plan
        found = Scan(dataset, plan, batch_rows=3, threads=threads)
        expected = dataset.to_table(["k"], condition)
        assert found.to_table().equals(expected)
        assert found.to_batches().read_all().equals(expected)


@pytest.mark.parametrize(
    ("version", "column", "threads_start"),
    [
        ("2.0", np.zeros(1_000_000), False),
        ("2.0", np.zeros(3_000_000), True),
        ("2.0", [f"{number:050}" for number in range(200_000)], False),
        ("2.0", [f"{number:0200}" for number in range(100_000)], True),
        ("2.2", [f"{number:050}" for number in range(10_000)], False),
        # Decoded whole, in shares of their chunks.
        ("2.2", np.random.default_rng(0).bytes(4_000_000).hex(" ", 20).split(), False),
        ("2.2", np.random.default_rng(0).bytes(20_000_000).hex(" ", 100).split(), True),
    ],
)
def test_a_fragment_is_shared_among_threads_when_it_is_much_work(
    tmp_path, monkeypatch, version, column, threads_start
):
    table = pa.table({"c": column})
    lo.write_dataset(table, tmp_path / "t", data_storage_version=version, max_rows_per_file=1 << 30)
    dataset = lo.dataset(tmp_path / "t")
    started = []
    start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda self: (started.append(self.name), start(self))[1])
    found = Scan(dataset, dataset.scanner().plan, threads=2).to_table()
    assert found.equals(table)
    assert any(name.startswith("lance-scan") for name in started) == threads_start


def test_a_scan_can_be_run_again_and_left_half_way(dataset, monkeypatch):
    monkeypatch.setattr(unit_sizes, "_WORTH_A_THREAD", 0)
    scan = dataset.scanner(batch_size=2)
    scan._threads = 2
    reader = scan.to_batches()
    first = reader.read_next_batch()
    reader.close()
    del reader
    gc.collect()
    assert scan.to_table().slice(0, 2).equals(pa.Table.from_batches([first]))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("lance-scan")]


def test_an_error_in_the_middle_of_a_stream_keeps_its_type(dataset):
    broken = dataset.fragments[1]
    gone = broken.replace(physical_rows=broken.physical_rows - 1)
    reader = dataset.to_batches(fragments=[dataset.fragments[0], gone])
    with pytest.raises(CorruptFileError, match="got 7"):
        list(reader)


class KnowsRows:
    """A pruner that was told which rows match."""

    def __init__(self, fragments, addresses, *, exact=False):
        covered = frozenset(fragments)
        self.pruning = Pruning(covered, RowSet.of(sorted(addresses)), covered if exact else frozenset())
        self.asked = []

    def prune(self, dataset, expression):
        self.asked.append(expression.to_sql())
        return self.pruning


def matches(condition):
    return [row["_rowaddr"] for row in MODEL if FILTERS[condition](row)]


@given(
    condition=st.sampled_from(sorted(FILTERS)),
    covered=st.sets(st.integers(0, 3)),
    more=st.sets(st.sampled_from(range(40))),
    limit=st.none() | st.integers(0, 20),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_candidates_of_covered_fragments_and_a_scan_of_the_others(dataset, condition, covered, more, limit):
    addresses = {address for address in matches(condition) if address >> 32 in covered}
    if 0 in covered:
        addresses |= more
    pruner = KnowsRows(covered, addresses)
    expected = dataset.to_table(filter=condition, limit=limit, with_row_id=True)
    assert dataset.to_table(filter=condition, limit=limit, with_row_id=True, pruners=[pruner]).equals(
        expected
    )
    assert dataset.count_rows(condition, pruners=[pruner]) == len(matches(condition))


def test_exact_candidates_spare_the_filter_but_not_the_deletions(dataset):
    pruner = KnowsRows({0, 1, 2, 3}, [0, 1, 2, (1 << 32) + 6, 1 << 33], exact=True)
    table = dataset.to_table(["k"], "s = 'no such value'", pruners=[pruner])
    assert table["k"].to_pylist() == [1, 2, 46]
    assert dataset.count_rows("s = 'no such value'", pruners=[pruner]) == 3


def test_candidates_of_two_pruners_are_intersected(dataset):
    one = KnowsRows({0, 1}, [1, 2, 6])
    two = KnowsRows({0}, [2, 6, 7], exact=True)
    assert dataset.to_table(["k"], "k < 50", fragments=[0], pruners=[one, two])["k"].to_pylist() == [2, 6]
    plan = dataset.scanner(["k"], "k < 50", pruners=[one, two]).plan
    assert [item.fragment.id for item in plan.fragments] == [0, 3]
    assert plan.skipped_fragments == 2
    assert "narrowed to 2 rows" in str(plan)


def test_pruners_of_the_dataset_are_asked_unless_a_call_names_others(dataset):
    pruner = KnowsRows({0}, [1])
    opened = type(dataset).open(dataset.store, pruners=[pruner])
    assert opened.count_rows("k < 5") == 1
    assert opened.latest().count_rows("k < 5") == 1
    assert opened.count_rows("k < 5", pruners=[]) == 2
    opened.to_table()
    assert pruner.asked == ["k < 5", "k < 5"]


def test_filter_columns_are_read_first_and_others_only_where_rows_match(tmp_path):
    store = FaultyStore(open_store(tmp_path), count="any")
    wide = Schema.from_arrow(pa.schema([("k", pa.int64()), ("w", pa.large_binary())]))
    tables = [
        pa.table({"k": range(n, n + 10), "w": pa.array([bytes(50_000)] * 10, pa.large_binary())})
        for n in (0, 10)
    ]
    found = write_snapshot(store, tables, schema=wide)
    plan = found.scanner(filter="k = 13").plan
    assert (plan.filter_schema.names, plan.rest_schema.names) == (("k",), ("w",))
    assert found.to_table(filter="k = 13")["k"].to_pylist() == [13]
    assert found.scanner(["k"], "k = 13").plan.rest_schema.names == ()
    assert found.scanner(["w"], "k = 13 and _rowid > 3").plan.filter_row_columns == ("_rowid",)


@pytest.mark.parametrize(
    "options",
    [
        {"columns": ["nope"]},
        {"columns": ["K"]},
        {"columns": ["p.nope"]},
        {"columns": ["k", "k"]},
        {"columns": ["s.x"]},
        {"limit": -1},
        {"offset": -1},
        {"fragments": [9]},
        {"batch_size": 0},
        {"threads": 0},
    ],
)
def test_questions_that_make_no_sense_are_refused_before_reading(dataset, options):
    with pytest.raises(InvalidArgumentError):
        dataset.to_table(**options)


def test_paths_into_lists_are_refused(tmp_path):
    found = write_snapshot(open_store(tmp_path), [pa.table({"l": [[{"x": 1}]]})])
    with pytest.raises(InvalidArgumentError, match="list"):
        found.to_table(["l.item.x"])


@pytest.mark.parametrize("condition", ["k <", "nope = 1", "k = 'a"])
def test_filters_that_do_not_parse_are_refused(dataset, condition):
    with pytest.raises(PredicateError):
        dataset.to_table(filter=condition)


def test_columns_of_a_lost_blob_dataset_are_refused_and_others_read(tmp_path):
    store = open_store(tmp_path)
    plain = Schema.from_arrow(pa.schema([("k", pa.int64()), ("b", pa.large_binary())]))
    protos = plain.to_protos()
    protos[1].storage_class = "blob"
    blobs = Schema.from_protos(protos)
    first = write_snapshot(store, [pa.table({"k": [1, 2]})], schema=blobs)
    found = put_snapshot(store, *first.fragments, schema=blobs, version=2, blob_dataset_version=3)
    assert found.to_table(["k"], "k > 1")["k"].to_pylist() == [2]
    for call in (
        found.to_table,
        lambda: found.to_table(["b"]),
        lambda: found.count_rows("b is null"),
        lambda: found.take([0]),
    ):
        with pytest.raises(CorruptManifestError, match="version 3 of the blob dataset cannot be read"):
            call()
