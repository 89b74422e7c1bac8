"""Keys find their partners as a dictionary of tuples would."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.errors import InvalidArgumentError
from lance_ops.table import join_keys as keys
from lance_ops.table.join_keys import KeyIndex, check_key_type, plain_keys

VALUES = {
    pa.int64(): [0, 1, -1, 2**63 - 1, -(2**63)],
    pa.uint64(): [0, 1, 2**63, 2**64 - 1],
    pa.int8(): [0, -128, 127],
    pa.string(): ["", "a", "ab"],
    pa.dictionary(pa.int8(), pa.string()): ["", "a", "ab"],
    pa.float64(): [0.0, -0.0, 1.5, float("inf")],
    pa.float16(): [np.float16(0.0), np.float16(1.5)],
    pa.bool_(): [True, False],
    pa.binary(2): [b"ab", b"cd"],
    pa.decimal128(9, 2): [Decimal(0), Decimal("1.25")],
    pa.timestamp("us", "UTC"): [0, 1, 10**15],
    pa.date32(): [0, 1],
}


@st.composite
def sides(draw):
    kinds = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3))
    rows = [st.one_of(st.none(), st.sampled_from(VALUES[kind])) for kind in kinds]
    made = [draw(st.lists(st.tuples(*rows), max_size=20)) for _ in range(2)]
    return kinds, *made


def columns(kinds, rows):
    return [plain_keys(pa.array([row[number] for row in rows], kind)) for number, kind in enumerate(kinds)]


@given(sides())
def test_the_partner_of_a_key_is_the_first_row_with_the_same_values(drawn):
    kinds, source, target = drawn
    index, firsts = KeyIndex.of(columns(kinds, source))
    known: dict[str, int] = {}
    expected = [-1 if None in row else known.setdefault(repr(row), i) for i, row in enumerate(source)]
    assert firsts.tolist() == expected
    found = index.find(columns(kinds, target)).tolist()
    assert found == [-1 if None in row else known.get(repr(row), -1) for row in target]


INTEGERS = [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]


@given(st.sampled_from(INTEGERS), st.data())
def test_integers_far_apart_find_their_partners(kind, data):
    signed = pa.types.is_signed_integer(kind)
    low = -(1 << kind.bit_width - 1) if signed else 0
    high = low + (1 << kind.bit_width) - 1
    pool = data.draw(st.lists(st.integers(low, high), min_size=1, max_size=40, unique=True))
    rows = st.lists(st.one_of(st.none(), st.sampled_from(pool), st.integers(low, high)), max_size=60)
    source, target = data.draw(rows), data.draw(rows)
    with pytest.MonkeyPatch.context() as patch:
        # No table by value, and so few slots that integers share them.
        patch.setattr(keys, "_SMALL_SPAN", 0)
        patch.setattr(keys, "_SPAN_OF_EACH", 0)
        patch.setattr(keys, "_LEAST_BITS", 2)
        patch.setattr(keys, "_SLOTS_OF_EACH", 1)
        index, firsts = KeyIndex.of([pa.array(source, kind)])
        known: dict[int, int] = {}
        expected = [-1 if key is None else known.setdefault(key, row) for row, key in enumerate(source)]
        assert firsts.tolist() == expected
        found = index.find([pa.array(target, kind)]).tolist()
    assert found == [-1 if key is None else known.get(key, -1) for key in target]


def test_every_nan_is_one_key_and_the_zeros_are_two():
    other = np.array([0x7FF8000000000001], np.uint64).view(np.float64)
    index, _ = KeyIndex.of([plain_keys(pa.array([float("nan"), 0.0]))])
    assert index.find(
        [
            plain_keys(pa.array(other)),
        ]
    ).tolist() == [0]
    assert index.find([plain_keys(pa.array([-0.0, 0.0]))]).tolist() == [-1, 1]


@pytest.mark.parametrize("kind", [pa.list_(pa.int8()), pa.struct([("a", pa.int8())]), pa.null()])
def test_nested_columns_are_no_keys(kind):
    with pytest.raises(InvalidArgumentError, match="cannot be a key"):
        check_key_type("k", kind)
