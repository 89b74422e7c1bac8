"""From arrays to levels and values, and back, through the builders that the reader uses."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_ops.encoding.pages.ravel import Raveled, ravel
from lance_ops.file.schema.model import Field, Schema
from lance_ops.file.v2_1.column_rows import ColumnRows, LeafType, build_piece
from lance_ops.file.v2_1.columns import is_leaf
from lance_ops.file.v2_1.compression.decode import decode_block, decode_levels
from lance_ops.file.v2_1.compression.levels import (
    compress_level_block,
    compress_levels,
    levels_per_chunk,
    repetition_index,
)
from lance_ops.file.v2_1.join import join_pieces
from tests.support.nested import nested_arrays


def leaves(field: Field, path: tuple[int, ...] = (), lists=(), items=()) -> Iterator[tuple]:
    """Each leaf below a field with the way to it and what the reader knows of it."""
    if is_leaf(field):
        yield field, path, LeafType(field.storage_type, (*lists, False), (*items, 1))
        return
    data_type = field.storage_type
    width = data_type.list_size if pa.types.is_fixed_size_list(data_type) else 1
    is_list = not pa.types.is_struct(data_type) and not pa.types.is_fixed_size_list(data_type)
    for number, child in enumerate(field.children):
        yield from leaves(child, (*path, number), (*lists, is_list), (*items, width))


def join(leaf: LeafType, raveled: Raveled) -> ColumnRows:
    return build_piece(
        leaf, raveled.layers, raveled.rep, raveled.definition, raveled.num_entries, raveled.values
    )


@given(nested_arrays(), st.data())
@settings(max_examples=150)
def test_levels_and_values_make_the_same_array_again(array: pa.Array, data: st.DataObject) -> None:
    (field,) = Schema.from_arrow(pa.schema([pa.field("c", array.type)])).fields
    start = data.draw(st.integers(0, len(array)))
    stop = data.draw(st.integers(start, len(array)))
    whole, part = {}, {}
    for leaf_field, path, leaf in leaves(field):
        raveled = ravel(array, path)
        whole[leaf_field.id] = join(leaf, raveled)
        part[leaf_field.id] = join(leaf, raveled.slice(start, stop))
    for found, expected in ((whole, array), (part, array.slice(start, stop - start))):
        built = join_pieces(field, found, len(expected), "test")
        built.validate(full=True)
        assert built.to_pylist() == expected.to_pylist()


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.sampled_from((0.0, 0.01, 0.5, 1.0)))
def test_levels_are_compressed_chunk_by_chunk(version: str, seed: int, highest: int, noise: float) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 3000, rng.integers(1, 8))
    levels = np.where(rng.random(counts.sum()) < noise, rng.integers(0, highest + 1, counts.sum()), 0)
    levels = levels.astype(np.uint16)
    chunked = compress_levels(levels, counts, version)
    assert decode_levels(chunked.encoding, chunked.buffer, counts).tolist() == levels.tolist()
    block = compress_level_block(levels, version)
    assert (
        np.asarray(decode_block(block.encoding, block.data, block.count).data).view(np.uint16).tolist()
        == levels.tolist()
    )
    assert len(block.data) <= 2 * len(levels)


def test_levels_without_news_take_runs() -> None:
    counts = np.array([1024, 1024, 7])
    chunked = compress_levels(np.zeros(2055, dtype=np.uint16), counts, "2.2")
    assert chunked.encoding.WhichOneof("compression") == "rle"
    assert chunked.buffer.sizes.tolist() == [8 + 5 * 3, 8 + 5 * 3, 8 + 3]
    # Readers of that time know none.
    old = compress_levels(np.zeros(2055, dtype=np.uint16), counts, "2.1")
    assert old.encoding.WhichOneof("compression") == "out_of_line_bitpacking"


def test_a_chunk_ends_with_the_level_of_its_last_value() -> None:
    raveled = ravel(pa.array([[1], [], [2], None, [3, 4], []], pa.list_(pa.int8())), (0,))
    assert levels_per_chunk(raveled, np.array([2, 2])).tolist() == [3, 4]
    assert levels_per_chunk(raveled, np.array([4])).tolist() == [7]


def plain_index(rows: list[int], level_counts: list[int]) -> list[list[int]]:
    """The index by walking over the entries; rows are the lengths of the rows in entries."""
    owner = [row for row, length in enumerate(rows) for _ in range(length)]
    index = []
    entry = 0
    for count in level_counts:
        chunk = owner[entry : entry + count]
        following = owner[entry + count : entry + count + 1]
        complete = sum(1 for row in set(chunk) if following != [row])
        leftover = chunk.count(chunk[-1]) if following == [chunk[-1]] else 0
        index.append([complete, leftover])
        entry += count
    return index


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=30),
    st.lists(st.integers(1, 12), min_size=1, max_size=40),
)
def test_the_repetition_index_counts_rows_that_end(rows: list[int], cuts: list[int]) -> None:
    array = pa.array([list(range(length)) for length in rows], pa.list_(pa.int64()))
    raveled = ravel(array, (0,))
    counts = []
    left = sum(rows)
    for cut in cuts:
        if left > cut:
            counts.append(cut)
            left -= cut
    counts.append(left)
    index = repetition_index(raveled, np.array(counts)).view("<u8").reshape(-1, 2).tolist()
    assert index == plain_index(rows, counts)
    assert sum(ended for ended, _ in index) == len(rows)


@pytest.mark.parametrize("length", [0, 1, 5])
def test_nothing_but_empty_lists_has_no_values(length: int) -> None:
    raveled = ravel(pa.array([[]] * length, pa.list_(pa.int8())), (0,))
    assert (raveled.num_entries, len(raveled.values)) == (length, 0)
