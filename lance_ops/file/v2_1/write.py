"""Writing 2.1 to 2.3: collects rows into pages, one column for each leaf of the schema.

The columns are independent of each other: each has pages where it has enough rows. A page holds whole rows.
Pages of any columns that are full at the same time are encoded side by side, and written in turn.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_ops.encoding.pages.ravel import Raveled, ravel
from lance_ops.encoding.parallel import count_shares, drain_side_by_side
from lance_ops.errors import UnsupportedTypeError
from lance_ops.file.container.read import Encoding
from lance_ops.file.io.pending_rows import CHEAP_BYTES, join_rows, page_limit, split_rows, unpin
from lance_ops.file.layout import PageSink
from lance_ops.file.schema.json_values import encode_json_values
from lance_ops.file.schema.model import Schema
from lance_ops.file.v2_1.blob.write import encode_blob_page, open_blobs, replace_leaf
from lance_ops.file.v2_1.columns import COLUMN_ENCODING_URL, PAGE_LAYOUT_URL
from lance_ops.file.v2_1.compression.encoded import EncodedPage
from lance_ops.file.v2_1.encode_page import encode_page
from lance_ops.file.v2_1.leaf_plan import LeafPlan, plan_file
from lance_ops.file.v2_1.leaves import project_leaf, weigh
from lance_ops.file.v2_1.peer_workarounds import declare_layers
from lance_ops.file.v2_1.planar import PLANAR_LAYOUT_URL, describe_planar
from lance_ops.file.v2_1.self_check import check_page
from lance_ops.file.v2_1.single_row import SingleRow, hold_row
from lance_ops.pb import encodings20_pb2

# Levels and positions take memory that the bytes of very small values do not show.
_MAX_PAGE_ROWS = 1 << 22

# What is encoded side by side, and kept until it is written: a page for each of two threads, or more of less.
_WAVE_BYTES = 32 << 20
# Of pages below, most is done in Python, where threads only get into each other's way.
_SHARE_BYTES = 512 << 10


class Fields21Writer:
    """Writes batches as pages of 2.1 to 2.3.

    Args:
        schema: Of the file.
        sink: Takes the pages.
        page_bytes: Size at which a column's page is full.
        version: "2.1", "2.2" or "2.3".
    """

    def __init__(self, schema: Schema, sink: PageSink, page_bytes: int, version: str) -> None:
        self._plan = plan_file(schema, version)
        self._sink = sink
        self._page_bytes = page_bytes
        # Opened by the first rows that need them.
        self._leaves: dict[int, list[_LeafWriter]] = {}
        self._wave = _Wave()
        self._first: SingleRow | None = None

    def write(self, batch: pa.RecordBatch, first_row: int) -> None:
        """Write rows."""
        arrays = batch.columns
        numbers: Iterable[int] = range(len(arrays))
        if first_row == 0 and batch.num_rows == 1 and not self._leaves and self._first is None:
            # Perhaps it stays alone.
            self._first = hold_row(self._plan.told, arrays)
            if self._first is not None:
                numbers = self._plan.untold
        elif self._first is not None and batch.num_rows:
            first, self._first = self._first, None
            for number, array in first.tops():
                self._write(number, array, 0)
        for number in numbers:
            self._write(number, arrays[number], first_row)
        # What waits would keep the memory of these rows.
        self._wave.run()

    def _write(self, number: int, array: pa.Array, row: int) -> None:
        leaves = self._leaves.get(number)
        if leaves is None:
            plans = self._plan.tops[number]
            leaves = [_LeafWriter(plan, self._sink, self._page_bytes, self._wave) for plan in plans]
            self._leaves[number] = leaves
        for leaf in leaves:
            leaf.write(array, row)

    def finish(self, num_rows: int) -> None:  # noqa: ARG002 - other layouts need it
        """Write what is left."""
        if self._first is not None:
            for column, encoding in self._first.describe():
                self._sink.add_page(column, (), 1, 0, encoding)
        for number in sorted(self._leaves):
            for leaf in self._leaves[number]:
                leaf.flush()
        self._wave.run()
        for number in sorted(self._leaves):
            for leaf in self._leaves[number]:
                leaf.finish()

    @property
    def pending_bytes(self) -> int:
        """Bytes taken that are not in a page yet."""
        first = 0 if self._first is None else self._first.nbytes
        return first + sum(leaf.pending_bytes for leaves in self._leaves.values() for leaf in leaves)

    @property
    def column_encodings(self) -> Sequence[Encoding]:
        """Encoding of each physical column."""
        message = encodings20_pb2.ColumnEncoding()
        message.values.SetInParent()
        encoding = Encoding(COLUMN_ENCODING_URL, message.SerializeToString())
        return [encoding for leaves in self._plan.tops for _ in leaves]


def _describe(page: EncodedPage, version: str) -> Encoding:
    if version != "2.3":
        return Encoding(PAGE_LAYOUT_URL, page.layout.SerializeToString())
    planar = page.planar if page.planar is not None else describe_planar(page.layout)
    return Encoding(PLANAR_LAYOUT_URL, planar.SerializeToString())


@dataclass(slots=True)
class _Job:
    """Rows of a column that become a page, or several.

    Attributes:
        leaf: The column.
        array: The rows.
        row: Number of the first one in the file.
        weight: About the bytes of the rows.
        encoded: What became of them.
    """

    leaf: "_LeafWriter"
    array: pa.Array
    row: int
    weight: int
    encoded: tuple[Raveled, list[EncodedPage]] | None = None

    def encode(self) -> None:
        self.encoded = self.leaf.encode(self.array)


class _Wave:
    """Pages of any columns that are encoded side by side."""

    __slots__ = ("_jobs", "_weight")

    def __init__(self) -> None:
        self._jobs: list[_Job] = []
        self._weight = 0

    def add(self, job: _Job) -> None:
        """Add rows; those that do not fit into one wave begin the next."""
        if self._weight + job.weight > _WAVE_BYTES:
            self.run()
        self._jobs.append(job)
        self._weight += job.weight

    def run(self) -> None:
        """Encode and write all rows, in order."""
        jobs, self._jobs = self._jobs, []
        self._weight = 0
        large = sorted((job for job in jobs if job.weight >= _SHARE_BYTES), key=lambda job: -job.weight)
        if count_shares(len(large), 1) > 1:
            drain_side_by_side([job.encode for job in large])
        for job in jobs:
            if job.encoded is None:
                job.encode()
            assert job.encoded is not None
            job.leaf.add(*job.encoded, job.row)
            job.encoded = None


class _LeafWriter:
    """Writer of one column."""

    # Wide tables have thousands of them.
    __slots__ = (
        "_blobs",
        "_page_bytes",
        "_plan",
        "_row",
        "_sink",
        "_unpinned",
        "_waiting",
        "_waiting_rows",
        "_wave",
        "pending_bytes",
    )

    def __init__(self, plan: LeafPlan, sink: PageSink, page_bytes: int, wave: _Wave) -> None:
        self._plan = plan
        self._wave = wave
        self._sink = sink
        self._page_bytes = page_bytes
        self._blobs = open_blobs(plan.path.leaf, sink, plan.leaf.name) if plan.has_blobs else None
        self._waiting: list[pa.Array] = []
        self._waiting_rows = 0
        self._unpinned = 0
        self._row = 0
        self.pending_bytes = 0

    def write(self, array: pa.Array, row: int) -> None:
        projected = project_leaf(array, self._plan.path)
        if self._blobs is not None:
            projected = replace_leaf(projected, self._plan.straight, self._blobs.write)
        elif self._plan.has_json:
            projected = replace_leaf(projected, self._plan.straight, self._encode_json)
        self._unpin()
        for piece, weight in split_rows(projected, self._page_bytes, self._weigh):
            if self._waiting and self._would_burst(weight, len(piece)):
                self.flush()
            if not self._waiting:
                self._row = row
            self._waiting.append(piece)
            self._waiting_rows += len(piece)
            self.pending_bytes += weight
            row += len(piece)
            if self.pending_bytes >= self._page_bytes or self._waiting_rows >= _MAX_PAGE_ROWS:
                self.flush()
        if self.pending_bytes <= CHEAP_BYTES:
            self._unpin()

    def _unpin(self) -> None:
        self._waiting[self._unpinned :] = map(unpin, self._waiting[self._unpinned :])
        self._unpinned = len(self._waiting)

    def _weigh(self, array: pa.Array) -> int:
        # Maximum rows of a page, however small their values are.
        return max(weigh(array, self._plan.path), len(array) * self._page_bytes // _MAX_PAGE_ROWS)

    def _would_burst(self, weight: int, rows: int) -> bool:
        return (
            self.pending_bytes + weight > page_limit(self._page_bytes)
            or self._waiting_rows + rows > _MAX_PAGE_ROWS
        )

    def finish(self) -> None:
        """Close what belongs to the column; its rows are flushed."""
        if self._blobs is not None:
            self._blobs.finish()

    def flush(self) -> None:
        """Have what waits become pages."""
        waiting, self._waiting, self._waiting_rows = self._waiting, [], 0
        weight, self.pending_bytes = self.pending_bytes, 0
        self._unpinned = 0
        if not waiting:
            return
        row = self._row
        for array in join_rows(waiting):
            self._wave.add(_Job(self, array, row, weight))
            row += len(array)
            weight = 0

    def encode(self, array: pa.Array) -> tuple[Raveled, list[EncodedPage]]:
        """Encode rows, in any thread."""
        raveled = declare_layers(ravel(array, self._plan.straight), self._plan.always_nullable)
        self._check_members(raveled)
        return raveled, list(self._encode(raveled))

    def add(self, raveled: Raveled, pages: Sequence[EncodedPage], row: int) -> None:
        """Write what rows from `row` on have become."""
        for page in pages:
            self._add(page, raveled, row)
            row += page.num_rows

    def _encode_json(self, array: pa.Array) -> pa.Array:
        return encode_json_values(array, self._plan.path.leaf, self._plan.leaf.name)

    def _encode(self, raveled: Raveled) -> Iterator[EncodedPage]:
        if self._plan.is_old_blob:
            return iter([encode_blob_page(raveled, self._plan.leaf.version)])
        return encode_page(self._plan.leaf, raveled)

    def _add(self, page: EncodedPage, raveled: Raveled, row: int) -> None:
        # Below fixed-size lists of structs, pages are counted in structs.
        span = 1 if raveled.rep is not None else raveled.num_entries // raveled.num_rows
        if page.planar is None:
            check_page(page, page.num_rows * span, self._plan.leaf.version, self._plan.leaf.name)
        buffers = [self._sink.write_buffer(pa.py_buffer(np.ascontiguousarray(data))) for data in page.buffers]
        encoding = _describe(page, self._plan.leaf.version)
        self._sink.add_page(self._plan.column, buffers, page.num_rows * span, row, encoding)

    def _check_members(self, raveled: Raveled) -> None:
        if not self._plan.is_packed:
            return
        for number, child in enumerate(self._plan.path.leaf.children):
            member = raveled.values.field(number)
            if raveled.definition is not None:
                states = raveled.definition[raveled.definition < raveled.visible_below]
                member = member.filter(pa.array(states == 0))
            if member.null_count:
                raise UnsupportedTypeError(
                    f"a packed struct of storage version {self._plan.leaf.version} cannot hold nulls",
                    field=f"{self._plan.leaf.name}.{child.name}",
                    hint="fill the nulls, or do not pack the struct",
                )
