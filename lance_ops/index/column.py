"""The values of an indexed column together with the addresses of their rows."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.errors import CorruptFileError
from lance_ops.file.schema.json_values import encode_json
from lance_ops.file.schema.logical_types import JSON_TYPE
from lance_ops.file.schema.model import Field
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.scan.options import ScanOptions
from lance_ops.table.snapshot import Snapshot

_ROWS_AT_ONCE = 8192
"""Batch size without read-ahead: units of a scan end with complete batches."""


def value_type(field: Field) -> pa.DataType:
    """Return the Arrow type of the values in an index: that of files, with dictionaries decoded."""
    arrow_type = field.file_type
    return arrow_type.value_type if pa.types.is_dictionary(arrow_type) else arrow_type


def leaf_values(values: pa.Array | pa.ChunkedArray, names: Sequence[str]) -> pa.Array | pa.ChunkedArray:
    """Return the values at a path: null wherever a struct around them is null.

    Args:
        values: Of the top-level column.
        names: The path, that column first.
    """
    return pc.struct_field(values, list(names[1:])) if len(names) > 1 else values


def check_values(dataset: Snapshot, segment: IndexMetadata, held: pa.DataType, path: str) -> None:
    """Refuse a file whose values are not of the type that the indexed column has.

    Args:
        dataset: The version that the segment belongs to.
        segment: The segment, which is on one column.
        held: Type of the values in the file; items of lists for an index of these.
        path: The file.

    Raises:
        CorruptFileError: The types differ.
    """
    field = dataset.lance_schema.by_id(segment.fields[0]) if len(segment.fields) == 1 else None
    expected = None if field is None else item_type(value_type(field))
    if expected is None or _plain(held) != _plain(expected):
        column = "no column" if expected is None else f"a column of {expected}"
        raise CorruptFileError(f"it holds values of {held} and is on {column}", path=path, field="schema")


def item_type(arrow_type: pa.DataType) -> pa.DataType:
    """Return the type of the items of lists, with dictionaries decoded; any other type unchanged."""
    if not (pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type)):
        return arrow_type
    item = arrow_type.value_type
    return item.value_type if pa.types.is_dictionary(item) else item


def _plain(arrow_type: pa.DataType) -> pa.DataType:
    large = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
    return large.get(arrow_type, arrow_type)


def column_values(
    dataset: Dataset,
    column: str,
    fragment_ids: Sequence[int],
    *,
    row_ids: bool = False,
    slowly: bool = False,
    documents_as_text: bool = False,
) -> Iterator[pa.Table]:
    """Live rows of some fragments as tables (`values`, `ids`), a batch at a time.

    Args:
        dataset: The version to read.
        column: Path of the column, `a.b` for a field of a struct.
        fragment_ids: Which fragments.
        row_ids: Let `ids` be stable row ids and not addresses.
        slowly: What is done with a batch takes far longer than to read it, so that nothing is read ahead:
            large values would only wait in memory.
        documents_as_text: Return JSON documents as text, and not as files hold them.
    """
    field = dataset.lance_schema.field(column)
    is_document = field.logical_type == JSON_TYPE
    wanted = pa.string() if is_document and documents_as_text else value_type(field)
    options: ScanOptions = {
        "fragments": fragment_ids,
        "with_row_id": row_ids,
        "with_row_address": not row_ids,
    }
    if slowly:
        options |= {"threads": 1, "batch_size": _ROWS_AT_ONCE}
    batches = dataset.to_batches(columns=[column], **options)
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        values = rows[0]
        if is_document and not documents_as_text:
            values = pa.chunked_array([encode_json(part, column) for part in values.chunks], wanted)
        if values.type != wanted:
            values = values.cast(wanted)
        yield pa.table({"values": values, "ids": rows["_rowid" if row_ids else "_rowaddr"]})
