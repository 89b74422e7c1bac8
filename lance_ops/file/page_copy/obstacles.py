"""Obstacles: conditions that prevent a page copy of files.

Pages are position-independent except for the columns listed here, so the bytes may move. Files without
obstacle give the same rows in the same order; others have to be read and written again.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from google.protobuf.message import DecodeError

from lance_ops.errors import CorruptFileError, UnsupportedError
from lance_ops.file.container.read import Column, Encoding
from lance_ops.file.page_copy.source import CopySource, OpenSource, open_source
from lance_ops.file.schema.logical_types import JSON_TYPE
from lance_ops.file.schema.model import Field, Schema
from lance_ops.file.schema.packing import PACKED_KEY, PACKED_LEGACY_KEY
from lance_ops.file.v2_0 import columns as columns_2_0
from lance_ops.file.v2_1 import columns as columns_2_1
from lance_ops.file.versions import StorageVersion
from lance_ops.pb import encodings20_pb2, encodings21_pb2

# Field metadata that determine the pages; everything else may differ between files.
_KEYS_THAT_MATTER = (
    PACKED_KEY,
    PACKED_LEGACY_KEY,
    columns_2_0.BLOB_KEY,
    "ARROW:extension:name",
    "ARROW:extension:metadata",
)
# An empty `values` message.
_PLAIN_COLUMN = b"\x0a\x00"
_BLOB_EXTENSION = b"lance.blob"
_BLOB_REASON = "its pages contain the positions of its values in the file, which would change"


def find_obstacles(sources: Sequence[CopySource]) -> list[str]:
    """List obstacles to copying files into one.

    Args:
        sources: The files in the order of their rows; at least one.

    Returns:
        One line for each obstacle, with the file, the column and the reason; empty when there is none.

    Raises:
        FileMissingError: A file does not exist.
        CorruptFileError: A file is truncated or damaged.
    """
    found: list[str] = []
    opened = []
    for source in sources:
        try:
            opened.append(open_source(source))
        except UnsupportedError as error:
            found.append(_line(source.path, error.field, error.message))
    return found + list(obstacles(opened))


def obstacles(sources: Sequence[OpenSource]) -> Iterator[str]:
    """List obstacles of open files."""
    for number, source in enumerate(sources):
        if number:
            yield from _differences(sources[0], source)
        yield from _own_obstacles(source)


def assigned_columns(source: OpenSource) -> dict[int, int]:
    """Physical column of each field id of a file."""
    return assign_to_schema(source.version, SameSchema(source.schema))


class SameSchema:
    """Schema that is equal to itself only: the comparison is free."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SameSchema) and other.schema is self.schema

    def __hash__(self) -> int:
        return id(self.schema)


@lru_cache(maxsize=16)
def assign_to_schema(version: StorageVersion, same: SameSchema) -> dict[int, int]:
    """Assign columns of all files with the same schema at once."""
    return version.layout.assign_columns(same.schema)


def _line(path: str, column: str | None, reason: str) -> str:
    return f"{path}: {reason}" if column is None else f"{path}, {column}: {reason}"


def _differences(first: OpenSource, other: OpenSource) -> Iterator[str]:
    if other.version is not first.version:
        yield _line(
            other.path, None, f"its storage version is {other.version.name}, not {first.version.name}"
        )
        return
    if other.schema is not first.schema:
        yield from _schema_differences(first, other)
    if len(first.columns) != len(other.columns):
        yield _line(
            other.path, None, f"it has {len(other.columns)} columns, {first.path} has {len(first.columns)}"
        )
        return
    for index, (left, right) in enumerate(zip(first.columns, other.columns, strict=True)):
        if left.encoding != right.encoding:
            yield _line(other.path, f"column {index}", f"its encoding differs from that in {first.path}")


def _schema_differences(first: OpenSource, other: OpenSource) -> Iterator[str]:
    fields, others = list(first.schema.walk()), list(other.schema.walk())
    if len(fields) != len(others):
        yield _line(other.path, None, f"it has {len(others)} fields, {first.path} has {len(fields)}")
        return
    for one, two in zip(fields, others, strict=True):
        for what, get in _COMPARED:
            if get(one) != get(two):
                yield _line(
                    other.path,
                    f"column {two.name!r}",
                    f"its {what} is {get(two)!r}, in {first.path} it is {get(one)!r}",
                )
                break


def _metadata(field: Field) -> dict[str, bytes]:
    return {key: field.metadata[key] for key in _KEYS_THAT_MATTER if key in field.metadata}


_COMPARED: tuple[tuple[str, Callable[[Field], Any]], ...] = (
    ("field id", lambda field: field.id),
    ("parent", lambda field: field.parent_id),
    ("name", lambda field: field.name),
    ("type", lambda field: field.logical_type),
    ("nullability", lambda field: field.nullable),
    ("metadata", _metadata),
    ("extension", lambda field: field.extension_name),
)


def is_same_field(left: Field, right: Field) -> bool:
    """Return whether two fields have the same type, ignoring names, ids and children."""
    return all(get(left) == get(right) for what, get in _COMPARED if what not in _NAMES)


_NAMES = ("field id", "parent", "name")


def _own_obstacles(source: OpenSource) -> Iterator[str]:
    if source.num_global_buffers > 1:
        yield _line(
            source.path, None, f"it has {source.num_global_buffers - 1} global buffers of unknown purpose"
        )
    for name in _blob_fields(SameSchema(source.schema)):
        yield _line(source.path, f"column {name!r}", f"it is a blob column: {_BLOB_REASON}")
    if any(field.logical_type == JSON_TYPE for field in source.schema.walk()):
        # Copied, documents with offsets of 32 bits are not read by pylance, which expects 64 in a new file.
        yield _line(source.path, None, "it has JSON documents, whose offsets pylance checks")
    assigned = assigned_columns(source)
    if len(assigned) != len(source.columns):
        yield _line(
            source.path,
            None,
            f"its schema has {len(assigned)} columns, but the file has {len(source.columns)}",
        )
    for index, column in enumerate(source.columns):
        reason = _column_obstacle(source, index, column)
        if reason is not None:
            yield _line(source.path, f"column {index}", reason)


@lru_cache(maxsize=16)
def _blob_fields(same: SameSchema) -> tuple[str, ...]:
    return tuple(
        field.name
        for field in same.schema.walk()
        if columns_2_0.is_blob(field)
        or field.metadata.get("ARROW:extension:name", b"").startswith(_BLOB_EXTENSION)
    )


def _column_obstacle(source: OpenSource, index: int, column: Column) -> str | None:
    if column.buffers:
        return "it has buffers shared by all of its pages"
    if _is_blob_column(column, source.path, index):
        return f"it is a blob column: {_BLOB_REASON}"
    return None


def _is_blob_column(column: Column, path: str, index: int) -> bool:
    encoding = column.encoding
    if encoding.type_url == columns_2_0.COLUMN_ENCODING_URL and encoding.value != _PLAIN_COLUMN:
        message = encodings20_pb2.ColumnEncoding()
        try:
            message.ParseFromString(encoding.value)
        except DecodeError as error:
            raise CorruptFileError(
                f"column encoding cannot be parsed: {error}", path=path, field=f"column {index}"
            ) from error
        if message.WhichOneof("column_encoding") == "blob":
            return True
    for number, page in enumerate(column.pages):
        if page.encoding.type_url == columns_2_1.PAGE_LAYOUT_URL:
            try:
                layout = _parse_layout(page.encoding.value)
            except DecodeError as error:
                raise _unreadable(error, f"column {index}, page {number}", path) from error
            if layout.WhichOneof("layout") == "blob_layout":
                return True
    return False


def parse_layout(
    encoding: Encoding, where: str | None = None, path: str | None = None
) -> encodings21_pb2.PageLayout:
    """Parse the description of a page of 2.1 or 2.2, which must not be changed.

    Args:
        encoding: Of the page.
        where: Column and page, for errors.
        path: The file, for errors.

    Raises:
        CorruptFileError: It is unreadable.
        UnsupportedError: It is of another version.
    """
    if encoding.type_url != columns_2_1.PAGE_LAYOUT_URL:
        raise UnsupportedError(f"unsupported page encoding {encoding.type_url!r}", path=path, field=where)
    try:
        return _parse_layout(encoding.value)
    except DecodeError as error:
        raise _unreadable(error, where, path) from error


def _unreadable(error: DecodeError, where: str | None, path: str | None) -> CorruptFileError:
    return CorruptFileError(f"page layout cannot be parsed: {error}", path=path, field=where)


@lru_cache(maxsize=256)
def _parse_layout(data: bytes) -> encodings21_pb2.PageLayout:
    # Most pages of a column have equal descriptions. The message is never changed.
    return encodings21_pb2.PageLayout.FromString(data)
