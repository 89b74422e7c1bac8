"""Every layout and compression of 2.1 and 2.2: the peer's choice, read by us, and ours, read by the peer."""

from pathlib import Path

import lance.file
import numpy as np
import pyarrow as pa
import pytest

from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter
from lance_ops.storage import open_store
from tests.file.matrix.cells import assert_same, some_rows
from tests.file.matrix.test_peer_writes import check_reader
from tests.support.page_signature import page_signatures
from tests.support.peer_columns import COLUMNS, PeerColumn

pytestmark = pytest.mark.peer

VERSIONS = ("2.1", "2.2")
STRUCTURE, PACKED = "lance-encoding:structural-encoding", "lance-encoding:packed"
BY_NAME = [column.name for column in COLUMNS]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("column", COLUMNS, ids=BY_NAME)
def test_we_read_what_the_peer_chooses(column: PeerColumn, version: str, tmp_path: Path) -> None:
    if version not in column.versions:
        return
    table = build(column)
    path = tmp_path / "a.lance"
    with lance.file.LanceFileWriter(str(path), table.schema, version=version) as writer:
        writer.write_batch(table)
    expected = table if column.expect else lance.file.LanceFileReader(str(path)).read_all().to_table()
    reader = FileReader.open(open_store(str(tmp_path)), path.name)
    signatures = page_signatures(reader)
    for wanted in column.encodings:
        assert any(wanted in signature for signature in signatures), signatures
    check_reader(reader, expected)
    rng = np.random.default_rng(7)
    for start, stop in np.sort(rng.integers(0, table.num_rows + 1, (6, 2))).tolist():
        assert_same(reader.read_table(start=start, stop=stop), expected.slice(start, stop - start))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("column", COLUMNS, ids=BY_NAME)
def test_the_peer_reads_what_we_choose(column: PeerColumn, version: str, tmp_path: Path) -> None:
    if version not in column.versions:
        return
    table = build(column)
    store = open_store(str(tmp_path))
    with FileWriter(store, "a.lance", Schema.from_arrow(table.schema), version=version) as writer:
        writer.write(table)
    reader = FileReader.open(store, "a.lance")
    check_reader(reader, table)
    if STRUCTURE in column.options or PACKED in column.options:
        signatures = page_signatures(reader)
        for wanted in column.encodings:
            assert all(wanted in signature for signature in signatures), signatures
    if column.expect:
        return
    peer = lance.file.LanceFileReader(str(tmp_path / "a.lance"))
    assert_same(peer.read_all().to_table(), table)
    rows = some_rows(table.num_rows)
    assert_same(peer.take_rows(rows.tolist()).to_table(), table.take(rows))
    middle = table.num_rows // 3
    assert_same(peer.read_range(middle, table.num_rows - middle).to_table(), table.slice(middle))


def build(column: PeerColumn) -> pa.Table:
    array = column.build()
    return pa.table([array], schema=pa.schema([pa.field("c", array.type, metadata=column.options)]))
