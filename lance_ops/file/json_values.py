"""JSON columns: text for users, JSONB in files."""

import pyarrow as pa

from lance_ops.encoding.jsonb import encode_jsonb
from lance_ops.errors import InvalidArgumentError, SchemaMismatchError


def encode_json(array: pa.Array, name: str) -> pa.Array:
    """JSON text as files hold it.

    Args:
        array: Strings.
        name: Path of the column, for the error.

    Raises:
        SchemaMismatchError: A string is no JSON.
    """
    try:
        return encode_jsonb(array)
    except InvalidArgumentError as error:
        problem = f"column {name!r}: {error.message}"
        raise SchemaMismatchError("the data do not fit the schema", [problem]) from error
