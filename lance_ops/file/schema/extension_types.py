"""Extension types of Arrow: stored as storage type and two metadata entries."""

import ctypes
import struct
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError
from lance_ops.file.schema.logical_types import EXTENSION_METADATA_KEY, EXTENSION_NAME_KEY

# The Arrow C data interface stores metadata as: count, then per entry key length, key, value length, value.
_INT32 = struct.Struct("=i")


class _ArrowSchema(ctypes.Structure):
    _fields_ = (
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_void_p),
        ("flags", ctypes.c_int64),
    )


def text_keys(metadata: Mapping[bytes, bytes] | None, where: str) -> dict[str, bytes]:
    """Decode the keys of Arrow metadata.

    Args:
        metadata: Of a schema or field.
        where: Owner of the metadata, for the error.

    Raises:
        InvalidArgumentError: A key is not UTF-8, which the format cannot hold.
    """
    try:
        return {key.decode(): value for key, value in (metadata or {}).items()}
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(
            f"metadata key {error.object!r} is not valid UTF-8",
            field=where,
            hint="encode binary keys as text, for example in base64",
        ) from error


def split_extension(field: pa.Field) -> tuple[pa.DataType, dict[str, bytes]]:
    """Split a field into its storage type, and its metadata with the extension entries.

    Args:
        field: Any Arrow field; unchanged without an extension type.
    """
    metadata = text_keys(field.metadata, field.name)
    if not isinstance(field.type, pa.BaseExtensionType):
        return field.type, metadata
    name, parameters = _extension_entries(field.type)
    return field.type.storage_type, metadata | {
        EXTENSION_NAME_KEY: name,
        EXTENSION_METADATA_KEY: parameters,
    }


def resolve_extension(field: pa.Field) -> pa.Field:
    """Replace the extension entries of a field's metadata by the extension type, if registered.

    A type that is not registered, or that refuses the storage type, leaves the field unchanged, so the data
    stay readable.
    """
    if EXTENSION_NAME_KEY.encode() not in (field.metadata or {}):
        return field
    try:
        # Arrow resolves registered extension types when it parses a schema, and has no other API for it.
        return pa.ipc.read_schema(pa.schema([field]).serialize()).field(0)
    except (pa.ArrowException, ValueError, TypeError):
        return field


def resolve_items(data_type: pa.DataType) -> pa.DataType:
    """Resolve the extension type of the items of a fixed-size list; see `resolve_extension`.

    Other types are unchanged: their items are fields of their own.
    """
    if not pa.types.is_fixed_size_list(data_type):
        return data_type
    item = data_type.value_field
    resolved = resolve_extension(item.with_type(resolve_items(item.type)))
    return data_type if resolved.equals(item) else pa.list_(resolved, data_type.list_size)


def wrap_extension(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Wrap a storage array, or its items, in the given extension type; other types are unchanged."""
    if isinstance(data_type, pa.BaseExtensionType) and array.type != data_type:
        storage = wrap_extension(array, data_type.storage_type)
        return pa.ExtensionArray.from_storage(data_type, storage)
    if pa.types.is_fixed_size_list(data_type) and array.type != data_type:
        items = wrap_extension(array.values, data_type.value_type)
        return pa.Array.from_buffers(
            data_type, len(array), array.buffers()[:1], array.null_count, array.offset, children=[items]
        )
    return array


def _extension_entries(data_type: pa.BaseExtensionType) -> tuple[bytes, bytes]:
    # Types built into Arrow (uuid, json, tensors) expose their parameters through the C interface only.
    capsule = pa.field("", data_type).__arrow_c_schema__()
    get_pointer: Any = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype = ctypes.c_void_p
    get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    exported = _ArrowSchema.from_address(get_pointer(capsule, b"arrow_schema"))
    entries = _read_metadata(exported.metadata)
    return entries[EXTENSION_NAME_KEY.encode()], entries.get(EXTENSION_METADATA_KEY.encode(), b"")


def _read_metadata(address: int) -> dict[bytes, bytes]:
    position = address

    def read_int() -> int:
        nonlocal position
        (value,) = _INT32.unpack(ctypes.string_at(position, 4))
        position += 4
        return int(value)

    def read_text() -> bytes:
        nonlocal position
        length = read_int()
        text = ctypes.string_at(position, length)
        position += length
        return text

    return {read_text(): read_text() for _ in range(read_int())}
