import numpy as np
import pyarrow as pa
import pytest

from lance_ops.encoding.pages.levels import Nest
from lance_ops.errors import CorruptFileError
from lance_ops.file.schema.model import Field, Schema
from lance_ops.file.v2_1.column_rows import ColumnRows, LeafType
from lance_ops.file.v2_1.join import align_pieces, join_pieces

PAIRS = pa.list_(pa.struct([("x", pa.int8()), ("y", pa.string())]))


def field_of(data_type: pa.DataType) -> Field:
    (field,) = Schema.from_arrow(pa.schema([("c", data_type)])).fields
    return field


def piece(offsets: list[int], values: pa.Array) -> ColumnRows:
    lists = Nest(len(offsets) - 1, None, np.array(offsets, dtype=np.int32))
    return ColumnRows((lists, Nest(len(values), None), Nest(len(values), None)), values)


def join(x: ColumnRows, y: ColumnRows, rows: int) -> pa.Array:
    field = field_of(PAIRS)
    struct = field.children[0]
    return join_pieces(field, {struct.children[0].id: x, struct.children[1].id: y}, rows, "a.lance")


def test_members_of_the_same_lists_become_structs() -> None:
    x = piece([0, 2, 2, 3], pa.array([1, 2, 3], pa.int8()))
    y = piece([0, 2, 2, 3], pa.array(["a", "b", "c"]))
    assert join(x, y, 3).to_pylist() == [
        [{"x": 1, "y": "a"}, {"x": 2, "y": "b"}],
        [],
        [{"x": 3, "y": "c"}],
    ]


def test_members_of_other_lists_are_refused() -> None:
    x = piece([0, 2, 3], pa.array([1, 2, 3], pa.int8()))
    y = piece([0, 1, 3], pa.array(["a", "b", "c"]))
    with pytest.raises(CorruptFileError, match="not of the same length"):
        join(x, y, 2)


def test_the_number_of_rows_must_be_right() -> None:
    x = piece([0, 2, 3], pa.array([1, 2, 3], pa.int8()))
    with pytest.raises(CorruptFileError, match="2 values where 3 are expected"):
        join(x, x, 3)


def test_columns_without_data_are_null() -> None:
    assert join_pieces(field_of(PAIRS), {}, 2, "a.lance").to_pylist() == [None, None]


def test_pieces_are_cut_where_any_column_has_a_page() -> None:
    leaf = LeafType(pa.int64(), (False,), (1,))

    def pieces(*lengths: int) -> list[ColumnRows]:
        ends = np.cumsum(lengths).tolist()
        arrays = [pa.array(range(end - count, end)) for end, count in zip(ends, lengths, strict=True)]
        return [ColumnRows((Nest(len(array), None),), array) for array in arrays]

    rows = align_pieces([leaf, leaf], [pieces(3, 2), pieces(1, 4)], "a.lance")
    assert [[part.values.to_pylist() for part in row] for row in rows] == [
        [[0], [0]],
        [[1, 2], [1, 2]],
        [[3, 4], [3, 4]],
    ]
    with pytest.raises(CorruptFileError, match="same number of rows"):
        align_pieces([leaf, leaf], [pieces(3), pieces(2)], "a.lance")


@pytest.mark.parametrize("null", ["entry", "key"])
def test_a_map_with_a_null_entry_or_key_is_damage(null: str) -> None:
    """Arrow would end the process over such an array."""
    field = field_of(pa.map_(pa.int8(), pa.string()))
    entries = field.children[0]
    validity = pa.py_buffer(b"\x05") if null == "entry" else None
    nests = (Nest(2, None, np.array([0, 2, 3], dtype=np.int32)), Nest(3, validity), Nest(3, None))
    keys = pa.array([1, None, 3] if null == "key" else [1, 2, 3], pa.int8())
    found = [ColumnRows(nests, keys), ColumnRows(nests, pa.array(["a", "b", "c"]))]
    with pytest.raises(CorruptFileError, match="are null"):
        join_pieces(
            field, {node.id: rows for node, rows in zip(entries.children, found, strict=True)}, 2, "a"
        )
