"""Prepared schemas: values derived from a schema, computed once for repeated reads."""

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, ParamSpec, TypeVar

import pyarrow as pa

from lance_ops.file.schema.conform import storage_type
from lance_ops.file.schema.model import Schema
from lance_ops.pb import file_pb2
from lance_ops.storage.fork_safe import new_lock

P = ParamSpec("P")
T = TypeVar("T")


class IdentityCache(Generic[P, T]):
    """Cache of values derived from immutable objects, by their identity.

    Args:
        work_out: Computes the value of one or more objects.
        kept: Maximum number of entries.
    """

    def __init__(self, work_out: Callable[P, T], kept: int) -> None:
        self._work_out = work_out
        self._most = kept
        self._kept: OrderedDict[tuple[int, ...], tuple[object, T]] = OrderedDict()
        self._lock = new_lock()

    def __call__(self, *known: P.args, **named: P.kwargs) -> T:
        """Return the value for objects, given by position."""
        assert not named
        key = tuple(map(id, known))
        with self._lock:
            found = self._kept.get(key)
            # An id is unique only among live objects, so the entry keeps its objects alive.
            if found is not None:
                self._kept.move_to_end(key)
                return found[1]
        result = self._work_out(*known, **named)
        with self._lock:
            self._kept[key] = known, result
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return result


class SchemaCache(IdentityCache[[Schema], T], Generic[T]):
    """Cache of values derived from a schema."""


@dataclass(frozen=True, slots=True)
class PreparedSchema:
    """A schema and derived values.

    Attributes:
        schema: The schema.
        arrow: As Arrow schema.
        ids: Of all fields, depth first.
        leaves: Ids of the fields without children.
        row_bytes: Bytes of a row in memory; None if a type has no fixed width.
        is_stored: True if no column has an extension type, at any depth.
    """

    schema: Schema
    arrow: pa.Schema
    ids: tuple[int, ...]
    leaves: frozenset[int]
    row_bytes: int | None
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


prepare_schema = SchemaCache(_prepare, 64)
"""Cache of prepared schemas."""

schema_protos: SchemaCache[tuple[file_pb2.Field, ...]] = SchemaCache(
    # Messages are larger.
    lambda schema: tuple(schema.to_protos()),
    8,
)
"""Cache of `Schema.to_protos`: to be copied, not changed."""

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
