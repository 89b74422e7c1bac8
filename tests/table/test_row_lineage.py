"""Row ids and row versions, wherever a fragment keeps them."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from lance_ops.errors import CorruptFileError, CorruptManifestError, FileMissingError
from lance_ops.file.schema.model import Field, Schema
from lance_ops.storage import open_store
from lance_ops.table.data_writer import write_data_files
from lance_ops.table.manifest.data_file import LINEAGE_FIELDS, DataFile
from lance_ops.table.manifest.fragment import SEQUENCES, Fragment, SpilledSequence
from lance_ops.table.row_lineage.read import read_sequence, read_sequences, spill_limit
from lance_ops.table.row_lineage.write import store_sequences
from tests.support.snapshots import write_snapshot

ROWS = 5000
VALUES = {
    name: np.random.default_rng(number).permutation(ROWS).astype(np.uint64) + np.uint64(2**40)
    for number, name in enumerate(SEQUENCES)
}


@pytest.fixture
def base(tmp_path):
    return write_snapshot(open_store(tmp_path), [pa.table({"k": range(ROWS)})])


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("limit", [None, 0, 5_000, 1 << 20])
def test_what_is_stored_is_read(base, version, limit):
    """Versions that are all the same take less than the limit in the middle."""
    given = {**VALUES, "created_at_versions": np.full(ROWS, 7, np.uint64)}
    stored = store_sequences(base.bases, base.fragments[0], given, storage_version=version, limit=limit)
    expected = {None: 0, 0: 3, 5_000: 2, 1 << 20: 0}[limit]
    assert len(stored.spilled) == expected
    assert len(stored.files) == 1 + bool(expected)
    again = Fragment.from_bytes(stored.to_bytes())
    assert again == stored
    for name, values in read_sequences(base.bases, again).items():
        assert values.dtype == np.uint64
        np.testing.assert_array_equal(values, given[name])


@pytest.mark.parametrize("name", SEQUENCES)
def test_a_column_that_is_no_sequence_is_refused(base, name):
    (fragment,) = base.fragments
    spilled = fragment.replace(**{name: SpilledSequence()})
    with pytest.raises(CorruptManifestError, match=f"no data files of fragment 0 have its {name}"):
        read_sequence(base.bases, spilled, name)

    def with_column(values):
        schema = Schema((Field(LINEAGE_FIELDS[name], -1, "hidden", "uint64"),))
        batch = pa.record_batch([pa.array(values, pa.uint64())], schema=schema.to_arrow())
        (written,) = write_data_files(base.store, [batch], schema)
        return spilled.replace(files=(*fragment.files, *written.files))

    with pytest.raises(CorruptFileError, match="are null"):
        read_sequence(base.bases, with_column([None, *range(ROWS - 1)]), name)
    with pytest.raises(CorruptFileError, match="row count"):
        read_sequence(base.bases, with_column(range(ROWS - 1)), name)
    sound = with_column(range(ROWS))
    np.testing.assert_array_equal(read_sequence(base.bases, sound, name), np.arange(ROWS))
    with pytest.raises(CorruptManifestError, match="2 data files"):
        read_sequence(base.bases, sound.replace(files=(*sound.files, sound.files[-1])), name)
    moved = replace(sound.files[-1], path="gone.lance")
    with pytest.raises(FileMissingError):
        read_sequence(base.bases, sound.replace(files=(*fragment.files, moved)), name)


def test_a_sequence_that_is_missing_is_refused_unless_it_is_of_versions(base):
    (fragment,) = base.fragments
    with pytest.raises(CorruptManifestError, match="row_ids of fragment 0 are missing"):
        read_sequences(base.bases, fragment)
    old = store_sequences(
        base.bases, fragment, {"row_ids": VALUES["row_ids"]}, storage_version="2.2", limit=None
    )
    found = read_sequences(base.bases, old)
    assert set(found["created_at_versions"]) == set(found["last_updated_at_versions"]) == {1}


def test_no_file_takes_an_unassigned_field_and_hidden_ones_are_no_columns():
    file = DataFile("a.lance", (0, -3, -2, -5), (0, 1, 2, 3), 2, 2)
    assert file.live_columns == {0: 0}
    assert [file.lineage_column(name) for name in LINEAGE_FIELDS] == [1, None, 3]
    assert DataFile.from_proto(file.to_proto()) == file
    with pytest.raises(CorruptManifestError, match="unassigned"):
        replace(file, fields=(0, -1, -2, -5)).to_proto()


@pytest.mark.parametrize(
    ("config", "limit"),
    [
        ({}, None),
        ({"lance.row_lineage.inline_max_bytes": "1"}, None),
        ({"lance.row_lineage.spill": "false"}, None),
        ({"lance.row_lineage.spill": "true"}, 200 * 1024),
        ({"lance.row_lineage.spill": "true", "lance.row_lineage.inline_max_bytes": "77"}, 77),
        ({"lance.row_lineage.spill": "true", "lance.row_lineage.inline_max_bytes": "many"}, 200 * 1024),
    ],
)
def test_the_config_of_the_table_says_what_is_too_long_for_its_manifest(config, limit):
    assert spill_limit(config) == limit
