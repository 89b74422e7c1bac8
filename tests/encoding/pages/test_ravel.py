from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from lance_ops.encoding.pages.levels import Layer, unravel
from lance_ops.encoding.pages.ravel import Raveled, ravel
from lance_ops.errors import UnsupportedError, UnsupportedTypeError
from tests.support.nested import nested_arrays


def level_lists(raveled: Raveled) -> tuple[list[int] | None, list[int] | None]:
    rep, definition = raveled.rep, raveled.definition
    return None if rep is None else rep.tolist(), None if definition is None else definition.tolist()


def test_an_array_without_nulls_has_no_levels() -> None:
    raveled = ravel(pa.array([1, 2, 3]), ())
    assert level_lists(raveled) == (None, None)
    assert raveled.layers == (Layer(is_list=False),)
    assert (raveled.num_entries, raveled.num_rows) == (3, 3)


def test_nulls_have_a_level_and_a_blank_slot() -> None:
    array = pa.Array.from_buffers(
        pa.int32(), 4, [pa.py_buffer(b"\x0b"), pa.py_buffer(np.arange(4, dtype=np.int32))]
    )
    raveled = ravel(array[1:], ())
    assert level_lists(raveled) == (None, [0, 1, 0])
    assert raveled.values.equals(pa.array([1, 0, 3], pa.int32()))
    assert raveled.values.offset == 0


def test_empty_and_null_lists_have_entries_without_values() -> None:
    raveled = ravel(pa.array([[1, None], None, [], [4]], pa.list_(pa.int8())), (0,))
    assert level_lists(raveled) == ([1, 0, 1, 1, 1], [0, 1, 2, 3, 0])
    assert raveled.layers == (Layer(False, True), Layer(True, True, True))
    assert raveled.values.to_pylist() == [1, 0, 4]
    assert (raveled.num_entries, raveled.num_rows) == (5, 4)


def test_layers_are_nullable_only_where_a_null_can_be_seen_or_the_struct_around_is_null() -> None:
    inner = pa.array([[1], None, [None]], pa.list_(pa.int8()))
    array = pa.StructArray.from_arrays([inner], ["x"], mask=pa.array([False, True, True]))
    raveled = ravel(array, (0, 0))
    assert raveled.layers == (Layer(False), Layer(True, True), Layer(False, True))
    assert level_lists(raveled) == ([1, 1, 1], [0, 2, 2])


def test_members_of_maps_are_reached_through_their_entries() -> None:
    array = pa.array([[("a", 1)], None, [("b", None)]], pa.map_(pa.string(), pa.int8()))
    assert ravel(array, (0, 0)).values.to_pylist() == ["a", "b"]
    assert level_lists(ravel(array, (0, 0))) == ([1, 1, 1], [0, 1, 0])
    assert level_lists(ravel(array, (0, 1))) == ([1, 1, 1], [0, 2, 1])


def test_fixed_size_lists_of_structs_repeat_their_level_for_each_struct() -> None:
    data_type = pa.list_(pa.struct([("x", pa.int8())]), 2)
    array = pa.array([[{"x": 1}, {"x": 2}], None, [None, {"x": None}]], data_type)
    raveled = ravel(array, (0, 0))
    assert level_lists(raveled) == (None, [0, 0, 3, 3, 2, 1])
    assert (raveled.num_entries, raveled.num_rows) == (6, 3)


def test_leaves_of_every_kind_are_blank_under_nulls() -> None:
    null = pa.array([False, True])
    for values in (
        pa.array(["a", "b"]),
        pa.array([b"a", b"b"], pa.large_binary()),
        pa.array([True, True]),
        pa.array([b"abc", b"def"], pa.binary(3)),
        pa.array([[1, 2], [3, 4]], pa.list_(pa.int8(), 2)),
    ):
        (blank,) = ravel(pa.StructArray.from_arrays([values], ["x"], mask=null), (0,)).values[1:].to_pylist()
        assert blank in ("", b"", False, b"\0\0\0", [0, 0])


def test_items_under_null_fixed_size_lists_are_no_nulls() -> None:
    items = pa.array([1, 2, None, 4, 5, None], pa.int8())
    array = pa.FixedSizeListArray.from_arrays(items, 2, mask=pa.array([False, True, False]))
    assert ravel(array, ()).values.to_pylist() == [[1, 2], [0, 0], [5, None]]


def test_items_of_the_null_type_are_null() -> None:
    raveled = ravel(pa.array([[None, None], [], None], pa.list_(pa.null())), (0,))
    assert level_lists(raveled) == ([1, 0, 1, 1], [1, 1, 3, 2])
    assert raveled.values.equals(pa.nulls(2))


def test_empty_arrays_may_lack_their_buffers() -> None:
    empty = pa.Array.from_buffers(pa.list_(pa.int8()), 0, [None, None], children=[pa.array([], pa.int8())])
    raveled = ravel(empty, (0,))
    assert level_lists(raveled) == ([], None)
    assert (raveled.num_entries, raveled.num_rows, len(raveled.values)) == (0, 0, 0)


def test_dictionaries_keep_their_values() -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([1, None, 0], pa.int8()), pa.array(["x", "y"]))
    raveled = ravel(array, ())
    assert raveled.values.to_pylist() == ["y", "x", "x"]
    assert level_lists(raveled) == (None, [0, 1, 0])


def test_rows_can_be_cut_out_of_what_was_ravelled() -> None:
    array = pa.array([[1], [], [2, 3], None, [None, 5]], pa.list_(pa.int8()))
    whole = ravel(array, (0,))
    for start in range(6):
        for stop in range(start, 6):
            part = whole.slice(start, stop)
            (lists, _), count = unravel(part.rep, part.definition, part.layers, [1, 1], part.num_entries)
            assert count == len(part.values)
            assert lists.length == part.num_rows == stop - start
            assert np.diff(lists.offsets).tolist() == [
                len(row or []) for row in array[start:stop].to_pylist()
            ]


@pytest.mark.parametrize(
    ("data_type", "path"),
    [
        (pa.list_(pa.list_(pa.struct([("x", pa.int8())]), 2)), (0, 0, 0)),
        (pa.list_(pa.struct([("x", pa.list_(pa.int8()))]), 2), (0, 0, 0)),
    ],
)
def test_lists_with_fixed_size_lists_of_structs_are_refused(data_type, path) -> None:
    with pytest.raises(UnsupportedError, match="fixed-size lists of structs"):
        ravel(pa.array([None], data_type), path)


def test_values_have_no_members() -> None:
    with pytest.raises(UnsupportedTypeError, match="no members"):
        ravel(pa.array([1]), (0,))


@given(nested_arrays())
@settings(max_examples=10)
def test_levels_stay_below_those_of_the_layers(array: pa.Array) -> None:
    for path in leaf_paths(array.type):
        raveled = ravel(array, path)
        assert raveled.values.offset == 0
        assert raveled.values.null_count == 0
        slow = replace(raveled, null=None)
        assert (slow.null is None) == (raveled.null is None) == (raveled.definition is None)
        if slow.null is not None:
            assert slow.null.tolist() == raveled.null.tolist()
            assert len(slow.null) == len(raveled.values)
        if raveled.definition is not None and raveled.num_entries:
            assert int(raveled.definition.max()) <= raveled.max_definition


def leaf_paths(data_type: pa.DataType) -> list[tuple[int, ...]]:
    if pa.types.is_struct(data_type):
        return [(n, *rest) for n, field in enumerate(data_type) for rest in leaf_paths(field.type)]
    if pa.types.is_map(data_type):
        entries = pa.struct([data_type.key_field, data_type.item_field])
        return [(0, *rest) for rest in leaf_paths(entries)]
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        return [(0, *rest) for rest in leaf_paths(data_type.value_type)]
    if pa.types.is_fixed_size_list(data_type) and pa.types.is_struct(data_type.value_type):
        return [(0, *rest) for rest in leaf_paths(data_type.value_type)]
    return [()]
