"""Leaves: the parts of a field that have a column, and their paths through an array."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.encoding.bits.bitmap import validity_bitmap
from lance_ops.encoding.values.fixed_size_list import encode_fixed_size_list
from lance_ops.errors import SchemaMismatchError
from lance_ops.file.schema.model import Field
from lance_ops.file.v2_1.columns import is_leaf

# Levels of the items of lists, which are 16-bit integers until they are compressed.
_LEVELS_BYTES = 4
_FIXED_SIZE_STRUCTS = "fixed_size_list:struct:"


@dataclass(frozen=True, slots=True)
class LeafPath:
    """A leaf and the fields on the way to it.

    Attributes:
        fields: From the top-level field to the leaf.
        steps: Number of each field but the first among its siblings. A map has one child, its entries.
    """

    fields: tuple[Field, ...]
    steps: tuple[int, ...]

    @property
    def leaf(self) -> Field:
        """The field that has the column."""
        return self.fields[-1]

    @property
    def dimensions(self) -> tuple[int | None, ...]:
        """Structs of each field that is a fixed-size list of them; None for the others."""
        return tuple(
            int(field.storage_type.list_size) if field.logical_type.startswith(_FIXED_SIZE_STRUCTS) else None
            for field in self.fields
        )

    @property
    def name(self) -> str:
        """Return the name for errors."""
        if not self.steps:
            return self.fields[0].name
        return ".".join(field.name for field in self.fields)

    @property
    def straight(self) -> tuple[int, ...]:
        """The way to the leaf in a projected array, where it has no siblings."""
        return (0,) * len(self.steps)


def leaf_paths(top: Field) -> Iterator[LeafPath]:
    """Yield the leaves of a top-level field, in the order of their columns."""
    yield from _walk(LeafPath((top,), ()))


def _walk(path: LeafPath) -> Iterator[LeafPath]:
    if is_leaf(path.leaf):
        yield path
        return
    for number, child in enumerate(path.leaf.children):
        yield from _walk(LeafPath((*path.fields, child), (*path.steps, number)))


def project_leaf(array: pa.Array, path: LeafPath) -> pa.Array:
    """Project an array to a leaf.

    The result does not reference memory of siblings. Maps become lists of structs of one member.

    Args:
        array: Rows of the top-level field, of storage types; may be a slice.
        path: The leaf.

    Raises:
        SchemaMismatchError: A value that must not be null is.
    """
    check_nulls(array, path.fields[0], 0, path)
    return _project(array, path, 0)


def _project(array: pa.Array, path: LeafPath, depth: int) -> pa.Array:
    if depth == len(path.steps):
        return _drop_null_entries(array) if pa.types.is_dictionary(array.type) else array
    data_type = array.type
    field = path.fields[depth + 1]
    validity = validity_bitmap(array)
    if pa.types.is_struct(data_type):
        made: pa.DataType
        member = array.field(path.steps[depth])
        if member.null_count and not field.nullable:
            check_nulls(member.filter(array.is_valid()), field, depth + 1, path)
        child = _project(member, path, depth + 1)
        made, buffers = pa.struct([("", child.type)]), [validity]
    elif pa.types.is_fixed_size_list(data_type):
        items = encode_fixed_size_list(array)
        if items.null_count and not field.nullable:
            check_nulls(array.flatten(), field, depth + 1, path)
        child = _project(items, path, depth + 1)
        made, buffers = pa.list_(child.type, data_type.list_size), [validity]
    else:
        # Only the items of these rows, so that a slice costs what its rows cost.
        first, last = _extent(array)
        items = _entries(array).slice(first, last - first)
        if items.null_count and not field.nullable:
            check_nulls(_visible_items(array), field, depth + 1, path)
        child = _project(items, path, depth + 1)
        large = pa.types.is_large_list(data_type)
        made = pa.large_list(child.type) if large else pa.list_(child.type)
        offsets = pc.subtract(array.offsets, array.offsets[0]) if first else array.offsets
        word = 8 if large else 4
        starts = offsets.buffers()[1].slice(offsets.offset * word, len(offsets) * word)
        buffers = [validity, starts]
    return pa.Array.from_buffers(
        made, len(array), buffers, null_count=0 if validity is None else -1, children=[child]
    )


def _extent(array: pa.Array) -> tuple[int, int]:
    offsets = array.offsets
    return offsets[0].as_py(), offsets[-1].as_py()


def _drop_null_entries(array: pa.DictionaryArray) -> pa.DictionaryArray:
    # A row can be null because its entry is: levels only describe the row.
    items = array.dictionary
    if not items.null_count:
        return array
    valid = np.asarray(items.is_valid())
    numbers = array.indices.fill_null(0).to_numpy()
    null = ~valid[numbers] | np.asarray(array.indices.is_null())
    moved = (np.cumsum(valid) - 1).astype(numbers.dtype)[numbers]
    return pa.DictionaryArray.from_arrays(
        pa.array(np.where(null, 0, moved).astype(numbers.dtype), mask=null), items.drop_null()
    )


def _entries(array: pa.Array) -> pa.Array:
    if pa.types.is_map(array.type):
        return pa.StructArray.from_arrays([array.keys, array.items], names=["key", "value"])
    return array.values


def _visible_items(array: pa.Array) -> pa.Array:
    offsets = array.offsets.to_numpy().astype(np.int64, copy=False)
    lengths = np.diff(offsets)
    lengths[np.asarray(pc.is_null(array))] = 0
    shown = np.repeat(offsets[:-1] - (np.cumsum(lengths) - lengths), lengths) + np.arange(int(lengths.sum()))
    return _entries(array).take(pa.array(shown))


def check_nulls(array: pa.Array, field: Field, depth: int, path: LeafPath) -> None:
    """Check that nothing is null that must not be.

    Args:
        array: Values of the field, those below nulls left out.
        field: The field.
        depth: Its place in the path.
        path: For the error.

    Raises:
        SchemaMismatchError: There are nulls.
    """
    if array.null_count and not field.nullable:
        name = ".".join(one.name for one in path.fields[: depth + 1])
        raise SchemaMismatchError(
            "the data do not fit the schema",
            [f"column {name!r} must not be null, but {array.null_count} rows are"],
        )


def weigh(array: pa.Array, path: LeafPath) -> int:
    """Return bytes that projected rows count for in a page.

    Dictionaries are left out, the levels of items are not, and a value counts for one byte at least.

    Args:
        array: Result of `project_leaf`.
        path: The leaf.
    """
    total = 0
    for field in path.fields[:-1]:
        kind = field.logical_type
        if kind == "struct":
            total += len(array) // 8
            array = array.field(0)
        elif kind.startswith("fixed_size_list:"):
            total += len(array) // 8
            array = encode_fixed_size_list(array)
        else:
            first, last = _extent(array)
            total += (len(array) + last - first) * _LEVELS_BYTES
            array = array.values.slice(first, last - first)
    own = array.indices.nbytes if isinstance(array, pa.DictionaryArray) else array.nbytes
    return total + max(int(own), len(array))
