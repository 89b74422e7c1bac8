"""Dialect of 2.0: trees of array encodings; the items of lists have columns, and rows, of their own."""

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
from google.protobuf.message import DecodeError

from lance_ops.errors import CorruptFileError, UnsupportedError
from lance_ops.file.container.read import Encoding
from lance_ops.file.page_copy.arrays import keep_array, list_offsets, row_bytes
from lance_ops.file.page_copy.dialect import NewPage, ReadPart
from lance_ops.file.page_copy.merge_2_0 import merge_pages
from lance_ops.file.page_copy.obstacles import assigned_columns
from lance_ops.file.page_copy.plan import Shape
from lance_ops.file.page_copy.rechunk import CannotRechunk
from lance_ops.file.page_copy.removed import NOTHING, Removed
from lance_ops.file.page_copy.source import OpenSource
from lance_ops.file.schema.logical_types import LIST_TYPES
from lance_ops.file.schema.model import Field
from lance_ops.file.schema.packing import is_packed_2_0
from lance_ops.file.v2_0.columns import ARRAY_ENCODING_URL
from lance_ops.pb import encodings20_pb2 as pb


class Dialect20:
    """See `Dialect` for the methods."""

    def find_lengths(self, source: OpenSource) -> list[int | None]:
        """Return row counts; below a list, a column has as many rows as there are items."""
        found: list[int | None] = [None] * len(source.columns)
        columns = assigned_columns(source)
        for field in source.schema.fields:
            for column, length in _lengths_below(source, field, columns, source.num_rows):
                found[column] = length
        return found

    def find_removed(self, source: OpenSource) -> list[Removed]:
        """Return the deleted rows of every column, with the items of deleted lists in columns below."""
        found = [NOTHING] * len(source.columns)
        if len(source.removed):
            columns = assigned_columns(source)
            for field in source.schema.fields:
                for column, removed in _removed_below(source, field, columns, source.removed):
                    found[column] = removed
        return found

    def is_header(self, source: OpenSource, column: int) -> bool:
        """Return whether a column is that of a struct."""
        pages = source.columns[column].pages
        return bool(pages) and all(
            parse_array(page.encoding).WhichOneof("array_encoding") == "struct" for page in pages
        )

    def always_nullable_layers(self, source: OpenSource) -> list[tuple[bool, ...]]:
        """Return None: there are no layers."""
        return [()] * len(source.columns)

    def shape(self, encoding: Encoding) -> Shape:
        """Return the shape; plain rows are a buffer of values of whole bytes."""
        tree = parse_array(encoding)
        if tree.WhichOneof("array_encoding") == "struct":
            return Shape(can_merge=False)
        width = row_bytes(tree)
        if width:
            return Shape(key=encoding.value, row_bytes=width)
        return Shape(has_symbols=tree.HasField("fsst"))

    def resize(self, encoding: Encoding, length: int) -> Encoding:
        """Return the description unchanged: the length is stored elsewhere."""
        del length
        return encoding

    def keep(self, page: ReadPart) -> list[NewPage]:
        """Drop rows from a page without decoding it, if possible."""
        keep = page.keep
        assert keep is not None
        try:
            tree, buffers = keep_array(parse_array(page.part.page.encoding), page.buffers, keep)
        except CannotRechunk:
            return self.merge([page])
        return [NewPage(describe_array(tree), tuple(buffers), page.part.kept)]

    def merge(self, pages: Sequence[ReadPart]) -> list[NewPage]:
        """Decode pages and encode their rows again."""
        return merge_pages(pages)


def describe_array(tree: pb.ArrayEncoding) -> Encoding:
    """Serialise the description of a page."""
    return Encoding(ARRAY_ENCODING_URL, tree.SerializeToString(deterministic=True))


def parse_array(encoding: Encoding) -> pb.ArrayEncoding:
    """Parse the encoding tree of a page, which must not be changed.

    Raises:
        CorruptFileError: It is unreadable.
        UnsupportedError: It is of another version.
    """
    if encoding.type_url != ARRAY_ENCODING_URL:
        raise UnsupportedError(f"unsupported page encoding {encoding.type_url!r}")
    return _parse(encoding.value)


@lru_cache(maxsize=256)
def _parse(data: bytes) -> pb.ArrayEncoding:
    try:
        return pb.ArrayEncoding.FromString(data)
    except DecodeError as error:
        raise CorruptFileError(f"page encoding cannot be parsed: {error}") from error


def _lengths_below(
    source: OpenSource, field: Field, columns: dict[int, int], length: int
) -> Iterator[tuple[int, int]]:
    column = columns[field.id]
    yield column, length
    if is_packed_2_0(field):
        return
    if field.logical_type in LIST_TYPES:
        pages = source.columns[column].pages
        length = sum(parse_array(page.encoding).list.num_items for page in pages)
    for child in field.children:
        yield from _lengths_below(source, child, columns, length)


def _removed_below(
    source: OpenSource, field: Field, columns: dict[int, int], removed: Removed
) -> Iterator[tuple[int, Removed]]:
    column = columns[field.id]
    yield column, removed
    if is_packed_2_0(field):
        return
    if field.logical_type in LIST_TYPES:
        removed = _removed_items(source, column, removed)
    for child in field.children:
        yield from _removed_below(source, child, columns, removed)


def _removed_items(source: OpenSource, column: int, removed: Removed) -> Removed:
    starts, stops = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    first_item = 0
    for start, page in zip(source.starts[column], source.columns[column].pages, strict=False):
        tree = parse_array(page.encoding)
        if tree.WhichOneof("array_encoding") != "list":
            raise CorruptFileError(
                "a page of a list column has no list encoding", path=source.path, field=f"column {column}"
            )
        begins, ends = removed.inside(start, start + page.length)
        if len(begins):
            buffers = source.read(page)
            offsets, _ = list_offsets(tree.list, buffers, page.length)
            starts.append(first_item + offsets[begins])
            stops.append(first_item + offsets[ends])
        first_item += tree.list.num_items
    return Removed.of_ranges(np.concatenate(starts), np.concatenate(stops))
