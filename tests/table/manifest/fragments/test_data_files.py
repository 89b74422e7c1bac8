"""Data files read as columns are those of the objects, whatever a manifest may have."""

import numpy as np
import pytest
from hypothesis import given

from lance_ops.table.manifest.fragments import data_files
from lance_ops.table.manifest.fragments.data_files import iter_data_files
from tests.table.manifest.fragments.test_fragment_list import FRAGMENTS, listed


def _base(file):
    return -1 if file.base_id is None else file.base_id


@given(FRAGMENTS)
def test_columns_say_what_objects_say(fragments):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data_files, "_AT_ONCE", 3)
        found, others = [], []
        for part in iter_data_files(listed(fragments)):
            others += part.others.tolist()
            numbers = (part.sizes, part.bases, part.majors, part.minors)
            rows = zip(*(column.tolist() for column in numbers), strict=True)
            found += zip(part.positions.tolist(), part.paths, rows, strict=True)
    expected = [
        (
            place,
            file.path,
            (file.size_bytes, _base(file), file.major, file.minor),
        )
        for place, fragment in enumerate(fragments)
        if place not in others
        for file in fragment.files
    ]
    assert found == expected
    # What is left to the objects is rare: nothing that the format has had for years.
    for place in others:
        fragment = fragments[place]
        usual = fragment.unknown == b"" and not any(file.unknown for file in fragment.files)
        usual = usual and all(isinstance(value, bytes | None) for value in (fragment.row_ids,))
        usual = usual and all(file.path.isascii() and file.size_bytes < 1 << 60 for file in fragment.files)
        versions = {(file.major, file.minor) for file in fragment.files}
        sequences = (fragment.last_updated_at_versions, fragment.created_at_versions)
        usual = usual and len(versions) < 2 and all(isinstance(value, bytes | None) for value in sequences)
        usual = usual and (not fragment.deletion_file or fragment.physical_rows > 0)
        assert not usual or fragment.physical_rows > (1 << 32) - 1


def test_fragments_that_were_changed_are_left_to_objects():
    found = listed([])
    assert [len(part.paths) for part in iter_data_files(found)] == []
    assert np.array_equal(found.encoded[1], np.zeros(0))
