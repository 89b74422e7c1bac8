"""Prepared schemas: values derived from a schema, computed once for repeated reads."""

from collections import deque
from dataclasses import dataclass

import pyarrow as pa

from lance_ops.cache import IdentityCache
from lance_ops.file.schema.conform import storage_type
from lance_ops.file.schema.model import Field, Schema
from lance_ops.pb import file_pb2
from lance_ops.storage.fork_safe import new_lock


@dataclass(frozen=True, slots=True)
class PreparedSchema:
    """A schema and derived values.

    Attributes:
        schema: The schema.
        arrow: As Arrow schema.
        ids: Of all fields, depth first.
        leaves: Ids of the fields without children.
        row_bytes: Bytes of a row in memory; None if a type has no fixed width.
        fixed_bytes: Bytes of a row of the columns whose types have a fixed width.
        variable: The other columns.
        is_stored: True if no column has an extension type, at any depth.
    """

    schema: Schema
    arrow: pa.Schema
    ids: tuple[int, ...]
    leaves: frozenset[int]
    row_bytes: int | None
    fixed_bytes: int
    variable: tuple[Field, ...]
    is_stored: bool


def _prepare(schema: Schema) -> PreparedSchema:
    nodes = list(schema.walk())
    arrow = schema.to_arrow()
    widths = [_width(field.type) for field in arrow]
    return PreparedSchema(
        schema,
        arrow,
        tuple([node.id for node in nodes]),
        frozenset([node.id for node in nodes if not node.children]),
        None if None in widths else max(1, sum(width or 0 for width in widths)),
        sum(width or 0 for width in widths),
        tuple([field for field, width in zip(schema.fields, widths, strict=True) if width is None]),
        all(storage_type(kind) == kind for kind in arrow.types),
    )


def _width(kind: pa.DataType) -> int | None:
    if isinstance(kind, pa.BaseExtensionType):
        return _width(kind.storage_type)
    if pa.types.is_fixed_size_list(kind):
        item = _width(kind.value_type)
        return None if item is None else item * kind.list_size
    if pa.types.is_struct(kind):
        members = [_width(field.type) for field in kind]
        return None if None in members else sum(width or 0 for width in members)
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:
        return None


prepare_schema = IdentityCache("prepared schemas", _prepare, 64)
"""What every read needs to know of a schema."""


def _to_protos(schema: Schema) -> tuple[file_pb2.Field, ...]:
    return tuple(schema.to_protos())


# Messages are larger.
schema_protos = IdentityCache("schema messages", _to_protos, 8)
"""What `Schema.to_protos` gives: to be copied from, not to be changed."""

_lock = new_lock()
_of_arrow: deque[tuple[pa.Schema, Schema]] = deque(maxlen=8)


def schema_of_arrow(arrow: pa.Schema) -> Schema:
    """Return the result of `Schema.from_arrow`, the same object for equal schemas.

    Writers of many datasets use few schemas.
    """
    with _lock:
        for known, schema in _of_arrow:
            if known.equals(arrow, check_metadata=True):
                return schema
    made = Schema.from_arrow(arrow)
    with _lock:
        _of_arrow.append((arrow, made))
    return made
