"""Columns of bitmaps that are moved many at once: in parts, and one by one only where it has to be."""

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap64

from lance_ops.index import moved_sets
from lance_ops.index.moved_sets import move_sets
from lance_ops.table.manifest.row_set import RowSet

_SETS = [[1, 2, 3], [], [4], [7, 2**33 + 1], [2**40], list(range(20)), [5, 6]]


def _column(*, framed: bool) -> pa.Array:
    sets = [np.array(rows, np.uint64) for rows in _SETS]
    data = [RowSet.of(rows).serialize() if framed else BitMap64(rows).serialize() for rows in sets]
    return pa.array(data, pa.binary())


def _move(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Odd rows are gone, the others are a fragment further."""
    return rows + np.uint64(1 << 32), rows % 2 == 0


@pytest.mark.parametrize("framed", [False, True])
def test_each_part_has_what_is_left_of_its_sets(framed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moved_sets, "_AT_ONCE", 5)
    # Offsets of a slice do not begin at 0.
    column = pa.concat_arrays([pa.array([b"x"]), _column(framed=framed)])[1:]
    seen, apart = [], []
    for part, found in move_sets(column, _move, framed=framed):
        if found is None:
            apart.append(part)
            seen += [None] * (part.stop - part.start)
            continue
        filled, moved = found
        left = iter(moved.to_pylist())
        seen += [next(left) if there else b"" for there in filled]
        assert next(left, None) is None
    assert apart == [slice(5, 6)]
    for rows, data in zip(_SETS, seen, strict=True):
        wanted = np.array([row + 2**32 for row in rows if row % 2 == 0], np.uint64)
        if len(rows) <= 5 and not len(wanted):
            assert data == b""
        elif len(rows) <= 5:
            expected = RowSet.of(wanted).serialize() if framed else BitMap64(wanted).serialize()
            assert data == expected


def test_damage_leaves_sets_to_the_caller() -> None:
    column = pa.array([*_column(framed=False).to_pylist()[:3], b"damaged", b""])
    found = [(part, part_found is None) for part, part_found in move_sets(column, _move, framed=False)]
    assert found == [(slice(0, 3), False), (slice(3, 5), True)]
