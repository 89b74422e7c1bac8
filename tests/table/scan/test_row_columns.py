"""Columns that no file holds."""

import numpy as np
import pyarrow as pa
import pytest

from lance_ops.errors import CorruptManifestError, PathEscapeError
from lance_ops.storage import open_store
from lance_ops.table.manifest.fragment import ExternalFile, SpilledSequence
from lance_ops.table.manifest.row_ids import encode_row_ids, encode_row_versions
from lance_ops.table.row_lineage.write import store_sequences
from lance_ops.table.scan.row_columns import ROW_COLUMNS
from tests.support.snapshots import put_snapshot, write_snapshot

IDS = np.array([9, 4, 7], np.uint64)


def values(array):
    return np.array(array, np.uint64)


@pytest.fixture
def base(tmp_path):
    return write_snapshot(open_store(tmp_path), [pa.table({"k": [1, 2, 3]})], deleted={0: [1]})


def stable(base, **changes):
    fragment = base.fragments[0].replace(**changes)
    return put_snapshot(
        base.store, fragment, schema=base.lance_schema, version=2, reader_flags=3, writer_flags=3
    )


def test_without_stable_ids_the_id_is_the_address_and_versions_are_unknown(base):
    assert base.to_table(ROW_COLUMNS).to_pylist() == [
        dict(zip(ROW_COLUMNS, row, strict=True)) for row in [(0, 0, 0, 1, 1), (2, 2, 1, 1, 1)]
    ]


def test_sequences_count_deleted_rows(base):
    found = stable(
        base,
        row_ids=encode_row_ids(IDS),
        created_at_versions=encode_row_versions(values([1, 2, 3])),
        last_updated_at_versions=encode_row_versions(values([5, 5, 6])),
    )
    assert found.to_table(ROW_COLUMNS).to_pylist() == [
        dict(zip(ROW_COLUMNS, row, strict=True)) for row in [(9, 0, 0, 1, 5), (7, 2, 1, 3, 6)]
    ]
    assert found.to_table(["k"], "_rowid = 7")["k"].to_pylist() == [3]
    assert found.to_table(["k"], "_row_created_at_version < 3")["k"].to_pylist() == [1]


def test_legacy_tables_record_no_versions(base):
    assert stable(base, row_ids=encode_row_ids(IDS)).to_table(["_row_created_at_version"]).to_pydict() == {
        "_row_created_at_version": [1, 1]
    }


def test_sequences_may_lie_in_another_file(base):
    data = encode_row_ids(IDS)
    base.store.put("side/ids.bin", b"xx" + data + b"y")
    found = stable(base, row_ids=ExternalFile("side/ids.bin", 2, len(data)))
    assert found.to_table(["_rowid"])["_rowid"].to_pylist() == [9, 7]
    for path in ("../ids.bin", "/etc/passwd"):
        with pytest.raises(PathEscapeError):
            stable(base, row_ids=ExternalFile(path, 0, 1)).to_table(["_rowid"])


@pytest.mark.parametrize("data", [b"\xff", encode_row_ids(IDS[:2]), b""])
def test_damaged_sequences_are_refused_and_other_columns_read(base, data):
    found = stable(base, row_ids=data)
    with pytest.raises(CorruptManifestError):
        found.to_table(["_rowid"])
    assert found.to_table(["k"]).num_rows == 2


def test_tables_with_stable_ids_and_fragments_without_are_not_opened(base):
    with pytest.raises(CorruptManifestError, match=r"fragments \[0\] have no row ids"):
        stable(base, row_ids=None)


def test_spilled_sequences_that_no_file_or_two_files_hold_are_refused_and_other_columns_read(base):
    spilled = stable(base, row_ids=SpilledSequence())
    with pytest.raises(CorruptManifestError, match="no data files of fragment 0 have its row_ids"):
        spilled.to_table(["_rowid"])
    assert spilled.to_table(["k"]).num_rows == 2
    held = store_sequences(
        base.bases, base.fragments[0], {"row_ids": IDS}, storage_version=base.data_storage_version, limit=0
    )
    found = stable(base, files=held.files, row_ids=held.row_ids)
    assert found.to_table(["_rowid"])["_rowid"].to_pylist() == [9, 7]
    twice = stable(base, files=(*held.files, held.files[-1]), row_ids=held.row_ids)
    with pytest.raises(CorruptManifestError, match="2 data files of fragment 0 have its row_ids"):
        twice.to_table(["_rowid"])
