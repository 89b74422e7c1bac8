"""Blob extents: byte ranges in and beside a data file that its blob descriptors refer to."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.errors import CorruptFileError
from lance_ops.file.io.side_files import side_name
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.blob_fields import only_descriptors
from lance_ops.file.schema.model import Field, Schema
from lance_ops.file.v2_1.blob.read_v2 import (
    DEDICATED,
    EXTERNAL,
    INLINE,
    MANAGED,
    PACKED,
    descriptors_in,
    managed_path,
    parse_descriptors,
)

_ROWS_AT_ONCE = 1 << 18


@dataclass(slots=True)
class BlobExtents:
    """Extents of the blobs of a data file.

    Attributes:
        beside: Required bytes of each side file, by name.
        within: Required bytes of the data file itself.
        objects: Required bytes of each object of managed blobs, by base and path.
        external_bases: Bases that blobs outside of the dataset are named relative to.
    """

    beside: dict[str, int] = field(default_factory=dict)
    within: int = 0
    objects: dict[tuple[int, str], int] = field(default_factory=dict)
    external_bases: set[int] = field(default_factory=set)


def blob_extents(
    reader: FileReader,
    fields: Sequence[Field],
    column_indices: Mapping[int, int],
    deleted: npt.NDArray[np.uint32] | None = None,
) -> BlobExtents:
    """Read the descriptors of all rows of a data file.

    Args:
        reader: The open file.
        fields: Fields of the table; those without blobs are not read.
        column_indices: Physical column of each field id, from the manifest.
        deleted: Offsets of deleted rows, whose objects need not exist. Side files hold all rows.

    Raises:
        CorruptFileError: The descriptors cannot be read or are inconsistent.
        UnsupportedError: Blobs of an unknown kind.
    """
    shown = only_descriptors(Schema(tuple(fields)))
    found = BlobExtents()
    if not any(node.id in column_indices for node in shown.walk() if node.id >= 0):
        return found
    for start in range(0, reader.num_rows, _ROWS_AT_ONCE):
        stop = min(start + _ROWS_AT_ONCE, reader.num_rows)
        table = reader.read_table(shown, column_indices, start=start, stop=stop)
        for descriptors in _descriptors(table):
            _add(found, descriptors, reader.path)
        if deleted is not None:
            live = np.ones(stop - start, dtype=np.bool_)
            live[deleted[(deleted >= start) & (deleted < stop)] - start] = False
            table = table.filter(pa.array(live))
        for descriptors in _descriptors(table):
            _add_objects(found, descriptors)
    return found


def _descriptors(table: pa.Table) -> Iterator[pa.Array]:
    for column in table.columns:
        for chunk in column.chunks:
            yield from descriptors_in(chunk)


def _add(found: BlobExtents, descriptors: pa.Array, path: str) -> None:
    parsed = parse_descriptors(descriptors)
    ends = parsed.position + parsed.size
    if bool((ends < 0).any()):
        raise CorruptFileError("a blob has an invalid position", path=path)
    inline = ends[(parsed.kind == INLINE) & (parsed.size > 0)]
    found.within = max(found.within, int(inline.max(initial=0)))
    for kind in (PACKED, DEDICATED):
        chosen = parsed.valid & (parsed.kind == kind)
        # A file with a single value starts with it.
        needed = (ends if kind == PACKED else parsed.size)[chosen]
        numbers, places = np.unique(parsed.number[chosen], return_inverse=True)
        highest = np.zeros(len(numbers), np.int64)
        np.maximum.at(highest, places, needed)
        for number, size in zip(numbers.tolist(), highest.tolist(), strict=True):
            name = side_name(number)
            found.beside[name] = max(found.beside.get(name, 0), size)


def _add_objects(found: BlobExtents, descriptors: pa.Array) -> None:
    parsed = parse_descriptors(descriptors)
    ends = parsed.position + parsed.size
    numbers = parsed.number[parsed.valid & (parsed.kind == EXTERNAL) & (parsed.number > 0)]
    found.external_bases.update(np.unique(numbers).tolist())
    for row in np.flatnonzero(parsed.valid & (parsed.kind == MANAGED) & (parsed.size > 0)).tolist():
        key = int(parsed.number[row]), managed_path(parsed, row)
        found.objects[key] = max(found.objects.get(key, 0), int(ends[row]))
