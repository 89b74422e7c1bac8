"""Statistics of 0.1: null count, least and greatest value of each field in each batch, kept as columns.

The file keeps one struct for each field that has any, named by the field's id, with the members `null_count`,
`min_value` and `max_value`; any of them, and any field, may be missing, and unknown ones are passed over
(format text, "Page-level statistics format"). They form one batch with one value for each batch of the data,
in a page table of its own that is counted from id 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.encoding.values.binary import is_binary_like
from lance_ops.errors import CorruptFileError, FormatError
from lance_ops.file.container.page_bounds import PageBounds
from lance_ops.file.container.read import ENTRY_SIZE
from lance_ops.file.io.fetch import Request, Steps, gather
from lance_ops.file.io.page_heads import PageHeads
from lance_ops.file.io.row_selection import RowSelection
from lance_ops.file.schema.model import Field, Schema
from lance_ops.file.v0_1.columns import BatchColumn, parse_column
from lance_ops.file.v0_1.page_table import PageTable, decode_pages
from lance_ops.file.v0_1.read import read_field
from lance_ops.pb import file_pb2

_KNOWN = ("null_count", "min_value", "max_value")


@dataclass(frozen=True, slots=True)
class _StatisticsSource:
    """The columns of the statistics, as `read_field` sees them."""

    path: str
    schema: Schema
    columns: dict[int, BatchColumn]
    heads: PageHeads
    base_uris: Mapping[int, str] = field(default_factory=dict)

    def description(self, index: int) -> None:
        """None: these columns are described by a table of their own."""

    def column(self, index: int) -> BatchColumn:
        return self.columns[index]


def read_bounds(
    statistics: file_pb2.Metadata.StatisticsMetadata,
    starts: Sequence[int],
    field_ids: Sequence[int],
    size: int,
    path: str,
) -> Steps[dict[int, PageBounds]]:
    """Read the bounds of some fields.

    Args:
        statistics: What the metadata of the file say.
        starts: First row of each batch, and the number of rows.
        field_ids: The fields.
        size: Of the file.
        path: For errors.

    Returns:
        Bounds by field id, for those fields of which all three kinds are there.

    Raises:
        CorruptFileError: The statistics are damaged.
    """
    try:
        schema = Schema.from_protos(statistics.schema)
    except FormatError as error:
        raise CorruptFileError(error.message, path=path, field="statistics") from error
    wanted = {str(field_id): field_id for field_id in field_ids}
    fields = {wanted[field.name]: field for field in schema.fields if field.name in wanted}
    needed = [node.id for field in fields.values() for node in _members(field).values()]
    num_columns = max(statistics.fields, default=-1) + 1
    table = PageTable(statistics.page_table_position, 1, num_columns)
    if (
        num_columns < 0
        or table.position + num_columns * ENTRY_SIZE > size
        or any(not 0 <= number < num_columns for number in needed)
    ):
        raise CorruptFileError("the page table of the statistics is damaged", path=path, field="statistics")
    requests: list[Request] = [table[number] for number in needed]
    entries = yield requests
    columns = {}
    for number, data in zip(needed, entries, strict=True):
        where = f"statistics {number}"
        pages = decode_pages(data.to_pybytes(), (0, 1), "", size, where, path)
        columns[number] = parse_column(pages, where, path, size)
    source = _StatisticsSource(path, schema, columns, PageHeads())
    found = yield from gather(
        [_read_members(source, _members(field), len(starts) - 1) for field in fields.values()]
    )
    rows = np.array(starts, dtype=np.int64)
    bounds = {}
    for field_id, members in zip(fields, found, strict=True):
        known = _mask_unknown(members)
        if known is not None:
            bounds[field_id] = PageBounds(rows, *known)
    return bounds


def _members(field: Field) -> dict[str, Field]:
    return {child.name: child for child in field.children if child.name in _KNOWN and not child.children}


def _read_members(
    source: _StatisticsSource, members: dict[str, Field], num_batches: int
) -> Steps[dict[str, pa.Array]]:
    chunks = yield from gather(
        [
            read_field(source, member, {member.id: member.id}, RowSelection(0, num_batches))
            for member in members.values()
        ]
    )
    return {
        name: pa.concat_arrays(parts) if parts else pa.nulls(0, members[name].arrow_type)
        for name, parts in zip(members, chunks, strict=True)
    }


def _mask_unknown(members: dict[str, pa.Array]) -> tuple[pa.Array, pa.Array] | None:
    """Bounds with null where they do not bound what a reader gets; None if nothing is known anywhere.

    Nulls are not marked in a page: they read as whatever was left in their place, which the bounds, made of
    the values that are not null, leave out.
    """
    if members.keys() != set(_KNOWN):
        return None
    null_count, low, high = (members[name] for name in _KNOWN)
    ordered = pa.types.is_primitive(low.type) or is_binary_like(low.type)
    if not (ordered and low.type == high.type and pa.types.is_integer(null_count.type)):
        return None
    known = pc.equal(null_count, 0)
    none = pa.scalar(None, low.type)
    return pc.if_else(known, low, none), pc.if_else(known, high, none)
