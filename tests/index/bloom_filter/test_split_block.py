"""Split-block Bloom filters."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.index.bloom_filter.split_block import BLOCK_BYTES, filter_bytes, make_filters, may_contain

HASHES = st.lists(st.integers(0, 2**64 - 1), max_size=40)


@given(HASHES, HASHES, st.sampled_from([32, 64, 1024]))
def test_a_filter_knows_all_of_its_values(one: list[int], other: list[int], size: int) -> None:
    words = make_filters(np.array(one + other, np.uint64), np.array([len(one), len(one) + len(other)]), size)
    assert all(may_contain(words, np.uint64(value))[0] for value in one)
    assert all(may_contain(words, np.uint64(value))[1] for value in other)


def test_an_empty_filter_knows_nothing() -> None:
    words = make_filters(np.zeros(0, np.uint64), np.array([0]), 32)
    assert not may_contain(words, np.uint64(7)).any()


def test_few_of_other_values_pass() -> None:
    values = np.random.default_rng(1).integers(0, 2**64, 20_000, np.uint64)
    size = filter_bytes(10_000, 0.01)
    words = make_filters(values, np.array([10_000]), size)
    passed = sum(bool(may_contain(words, value)[0]) for value in values[10_000:])
    assert passed < 200


@pytest.mark.parametrize(
    ("items", "probability", "size"),
    [(8192, 0.00057, 1 << 15), (16, 0.01, BLOCK_BYTES), (10**12, 0.001, 128 << 20), (1, 1e-300, 128 << 20)],
)
def test_the_size_is_a_power_of_two_that_is_bounded(items: int, probability: float, size: int) -> None:
    assert filter_bytes(items, probability) == size
