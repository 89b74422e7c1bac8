"""Scattered rows of a column: pages with equal descriptions are read as one if few rows of each are read."""

from collections.abc import Sequence
from dataclasses import dataclass
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
from lance_ops.file.v2_1.full_zip.take import ZippedColumn, find_zipped, take_zipped
from lance_ops.file.v2_1.mini_block.head import CHUNKS_BUFFER, Head, read_head, wants_few
from lance_ops.file.v2_1.mini_block.pick import is_plain_fsst, plan_picker
from lance_ops.file.v2_1.mini_block.pick_rows import pick_rows
from lance_ops.file.v2_1.read_page import read_page
from lance_ops.pb import encodings21_pb2 as pb

# Maximum rows at a time, to bound memory.
_ROWS_AT_ONCE = 1 << 14
# Rows of more items on average are decoded chunk by chunk, page by page.
_ITEMS_OF_A_ROW = 16
_FEW_ZIPPED = 1 << 10
# Where compiled loops can read words of neighbouring pages.
_ALIGNMENT = 8


# Maximum pages whose heads are joined, and their bytes: each new page decodes all of them again.
_PAGES_OF_A_HEAD = 256
_BYTES_OF_A_HEAD = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class _Alike:
    """Pages with equal descriptions, as far as parsed.

    Attributes:
        batch_key: Their common key.
        head: Of all of them.
        numbers: Of each in the column, ascending.
    """

    batch_key: bytes
    head: Head
    numbers: Integers


@dataclass(frozen=True, slots=True, eq=False)
class _Looked:
    """The parsed pages of a column.

    Attributes:
        starts: First row of each page of the column.
        groups: Groups of alike pages.
        group_of: For each page the number of its group, -1 for a page that is not parsed yet.
        moves: How much further back the rows of each page lie in the head of its group.
    """

    starts: Integers
    groups: tuple[_Alike, ...]
    group_of: Integers
    moves: Integers

    @classmethod
    def of(cls, column: LayoutColumn, groups: Sequence[_Alike]) -> "_Looked":
        """Return some groups of pages; of a page that is in several, the last one counts."""
        starts = np.array(column.starts, dtype=np.int64)
        group_of, moves = np.full(len(starts), -1, dtype=np.int64), np.zeros(len(starts), dtype=np.int64)
        for number, group in enumerate(groups):
            group_of[group.numbers] = number
            moves[group.numbers] = group.head.first_rows[:-1] - starts[group.numbers]
        used = np.unique(group_of[group_of >= 0]).tolist()
        if len(used) < len(groups):
            return cls.of(column, [groups[number] for number in used])
        return cls(starts, tuple(groups), group_of, moves)

    @property
    def size(self) -> int:
        """About the bytes it takes."""
        return 3 * self.starts.nbytes + sum(group.head.size + group.numbers.nbytes for group in self.groups)

    def group(self, pages: Integers) -> _Alike | None:
        """Return the group of some pages, if they are all in one."""
        found = self.group_of[pages]
        first = int(found[0])
        return self.groups[first] if first >= 0 and bool((found == first).all()) else None


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
        CorruptFileError: The bytes do not match the layouts, or the column ends earlier.
        UnsupportedError: A layout or compression that is not implemented, which is named.
    """
    assert rows.numbers is not None
    column.check_rows(rows)
    key = (column.where, leaf)
    looked: _Looked | ZippedColumn | None = heads.get(key)
    numbers = rows.numbers
    if looked is None and (zipped := find_zipped(column.pages, leaf)) is not None:
        heads.put(key, zipped, zipped.size)
        looked = zipped
    if isinstance(looked, ZippedColumn) and len(numbers) > _FEW_ZIPPED:
        # Contiguous data is not copied page by page.
        looked = None
    if isinstance(looked, ZippedColumn):
        with page_errors(column.pages[0], column.pages[-1]):
            return _checked([(yield from take_zipped(looked, leaf, numbers, rows.gap))], leaf, len(numbers))
    starts = np.array(column.starts, dtype=np.int64) if looked is None else looked.starts
    pages = np.searchsorted(starts, numbers, side="right") - 1
    alike = None if looked is None or not wants_few(len(numbers), 0) else looked.group(pages)
    if looked is not None and alike is not None:
        # As a rule: all that is left to do is to pick.
        with page_errors(column.pages[pages[0]], column.pages[pages[-1]]):
            pieces = yield from _pick(alike.head, leaf, numbers + looked.moves[pages], rows.gap)
            if pieces is not None:
                return pieces
    looked = _Looked.of(column, ()) if looked is None else looked
    added: list[_Alike] = []
    steps = [
        _read_run(column, batch_key, parts, looked, added, leaf, rows.gap, heads)
        if batch_key is not None and (len(parts) > 1 or looked.group_of[parts[0].number] >= 0)
        else _read_alone(parts, leaf, rows.gap, heads)
        for batch_key, parts in _find_batches(column, leaf, numbers, pages, looked)
    ]
    found = yield from gather(steps)
    if added:
        looked = _Looked.of(column, [*looked.groups, *added])
        heads.put(key, looked, looked.size)
    return [piece for pieces in found for piece in pieces]


def _find_batches(
    column: LayoutColumn, leaf: LeafType, rows: Integers, pages: Integers, looked: _Looked
) -> list[tuple[bytes | None, list[_Part]]]:
    """Return the pages of some rows, grouped if consecutive and of equal description."""
    cuts = [0, *(np.flatnonzero(pages[1:] != pages[:-1]) + 1).tolist(), len(pages)]
    runs: list[tuple[bytes | None, list[_Part]]] = []
    described: dict[int, bytes | None] = {}
    for (first, last), number in zip(pairwise(cuts), pages[cuts[:-1]].tolist(), strict=True):
        page = column.pages[number]
        batch_key = None
        if wants_few(last - first, page.length):
            group = int(looked.group_of[number])
            batch_key = looked.groups[group].batch_key if group >= 0 else _batch_key(page, leaf, described)
        part = _Part(number, page, rows[first:last])
        if runs and batch_key is not None and runs[-1][0] == batch_key:
            runs[-1][1].append(part)
        else:
            runs.append((batch_key, [part]))
    return runs


def _batch_key(page: LayoutPage, leaf: LeafType, described: dict[int, bytes | None]) -> bytes | None:
    """Return the key of pages that can be read together; None for a page that must be read separately.

    Args:
        page: The page.
        leaf: What the column holds.
        described: Keys by the identity of layouts, which small pages share.
    """
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
    known = described.get(id(page.layout))
    if known is not None:
        return known
    common = pb.MiniBlockLayout()
    common.CopyFrom(layout)
    common.ClearField("num_items")
    common.ClearField("num_dictionary_items")
    if layout.HasField("dictionary"):
        common.dictionary.Clear()
    if is_plain_fsst(layout.value_compression):
        common.value_compression.fsst.ClearField("symbol_table")
    described[id(page.layout)] = known = common.SerializeToString(deterministic=True)
    return known


def _read_alone(
    parts: Sequence[_Part], leaf: LeafType, gap: int, heads: PageHeads
) -> Steps[list[ColumnRows]]:
    selections = [RowSelection.some(part.rows - part.page.start, gap) for part in parts]
    steps = [read_page(part.page, leaf, rows, heads) for part, rows in zip(parts, selections, strict=True)]
    return (yield from gather(steps))


def _read_run(
    column: LayoutColumn,
    batch_key: bytes,
    parts: Sequence[_Part],
    looked: _Looked,
    added: list[_Alike],
    leaf: LeafType,
    gap: int,
    heads: PageHeads,
) -> Steps[list[ColumnRows]]:
    with page_errors(parts[0].page, parts[-1].page):
        pages = np.array([part.number for part in parts])
        alike = looked.group(pages)
        if alike is None:
            alike = yield from _look_at(column, batch_key, pages, looked, leaf)
            if alike is None:
                return (yield from _read_alone(parts, leaf, gap, heads))
            added.append(alike)
        places = np.searchsorted(alike.numbers, pages)
        moves = alike.head.first_rows[places] - [part.page.start for part in parts]
        rows = np.concatenate([part.rows for part in parts])
        rows += np.repeat(moves, [len(part.rows) for part in parts])
        pieces = yield from _pick(alike.head, leaf, rows, gap)
        return pieces if pieces is not None else (yield from _read_alone(parts, leaf, gap, heads))


def _pick(head: Head, leaf: LeafType, rows: Integers, gap: int) -> Steps[list[ColumnRows] | None]:
    """Return rows by their numbers in a head; None where chunks have to be decoded."""
    pieces = []
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        wanted = rows[first : first + _ROWS_AT_ONCE]
        piece = yield from pick_rows(head, leaf, wanted, gap)
        if piece is None:
            return None
        pieces += _checked([piece], leaf, len(wanted))
    return pieces


def _checked(pieces: list[ColumnRows], leaf: LeafType, length: int) -> list[ColumnRows]:
    if any(piece.values.type != leaf.data_type or piece.length != length for piece in pieces):
        # Arrow aborts the process when it builds a parent over children of a wrong type.
        raise CorruptFileError(f"pages of {leaf.data_type} hold values of {pieces[0].values.type}")
    return pieces


def _look_at(
    column: LayoutColumn, batch_key: bytes, pages: Integers, looked: _Looked, leaf: LeafType
) -> Steps[_Alike | None]:
    """Return the joint head of some pages and of similar ones parsed before.

    Otherwise each query would add a head for its pages, and later queries would need many heads.
    """
    groups = [group for group in looked.groups if group.batch_key == batch_key]
    numbers = np.unique(np.concatenate([pages, *(group.numbers for group in groups)]))
    if len(numbers) > _PAGES_OF_A_HEAD or sum(group.head.size for group in groups) > _BYTES_OF_A_HEAD:
        numbers = pages
    chosen = [column.pages[number] for number in numbers.tolist()]
    layouts = [page.layout.mini_block_layout for page in chosen]
    picker = plan_picker(layouts[0])
    if picker is None or (leaf.is_repeated and not picker.rep_bits):
        return None
    try:
        head = yield from read_head(chosen, layouts, leaf)
    except pa.ArrowInvalid:
        # Their dictionaries have too much for one array.
        return None
    return _Alike(batch_key, head, numbers)
