"""Every type, null pattern, size and version: the peer writes, and we read by scan, range and take."""

from pathlib import Path

import lance.file
import pyarrow as pa
import pytest

from lance_ops.file.reader import FileReader
from lance_ops.storage import open_store
from tests.file.matrix.cells import (
    LARGE,
    LARGE_TYPES,
    SIZES,
    TYPES,
    VERSIONS,
    assert_same,
    build_table,
    can_hold,
    copy_rows,
    some_ranges,
    some_rows,
    type_id,
)

pytestmark = pytest.mark.peer

BATCH = 700


def check_reader(reader: FileReader, expected: pa.Table) -> None:
    size = expected.num_rows
    assert_same(reader.read_table(), expected)
    for start, stop in some_ranges(size):
        assert_same(reader.read_table(start=start, stop=stop), expected.slice(start, stop - start))
    rows = some_rows(size)
    assert_same(reader.take(rows), expected.take(rows))
    batches = list(reader.iter_batches(batch_rows=999))
    assert all(batch.num_rows <= 999 for batch in batches)
    assert_same(pa.Table.from_batches(batches, expected.schema), expected)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("data_type", TYPES, ids=type_id)
def test_files(data_type: pa.DataType, version: str, tmp_path: Path) -> None:
    if not can_hold(data_type, version):
        return
    store = open_store(str(tmp_path))
    for size in (*SIZES, *([LARGE] if data_type in LARGE_TYPES else [])):
        table = build_table(data_type, size, version)
        batch = BATCH if size < LARGE else 30_000
        path = tmp_path / f"{size}.lance"
        with lance.file.LanceFileWriter(str(path), table.schema, version=version) as writer:
            for start in range(0, size, batch):
                writer.write_batch(copy_rows(table, start, min(start + batch, size)))
        reader = FileReader.open(store, path.name)
        assert (reader.num_rows, reader.version) == (size, version)
        check_reader(reader, table)
        path.unlink()
