"""Fragments, data files and deletion files as values."""

import pickle

import pytest

from lance_ops.errors import CorruptManifestError
from lance_ops.pb import table_pb2
from lance_ops.table.manifest.data_file import TOMBSTONE, DataFile
from lance_ops.table.manifest.fragment import (
    DeletionFile,
    DeletionFileType,
    ExternalFile,
    Fragment,
    SpilledSequence,
)
from tests.support.table_values import data_file

FULL = Fragment(
    7,
    (
        DataFile("a.lance", (0, TOMBSTONE, 3), (0, 1, -1), 2, 0, 100, base_id=4),
        DataFile("b.lance", (5,), (), 0, 2),
    ),
    50,
    DeletionFile(DeletionFileType.BITMAP, 3, 2**64 - 1, 6, base_id=0),
    row_ids=b"ids",
    last_updated_at_versions=ExternalFile("x/y", 1, 2),
    created_at_versions=b"",
)


def test_a_fragment_survives_the_trip():
    assert Fragment.from_bytes(FULL.to_bytes()) == FULL
    assert Fragment.from_proto(FULL.to_proto()) == FULL
    assert pickle.loads(pickle.dumps(FULL)) == FULL
    bare = Fragment(0, (), 0)
    assert Fragment.from_bytes(bare.to_bytes()) == bare


def test_numbers_follow_from_the_parts():
    assert (FULL.num_rows, FULL.num_deleted_rows, FULL.data_bytes) == (44, 6, 100)
    assert FULL.files[0].live_columns == {0: 0}
    assert FULL.deletion_file.path(7) == "_deletions/7-3-18446744073709551615.bin"


def test_the_bytes_that_were_read_are_the_bytes_that_are_written():
    # Fields in an order that no writer of ours uses.
    data = table_pb2.DataFragment(physical_rows=3).SerializeToString()
    data += table_pb2.DataFragment(id=9).SerializeToString()
    found = Fragment.from_bytes(data)
    assert found.to_bytes() == data
    assert Fragment.from_bytes(found.replace(physical_rows=4).to_bytes()).physical_rows == 4


def test_a_sequence_that_is_set_displaces_another_form_of_it():
    message = table_pb2.DataFragment(id=1, physical_rows=2, metadata={"a": "b"})
    message.spilled_row_ids.SetInParent()
    found = Fragment.from_bytes(message.SerializeToString())
    assert (found.row_ids, sorted(found.unmodelled)) == (SpilledSequence(), ["metadata"])
    assert found.replace(physical_rows=3).to_proto().HasField("spilled_row_ids")
    changed = found.replace(row_ids=b"ids").to_proto()
    assert changed.inline_row_ids == b"ids"
    assert not changed.HasField("spilled_row_ids")
    assert changed.metadata == {"a": "b"}


def test_an_unassigned_field_id_is_never_stored():
    with pytest.raises(CorruptManifestError, match="unassigned"):
        Fragment(0, (DataFile("a", (-1,), (0,), 2, 0),), 1).to_bytes()
    assert data_file("a", fields=(TOMBSTONE,)).to_proto().fields == [TOMBSTONE]


@pytest.mark.parametrize("data", [b"\xff", b"\x12\x05a", b"\x1a\x02\x08\x07"])
def test_damaged_bytes_are_refused(data):
    with pytest.raises(CorruptManifestError, match=r"fragments|deletion_file"):
        Fragment.from_bytes(data)
