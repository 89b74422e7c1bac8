"""Ranges of an open file, of which little is read again and again."""

import os

import pytest

from lance_ops.errors import CorruptFileError
from lance_ops.file.io import file_ranges
from lance_ops.file.io.file_ranges import FileRanges
from lance_ops.storage import open_store

SIZE = 300_000


@pytest.fixture
def ranges(tmp_path):
    store = open_store(str(tmp_path))
    store.put("f", bytes(range(250)) * (SIZE // 250))
    return FileRanges(store, "f", SIZE, store.read("f", SIZE - 100, 100))


def read(ranges, offset, length):
    (found,) = ranges.read([(offset, length)])
    return found.to_pybytes()


def test_a_file_of_which_little_is_read_often_is_mapped(ranges):
    expected = bytes(range(250))
    for number in range(file_ranges._FEW_READS + 3):
        assert read(ranges, 250 * number, 250) == expected
    assert ranges.mapped is not None


def test_what_is_cut_off_such_a_file_is_damage_and_no_zeros(ranges, tmp_path):
    for _ in range(file_ranges._FEW_READS + 1):
        read(ranges, 0, 10)
    assert ranges.mapped is not None
    os.truncate(tmp_path / "f", 100)
    assert read(ranges, 0, 10) == bytes(range(10))
    with pytest.raises(CorruptFileError, match="has 100"):
        read(ranges, 200, 10)
