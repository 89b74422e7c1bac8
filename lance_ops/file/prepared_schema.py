"""What every read needs to know of a schema, worked out once for a schema that is used again and again."""

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

import pyarrow as pa

from lance_ops.file.schema import Schema
from lance_ops.pb import file_pb2

_KEPT = 64
# Messages are larger.
_KEPT_PROTOS = 8


@dataclass(frozen=True, slots=True)
class PreparedSchema:
    """A schema and what follows from it.

    Attributes:
        schema: The schema.
        arrow: The same for Arrow.
        ids: Of all fields, depth first.
        leaves: Ids of the fields without children.
    """

    schema: Schema
    arrow: pa.Schema
    ids: tuple[int, ...]
    leaves: frozenset[int]


_kept: OrderedDict[int, PreparedSchema] = OrderedDict()
_protos: OrderedDict[int, tuple[Schema, tuple[file_pb2.Field, ...]]] = OrderedDict()
_lock = Lock()


def prepare_schema(schema: Schema) -> PreparedSchema:
    """Work out a schema, or find what was worked out for this very object."""
    key = id(schema)
    with _lock:
        found = _kept.get(key)
        # An id is unique only among objects that live: what is kept keeps its schema alive.
        if found is not None:
            _kept.move_to_end(key)
            return found
    nodes = list(schema.walk())
    prepared = PreparedSchema(
        schema,
        schema.to_arrow(),
        tuple(node.id for node in nodes),
        frozenset(node.id for node in nodes if not node.children),
    )
    with _lock:
        _kept[key] = prepared
        while len(_kept) > _KEPT:
            _kept.popitem(last=False)
    return prepared


def schema_protos(schema: Schema) -> tuple[file_pb2.Field, ...]:
    """What `Schema.to_protos` gives, once for this very object: to be copied from, not to be changed."""
    key = id(schema)
    with _lock:
        found = _protos.get(key)
        if found is not None:
            _protos.move_to_end(key)
            return found[1]
    protos = tuple(schema.to_protos())
    with _lock:
        _protos[key] = schema, protos
        while len(_protos) > _KEPT_PROTOS:
            _protos.popitem(last=False)
    return protos
