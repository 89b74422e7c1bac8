"""Overlaid values: apply the newer values of a data overlay to rows of a fragment.

Members of structs are replaced individually: nulls of the struct itself are those of the data files, as in
pylance. Values of any other type are replaced as a whole.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.errors import UnsupportedError
from lance_ops.file.schema.blob_fields import has_blobs
from lance_ops.file.schema.model import Field, Schema
from lance_ops.table.manifest.data_file import DataFile, Overlay
from lance_ops.table.scan.stored_columns import StoredPart, join_parts, share_out

Offsets = npt.NDArray[np.uint32]
Numbers = npt.NDArray[np.int64]
Choose = Callable[[Offsets], tuple[Numbers, Numbers]]
"""Function from covered offsets to (positions in the rows that are read, ranks in the covered rows)."""
ReadPart = Callable[[DataFile, StoredPart, int, Numbers], pa.Table]
"""Function that reads rows of an overlay by rank, from a file with the given number of rows."""


def rows_of_range(offsets: Offsets, start: int, stop: int) -> tuple[Numbers, Numbers]:
    """Return positions and ranks of the covered rows in `[start, stop)`."""
    first, last = np.searchsorted(offsets, (start, stop))
    return offsets[first:last].astype(np.int64) - start, np.arange(first, last, dtype=np.int64)


def rows_of_list(offsets: Offsets, rows: Numbers) -> tuple[Numbers, Numbers]:
    """Return positions and ranks of the covered rows in a list of rows.

    Args:
        offsets: Covered ones, ascending.
        rows: The rows that are read, ascending.
    """
    ranks = np.searchsorted(offsets, rows)
    covered = ranks < len(offsets)
    covered[covered] = offsets[ranks[covered]] == rows[covered]
    return np.flatnonzero(covered), ranks[covered].astype(np.int64)


def lay_over(
    table: pa.Table, schema: Schema, overlay: Overlay, rows: int, choose: Choose, read: ReadPart
) -> pa.Table:
    """Replace values of rows by those of one overlay.

    Args:
        table: The rows without it.
        schema: Their columns.
        overlay: The overlay.
        rows: Rows of the fragment, deleted ones included.
        choose: Selects the covered rows of the table.
        read: Reads the file of the overlay.

    Raises:
        CorruptManifestError: See `Overlay.coverage`.
        UnsupportedError: The values are blobs, or a part of an indivisible value.
    """
    coverage = overlay.coverage(rows)
    # A file has as many rows as its longest column.
    length = max(map(len, coverage.values()), default=0)
    groups: dict[int, list[int]] = defaultdict(list)
    for number, offsets in coverage.items():
        groups[id(offsets)].append(number)
    for numbers in groups.values():
        places, ranks = choose(coverage[numbers[0]])
        for part in share_out([overlay.file], schema) if len(places) else ():
            wanted = _only(part, frozenset(numbers), overlay)
            if wanted.schema.fields:
                found = read(overlay.file, wanted, length, ranks)
                found = join_parts([wanted], [found], wanted.schema, len(ranks))
                table = _spliced(table, schema, found, wanted.schema, places)
    return table


def _only(part: StoredPart, numbers: frozenset[int], overlay: Overlay) -> StoredPart:
    """Return the columns whose values the overlay has for the same rows."""
    if has_blobs(part.schema):
        raise UnsupportedError("data overlays of blob columns are not implemented", path=overlay.file.path)
    if overlay.shared:
        return part
    fields = tuple(found for field in part.schema.fields if (found := _restricted(field, numbers)))
    schema = Schema(fields, part.schema.metadata)
    return StoredPart(part.file, schema, schema)


def _restricted(field: Field, numbers: frozenset[int]) -> Field | None:
    leaves = {node.id for node in field.walk() if not node.children}
    if leaves <= numbers or (field.id in numbers and not _is_struct(field)):
        return field
    if leaves.isdisjoint(numbers):
        return None
    if not _is_struct(field):
        raise _partial(field)
    children = tuple(found for child in field.children if (found := _restricted(child, numbers)))
    return replace(field, children=children)


def _spliced(table: pa.Table, schema: Schema, found: pa.Table, part: Schema, places: Numbers) -> pa.Table:
    fields = {field.name: field for field in schema.fields}
    for field in part.fields:
        at = table.schema.get_field_index(field.name)
        base = _joined(table.column(at))
        values = _joined(found.column(field.name))
        column = _replaced(base, values, fields[field.name], field, places)
        table = table.set_column(at, table.schema.field(at), pa.chunked_array([column], base.type))
    return table


def _joined(column: pa.ChunkedArray) -> pa.Array:
    joined = column.combine_chunks()
    return joined if isinstance(joined, pa.Array) else pa.concat_arrays(joined.chunks)


def _replaced(base: pa.Array, values: pa.Array, field: Field, part: Field, places: Numbers) -> pa.Array:
    """Return a column with other values at some positions."""
    if isinstance(base.type, pa.BaseExtensionType):
        storage = values.storage if isinstance(values.type, pa.BaseExtensionType) else values
        return pa.ExtensionArray.from_storage(
            base.type, _replaced(base.storage, storage, field, part, places)
        )
    if not _is_struct(field):
        if {node.id for node in field.walk()} != {node.id for node in part.walk()}:
            raise _partial(field)
        order = np.arange(len(base), dtype=np.int64)
        order[places] = len(base) + np.arange(len(places), dtype=np.int64)
        return pa.concat_arrays([base, values.cast(base.type)]).take(pa.array(order))
    own = {child.name: child for child in part.children}
    members = list(_members(base))
    for number, child in enumerate(field.children):
        if child.name in own:
            newer = _member(values, [item.name for item in part.children].index(child.name))
            members[number] = _replaced(members[number], newer, child, own[child.name], places)
    return pa.StructArray.from_arrays(
        members, fields=list(base.type), mask=base.is_null() if base.null_count else None
    )


def _members(array: pa.StructArray) -> Iterator[pa.Array]:
    return (_member(array, number) for number in range(array.type.num_fields))


def _member(array: pa.StructArray, number: int) -> pa.Array:
    # A null struct has null members for all readers.
    return array.flatten()[number] if array.null_count else array.field(number)


def _is_struct(field: Field) -> bool:
    return bool(field.children) and field.logical_type == "struct"


def _partial(field: Field) -> UnsupportedError:
    return UnsupportedError(f"an overlay replaces only a part of column {field.name!r}", field=field.name)
