"""Field messages: convert between a tree and a flat list of messages that name parents."""

from collections.abc import Sequence
from functools import lru_cache

from lance_ops.errors import FormatError
from lance_ops.file.schema.field import FIELDS_KEPT, Field
from lance_ops.pb import file_pb2

PRIMARY_KEY_KEY = "lance-schema:unenforced-primary-key"
PRIMARY_KEY_POSITION_KEY = "lance-schema:unenforced-primary-key:position"

# Deeper nesting than any real schema: a crafted chain of parents must not reach Python's recursion limit.
_MAX_DEPTH = 64

# Bounds the memory of the cache of fields.
_SMALL_FIELD = 512


def build_tree(protos: Sequence[file_pb2.Field]) -> tuple[Field, ...]:
    """Build the top-level fields of a flat list; children keep their order.

    Raises:
        FormatError: Ids repeat, a parent is missing, or parents form a cycle.
    """
    by_id: dict[int, file_pb2.Field] = {}
    for proto in protos:
        if proto.id in by_id:
            raise FormatError(f"two fields of the schema have the same id {proto.id}", field=proto.name)
        by_id[proto.id] = proto
    children: dict[int, list[file_pb2.Field]] = {}
    top: list[file_pb2.Field] = []
    for proto in protos:
        # The text of the format numbers from 1 and gives top-level fields the parent 0; writers use -1.
        if proto.parent_id < 0 or (proto.parent_id == 0 and 0 not in by_id):
            top.append(proto)
        elif proto.parent_id in by_id:
            children.setdefault(proto.parent_id, []).append(proto)
        else:
            raise FormatError(f"the parent {proto.parent_id} of a field is missing", field=proto.name)
    placed = 0

    def build(proto: file_pb2.Field, depth: int) -> Field:
        nonlocal placed
        placed += 1
        if depth > _MAX_DEPTH:
            raise FormatError(f"fields are nested deeper than {_MAX_DEPTH} levels", field=proto.name)
        below = tuple(build(child, depth + 1) for child in children.get(proto.id, ()))
        return _field_from_proto(proto, below, top_level=depth == 0)

    fields = tuple(build(proto, 0) for proto in top)
    if placed != len(protos):
        raise FormatError("the parents of some fields form a cycle")
    return fields


def _field_from_proto(proto: file_pb2.Field, children: tuple[Field, ...], *, top_level: bool) -> Field:
    source = proto.SerializeToString(deterministic=True)
    if children or len(source) > _SMALL_FIELD:
        return _build_from_proto(proto, source, children, top_level=top_level)
    return _recurring_field(source, top_level)


@lru_cache(maxsize=FIELDS_KEPT)
def _recurring_field(source: bytes, top_level: bool) -> Field:
    # Each data file of a table repeats its schema.
    return _build_from_proto(file_pb2.Field.FromString(source), source, (), top_level=top_level)


def _build_from_proto(
    proto: file_pb2.Field, source: bytes, children: tuple[Field, ...], *, top_level: bool
) -> Field:
    dictionary = None
    if proto.HasField("dictionary"):
        dictionary = (proto.dictionary.offset, proto.dictionary.length)
    return Field(
        id=proto.id,
        parent_id=-1 if top_level else proto.parent_id,
        name=proto.name,
        logical_type=proto.logical_type,
        nullable=proto.nullable,
        metadata=dict(proto.metadata),
        children=children,
        extension_name=proto.extension_name,
        encoding=int(proto.encoding),
        dictionary=dictionary,
        source=source,
    )


def field_proto(node: Field) -> file_pb2.Field:
    """Return the message of a field; unknown fields of a message that was read are preserved."""
    proto = file_pb2.Field()
    if node.source:
        proto.MergeFromString(node.source)
    proto.id = node.id
    proto.parent_id = node.parent_id
    proto.name = node.name
    proto.logical_type = node.logical_type
    proto.nullable = node.nullable
    proto.extension_name = node.extension_name
    proto.encoding = file_pb2.Encoding.ValueType(node.encoding)
    proto.metadata.clear()
    for key in sorted(node.metadata):
        proto.metadata[key] = node.metadata[key]
    proto.ClearField("dictionary")
    if node.dictionary is not None:
        proto.dictionary.offset, proto.dictionary.length = node.dictionary
    if not node.source:
        _mark_primary_key(node, proto)
    return proto


def _mark_primary_key(node: Field, proto: file_pb2.Field) -> None:
    position = node.metadata.get(PRIMARY_KEY_POSITION_KEY, b"").decode("ascii", "replace")
    if position.isascii() and position.isdigit() and len(position) < 10:
        proto.unenforced_primary_key_position = int(position)
        proto.unenforced_primary_key = True
    elif node.has_option(PRIMARY_KEY_KEY):
        proto.unenforced_primary_key = True
