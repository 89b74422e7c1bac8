"""Page copy: combine files by copying their encoded pages."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

import numpy as np
import pyarrow as pa

from lance_ops.encoding.parallel import available_threads
from lance_ops.encoding.values.filter_values import gather_ranges
from lance_ops.errors import CorruptFileError, InvalidArgumentError, UnsupportedError
from lance_ops.file.container.read import Page
from lance_ops.file.container.write import ContainerWriter
from lance_ops.file.io.page_errors import page_errors
from lance_ops.file.page_copy.dialect import Bytes, Dialect, NewPage, ReadPart
from lance_ops.file.page_copy.dialect_2_0 import Dialect20
from lance_ops.file.page_copy.dialect_2_1 import Dialect21
from lance_ops.file.page_copy.evolved import see_as
from lance_ops.file.page_copy.obstacles import assigned_columns, obstacles
from lance_ops.file.page_copy.plan import (
    Copy,
    Join,
    Keep,
    Merge,
    Part,
    Shape,
    Step,
    plan_parts,
    plan_steps,
)
from lance_ops.file.page_copy.removed import NOTHING, Ranges, Removed
from lance_ops.file.page_copy.rules import DEFAULT_RULE, MergeRule
from lance_ops.file.page_copy.source import CopySource, OpenSource, copy_buffers, open_source
from lance_ops.file.schema.model import Schema
from lance_ops.file.self_check import check_columns
from lance_ops.file.writer import WrittenFile
from lance_ops.storage import Store
from lance_ops.storage.prefetch import prefetch

_DIALECTS: dict[str, Dialect] = {"2.0": Dialect20(), "2.1": Dialect21(), "2.2": Dialect21()}

# Kept rows are copied range by range if these have so many bytes on average; shorter ones are gathered from
# the page in memory.
_RANGE_BYTES = 32 << 10
# Pages of a file with deleted rows are read together up to this size.
_BATCH_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class _Place:
    """Location of an error."""

    path: str
    where: str


def copy_pages(
    store: Store, path: str, sources: Sequence[CopySource], *, rule: MergeRule = DEFAULT_RULE
) -> WrittenFile:
    """Combine files into one, in row order, without decoding pages that can stay unchanged.

    Pages without deleted rows are copied byte by byte, between local files by the kernel. Deleted rows are
    dropped without decompressing where the layout allows it. Runs of small pages are decoded and encoded
    again. Memory is bounded by the largest page with deleted rows, and by the rule.

    Args:
        store: Store of the new file.
        path: Relative to the store.
        sources: The files, at least one, in the order of their rows.
        rule: Which pages are merged.

    Returns:
        The new file. Its fields and columns are those of the sources' own schemas; a caller whose table lists
        others for the sources lists the same for the new file.

    Raises:
        UnsupportedError: The files cannot be copied, see `find_obstacles`; all reasons are named.
        CorruptFileError: A file is damaged; nothing is left behind.
        FileMissingError: A file does not exist.
        InvalidArgumentError: There are no sources, or deleted rows are out of range.
    """
    if not sources:
        raise InvalidArgumentError("page copy needs at least one source file", path=path, field="sources")
    opened = [_open(source) for source in sources]
    found = list(obstacles(opened))
    if found:
        raise UnsupportedError(
            "\n  - ".join(["the files cannot be copied page by page", *found]),
            path=path,
            hint="read their rows and write them to a new file",
        )
    with store.open_writer(path) as output:
        container = ContainerWriter(output, len(opened[0].columns))
        _Copying(opened, container, rule).run()
    first = opened[0]
    columns = assigned_columns(first)
    return WrittenFile(
        path=path,
        num_rows=sum(source.kept_rows for source in opened),
        size_bytes=container.tell(),
        field_ids=tuple(columns),
        column_indices=tuple(columns.values()),
        major=first.version.manifest[0],
        minor=first.version.manifest[1],
    )


def _open(source: CopySource) -> OpenSource:
    opened = open_source(source)
    return opened if source.wanted is None else see_as(opened, source.wanted)


class _Copying:
    """State of a copy."""

    def __init__(self, sources: Sequence[OpenSource], container: ContainerWriter, rule: MergeRule) -> None:
        self._sources = sources
        self._container = container
        self._rule = rule
        self._version = sources[0].version.name
        self._dialect = _DIALECTS[self._version]
        self._removed = [self._inspect(source) for source in sources]
        self._pages: dict[tuple[int, int], list[Page]] = {}
        self._last_gone = (NOTHING, 0, 0), NOTHING.inside(0, 0)

    def _inspect(self, source: OpenSource) -> list[Removed]:
        with page_errors(_Place(source.path, "columns")):
            lengths = self._dialect.find_lengths(source)
            for index, (length, starts) in enumerate(zip(lengths, source.starts, strict=True)):
                if length is not None and starts[-1] != length:
                    raise CorruptFileError(
                        f"row count of the column does not match (expected {length}, got {starts[-1]})",
                        path=source.path,
                        field=f"column {index}",
                    )
        return self._dialect.find_removed(source)

    def _shapes(self, parts: Sequence[Part]) -> list[Shape]:
        shape = self._dialect.shape
        found = []
        for part in parts:
            try:
                found.append(shape(part.page.encoding))
            except Exception:
                with page_errors(_Place(self._sources[part.source].path, part.where)):
                    raise
        return found

    def run(self) -> None:
        """Write the file."""
        parts = plan_parts(self._sources, self._removed)
        headers = {index for index in range(len(parts)) if self._dialect.is_header(self._sources[0], index)}
        columns = [[] if index in headers else column for index, column in enumerate(parts)]
        shapes = [self._shapes(column) for column in columns]
        steps = plan_steps(
            columns, shapes, self._dialect.always_nullable_layers(self._sources[0]), self._rule
        )
        numbered = [
            ((column, number), step)
            for column, found in enumerate(steps)
            for number, step in enumerate(found)
        ]
        # Unchanged pages come first, file by file, so that adjacent ones are copied together.
        self._copy_all([(key, step.part) for key, step in numbered if isinstance(step, Copy)])
        for key, step in numbered:
            if isinstance(step, Join):
                self._pages[key] = [self._join(step)]
        self._keep_all([(key, step.part) for key, step in numbered if isinstance(step, Keep)])
        self._merge_all([(key, step) for key, step in numbered if isinstance(step, Merge)])
        self._finish(headers, steps)

    def _copy_all(self, copies: Sequence[tuple[tuple[int, int], Part]]) -> None:
        by_source: dict[int, list[tuple[tuple[int, int], Part]]] = {}
        for key, part in copies:
            by_source.setdefault(part.source, []).append((key, part))
        for number, found in sorted(by_source.items()):
            source = self._sources[number]
            buffers = (buffer for _, part in found for buffer in part.page.buffers)
            moved = copy_buffers(self._container, source, buffers)
            for key, part in found:
                page = part.page
                placed = tuple((moved.get(buffer, 0), buffer[1]) for buffer in page.buffers)
                self._pages[key] = [replace(page, buffers=placed, priority=part.priority)]

    def _join(self, step: Join) -> Page:
        first = step.parts[0]
        position = self._container.align()
        for part in step.parts:
            source = self._sources[part.source]
            if len(part.page.buffers) != 1 or part.page.buffers[0][1] < part.page.length * step.row_bytes:
                raise CorruptFileError(
                    f"{part.page.length} rows of {step.row_bytes} bytes do not match the size of the page",
                    path=source.path,
                    field=part.where,
                )
            self._append_rows(source, part, step.row_bytes)
        length = sum(part.kept for part in step.parts)
        encoding = self._dialect.resize(first.page.encoding, length)
        return Page(((position, length * step.row_bytes),), length, first.priority, encoding)

    def _append_rows(self, source: OpenSource, part: Part, width: int) -> None:
        """Append the kept rows, without reading them if their ranges are long."""
        ((position, _),) = part.page.buffers
        removed = self._removed[part.source][part.column]
        starts, stops = removed.kept_ranges(part.start, part.start + part.page.length)
        starts, stops = starts * width, stops * width
        if int(stops[-1] - starts[0]) >= _RANGE_BYTES * len(starts) or len(starts) == 1:
            ranges = zip((starts + position).tolist(), (stops - starts).tolist(), strict=True)
            self._container.append_from(source.store, source.path, list(ranges))
            return
        first, last = int(starts[0]), int(stops[-1])
        (data,) = source.read_ranges([(position + first, last - first)])
        rows = gather_ranges(np.frombuffer(data, dtype=np.uint8), starts - first, stops - first)
        self._container.append(pa.py_buffer(rows))

    def _keep_all(self, keeps: Sequence[tuple[tuple[int, int], Part]]) -> None:
        """Drop rows file by file, because deletions in one page are mostly those of its neighbours."""
        for number, found in groupby(sorted(keeps, key=_source), key=_source):
            source = self._sources[number]
            for batch in _batches(list(found)):
                ranges = [buffer for _, part in batch for buffer in part.page.buffers]
                data = iter(source.read_many(ranges))
                for key, part in batch:
                    read = self._read_part(part, [next(data) for _ in part.page.buffers])
                    with page_errors(read):
                        kept = self._dialect.keep(read)
                    self._pages[key] = self._write_all(kept, part.priority)

    def _read_part(self, part: Part, buffers: Sequence[Bytes]) -> ReadPart:
        return ReadPart(
            source=self._sources[part.source],
            part=part,
            buffers=tuple(buffers),
            gone=None if part.is_whole else self._find_gone(part),
        )

    def _find_gone(self, part: Part) -> Ranges:
        removed = self._removed[part.source][part.column]
        start, stop = part.start, part.start + part.page.length
        known, *bounds = self._last_gone[0]
        if known is not removed or bounds != [start, stop]:
            self._last_gone = (removed, start, stop), removed.inside(start, stop)
        return self._last_gone[1]

    def _merge_all(self, merges: Sequence[tuple[tuple[int, int], Merge]]) -> None:
        waves: dict[int, list[tuple[tuple[int, int], Merge]]] = {}
        for key, step in merges:
            waves.setdefault(step.wave, []).append((key, step))
        for _, wave in sorted(waves.items()):
            buffers = self._read_wave([part for _, step in wave for part in step.parts])
            tasks = [
                partial(
                    self._merge,
                    [
                        self._read_part(part, buffers[part.source, part.column, part.number])
                        for part in step.parts
                    ],
                )
                for _, step in wave
            ]
            for (key, step), merged in zip(wave, prefetch(iter(tasks), available_threads()), strict=True):
                self._pages[key] = self._write_all(merged, step.parts[0].priority)

    def _merge(self, pages: Sequence[ReadPart]) -> list[NewPage]:
        with page_errors(_Place(pages[0].path, f"{pages[0].where}, and {len(pages) - 1} that follow")):
            return self._dialect.merge(pages)

    def _read_wave(self, parts: Sequence[Part]) -> dict[tuple[int, int, int], list[Bytes]]:
        """Read the buffers of small pages, together if they are in one file."""
        by_source: dict[int, list[Part]] = {}
        for part in parts:
            by_source.setdefault(part.source, []).append(part)
        found = {}
        for number, own in sorted(by_source.items()):
            ranges = [buffer for part in own for buffer in part.page.buffers]
            data = iter(self._sources[number].read_many(ranges))
            for part in own:
                found[number, part.column, part.number] = [next(data) for _ in part.page.buffers]
        return found

    def _write_all(self, pages: Sequence[NewPage], priority: int) -> list[Page]:
        written = []
        for page in pages:
            data = (pa.py_buffer(np.ascontiguousarray(part)) for part in page.buffers)
            buffers = tuple(self._container.write_buffer(part) for part in data)
            written.append(Page(buffers, page.length, priority, page.encoding))
            priority += page.length
        return written

    def _finish(self, headers: set[int], steps: Sequence[Sequence[Step]]) -> None:
        first = self._sources[0]
        num_rows = sum(source.kept_rows for source in self._sources)
        for column, found in enumerate(steps):
            if column in headers:
                pages = [self._header(column)]
            else:
                pages = [page for number in range(len(found)) for page in self._pages[column, number]]
            priority = 0
            for number, page in enumerate(pages):
                # If all lists before are empty, the first items do not belong to the first row. And as the
                # priorities of the sources are only hints, they need not ascend.
                if number:
                    priority = max(priority, min(page.priority, max(num_rows - 1, 0)))
                self._container.add_page(column, page.buffers, page.length, priority, page.encoding)
        schema = Schema(first.schema.fields, self._merge_metadata())
        check_columns(
            schema,
            assigned_columns(first),
            self._container.pages,
            num_rows,
            self._container.tell(),
            self._version,
        )
        encodings = [column.encoding for column in first.columns]
        self._container.finish(schema, num_rows, encodings, first.version.footer)

    def _header(self, column: int) -> Page:
        length = sum(
            source.starts[column][-1] - len(removed[column])
            for source, removed in zip(self._sources, self._removed, strict=True)
        )
        return Page((), length, 0, self._sources[0].columns[column].pages[0].encoding)

    def _merge_metadata(self) -> dict[str, bytes]:
        merged: dict[str, bytes] = {}
        for source in self._sources:
            for key, value in source.schema.metadata.items():
                merged.setdefault(key, value)
        return merged


def _source(found: tuple[tuple[int, int], Part]) -> int:
    return found[1].source


def _batches(
    parts: Sequence[tuple[tuple[int, int], Part]],
) -> Iterator[list[tuple[tuple[int, int], Part]]]:
    """Yield groups of consecutive pages that fit into memory together, or single ones."""
    batch: list[tuple[tuple[int, int], Part]] = []
    total = 0
    for found in parts:
        size = sum(size for _, size in found[1].page.buffers)
        if batch and total + size > _BATCH_BYTES:
            yield batch
            batch, total = [], 0
        batch.append(found)
        total += size
    if batch:
        yield batch
