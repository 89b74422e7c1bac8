"""Every type, null pattern, size and version: we write, and the peer reads by scan, filter and take."""

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from tests.file.matrix.cells import (
    LARGE,
    LARGE_TYPES,
    SIZES,
    TYPES,
    VERSIONS,
    assert_same,
    build_table,
    can_hold,
    some_rows,
    type_id,
)

pytestmark = pytest.mark.peer

NOT_FLUSHED = {"fsync": "false"}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("data_type", TYPES, ids=type_id)
def test_tables(data_type: pa.DataType, version: str, tmp_path: Path) -> None:
    if not can_hold(data_type, version):
        return
    for size in (*SIZES, *([LARGE] if data_type in LARGE_TYPES else [])):
        values = build_table(data_type, size, version)
        table = values.add_column(0, "id", pa.array(np.arange(size)))
        uri = str(tmp_path / f"{size}")
        lo.write_dataset(table, uri, data_storage_version=version, storage_options=NOT_FLUSHED)
        peer = lance.dataset(uri)
        assert peer.data_storage_version == version
        rows = some_rows(size)
        if "fixed_size_list<item: struct" in str(data_type):
            # Next to such lists the peer reads no other column, and forgets members when it filters, in its
            # own tables, too.
            for name in table.column_names:
                assert_same(peer.to_table(columns=[name]), table.select([name]))
                if len(rows):
                    assert_same(peer.take(rows, columns=[name]), table.select([name]).take(rows))
        else:
            assert_same(peer.to_table(), table)
            chosen = np.flatnonzero(np.arange(size) % 5 == 2)
            assert_same(peer.to_table(filter="id % 5 = 2"), table.take(chosen))
            assert_same(peer.to_table(columns=["some"], filter="some is null"), nulls_of(table))
            assert_same(peer.to_table(offset=size // 3, limit=size), table.slice(size // 3))
            if len(rows):
                assert_same(peer.take(rows), table.take(rows))
        ours = lo.dataset(uri)
        assert_same(ours.to_table(), table)
        assert_same(ours.to_table(offset=size // 3, limit=size), table.slice(size // 3))
        assert_same(ours.take(rows), table.take(rows))


def nulls_of(table: pa.Table) -> pa.Table:
    column = table["some"]
    return table.select(["some"]).filter(column.is_null())
