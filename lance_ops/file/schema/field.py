"""Field: one node of a schema, with its conversion to Arrow."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import pyarrow as pa

from lance_ops.errors import UnsupportedTypeError
from lance_ops.file.schema.extension_types import resolve_extension, resolve_items, split_extension
from lance_ops.file.schema.logical_types import (
    EXTENSION_NAME_KEY,
    JSON_FILE_TYPE,
    JSON_TYPE,
    LIST_TYPES,
    decode_logical_type,
    encode_logical_type,
)

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
