"""The values of an indexed column together with the addresses of their rows."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lance_ops.file.schema import Field
from lance_ops.table.dataset import Dataset


def value_type(field: Field) -> pa.DataType:
    """Arrow type of the values in an index: dictionaries and extension types give their storage type."""
    arrow_type = field.storage_type
    return arrow_type.value_type if pa.types.is_dictionary(arrow_type) else arrow_type


def column_values(dataset: Dataset, column: str, fragment_ids: Sequence[int]) -> Iterator[pa.Table]:
    """Live rows of some fragments as tables (`values`, `ids`), a batch at a time.

    Args:
        dataset: The version to read.
        column: Path of the column, `a.b` for a field of a struct.
        fragment_ids: Which fragments.
    """
    wanted = value_type(dataset.lance_schema.field(column))
    for batch in dataset.to_batches(columns=[column], fragments=fragment_ids, with_row_address=True):
        rows = pa.table(batch)
        yield pa.table({"values": rows[0].cast(wanted), "ids": rows["_rowaddr"]})
