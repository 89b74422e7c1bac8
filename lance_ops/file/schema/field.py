"""Field: one node of a schema, with its conversion to Arrow.

Field messages: convert between a tree and a flat list of messages that name parents.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import pyarrow as pa

from lance_ops.errors import FormatError, UnsupportedTypeError
from lance_ops.file.schema.extension_types import resolve_extension, resolve_items, split_extension
from lance_ops.file.schema.logical_types import (
    EXTENSION_NAME_KEY,
    JSON_FILE_TYPE,
    JSON_TYPE,
    LIST_TYPES,
    decode_logical_type,
    encode_logical_type,
)
from lance_ops.pb import file_pb2

ARROW_JSON_EXTENSION = "arrow.json"
LANCE_JSON_EXTENSION = "lance.json"

# Field.encoding of file.proto. Only 0.1 readers use it, but every writer sets it.
_ENCODING_NONE, _ENCODING_PLAIN, _ENCODING_VAR_BINARY, _ENCODING_DICTIONARY = 0, 1, 2, 3

FIELDS_KEPT = 1 << 14
"""Size of caches of fields; as large as the widest tables, or sequential scans have no cache hits."""


@dataclass(frozen=True, slots=True)
class Field:
    """One node of a schema.

    Attributes:
        id: Number that identifies the field for the life of the dataset; -1 while not assigned.
        parent_id: Id of the enclosing field, -1 at the top level.
        name: Name within the parent.
        logical_type: Type string, see `lance_ops.file.schema.logical_types`.
        nullable: True if values may be null.
        metadata: Arrow field metadata and the `lance-*` options of the field.
        children: Struct members, or the one element field of a list or map.
        extension_name: The deprecated spelling of the `ARROW:extension:name` entry of the metadata.
        encoding: `Encoding` of file.proto, for 0.1 files.
        dictionary: File offset and length of the dictionary values, in 0.1 files only.
        source: The message of this field, kept to preserve unknown fields.
    """

    id: int
    parent_id: int
    name: str
    logical_type: str
    nullable: bool = True
    metadata: Mapping[str, bytes] = field(default_factory=dict, hash=False)
    children: tuple["Field", ...] = ()
    extension_name: str = ""
    encoding: int = _ENCODING_NONE
    dictionary: tuple[int, int] | None = None
    source: bytes = field(default=b"", repr=False, compare=False)

    @property
    def arrow_type(self) -> pa.DataType:
        """Arrow type of the values.

        Raises:
            UnsupportedTypeError: The logical type is unknown, or does not match the children.
        """
        return self.to_arrow().type

    @property
    def storage_type(self) -> pa.DataType:
        """Arrow type of the values without this field's own extension type."""
        kind = self.logical_type
        if kind == "struct":
            return pa.struct([child.to_arrow() for child in self.children])
        if kind in LIST_TYPES:
            item = self._only_child().to_arrow()
            return pa.large_list(item) if kind.startswith("large_") else pa.list_(item)
        if kind == "map":
            entries = self._only_child()
            if entries.logical_type != "struct" or len(entries.children) != 2:
                raise UnsupportedTypeError("a map must have entries of a key and a value", field=self.name)
            key, value = entries.children
            # Arrow has no maps with nullable keys.
            return pa.map_(key.to_arrow().with_nullable(False), value.to_arrow())
        if kind.startswith("fixed_size_list:struct:"):
            return pa.list_(self._only_child().to_arrow(), self._fixed_size_of_structs())
        if self.children:
            raise UnsupportedTypeError(f"a field of type {kind!r} cannot have children", field=self.name)
        return decode_logical_type(kind)

    @property
    def file_type(self) -> pa.DataType:
        """Arrow type of the values in files: JSON in its binary form, structs without extension types."""
        if self.logical_type == JSON_TYPE:
            return JSON_FILE_TYPE
        if self.logical_type == "struct":
            return pa.struct(
                [pa.field(child.name, child.file_type, nullable=child.nullable) for child in self.children]
            )
        return self.storage_type

    def to_arrow(self) -> pa.Field:
        """Convert to an Arrow field, with metadata, and with its extension type if registered."""
        if self.children or self.metadata or self.extension_name or self.logical_type == JSON_TYPE:
            return _build_arrow(self)
        return _plain_arrow(self.name, self.logical_type, self.nullable)

    def walk(self) -> Iterator["Field"]:
        """Yield this field and all nested fields, depth first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def child(self, name: str) -> "Field | None":
        """Return the child of that name."""
        return next((child for child in self.children if child.name == name), None)

    def has_option(self, key: str) -> bool:
        """Return whether a boolean option of the field metadata is set."""
        return self.metadata.get(key, b"").lower() in (b"true", b"1", b"yes")

    def _only_child(self) -> "Field":
        if len(self.children) != 1:
            raise UnsupportedTypeError(
                f"a field of type {self.logical_type!r} must have one child, got {len(self.children)}",
                field=self.name,
            )
        return self.children[0]

    def _fixed_size_of_structs(self) -> int:
        size = self.logical_type.rpartition(":")[2]
        if not (size.isascii() and size.isdigit() and 0 < int(size) < 2**31):
            raise UnsupportedTypeError(f"unknown logical type {self.logical_type!r}", field=self.name)
        return int(size)


def build_field(arrow: pa.Field, parent_id: int, numbers: Iterator[int], path: str) -> Field:
    """Convert an Arrow field, numbering it and nested fields depth first.

    Args:
        arrow: The field.
        parent_id: Id of the field above; -1 at the top.
        numbers: Ids to allocate.
        path: Of the field, for errors.

    Raises:
        UnsupportedTypeError: A type that no storage version can hold; the field is named.
    """
    data_type, metadata = split_extension(arrow)
    try:
        logical_type = encode_logical_type(data_type)
    except UnsupportedTypeError as error:
        raise UnsupportedTypeError(error.message, field=path, hint=error.hint) from None
    if metadata.get(EXTENSION_NAME_KEY, b"").decode() in (ARROW_JSON_EXTENSION, LANCE_JSON_EXTENSION):
        logical_type = JSON_TYPE
        metadata[EXTENSION_NAME_KEY] = LANCE_JSON_EXTENSION.encode()
    field_id = next(numbers)
    return Field(
        id=field_id,
        parent_id=parent_id,
        name=arrow.name,
        logical_type=logical_type,
        nullable=arrow.nullable,
        metadata=metadata,
        children=tuple(
            build_field(child, field_id, numbers, f"{path}.{child.name}")
            for child in _child_fields(data_type)
        ),
        extension_name=metadata.get(EXTENSION_NAME_KEY, b"").decode(),
        encoding=_legacy_encoding(logical_type),
    )


def _child_fields(data_type: pa.DataType) -> list[pa.Field]:
    types = pa.types
    if types.is_struct(data_type):
        return list(data_type)
    if types.is_list(data_type) or types.is_large_list(data_type):
        return [data_type.value_field]
    if types.is_map(data_type):
        members = pa.struct([data_type.key_field, data_type.item_field])
        return [pa.field("entries", members, nullable=False)]
    if types.is_fixed_size_list(data_type) and types.is_struct(data_type.value_type):
        return [data_type.value_field]
    return []


def _legacy_encoding(logical_type: str) -> int:
    if logical_type in ("string", "large_string", "binary", "large_binary", JSON_TYPE):
        return _ENCODING_VAR_BINARY
    if logical_type in ("null", "struct"):
        return _ENCODING_NONE
    return _ENCODING_DICTIONARY if logical_type.startswith("dict:") else _ENCODING_PLAIN


def _build_arrow(node: Field) -> pa.Field:
    metadata = dict(node.metadata)
    if node.extension_name:
        metadata.setdefault(EXTENSION_NAME_KEY, node.extension_name.encode())
    if node.logical_type == JSON_TYPE:
        metadata[EXTENSION_NAME_KEY] = ARROW_JSON_EXTENSION.encode()
    data_type = resolve_items(node.storage_type)
    if pa.types.is_null(data_type) and not node.nullable:
        raise UnsupportedTypeError("a field of type null must be nullable", field=node.name)
    return resolve_extension(
        pa.field(node.name, data_type, nullable=node.nullable, metadata=metadata or None)
    )


@lru_cache(maxsize=FIELDS_KEPT)
def _plain_arrow(name: str, logical_type: str, nullable: bool) -> pa.Field:
    # The fragments of a table need the same few fields repeatedly.
    return _build_arrow(Field(-1, -1, name, logical_type, nullable))


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
