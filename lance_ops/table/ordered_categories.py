"""Ordered categories of pandas, as a DataFrame that was written had them.

Neither the format nor pylance records that a dictionary is ordered; the metadata that pandas leaves in the
schema does, with the number of the categories.
"""

from typing import Any

import pyarrow as pa


def with_ordered_categories(table: pa.Table) -> pa.Table:
    """Mark the dictionaries as ordered that pandas recorded so.

    Args:
        table: Rows as they were read, with the metadata of pandas in their schema, if there are any.

    Returns:
        The same rows. A column stays unordered if it has other categories than were recorded: an update or
        an append has added values whose place in the order is unknown.
    """
    metadata = table.schema.pandas_metadata or {}
    for column in metadata.get("columns", ()):
        position = table.schema.get_field_index(column.get("field_name") or column.get("name") or "")
        if position < 0 or not _is_ordered(column):
            continue
        field, values = table.schema.field(position), table.column(position)
        if pa.types.is_dictionary(field.type):
            ordered = _ordered(values, column["metadata"].get("num_categories"))
            table = table.set_column(position, field.with_type(ordered.type), ordered)
    return table


def _ordered(values: pa.ChunkedArray, count: Any) -> pa.ChunkedArray:
    """Return the values under the one order that a file has of all categories; unchanged if there is none."""
    complete = [chunk.dictionary for chunk in values.chunks if len(chunk.dictionary) == count]
    if not complete or any(not found.equals(complete[0]) for found in complete):
        return values
    # Files of updated rows have the categories of these rows only: all are numbered as in the first chunk.
    first = pa.DictionaryArray.from_arrays(pa.array([], values.type.index_type), complete[0])
    unified = pa.chunked_array([first, *values.chunks]).unify_dictionaries()
    if any(len(chunk.dictionary) != count for chunk in unified.chunks):
        return values
    kind = pa.dictionary(values.type.index_type, values.type.value_type, ordered=True)
    chunks = [
        pa.DictionaryArray.from_arrays(chunk.indices, complete[0], ordered=True)
        for chunk in unified.chunks[1:]
    ]
    return pa.chunked_array(chunks, kind)


def _is_ordered(column: dict[str, Any]) -> bool:
    return (
        column.get("pandas_type") == "categorical" and (column.get("metadata") or {}).get("ordered") is True
    )
