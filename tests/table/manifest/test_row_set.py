"""Sets of rows: they behave as sets of addresses do, and survive their stored form."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.errors import CorruptFileError
from lance_ops.table.manifest.row_set import RowSet, join_serialized

addresses = st.lists(
    st.builds(lambda owner, offset: owner << 32 | offset, st.integers(0, 3), st.integers(0, 40)), max_size=30
)


def as_set(rows: RowSet) -> set[int]:
    return set(rows.addresses().tolist())


@given(addresses, addresses)
def test_it_is_the_set_of_its_addresses(one, other):
    left, right = RowSet.of(np.array(one, np.uint64)), RowSet.of(np.array(other, np.uint64))
    assert left.addresses().tolist() == sorted(set(one))
    assert len(left) == len(set(one))
    assert as_set(left | right) == set(one) | set(other)
    assert as_set(left & right) == set(one) & set(other)
    assert as_set(left - right) == set(one) - set(other)
    assert (left == right) == (set(one) == set(other))
    assert all((address in left) == (address in one) for address in other)
    assert as_set(left.restrict([1, 2])) == {address for address in one if address >> 32 in (1, 2)}


@given(addresses)
def test_the_stored_form_comes_back(some):
    rows = RowSet.of(np.array(some, np.uint64))
    assert RowSet.deserialize(rows.serialize(), path="x", rows_of=lambda _: 0) == rows


def test_an_entry_without_a_bitmap_stands_for_all_rows_of_its_fragment():
    data = struct.pack("<III", 1, 7, 0)
    rows = RowSet.deserialize(data, path="x", rows_of={7: 3}.__getitem__)
    assert rows == RowSet.of_ranges([(7, 0, 3)])


@given(st.data())
def test_what_is_cut_off_is_refused_by_name(data):
    whole = RowSet.of_ranges([(0, 1, 9), (5, 0, 2)]).serialize()
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(CorruptFileError, match=r"cannot be read|truncated"):
        RowSet.deserialize(whole[:cut], path="some file", rows_of=lambda _: 0)


@given(st.lists(addresses, max_size=4))
def test_stored_forms_are_joined_as_sets_unless_two_have_rows_of_one_fragment(parts):
    sets = [RowSet.of(np.array(part, np.uint64)) for part in parts]
    owners = [owner for rows in sets for owner in rows.fragment_ids]
    joined = join_serialized([rows.serialize() for rows in sets])
    assert (joined is None) == (len(set(owners)) < len(owners))
    if joined is not None:
        assert (
            joined
            == RowSet.of(np.array([address for part in parts for address in part], np.uint64)).serialize()
        )
