"""Hashes of values, with the loops compiled and not."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.index.bloom_filter.hashes import hash_values

KNOWN = {
    b"": 0xEF46DB3751D8E999,
    b"a": 0xD24EC4F1A98C6E5B,
    b"abc": 0x44BC2CF5AD770999,
    b"Nobody inspects the spammish repetition": 0xFBCEA83C8A378BF1,
}


@pytest.mark.parametrize("text", KNOWN)
def test_published_hashes_come_out(text: bytes) -> None:
    assert hash_values(pa.array([text])).tolist() == [KNOWN[text]]


@given(st.lists(st.binary(max_size=150), max_size=20), st.integers(0, 5))
def test_each_hash_is_that_of_its_string_alone(texts: list[bytes], skipped: int) -> None:
    together = hash_values(pa.array([b"x"] * skipped + texts, pa.binary()).slice(skipped))
    alone = [int(hash_values(pa.array([text]))[0]) for text in texts]
    assert together.tolist() == alone
    assert hash_values(pa.array(texts, pa.large_binary())).tolist() == alone


@pytest.mark.parametrize("dtype", ["i1", "u2", "<i4", "<f8"])
def test_numbers_hash_by_their_bytes(dtype: str) -> None:
    numbers = np.arange(-3 if dtype != "u2" else 0, 40).astype(dtype)
    as_bytes = [number.tobytes() for number in numbers]
    assert hash_values(pa.array(numbers)).tolist() == hash_values(pa.array(as_bytes, pa.binary())).tolist()
