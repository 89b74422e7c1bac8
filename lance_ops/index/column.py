"""The values of an indexed column together with the addresses of their rows."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lance_ops.file.schema.json_values import encode_json
from lance_ops.file.schema.logical_types import JSON_TYPE
from lance_ops.file.schema.model import Field
from lance_ops.table.dataset import Dataset


def value_type(field: Field) -> pa.DataType:
    """Arrow type of the values in an index: that of files, with dictionaries taken apart."""
    arrow_type = field.file_type
    return arrow_type.value_type if pa.types.is_dictionary(arrow_type) else arrow_type


def column_values(
    dataset: Dataset, column: str, fragment_ids: Sequence[int], *, row_ids: bool = False
) -> Iterator[pa.Table]:
    """Live rows of some fragments as tables (`values`, `ids`), a batch at a time.

    Args:
        dataset: The version to read.
        column: Path of the column, `a.b` for a field of a struct.
        fragment_ids: Which fragments.
        row_ids: Let `ids` be stable row ids and not addresses.
    """
    field = dataset.lance_schema.field(column)
    wanted = value_type(field)
    batches = dataset.to_batches(
        columns=[column], fragments=fragment_ids, with_row_id=row_ids, with_row_address=not row_ids
    )
    for batch in batches:
        rows = pa.table(batch)
        values = rows[0]
        if field.logical_type == JSON_TYPE:
            values = pa.chunked_array([encode_json(part, column) for part in values.chunks], wanted)
        yield pa.table({"values": values.cast(wanted), "ids": rows["_rowid" if row_ids else "_rowaddr"]})
