"""Page merge of 2.0: decode pages and encode their rows as one."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError

from lance_ops.encoding.values.end_offsets import encode_end_offsets
from lance_ops.errors import CorruptFileError
from lance_ops.file.io.fetch import run
from lance_ops.file.io.pending_rows import join_rows
from lance_ops.file.io.row_selection import RowSelection
from lance_ops.file.page_copy.arrays import list_offsets
from lance_ops.file.page_copy.dialect import NewPage, ReadPart
from lance_ops.file.page_copy.obstacles import assigned_columns
from lance_ops.file.schema.model import Field
from lance_ops.file.schema.packing import is_packed_2_0
from lance_ops.file.v2_0.arrays import read_rows
from lance_ops.file.v2_0.columns import ArrayPage
from lance_ops.file.v2_0.encode import (
    Compression,
    EncodedPage,
    encode_list_page,
    encode_packed_page,
    encode_page,
    page_encoding,
)
from lance_ops.pb import encodings20_pb2 as pb


def merge_pages(pages: Sequence[ReadPart]) -> list[NewPage]:
    """Encode the rows of several pages of one column again.

    Args:
        pages: In the order of their rows.

    Returns:
        One page, or several consecutive ones.

    Raises:
        CorruptFileError: The bytes do not match the encodings.
        UnsupportedError: An encoding that is not implemented.
    """
    field = _find_field(pages[0])
    described = [_describe(page) for page in pages]
    if all(page.encoding.WhichOneof("array_encoding") == "list" for page in described):
        return [_merge_lists(pages, described)]
    arrays = [_decode(page, array, field) for page, array in zip(pages, described, strict=True)]
    return [page for joined in join_rows(arrays) for page in _encode(joined, field)]


def _encode(array: pa.Array, field: Field) -> Iterator[NewPage]:
    if is_packed_2_0(field):
        yield _new_page(encode_packed_page(array), len(array))
        return
    page = encode_page(array, Compression.of_field(field))
    if page is not None:
        yield _new_page(page, len(array))
        return
    half = len(array) // 2
    yield from _encode(array.slice(0, half), field)
    yield from _encode(array.slice(half), field)


def _new_page(page: EncodedPage, length: int) -> NewPage:
    buffers = tuple(np.frombuffer(data, dtype=np.uint8) for data in page.buffers)
    return NewPage(page_encoding(page), buffers, length)


def _find_field(page: ReadPart) -> Field:
    columns = assigned_columns(page.source)
    for field in page.source.schema.walk():
        if columns.get(field.id) == page.part.column:
            return field
    raise CorruptFileError(
        "no field of the schema has this column", path=page.source.path, field=page.part.where
    )


def _describe(page: ReadPart) -> ArrayPage:
    described = page.part.page
    try:
        encoding = pb.ArrayEncoding.FromString(described.encoding.value)
    except DecodeError as error:
        raise CorruptFileError(f"page encoding cannot be parsed: {error}") from error
    return ArrayPage(
        path=page.source.path,
        where=page.part.where,
        start=0,
        length=described.length,
        buffers=described.buffers,
        encoding=encoding,
        file_size=page.source.size,
    )


def _decode(page: ReadPart, described: ArrayPage, field: Field) -> pa.Array:
    rows = RowSelection(0, described.length)
    keep = page.keep
    if keep is not None:
        rows = RowSelection.some(np.flatnonzero(keep))
    return run(read_rows(described, field.storage_type, rows), page.serve)


def _merge_lists(pages: Sequence[ReadPart], described: Sequence[ArrayPage]) -> NewPage:
    lengths, valids = [], []
    has_nulls = False
    for page, array in zip(pages, described, strict=True):
        offsets, valid = list_offsets(array.encoding.list, page.buffers, array.length)
        own = np.diff(offsets)
        has_nulls |= valid is not None
        mask = np.ones(len(own), dtype=np.bool_) if valid is None else valid
        keep = page.keep
        lengths.append(own if keep is None else own[keep])
        valids.append(mask if keep is None else mask[keep])
    joined = np.concatenate(valids) if has_nulls else None
    ends, adjustment, total = encode_end_offsets(np.concatenate(lengths), joined)
    encoded = encode_list_page(pa.py_buffer(ends), adjustment, total)
    return _new_page(encoded, len(ends))
