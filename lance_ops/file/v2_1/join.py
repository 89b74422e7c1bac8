"""Joining the columns of a field: each has all the lists and structs around its values, which must agree."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from lance_ops.encoding.pages.levels import Nest
from lance_ops.encoding.values.binary import is_large
from lance_ops.encoding.values.end_offsets import narrow_offsets
from lance_ops.errors import CorruptFileError
from lance_ops.file.schema.extension_types import wrap_extension
from lance_ops.file.schema.model import Field
from lance_ops.file.v2_1.column_rows import ColumnRows, LeafType
from lance_ops.file.v2_1.columns import is_leaf


def align_pieces(
    leaves: Sequence[LeafType], pieces: Sequence[Sequence[ColumnRows]], path: str
) -> list[list[ColumnRows]]:
    """Cut the pieces of all columns at the same rows.

    Args:
        leaves: What each column holds.
        pieces: Of each column, in the order of their rows.
        path: The file, for errors.

    Returns:
        For each run of rows one piece of each column.

    Raises:
        CorruptFileError: The columns do not have the same number of rows.
    """
    if len(leaves) == 1:
        return [[piece] for piece in pieces[0]]
    ends = [np.cumsum([piece.length for piece in column], dtype=np.int64) for column in pieces]
    if len({int(column[-1]) if len(column) else 0 for column in ends}) > 1:
        raise CorruptFileError("the columns of a struct do not have the same number of rows", path=path)
    cuts = np.unique(np.concatenate(ends)).tolist()
    rows: list[list[ColumnRows]] = []
    first = 0
    for last in cuts:
        row = []
        for leaf, column, column_ends in zip(leaves, pieces, ends, strict=True):
            number = int(np.searchsorted(column_ends, first, side="right"))
            begin = int(column_ends[number]) - column[number].length
            row.append(column[number].slice(first - begin, last - begin, leaf.items))
        rows.append(row)
        first = last
    return rows


def join_pieces(field: Field, found: Mapping[int, ColumnRows], length: int, path: str) -> pa.Array:
    """Build the array of a field.

    Args:
        field: The field.
        found: The rows of each column below it, by the id of the column's field.
        length: Number of rows.
        path: The file, for errors.

    Returns:
        Of the field's storage type; members without a column are null.

    Raises:
        CorruptFileError: The columns do not agree on their lists.
    """
    return _join(field, found, 0, length, path)


def _join(field: Field, found: Mapping[int, ColumnRows], depth: int, length: int, path: str) -> pa.Array:
    below = [found[node.id] for node in field.walk() if node.id in found]
    if not below:
        return pa.nulls(length, field.storage_type)
    nest = below[0].nests[depth]
    if nest.length != length:
        raise CorruptFileError(
            f"{nest.length} values where {length} are expected", path=path, field=field.name
        )
    if is_leaf(field):
        return below[0].values
    data_type = field.storage_type
    null_count = 0 if nest.validity is None else -1
    if nest.offsets is None:
        width = data_type.list_size if pa.types.is_fixed_size_list(data_type) else 1
        members = [
            wrap_extension(_join(child, found, depth + 1, length * width, path), child.arrow_type)
            for child in field.children
        ]
        return pa.Array.from_buffers(
            data_type, length, [nest.validity], null_count=null_count, children=members
        )
    if not all(_same_lists(nest, other.nests[depth]) for other in below[1:]):
        raise CorruptFileError(
            "the members of a list of structs are not of the same length", path=path, field=field.name
        )
    (child,) = field.children
    count = int(nest.offsets[-1] - nest.offsets[0])
    items = wrap_extension(_join(child, found, depth + 1, count, path), child.arrow_type)
    if pa.types.is_map(data_type) and (items.null_count or items.field(0).null_count):
        # Arrow ends the process over such an array.
        raise CorruptFileError("entries or keys of a map are null", path=path, field=field.name)
    buffers = [nest.validity, narrow_offsets(nest.offsets, large=is_large(data_type))]
    return pa.Array.from_buffers(data_type, length, buffers, null_count=null_count, children=[items])


def _same_lists(one: Nest, other: Nest) -> bool:
    return (
        one.offsets is not None and other.offsets is not None and np.array_equal(one.offsets, other.offsets)
    )
