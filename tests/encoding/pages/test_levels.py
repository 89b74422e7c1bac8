import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_ops.encoding.bits.bitmap import decode_bitmap
from lance_ops.encoding.pages.levels import Layer, Nest, find_first_row, unravel, visible_below
from lance_ops.errors import CorruptFileError, UnsupportedError
from tests.support.oracles import oracles_in_place

ITEM = Layer(is_list=False)
NULLABLE = Layer(is_list=False, nullable=True)
LIST = Layer(is_list=True)
ANY_LIST = Layer(is_list=True, nullable=True, emptyable=True)


def bits(nest: Nest) -> list[bool]:
    return decode_bitmap(nest.validity, nest.length).tolist()


def levels(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.uint16)


def test_without_levels_every_entry_is_a_value() -> None:
    (row, value), count = unravel(None, None, [ITEM, ITEM], [1, 1], 5)
    assert (row.length, row.validity, value.length, count) == (5, None, 5, 5)


def test_the_definition_level_names_the_layer_that_is_null() -> None:
    # Struct over value: 1 is a null value, 2 a null struct.
    (struct, value), count = unravel(None, levels(0, 1, 2), [NULLABLE, NULLABLE], [1, 1], 3)
    assert bits(struct) == [True, True, False]
    assert bits(value) == [True, False, False]
    assert count == 3


def test_lists_begin_where_the_repetition_level_is_highest() -> None:
    # [[1], [null]], null, [], [[3, 4]] : two lists over values that may be null.
    rep = levels(2, 1, 2, 2, 2, 0)
    definition = levels(0, 1, 4, 5, 0, 0)
    layers = [NULLABLE, ANY_LIST, ANY_LIST]
    (outer, inner, value), count = unravel(rep, definition, layers, [1, 1, 1], 6)
    assert outer.offsets.tolist() == [0, 2, 2, 2, 3]
    assert bits(outer) == [True, False, True, True]
    assert inner.offsets.tolist() == [0, 1, 2, 4]
    assert inner.validity is None
    assert bits(value) == [True, False, True, True]
    assert count == 4


def test_a_null_struct_around_a_list_has_no_items() -> None:
    # Null lists are level 1, null structs level 2.
    layers = [ITEM, Layer(is_list=True, nullable=True), NULLABLE]
    (struct, items, value), count = unravel(levels(1, 1), levels(2, 0), layers, [1, 1, 1], 2)
    assert bits(struct) == [False, True]
    assert items.offsets.tolist() == [0, 0, 1]
    assert (value.length, count) == (1, 1)


def test_fixed_size_lists_of_structs_have_several_entries_a_row() -> None:
    layers = [NULLABLE, NULLABLE, NULLABLE]
    definition = levels(0, 2, 3, 3, 1, 0)
    (row, struct, value), count = unravel(None, definition, layers, [2, 1, 1], 6)
    assert bits(row) == [True, False, True]
    assert bits(struct) == [True, False, False, False, True, True]
    assert bits(value) == [True, False, False, False, False, True]
    assert count == 6


def test_levels_that_begin_within_a_row_are_skipped() -> None:
    rep, definition = levels(0, 0, 1, 0), levels(0, 1, 0, 0)
    assert find_first_row(rep, definition, [NULLABLE, LIST]) == (2, 2)
    assert find_first_row(rep, None, [ITEM, LIST]) == (2, 2)
    assert find_first_row(levels(0, 1), levels(2, 0), [NULLABLE, ANY_LIST]) == (1, 0)
    with pytest.raises(CorruptFileError, match="no row begins"):
        find_first_row(levels(0, 0), None, [ITEM, LIST])


def test_entries_below_a_list_are_visible_up_to_its_own_levels() -> None:
    assert visible_below([NULLABLE, ANY_LIST, NULLABLE]) == 2
    assert visible_below([NULLABLE, NULLABLE]) == 3


@pytest.mark.parametrize(
    ("rep", "definition", "layers", "match"),
    [
        (levels(0, 1), None, [ITEM, LIST], "does not begin a row"),
        (levels(2, 0), None, [ITEM, LIST], "repetition level of 2"),
        (None, levels(0, 2), [NULLABLE], "definition level of 2"),
        (None, None, [ITEM, LIST], "unfitting repetition"),
        (levels(0, 0), None, [ITEM], "repetition level|unfitting"),
        (None, levels(0), [NULLABLE], "1 definition levels"),
    ],
)
def test_levels_must_fit_the_layers(rep, definition, layers, match) -> None:
    with pytest.raises(CorruptFileError, match=match):
        unravel(rep, definition, layers, [1] * len(layers), 2)


def layer_lists() -> st.SearchStrategy[list[Layer]]:
    items = st.builds(Layer, st.just(False), st.booleans())
    lists = st.builds(Layer, st.just(True), st.booleans(), st.booleans())
    return st.tuples(items, st.lists(items | lists, max_size=14)).map(lambda pair: [pair[0], *pair[1]])


@given(layer_lists(), st.integers(0, 200), st.integers(0, 2**32 - 1), st.booleans(), st.integers(0, 1))
@settings(max_examples=300)
def test_any_levels_make_layers_that_fit_each_other(layers, count, seed, with_levels, excess) -> None:
    rng = np.random.default_rng(seed)
    lists = sum(layer.is_list for layer in layers)
    highest = sum(layer.nullable + layer.emptyable for layer in layers)
    rep = rng.integers(0, lists + 1 + excess, count).astype(np.uint16) if lists else None
    definition = rng.integers(0, highest + 1 + excess, count).astype(np.uint16) if with_levels else None
    found = []
    for way in (contextlib.nullcontext, oracles_in_place):
        with way():
            try:
                found.append(unravel(rep, definition, layers, [1] * len(layers), count))
            except CorruptFileError as error:
                found.append(str(error))
    if isinstance(found[0], str):
        assert found[0] == found[1]
        return
    (nests, visible), (others, other_visible) = found
    assert visible == other_visible <= count
    length = nests[0].length
    for nest, other, layer in zip(nests, others, reversed(layers), strict=True):
        assert nest.length == other.length == length
        assert (nest.validity is None) == (other.validity is None)
        if nest.validity is not None:
            assert bits(nest) == bits(other)
        assert (nest.offsets is not None) == layer.is_list
        if nest.offsets is not None:
            assert nest.offsets.tolist() == other.offsets.tolist()
            assert len(nest.offsets) == length + 1
            assert nest.offsets[0] == 0
            assert (np.diff(nest.offsets) >= 0).all()
            length = int(nest.offsets[-1])
    assert length == visible


def test_an_item_needs_a_list_around_it() -> None:
    layers = [ITEM, LIST, Layer(is_list=True, emptyable=True)]
    with pytest.raises(CorruptFileError, match="without a list"):
        unravel(levels(2, 0, 2), levels(1, 0, 0), layers, [1, 1, 1], 3)


def test_fixed_size_lists_of_structs_within_lists_are_not_supported() -> None:
    with pytest.raises(UnsupportedError, match="within lists"):
        unravel(levels(1, 0), None, [ITEM, ITEM, LIST], [1, 2, 1], 2)
