"""What is asked of a store behind a network: few requests, and not many more bytes than are wanted."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pytest

from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.storage import open_store
from lance_ops.table.data_writer import write_data_files
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.row_set import RowSet
from lance_ops.table.scan.pruner import Pruning
from lance_ops.table.transaction.operations import Overwrite
from tests.support.counting_store import CountingStore
from tests.support.table_actions import commit

ROWS = 200_000
# What opening a file reads, and what lies between two wanted ranges of one request.
TAIL, GAP = 64 << 10, 64 << 10
VERSIONS = ["2.0", "2.2"]


def make_table() -> pa.Table:
    rng = np.random.default_rng(0)
    columns: dict[str, pa.Array] = {f"n{k}": pa.array(rng.integers(0, 2**40, ROWS)) for k in range(14)}
    columns["key"] = pa.array(np.arange(ROWS))
    columns["text"] = pa.array([f"{n:x} and {n * 7919:x}" for n in rng.integers(0, 2**50, ROWS).tolist()])
    columns["nullable"] = pa.array(rng.integers(0, 2**30, ROWS), mask=rng.random(ROWS) < 0.2)
    columns["vector"] = pa.FixedSizeListArray.from_arrays(pa.array(rng.random(ROWS * 96, np.float32)), 96)
    columns["wide"] = pa.array([rng.bytes(200).hex() for _ in range(ROWS // 20)]).take(
        rng.integers(0, ROWS // 20, ROWS)
    )
    lengths = rng.integers(0, 4, ROWS)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    columns["list"] = pa.ListArray.from_arrays(offsets, pa.array(rng.integers(0, 99, int(lengths.sum()))))
    return pa.table(columns)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return make_table()


@pytest.fixture(scope="module")
def stores(table) -> Mapping[str, CountingStore]:
    found = {}
    schema = Schema.from_arrow(table.schema)
    for version in VERSIONS:
        store = open_store(f"memory://requests-{version}")
        fragments = write_data_files(store, table.to_batches(), schema, version=version)
        assert len(fragments) == 1
        commit(store, Overwrite(fragments, schema))
        found[version] = CountingStore(store)
    return found


@pytest.fixture(params=VERSIONS)
def store(request, stores) -> CountingStore:
    return stores[request.param]


def open_counted(store: CountingStore) -> Dataset:
    dataset = Dataset.open(store)
    assert dataset.count_rows() == ROWS
    store.reset()
    return dataset


def stored_bytes(store: CountingStore, dataset: Dataset, *names: str) -> int:
    """Bytes of the pages of some columns."""
    (fragment,) = dataset.fragments
    (file,) = fragment.files
    reader = FileReader.open(store, f"data/{file.path}")
    ids = [node.id for name in names for node in dataset.lance_schema.field(name).walk()]
    numbers = [file.live_columns[field_id] for field_id in ids if field_id in file.live_columns]
    pages = [page for number in numbers for page in reader.column_metadata(number).pages]
    total = sum(size for page in pages for _, size in page.buffers)
    store.reset()
    return total


def test_two_of_twenty_columns(store, table, monkeypatch) -> None:
    for module in ("run", "unit_sizes"):
        monkeypatch.setattr(f"lance_ops.table.scan.{module}.has_latency", lambda _: True)
    dataset = open_counted(store)
    size = stored_bytes(store, dataset, "n3", "text")
    assert dataset.scanner(["n3", "text"]).to_table().equals(table.select(["n3", "text"]))
    assert store.num_bytes <= size + TAIL
    # The end of the file; the pages; in 2.0 the bytes of strings after their offsets.
    assert len(store.requests) <= 3
    assert store.num_ranges <= 30


def test_a_range_of_rows(store, table) -> None:
    dataset = open_counted(store)
    names = ["n0", "nullable", "vector", "text"]
    found = dataset.scanner(names, offset=150_000, limit=1000).to_table()
    assert found.equals(table.select(names).slice(150_000, 1000))
    # 400 kB of vectors; whole chunks of the others, and where their chunks are.
    assert store.num_bytes <= TAIL + 500_000
    assert len(store.requests) <= 4


def test_ten_rows(store, table) -> None:
    dataset = open_counted(store)
    rows = np.linspace(5, ROWS - 5, 10).astype(int)
    assert dataset.take(rows).equals(table.take(rows))
    assert len(store.requests) <= 5
    first = store.num_bytes
    store.reset()
    # Once more: what tells where the rows are is known by now.
    assert dataset.take(rows).equals(table.take(rows))
    assert store.num_bytes < first
    assert store.num_bytes <= 20 * 10 * (16 << 10)
    assert len(store.requests) <= 3


@pytest.mark.parametrize("name", ["n0", "key", "text", "nullable", "vector", "wide", "list"])
def test_one_value_takes_two_ranges_at_most(store, table, name) -> None:
    dataset = open_counted(store)
    dataset.take([77], [name])
    store.reset()
    for row in (5, 123_456):
        assert dataset.take([row], [name]).equals(table.select([name]).slice(row, 1))
        assert store.num_ranges <= 2
        assert store.num_bytes <= 64 << 10
        store.reset()


class Candidates:
    """Knows which rows can match."""

    def __init__(self, offsets: list[int]) -> None:
        self.offsets = np.array(offsets, dtype=np.uint64)

    def prune(self, dataset, expression):
        del expression
        (fragment,) = dataset.fragments
        rows = RowSet.of(self.offsets + np.uint64(fragment.id << 32))
        return Pruning(frozenset([fragment.id]), rows)


def test_a_pruned_filter_reads_the_candidates_only(store, table) -> None:
    dataset = open_counted(store)
    wanted = [1, 70_000, 70_001, 199_999]
    found = dataset.scanner(["text"], f"key in ({wanted[0]}, {wanted[2]})", pruners=[Candidates(wanted)])
    assert found.to_table()["text"].to_pylist() == [table["text"][row].as_py() for row in (1, 70_001)]
    assert store.num_bytes <= 2 * TAIL + 8 * GAP
    assert len(store.requests) <= 8
