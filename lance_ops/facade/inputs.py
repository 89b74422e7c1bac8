"""Input data with a declared schema."""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError, check_type


def with_schema(data: Any, schema: pa.Schema | None) -> Any:
    """Return data in the types of a schema.

    Args:
        data: What `write_dataset` takes.
        schema: Names and types of the columns; data are returned as they are when None.

    Raises:
        InvalidArgumentError: The data do not fit.
    """
    if schema is None or isinstance(data, pa.RecordBatchReader):
        return data
    check_type(schema, pa.Schema, "an Arrow schema", field="schema")
    try:
        if isinstance(data, Mapping):
            return pa.table(dict(data), schema=schema)
        if isinstance(data, list) and all(isinstance(row, Mapping) for row in data):
            return pa.Table.from_pylist(data, schema=schema)
        if isinstance(data, pa.RecordBatch):
            data = pa.Table.from_batches([data])
        if isinstance(data, pa.Table):
            extra = [name for name in data.column_names if name not in schema.names]
            if extra:
                raise InvalidArgumentError(
                    f"the data have columns that the schema lacks: {', '.join(extra)}",
                    field="schema",
                    hint=f"add them to the schema, or write data.select({schema.names})",
                )
            return data.select(schema.names).cast(schema)
        if type(data).__module__.startswith("pandas."):
            return pa.Table.from_pandas(data, schema=schema)
        if isinstance(data, Iterable) and not isinstance(data, str):
            return pa.RecordBatchReader.from_batches(schema, data)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, KeyError) as error:
        raise InvalidArgumentError(f"the data do not fit the schema: {error}", field="schema") from error
    return data
