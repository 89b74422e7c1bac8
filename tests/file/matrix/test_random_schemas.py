"""Random nested schemas in both directions, with any batches, pages, ranges and rows."""

import tempfile
from pathlib import Path

import lance.file
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter, check_writable
from lance_ops.storage import open_store
from tests.file.matrix.cells import VERSIONS, copy_rows
from tests.support.random_tables import random_tables

pytestmark = pytest.mark.peer

EXAMPLES = settings(max_examples=60, deadline=None)


def assert_same(found: pa.Table, expected: pa.Table) -> None:
    assert found.schema.equals(expected.schema)
    # NaN is what it was, and dictionaries may differ.
    assert repr(found.to_pylist()) == repr(expected.to_pylist())


@pytest.mark.parametrize("version", VERSIONS)
@EXAMPLES
@given(data=st.data(), batch_rows=st.integers(1, 200), page_bytes=st.sampled_from([64, 1000, 1 << 20]))
def test_the_peer_and_we_read_what_we_write(
    version: str, data: st.DataObject, batch_rows: int, page_bytes: int
) -> None:
    table = data.draw(random_tables(version))
    check_writable(table.schema, version)
    schema = Schema.from_arrow(table.schema)
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(folder)
        with FileWriter(store, "a.lance", schema, version=version, page_bytes=page_bytes) as writer:
            for batch in table.to_batches(max_chunksize=batch_rows):
                writer.write(batch)
        peer = lance.file.LanceFileReader(f"{folder}/a.lance")
        assert_same(peer.read_all().to_table(), table)
        rows = np.unique(data.draw(st.lists(st.integers(0, max(table.num_rows - 1, 0)), max_size=9)))
        if len(rows) and table.num_rows:
            assert_same(peer.take_rows(rows.tolist()).to_table(), table.take(rows.astype(np.int64)))
        check_reader(FileReader.open(store, "a.lance"), table, data)


@pytest.mark.parametrize("version", VERSIONS)
@EXAMPLES
@given(data=st.data(), batch_rows=st.integers(20, 400))
def test_we_read_what_the_peer_writes(version: str, data: st.DataObject, batch_rows: int) -> None:
    table = data.draw(random_tables(version))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.lance"
        with lance.file.LanceFileWriter(str(path), table.schema, version=version) as writer:
            for start in range(0, table.num_rows, batch_rows):
                writer.write_batch(copy_rows(table, start, min(start + batch_rows, table.num_rows)))
        check_reader(FileReader.open(open_store(folder), "a.lance"), table, data)


def check_reader(reader: FileReader, table: pa.Table, data: st.DataObject) -> None:
    found = reader.read_table()
    # Not of what the peer reads: under null structs it may point outside of dictionaries.
    found.validate(full=True)
    assert_same(found, table)
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, table.num_rows)] * 2)))
    assert_same(reader.read_table(start=start, stop=stop), table.slice(start, stop - start))
    rows = np.arange(start, table.num_rows, data.draw(st.integers(1, 40)))
    assert_same(reader.take(rows), table.take(rows))
    batches = list(reader.iter_batches(batch_rows=data.draw(st.integers(1, 100)), start=start))
    assert_same(pa.Table.from_batches(batches, table.schema), table.slice(start))
