"""What every read needs to know of a schema, worked out once for a schema that is used again and again."""

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

import pyarrow as pa

from lance_ops.file.schema import Schema

_KEPT = 64


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
