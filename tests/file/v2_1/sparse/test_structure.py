"""Sparse structure: rows are found by range and by number, and parts that contradict each other are named."""

import numpy as np
import pyarrow as pa
import pytest

from lance_ops.encoding.bits.bitmap import decode_bitmap
from lance_ops.errors import CorruptFileError
from lance_ops.file.io.row_selection import RowSelection
from lance_ops.file.v2_1.column_rows import LeafType
from lance_ops.file.v2_1.sparse.numbers import Numbers
from lance_ops.file.v2_1.sparse.structure import Structure, parse_structure
from lance_ops.pb import encodings23_pb2 as pb23

ROWS = 6
LISTS = LeafType(pa.int32(), (True, False), (1, 1))


def lists(**changes: int) -> pb23.SparseStructure:
    """Lists of 0, 2, null, 1, 0 and 3 items, of which the items 1 and 5 are null."""
    sparse = pb23.SparseStructure()
    layer = sparse.layers.add().list
    layer.num_child_slots = changes.get("items", 6)
    layer.num_non_empty = changes.get("filled", 3)
    layer.non_empty_positions.flat.bits_per_value = 64
    layer.counts.flat.bits_per_value = 64
    layer.validity.meaning = changes.get("meaning", 1)
    layer.validity.num_positions = 1
    layer.validity.positions.constant.value = changes.get("null", 2).to_bytes(8, "little")
    items = sparse.layers.add().validity
    items.meaning = 1
    items.num_positions = 2
    items.positions.range.uncompressed_bits_per_value = 64
    items.positions.range.start, items.positions.range.step = 1, changes.get("step", 4)
    return sparse


def buffers(positions: list[int], counts: list[int]) -> list[np.ndarray]:
    return [np.array(numbers, "<u8").view(np.uint8) for numbers in (positions, counts)]


def parse(
    sparse: pb23.SparseStructure, positions: tuple[int, ...] = (1, 3, 5), counts: tuple[int, ...] = (2, 1, 3)
) -> Structure:
    return parse_structure(sparse, buffers(list(positions), list(counts)), LISTS, ROWS)


@pytest.mark.parametrize(
    ("rows", "offsets", "valid", "slots"),
    [
        (RowSelection(0, 6), [0, 0, 2, 2, 3, 3, 6], [1, 1, 0, 1, 1, 1], [0, 1, 2, 3, 4, 5]),
        (RowSelection(2, 5), [0, 0, 1, 1], [0, 1, 1], [2]),
        (RowSelection.some(np.array([0, 5])), [0, 0, 3], [1, 1], [3, 4, 5]),
        (RowSelection.some(np.array([1, 3, 5])), [0, 2, 3, 6], [1, 1, 1], [0, 1, 2, 3, 4, 5]),
        (RowSelection.some(np.array([0, 4])), [0, 0, 0], [1, 1], []),
    ],
)
def test_rows(rows: RowSelection, offsets: list[int], valid: list[int], slots: list[int]) -> None:
    (outer, inner), found, item_valid = parse(lists()).select(rows)
    assert outer.offsets is not None
    assert outer.offsets.tolist() == offsets
    mask = [1] * rows.count if outer.validity is None else decode_bitmap(outer.validity, rows.count).tolist()
    assert mask == valid
    assert found.indices.tolist() == slots
    assert inner.length == len(slots)
    expected = [slot not in (1, 5) for slot in slots]
    assert (expected if item_valid is None else item_valid.tolist()) == expected


@pytest.mark.parametrize(
    ("changes", "positions", "counts", "problem"),
    [
        ({"items": 7}, (1, 3, 5), (2, 1, 3), "lists of 7 items hold 6"),
        ({}, (1, 3, 5), (2, 0, 4), "has no items"),
        ({}, (1, 3, 3), (2, 1, 3), "do not ascend"),
        ({}, (1, 3, 6), (2, 1, 3), "beyond the 6"),
        ({"null": 3}, (1, 3, 5), (2, 1, 3), "a null list holds something"),
        ({"null": 9}, (1, 3, 5), (2, 1, 3), "beyond the 6"),
        ({"step": 5}, (1, 3, 5), (2, 1, 3), "beyond the 6"),
        ({"filled": 9}, (1, 3, 5), (2, 1, 3), "9 of 6 slots"),
        ({"meaning": 0}, (1, 3, 5), (2, 1, 3), "of kind 0"),
        ({"items": 1 << 50}, (1, 3, 5), (2, 1, 3), "items"),
    ],
)
def test_contradictions_are_named(
    changes: dict[str, int], positions: tuple[int, ...], counts: tuple[int, ...], problem: str
) -> None:
    with pytest.raises(CorruptFileError, match=problem):
        parse(lists(**changes), positions, counts)


def test_layers_are_those_of_the_schema() -> None:
    with pytest.raises(CorruptFileError, match="layers"):
        parse_structure(
            lists(), buffers([1, 3, 5], [2, 1, 3]), LeafType(pa.int32(), (False, False), (1, 1)), ROWS
        )
    with pytest.raises(CorruptFileError, match="more buffers"):
        parse_structure(lists(), [*buffers([1, 3, 5], [2, 1, 3]), np.zeros(8, np.uint8)], LISTS, ROWS)
    with pytest.raises(CorruptFileError, match="fewer buffers"):
        parse_structure(lists(), buffers([1, 3, 5], [2, 1, 3])[:1], LISTS, ROWS)


@pytest.mark.parametrize("start", [0, 3])
@pytest.mark.parametrize("step", [1, 4])
@pytest.mark.parametrize("count", [0, 1, 5])
def test_numbers_by_a_rule_are_found_as_listed_ones(start: int, step: int, count: int) -> None:
    listed = start + step * np.arange(count)
    rule, plain = Numbers(count, start, step), Numbers(count, listed=listed)
    slots = np.arange(30)
    for numbers in (rule, plain):
        assert numbers.mask(2, 28).tolist() == np.isin(slots[2:28], listed).tolist()
        ranks, found = numbers.find(slots)
        assert found.tolist() == np.isin(slots, listed).tolist()
        assert ranks.tolist() == np.searchsorted(listed, slots).tolist()
        assert numbers.between(2, 9) == tuple(np.searchsorted(listed, [2, 9]).tolist())
