"""Scattered rows of a column: alike pages are read as one where few rows are wanted of each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from lance_ops.errors import CorruptFileError
from lance_ops.file.io.fetch import Steps, gather
from lance_ops.file.io.page_errors import page_errors
from lance_ops.file.io.page_heads import PageHeads
from lance_ops.file.io.row_selection import Integers, RowSelection
from lance_ops.file.v2_1.column_rows import ColumnRows, LeafType
from lance_ops.file.v2_1.columns import LayoutColumn, LayoutPage
from lance_ops.file.v2_1.mini_block.head import CHUNKS_BUFFER, Head, read_head, wants_few
from lance_ops.file.v2_1.mini_block.pick import plan_picker
from lance_ops.file.v2_1.mini_block.pick_rows import pick_rows
from lance_ops.file.v2_1.read_page import read_page
from lance_ops.pb import encodings21_pb2 as pb

# Rows at once, so that memory does not grow with them.
_ROWS_AT_ONCE = 1 << 14
# Rows of more items on average are decoded chunk by chunk, page by page.
_ITEMS_OF_A_ROW = 16
# Where compiled loops can read words of neighbouring pages.
_ALIGNMENT = 8


_Known = dict[int, tuple[Head, int]]
"""By the number of a page: the head of its run, and its number in there."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A page with some of the rows.

    Attributes:
        number: Of the page.
        page: The page.
        rows: Their numbers in the column.
    """

    number: int
    page: LayoutPage
    rows: Integers


def take_rows(
    column: LayoutColumn, leaf: LeafType, rows: RowSelection, heads: PageHeads
) -> Steps[list[ColumnRows]]:
    """Read some rows of a column, one by one.

    Args:
        column: The column.
        leaf: What it holds.
        rows: Which, by their numbers.
        heads: Of the open file.

    Returns:
        The rows, in pieces that follow each other.

    Raises:
        CorruptFileError: The bytes are not what the layout says, or the column ends earlier.
        UnsupportedError: A layout or compression that is not implemented, which is named.
    """
    assert rows.numbers is not None
    column.check_rows(rows)
    key = (column.where, leaf)
    known: _Known = heads.get(key) or {}
    added: _Known = {}
    steps = [
        _read_run(batch_key, parts, known, added, leaf, rows.gap, heads)
        if isinstance(batch_key, Head) or (batch_key is not None and len(parts) > 1)
        else _read_alone(parts, leaf, rows.gap, heads)
        for batch_key, parts in _find_batches(column, leaf, rows.numbers, known)
    ]
    found = yield from gather(steps)
    if added:
        known = {**known, **added}
        distinct = {id(head): head for head, _ in known.values()}
        heads.put(key, known, sum(head.size for head in distinct.values()))
    return [piece for pieces in found for piece in pieces]


def _find_batches(
    column: LayoutColumn, leaf: LeafType, rows: Integers, known: _Known
) -> list[tuple[Head | bytes | None, list[_Part]]]:
    """The pages of some rows, with those together that follow each other and are alike."""
    pages = np.searchsorted(np.array(column.starts, dtype=np.int64), rows, side="right") - 1
    cuts = [0, *(np.flatnonzero(np.diff(pages)) + 1).tolist(), len(pages)]
    runs: list[tuple[Head | bytes | None, list[_Part]]] = []
    for (first, last), number in zip(pairwise(cuts), pages[cuts[:-1]].tolist(), strict=True):
        page = column.pages[number]
        batch_key = None
        if wants_few(last - first, page.length):
            batch_key = known[number][0] if number in known else _batch_key(page, leaf)
        part = _Part(number, page, rows[first:last])
        if runs and batch_key is not None and runs[-1][0] == batch_key:
            runs[-1][1].append(part)
        else:
            runs.append((batch_key, [part]))
    return runs


def _batch_key(page: LayoutPage, leaf: LeafType) -> bytes | None:
    """What pages have in common that can be read together; None of a page that is to be read by itself."""
    if page.layout.WhichOneof("layout") != "mini_block_layout":
        return None
    layout = page.layout.mini_block_layout
    if leaf.is_repeated and (
        not layout.repetition_index_depth or layout.num_items > _ITEMS_OF_A_ROW * page.length
    ):
        return None
    if layout.HasField("dictionary") and pa.types.is_dictionary(leaf.data_type):
        # Their arrays could only be joined under one dictionary.
        return None
    if page.buffer(CHUNKS_BUFFER)[0] % _ALIGNMENT:
        return None
    common = pb.MiniBlockLayout()
    common.CopyFrom(layout)
    common.ClearField("num_items")
    common.ClearField("num_dictionary_items")
    if layout.HasField("dictionary"):
        common.dictionary.Clear()
    return common.SerializeToString(deterministic=True)


def _read_alone(
    parts: Sequence[_Part], leaf: LeafType, gap: int, heads: PageHeads
) -> Steps[list[ColumnRows]]:
    selections = [RowSelection.some(part.rows - part.page.start, gap) for part in parts]
    steps = [read_page(part.page, leaf, rows, heads) for part, rows in zip(parts, selections, strict=True)]
    return (yield from gather(steps))


def _read_run(
    batch_key: Head | bytes,
    parts: Sequence[_Part],
    known: _Known,
    added: _Known,
    leaf: LeafType,
    gap: int,
    heads: PageHeads,
) -> Steps[list[ColumnRows]]:
    pages = [part.page for part in parts]
    with page_errors(replace(pages[0], where=f"{pages[0].where} to {pages[-1].where}")):
        if isinstance(batch_key, Head):
            head, numbers = batch_key, [known[part.number][1] for part in parts]
        else:
            layouts = [page.layout.mini_block_layout for page in pages]
            picker = plan_picker(layouts[0])
            if picker is None or (leaf.is_repeated and not picker.rep_bits):
                return (yield from _read_alone(parts, leaf, gap, heads))
            head, numbers = (yield from read_head(pages, layouts, leaf)), list(range(len(parts)))
            added.update({part.number: (head, number) for number, part in enumerate(parts)})
        moved = head.first_rows[numbers] - [page.start for page in pages]
        rows = np.concatenate([part.rows for part in parts])
        rows += np.repeat(moved, [len(part.rows) for part in parts])
        pieces = []
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            wanted = rows[first : first + _ROWS_AT_ONCE]
            piece = yield from pick_rows(head, leaf, wanted, gap)
            if piece is None:
                return (yield from _read_alone(parts, leaf, gap, heads))
            if piece.values.type != leaf.data_type or piece.length != len(wanted):
                # Arrow aborts the process when it builds a parent over children of a wrong type.
                raise CorruptFileError(f"pages of {leaf.data_type} hold values of {piece.values.type}")
            pieces.append(piece)
        return pieces
