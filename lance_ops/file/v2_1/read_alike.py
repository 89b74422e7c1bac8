"""Columns alike: the rows of columns of one type whose pages are described alike, decoded together.

In wide tables the cost of a column hardly depends on its bytes: such columns are read as one, whose pages
follow each other.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lance_ops.file.io.fetch import Steps
from lance_ops.file.io.page_heads import PageHeads
from lance_ops.file.io.row_selection import RowSelection
from lance_ops.file.v2_1.column_rows import ColumnRows, LeafType
from lance_ops.file.v2_1.columns import LayoutColumn, LayoutPage
from lance_ops.file.v2_1.mini_block.head import CHUNKS_BUFFER
from lance_ops.file.v2_1.read_batch import page_kind, read_parts
from lance_ops.file.v2_1.take_column import take_rows

LEAST_COLUMNS = 4
"""Fewer columns are read one by one."""

# Columns of more bytes gain nothing; arrays of one group share their memory.
_COLUMN_BYTES, _GROUP_BYTES = 1 << 20, 4 << 20
_FEW_ROWS, _ROWS_AT_ONCE = 1 << 12, 1 << 16


_Kind = tuple[bytes, LeafType, tuple[int, ...], int]


@dataclass(frozen=True, slots=True)
class AlikeColumns:
    """Columns that are read as one.

    Attributes:
        numbers: Of the columns, as given to `find_alike`.
        columns: The columns.
        leaf: What each of them holds.
    """

    numbers: tuple[int, ...]
    columns: tuple[LayoutColumn, ...]
    leaf: LeafType


def find_alike(
    columns: Sequence[tuple[int, LayoutColumn, LeafType]], rows: RowSelection
) -> Iterator[AlikeColumns]:
    """Find columns that can be read as one.

    Args:
        columns: Number, column and type of each; their values need no further decoding.
        rows: The rows to read of each, at least one.
    """
    kinds: dict[_Kind, list[tuple[int, LayoutColumn]]] = {}
    for number, column, leaf in columns:
        is_whole = rows.numbers is None and rows.count == column.length
        if not column.pages or (not is_whole and rows.count > _FEW_ROWS) or rows.stop > column.length:
            continue
        kind = page_kind(column.pages[0])
        if kind is not None and (not is_whole or _chunk_bytes(column) <= _COLUMN_BYTES):
            kinds.setdefault((kind, leaf, column.starts, column.length), []).append((number, column))
    for (_, leaf, _, _), found in kinds.items():
        for some in _cut(found, rows):
            if len(some) >= LEAST_COLUMNS:
                numbers, alike = zip(*some, strict=True)
                yield AlikeColumns(numbers, alike, leaf)


def _chunk_bytes(column: LayoutColumn) -> int:
    return sum(page.buffers[CHUNKS_BUFFER][1] for page in column.pages if len(page.buffers) > CHUNKS_BUFFER)


def _cut(
    found: Sequence[tuple[int, LayoutColumn]], rows: RowSelection
) -> Iterator[list[tuple[int, LayoutColumn]]]:
    some: list[tuple[int, LayoutColumn]] = []
    size = 0
    for number, column in found:
        if rows.count == column.length:
            more, most = _chunk_bytes(column), _GROUP_BYTES
        else:
            more, most = rows.count, _ROWS_AT_ONCE
        if some and size + more > most:
            yield some
            some, size = [], 0
        some.append((number, column))
        size += more
    yield some


def read_alike(alike: AlikeColumns, rows: RowSelection, heads: PageHeads) -> Steps[list[list[ColumnRows]]]:
    """Read rows of columns as one.

    Args:
        alike: The columns.
        rows: The rows to read of each.
        heads: Of the open file.

    Returns:
        The rows of each column, in pieces that follow each other.

    Raises:
        CorruptFileError: The bytes do not match the layouts; a column read alone says where.
        UnsupportedError: A layout or compression that is not implemented.
    """
    if rows.count == alike.columns[0].length:
        parts = [part for column in alike.columns for part in column.parts(rows)]
        pieces = yield from read_parts(parts, alike.leaf, heads)
    else:
        joined = _join(alike.columns)
        starts = np.arange(len(alike.columns), dtype=np.int64) * alike.columns[0].length
        numbers = (starts[:, np.newaxis] + rows.indices).reshape(-1)
        selection = RowSelection(int(numbers[0]), int(numbers[-1]) + 1, numbers, rows.gap)
        pieces = yield from take_rows(joined, alike.leaf, selection, heads)
    return _share_out(pieces, len(alike.columns), rows.count, alike.leaf)


def _join(columns: Sequence[LayoutColumn]) -> LayoutColumn:
    """Return columns as one, in which their pages follow each other."""
    length = columns[0].length
    pages = tuple(
        [
            LayoutPage(
                page.path,
                page.where,
                page.start + number * length,
                page.length,
                page.buffers,
                page.layout,
                page.file_size,
                page.sparse,
            )
            for number, column in enumerate(columns)
            for page in column.pages
        ]
    )
    where = ", ".join(column.where for column in columns)
    starts = tuple([page.start for page in pages])
    return LayoutColumn(columns[0].path, where, pages, starts, length * len(columns))


def _share_out(
    pieces: Sequence[ColumnRows], count: int, length: int, leaf: LeafType
) -> list[list[ColumnRows]]:
    """Cut pieces after each column."""
    shares: list[list[ColumnRows]] = [[] for _ in range(count)]
    position = 0
    for piece in pieces:
        start = 0
        while start < piece.length:
            number, before = divmod(position, length)
            stop = min(piece.length, start + length - before)
            shares[number].append(piece.slice(start, stop, leaf.items))
            position += stop - start
            start = stop
    return shares
