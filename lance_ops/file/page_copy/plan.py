"""Plan of a page copy: the pages of the new file, and the method for each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from lance_ops.errors import CorruptFileError
from lance_ops.file.container.read import Page
from lance_ops.file.page_copy.removed import Removed
from lance_ops.file.page_copy.rules import MergeRule
from lance_ops.file.page_copy.source import OpenSource


@dataclass(frozen=True, slots=True)
class Part:
    """The kept rows of one page.

    Attributes:
        source: Number of its file.
        column: Physical column.
        number: Of the page within its column.
        page: The page.
        start: Its first row (or item) within the column.
        kept: Number of kept rows, at least one.
        priority: First top-level row in the new file.
        num_bytes: Bytes of the kept rows in the old page, its description included.
        always_nullable: Nullable layers in the pages of the column, from the innermost outwards, if all pages
            have to agree.
    """

    source: int
    column: int
    number: int
    page: Page
    start: int
    kept: int
    priority: int
    num_bytes: int
    always_nullable: tuple[bool, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether all rows are kept."""
        return self.kept == self.page.length

    @property
    def where(self) -> str:
        """Column and page, for errors."""
        return f"column {self.column}, page {self.number}"


@dataclass(frozen=True, slots=True)
class Shape:
    """Properties that decide how a page can be merged with others.

    Attributes:
        key: Pages of plain rows can be joined when these are equal; empty for other pages.
        row_bytes: Of a plain row, 0 for other pages.
        has_symbols: True if strings are compressed with a table of symbols.
        recodes: True if the codes of such strings can be replaced by those of another table.
        can_merge: True if the page can be decoded and written again.
        repeats: True if one value stands for all rows.
        nullable: Which layers can be null, from the innermost outwards.
        is_misread: True if pylance misreads the levels of the page.
    """

    key: bytes = b""
    row_bytes: int = 0
    has_symbols: bool = False
    recodes: bool = False
    can_merge: bool = True
    repeats: bool = False
    nullable: tuple[bool, ...] = ()
    is_misread: bool = False


@dataclass(frozen=True, slots=True)
class Copy:
    """A page that is copied unchanged."""

    part: Part


@dataclass(frozen=True, slots=True)
class Join:
    """Plain rows of one or more pages, concatenated into one page."""

    parts: tuple[Part, ...]
    row_bytes: int


@dataclass(frozen=True, slots=True)
class Keep:
    """A page from which rows are dropped."""

    part: Part


@dataclass(frozen=True, slots=True)
class Merge:
    """Small pages that are decoded and encoded again.

    Attributes:
        parts: At least one.
        wave: Pages of one wave are read together.
    """

    parts: tuple[Part, ...]
    wave: int


Step: TypeAlias = Copy | Join | Keep | Merge


def plan_parts(sources: Sequence[OpenSource], removed: Sequence[Sequence[Removed]]) -> list[list[Part]]:
    """List the pages of each column of the new file.

    Args:
        sources: The files in the order of their rows.
        removed: Deleted rows of each file and physical column.

    Raises:
        CorruptFileError: Deleted rows are out of range.
    """
    columns: list[list[Part]] = [[] for _ in sources[0].columns]
    first_row = 0
    for number, source in enumerate(sources):
        for index, column in enumerate(source.columns):
            gone = removed[number][index]
            starts = source.starts[index]
            if len(gone) and int(gone.stops[-1]) > starts[-1]:
                raise CorruptFileError(
                    f"the column has {starts[-1]} rows, but row {int(gone.stops[-1]) - 1} is deleted",
                    path=source.path,
                    field=f"column {index}",
                )
            for page_number, page in enumerate(column.pages):
                start = starts[page_number]
                kept = page.length - gone.count_inside(start, start + page.length)
                if not kept:
                    continue
                # Priorities that are only hints may be wrong.
                row = min(page.priority, source.num_rows)
                priority = first_row + row - source.removed.count_before(row)
                stored = 0
                for _, size in page.buffers:
                    stored += size
                num_bytes = stored * kept // page.length + len(page.encoding.value)
                part = Part(number, index, page_number, page, start, kept, priority, num_bytes)
                columns[index].append(part)
        first_row += source.kept_rows
    return columns


def plan_steps(
    columns: Sequence[Sequence[Part]],
    shapes: Sequence[Sequence[Shape]],
    always_nullable: Sequence[Sequence[bool]],
    rule: MergeRule,
) -> list[list[Step]]:
    """Choose the method for the pages of each column.

    Args:
        columns: Result of `plan_parts`.
        shapes: Shape of each page.
        always_nullable: Of each column, the layers that must be nullable in all pages or in none.
        rule: Which pages are merged.
    """
    agreed = [
        _agree(column, found, layers)
        for column, found, layers in zip(columns, shapes, always_nullable, strict=True)
    ]
    waves = _plan_waves(agreed, shapes, rule)
    return [
        list(_column_steps(column, found, rule, waves)) for column, found in zip(agreed, shapes, strict=True)
    ]


def _agree(parts: Sequence[Part], shapes: Sequence[Shape], always_nullable: Sequence[bool]) -> Sequence[Part]:
    if not any(always_nullable):
        return parts
    for part, shape in zip(parts, shapes, strict=True):
        if len(shape.nullable) != len(always_nullable):
            raise CorruptFileError(
                f"a page has {len(shape.nullable)} layers instead of {len(always_nullable)}", field=part.where
            )
    nullable = [any(found) for found in zip(*(shape.nullable for shape in shapes), strict=True)]
    wanted = tuple(a and b for a, b in zip(always_nullable, nullable, strict=False))
    return [replace(part, always_nullable=wanted) for part in parts]


def _needs_other_levels(part: Part, shape: Shape) -> bool:
    """Return whether readers would misread the levels of the page, alone or among the other pages."""
    if shape.is_misread or not part.always_nullable:
        return shape.is_misread
    return any(a and not b for a, b in zip(part.always_nullable, shape.nullable, strict=True))


def _is_small(part: Part, shape: Shape, rule: MergeRule) -> bool:
    if _needs_other_levels(part, shape):
        return True
    bound = rule.small_text_bytes if shape.has_symbols else rule.small_bytes
    if shape.recodes:
        bound = rule.recoded_bytes
    if not shape.can_merge or part.num_bytes >= bound or part.kept > rule.small_rows:
        return False
    # Decoded size of a repeated value, including its levels.
    return not shape.repeats or part.kept * sum(size for _, size in part.page.buffers) <= rule.run_bytes


def _plan_waves(
    columns: Sequence[Sequence[Part]], shapes: Sequence[Sequence[Shape]], rule: MergeRule
) -> dict[int, int]:
    """Return the wave of each file: as many consecutive files as fit into memory with their small pages."""
    sizes: dict[int, int] = {}
    for column, found in zip(columns, shapes, strict=True):
        for part, shape in zip(column, found, strict=True):
            small = part.num_bytes if not _is_plain(part, shape) and _is_small(part, shape, rule) else 0
            sizes[part.source] = sizes.get(part.source, 0) + small
    waves: dict[int, int] = {}
    wave = total = 0
    for source in sorted(sizes):
        if total and total + sizes[source] > rule.wave_bytes:
            wave, total = wave + 1, 0
        waves[source] = wave
        total += sizes[source]
    return waves


def _column_steps(
    column: Sequence[Part], shapes: Sequence[Shape], rule: MergeRule, waves: dict[int, int]
) -> Iterator[Step]:
    index = 0
    while index < len(column):
        first, shape = column[index], shapes[index]
        stop = index + 1
        total = first.num_bytes
        if _is_plain(first, shape):
            total = first.kept * shape.row_bytes
            while (
                stop < len(column)
                and shapes[stop].key == shape.key
                and not _needs_other_levels(column[stop], shapes[stop])
                and total + column[stop].kept * shape.row_bytes <= rule.join_bytes
            ):
                total += column[stop].kept * shape.row_bytes
                stop += 1
            if stop == index + 1 and first.is_whole:
                yield Copy(first)
            else:
                yield Join(tuple(column[index:stop]), shape.row_bytes)
        elif _is_small(first, shape, rule):
            while (
                stop < len(column)
                and not _is_plain(column[stop], shapes[stop])
                and waves[column[stop].source] == waves[first.source]
                and _is_small(column[stop], shapes[stop], rule)
                and total < rule.run_bytes
            ):
                total += _run_bytes(column[stop], shapes[stop])
                stop += 1
            parts = tuple(column[index:stop])
            if len(parts) > 1 or _needs_other_levels(first, shape):
                yield Merge(parts, waves[first.source])
            else:
                yield Copy(first) if first.is_whole else Keep(first)
        else:
            yield Copy(first) if first.is_whole else Keep(first)
        index = stop


def _run_bytes(part: Part, shape: Shape) -> int:
    # Repeated values take almost no space until they are decoded.
    return part.num_bytes + (part.kept if shape.repeats else 0)


def _is_plain(part: Part, shape: Shape) -> bool:
    return bool(shape.row_bytes) and not _needs_other_levels(part, shape)
