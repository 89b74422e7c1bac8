"""Streaming a table takes memory for some windows of rows, however many rows there are."""

import tracemalloc
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter
from lance_ops.storage import open_store
from lance_ops.table.data_writer import write_data_files
from lance_ops.table.dataset import Dataset
from lance_ops.table.scan.fragment_reader import FragmentReader
from lance_ops.table.scan.run import Scan
from lance_ops.table.transaction.operations import Overwrite
from tests.support.table_actions import commit

SMALL, LARGE = 50_000_000, 200_000_000
VECTOR = 100
ROW_BYTES = 8 + 4 * VECTOR + 20


def make_batches(size: int) -> Iterable[pa.RecordBatch]:
    rng = np.random.default_rng(0)
    rows = 10_000
    for first in range(0, size // ROW_BYTES, rows):
        numbers = np.arange(first, first + rows)
        vectors = pa.array(rng.random(rows * VECTOR, dtype=np.float32))
        yield pa.record_batch(
            {
                "n": pa.array(numbers),
                "v": pa.FixedSizeListArray.from_arrays(vectors, VECTOR),
                "t": pa.array([f"text number {n:08d}" for n in numbers.tolist()]),
            }
        )


@pytest.fixture(scope="module")
def datasets(tmp_path_factory) -> dict[int, Dataset]:
    found = {}
    for size in (SMALL, LARGE):
        # Not mapped: else the values would be views of files, which take no memory of their own.
        store = open_store(tmp_path_factory.mktemp("memory") / "table.lance", {"memory_map": "false"})
        batches = list(make_batches(size))
        schema = Schema.from_arrow(batches[0].schema)
        fragments = write_data_files(store, batches, schema, max_rows_per_file=250_000)
        found[size] = commit(store, Overwrite(fragments, schema)).dataset
        del batches
    return found


def peak_of(batches: Iterable[pa.RecordBatch], rows: int) -> int:
    """Bytes of Arrow and numpy at the worst of all batches."""
    peak = found = 0
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    try:
        for batch in batches:
            peak = max(peak, pa.total_allocated_bytes() - before + tracemalloc.get_traced_memory()[1])
            tracemalloc.reset_peak()
            found += batch.num_rows
    finally:
        tracemalloc.stop()
    assert found == rows
    return peak


def test_a_scan_of_a_large_table_takes_as_much_memory_as_one_of_a_small_table(datasets) -> None:
    small, large = (
        # One thread: how far others are ahead differs from run to run.
        peak_of(
            Scan(dataset, dataset.scanner().plan, threads=1).to_batches(),
            dataset.count_rows(),
        )
        for dataset in (datasets[SMALL], datasets[LARGE])
    )
    assert large < 1.2 * small
    assert large < LARGE


def test_a_fragment_is_read_in_windows(datasets) -> None:
    dataset = datasets[LARGE]
    fragment = dataset.fragments[0]
    reader = FragmentReader(dataset, fragment)
    whole = peak_of(reader.iter_batches(dataset.lance_schema), fragment.physical_rows)
    half = peak_of(
        reader.iter_batches(dataset.lance_schema, stop=fragment.physical_rows // 2),
        fragment.physical_rows // 2,
    )
    assert whole < 1.2 * half


def test_a_file_is_read_in_windows(tmp_path: Path) -> None:
    store = open_store(tmp_path, {"memory_map": "false"})
    batches = list(make_batches(LARGE // 2))
    with FileWriter(store, "a.lance", Schema.from_arrow(batches[0].schema)) as writer:
        for batch in batches:
            writer.write(batch)
    rows = sum(batch.num_rows for batch in batches)
    del batches
    reader = FileReader.open(store, "a.lance")
    whole = peak_of(reader.iter_batches(), rows)
    half = peak_of(reader.iter_batches(stop=rows // 2), rows // 2)
    assert whole < 1.2 * half
