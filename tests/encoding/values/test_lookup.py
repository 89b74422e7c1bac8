"""Entries of dictionaries are looked up as Arrow takes them, however many, long and empty they are."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.encoding.values.lookup import look_up_entries, repeat_entry
from lance_ops.errors import CorruptFileError
from tests.support.arrays import random_array

TYPES = [
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.int8(),
    pa.int64(),
    pa.timestamp("us"),
    pa.float16(),
    pa.bool_(),
    pa.decimal128(12, 2),
    pa.binary(3),
]


@given(
    words=st.lists(st.text(max_size=40), min_size=1, max_size=20),
    count=st.sampled_from([0, 1, 255, 256, 3000]),
    word=st.sampled_from([np.uint8, np.uint16, np.uint32, np.uint64]),
    seed=st.integers(0, 2**32 - 1),
    skipped=st.integers(0, 3),
)
def test_strings_are_those_that_arrow_takes(words, count, word, seed, skipped):
    entries = pa.array(["xyz"] * skipped + words).slice(skipped)
    positions = np.random.default_rng(seed).integers(0, len(words), count).astype(word)
    for data_type in (pa.string(), pa.large_string(), pa.binary()):
        typed = entries.cast(data_type)
        found = look_up_entries(positions, typed)
        found.validate(full=True)
        assert found.equals(typed.take(pa.array(positions)))


@pytest.mark.parametrize("data_type", TYPES, ids=str)
@pytest.mark.parametrize("count", [0, 1, 5, 300, 70_000])
def test_one_value_is_repeated(data_type, count):
    value = random_array(data_type, 3, nulls=0.0).slice(1, 1)
    found = repeat_entry(value, count)
    found.validate(full=True)
    assert found.equals(value.take(pa.array(np.zeros(count, np.int64))))


@pytest.mark.parametrize("entries", [pa.array(["a", "bc"]), pa.array([1, 2]), pa.array(["a", None])], ids=str)
@pytest.mark.parametrize("count", [1, 1000])
def test_a_position_outside_of_the_dictionary_is_refused(entries, count):
    positions = np.zeros(count, np.uint32)
    positions[count // 2] = 2
    with pytest.raises(CorruptFileError, match="outside of its dictionary of 2 entries"):
        look_up_entries(positions, entries)
