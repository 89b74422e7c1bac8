"""Sets of rows as Roaring bitmaps, many at once: the same bytes and rows as one by one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from lance_ops.encoding.kernels.index import roaring
from lance_ops.table.manifest.row_set import RowSet

_OWNERS = (0, 1, 7, 2**32 - 1)


def _random_set(rng: np.random.Generator) -> np.ndarray:
    """Rows of a few fragments, few or many, in runs or not, with containers of all kinds."""
    parts = [np.zeros(0, np.uint64)]
    for owner in rng.choice(_OWNERS, rng.integers(0, 4), replace=False):
        count, below = int(rng.choice([1, 6, 4096, 4097, 9000])), int(rng.choice([100, 70_000, 2**32 - 1]))
        start = below % 60_000
        offsets = np.arange(start, start + count) if rng.random() < 0.3 else rng.integers(0, below, count)
        parts.append(np.uint64(int(owner) << 32) | offsets.astype(np.uint64))
    return np.unique(np.concatenate(parts))


def _one_by_one(rows: np.ndarray, *, framed: bool) -> bytes:
    return RowSet.of(rows).serialize() if framed else BitMap64(rows).serialize()


@pytest.mark.parametrize("framed", [False, True])
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_sets_are_written_and_read_as_one_by_one(framed: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sets = [_random_set(rng) for _ in range(rng.integers(0, 5))]
    rows = np.concatenate([np.zeros(0, np.uint64), *sets])
    sizes = np.array([len(found) for found in sets], np.int64)

    data, offsets = roaring.write_sets(rows=rows, sizes=sizes, framed=framed)

    assert data.tobytes() == b"".join(_one_by_one(found, framed=framed) for found in sets)
    read = roaring.read_sets(data=data, offsets=offsets, framed=framed)
    assert read is not None
    assert read[0].tolist() == rows.tolist()
    assert read[1].tolist() == roaring.count_rows(data=data, offsets=offsets, framed=framed).tolist()
    assert read[1].tolist() == sizes.tolist()


def test_rows_in_any_order_and_twice_are_put_in_order() -> None:
    rng = np.random.default_rng(3)
    sets = [_random_set(rng) for _ in range(6)]
    mixed = [rng.permutation(np.concatenate([found, found[:2]])) for found in sets]
    sizes = np.array([len(found) for found in mixed], np.int64)
    data, _ = roaring.write_sets(rows=np.concatenate(mixed), sizes=sizes, framed=False)
    assert data.tobytes() == b"".join(_one_by_one(found, framed=False) for found in sets)


@pytest.mark.parametrize("framed", [False, True])
def test_damaged_sets_are_read_within_their_bytes_or_not_at_all(framed: bool) -> None:
    rng = np.random.default_rng(4)
    for _ in range(300):
        rows = _random_set(rng)
        data, _ = roaring.write_sets(rows=rows, sizes=np.array([len(rows)]), framed=framed)
        data = data[: rng.integers(0, len(data) + 1)] if rng.random() < 0.3 else data.copy()
        if len(data):
            data[rng.integers(0, min(len(data), 60))] ^= np.uint8(rng.integers(1, 256))
        read = roaring.read_sets(data=data, offsets=np.array([0, len(data)]), framed=framed)
        assert read is None or len(read[0]) == read[1].sum()


def test_all_rows_of_a_fragment_are_left_to_the_caller() -> None:
    every = np.frombuffer(b"\x01\0\0\0" + b"\x05\0\0\0" + b"\0\0\0\0", np.uint8)
    assert roaring.read_sets(data=every, offsets=np.array([0, len(every)]), framed=True) is None
