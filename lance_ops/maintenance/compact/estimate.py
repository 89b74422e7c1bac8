"""Estimates: bytes, requests and seconds of a compaction, what they save, and what budgets allow. Pure.

Bytes and requests follow from the manifest: rows, files, recorded sizes, types of columns. Seconds are these
at fixed rates, which were measured on two cores with a local disk; a fleet corrects them by the operations in
its ledger. What the manifest does not record, such as how well a column is compressed, is in the rates on
average.

There are two kinds of bounds on what one run takes. The limits on sources (`max_source_*`) are those of the
peer: groups are taken in the order of rows, up to the first that would exceed one. The budgets (`budget_*`)
are about what a run costs, by its estimate: groups are taken by what they save for each second of work, those
that are too large alone are cut, and none may be exceeded.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import mul
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.errors import InvalidArgumentError, LanceOpsError
from lance_ops.file.schema.field import Field
from lance_ops.file.schema.model import Schema
from lance_ops.index.upkeep.routes import AT_ONCE, Route, SegmentRoute
from lance_ops.maintenance.compact.groups import CompactionGroup, Method, is_worth_it, make_group
from lance_ops.maintenance.compact.options import CompactionOptions
from lance_ops.maintenance.text import bytes_text, count_text, seconds_text
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.totals import (
    FragmentNumbers,
    examples,
    fragments_with_overlays,
    numbers_of,
)

PART_BYTES: Final = 8 << 20
"""Approximate size of a request for a large file."""

_RUN_READS: Final = 6
_RUN_WRITES: Final = 7
"""Requests of a run without groups: manifests, transactions, hints and listings of its two commits."""


class TaskWork(NamedTuple):
    """Units of work of a task; also the seconds of a slot for each unit.

    Attributes:
        group: The task itself, with flush and verification.
        file: Each data file read.
        page: Each column of numbers or vectors of each file.
        text_page: Each column of variable-length values of each file.
        number: Each fixed-width value, without vectors.
        text: Each variable-length value.
        text_byte: Each stored byte of these.
        vector_byte: Each byte of fixed-size lists.
        filtered_value: Each value of fragments with deleted rows, without vectors.
        filtered_byte: Each stored byte of such fragments.
    """

    group: float
    file: float
    page: float
    text_page: float
    number: float
    text: float
    text_byte: float
    vector_byte: float
    filtered_value: float
    filtered_byte: float


_RATES: Final = {
    Method.REWRITE: TaskWork(3.1e-3, 3.4e-5, 3.4e-5, 4.2e-4, 1.2e-8, 3e-8, 1e-8, 7.3e-10, 1.9e-9, 2.5e-10),
    Method.COPY: TaskWork(4.7e-3, 9.7e-5, 8.1e-5, 4.3e-4, 3.6e-9, 1.6e-8, 1.3e-9, 5.6e-10, 7.1e-9, 3e-10),
}
_RUN_SECONDS: Final = 6e-3
"""Seconds around the tasks: planning, two commits."""
_FRAGMENT_SECONDS: Final = 1.3e-4
"""Seconds of planning and committing for each replaced fragment."""
_SCAN_FILE: Final = 6.8e-5
_SCAN_PAGE: Final = 2.4e-5
_SCAN_BYTE: Final = 2.5e-10
"""Seconds of a scan for each data file, each column of it, each stored byte."""
_OVERLAP: Final = 0.7
"""Speed-up of each further slot relative to the first, 0 to 1: slots of one machine share its cores."""
_REMOTE_REQUEST: Final = 5e-3
"""Additional seconds of a request to an object store: about 50 ms, ten at a time."""


def request_seconds(uri: str) -> float:
    """Return the additional seconds of each request to the store of a dataset."""
    return _REMOTE_REQUEST if "://" in uri and not uri.startswith("file://") else 0.0


@dataclass(frozen=True, slots=True)
class RowShape:
    """Composition of a row of a schema.

    Attributes:
        columns: Leaves, each with its own pages.
        numbers: Fixed-width values.
        number_bytes: Their bytes, before any compression.
        texts: Variable-length values: strings, binaries, lists.
        vector_bytes: Bytes of fixed-size lists.
    """

    columns: int
    numbers: int
    number_bytes: float
    texts: int
    vector_bytes: float

    @classmethod
    def of(cls, schema: Schema) -> "RowShape":
        """Return the composition of the rows of a schema; unknown types count as variable-length."""
        columns = numbers = texts = 0
        number_bytes = vector_bytes = 0.0
        for top in schema.fields:
            for leaf, variable in _leaf_fields(top, variable=False):
                columns += 1
                try:
                    stored = leaf.storage_type
                except LanceOpsError:
                    stored = pa.binary()
                if pa.types.is_fixed_size_list(stored) and not variable:
                    vector_bytes += _width(stored)
                elif variable or not _width(stored):
                    texts += 1
                else:
                    numbers += 1
                    number_bytes += _width(stored)
        return cls(columns, numbers, number_bytes, texts, vector_bytes)


def _leaf_fields(field: Field, *, variable: bool) -> Iterable[tuple[Field, bool]]:
    """Yield fields with their own pages, and whether enclosing lists make their number per row variable."""
    if not field.children:
        yield field, variable
    for child in field.children:
        yield from _leaf_fields(child, variable=variable or field.logical_type != "struct")


def _width(stored: pa.DataType) -> float:
    """Return the bytes of a value; 0 if variable."""
    if pa.types.is_fixed_size_list(stored):
        return _width(stored.value_type) * int(stored.list_size)
    try:
        return float(stored.bit_width) / 8
    except ValueError:
        return 0.0


_JSON_NAMES: Final = {"reads": "read_requests", "writes": "write_requests"}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEstimate:
    """Cost and benefit of a group.

    Attributes:
        bytes_read: Bytes of data files read.
        bytes_written: Bytes of data files written, with the present compression.
        reads: Read requests.
        writes: Write requests.
        seconds: Duration of the task without concurrent ones.
        index_seconds: This group's share of remapping or rebuilding index segments.
        bytes_saved: Stored bytes of deleted rows, freed once cleanup removes the old files.
        fragments_saved: Reduction of the number of fragments.
        scan_requests_saved: Requests saved by a full scan.
        scan_seconds_saved: Seconds saved by a full scan.
    """

    bytes_read: int = 0
    bytes_written: int = 0
    reads: int = 0
    writes: int = 0
    seconds: float = 0.0
    index_seconds: float = 0.0
    bytes_saved: int = 0
    fragments_saved: int = 0
    scan_requests_saved: int = 0
    scan_seconds_saved: float = 0.0

    @property
    def requests(self) -> int:
        """Requests to the store, of any kind."""
        return self.reads + self.writes

    @property
    def cost(self) -> float:
        """All seconds of the group."""
        return self.seconds + self.index_seconds

    @property
    def benefit_per_cost(self) -> float:
        """Seconds saved by one full scan, for each second of work."""
        return self.scan_seconds_saved / self.cost if self.cost else float("inf")

    def to_dict(self) -> dict[str, object]:
        """Return numbers as JSON values."""
        values = {item.name: round(getattr(self, item.name), 6) for item in fields(self)}
        return {_JSON_NAMES.get(name, name): value for name, value in values.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanEstimate(GroupEstimate):
    """Cost and benefit of a plan on its runner: sums over its groups, with index segments and commits.

    Attributes:
        seconds: Wall-clock time from the call to the result: concurrent tasks, indices, commits.
        task_seconds: Duration of all tasks in sequence.
    """

    task_seconds: float = 0.0

    @property
    def pays_after_scans(self) -> float | None:
        """Number of full scans whose savings equal the cost; None if there are no savings."""
        return self.seconds / self.scan_seconds_saved if self.scan_seconds_saved > 0 else None

    def __str__(self) -> str:
        pays = self.pays_after_scans
        return (
            f"expected: {seconds_text(self.seconds)}, {bytes_text(self.bytes_read)} read, "
            f"{bytes_text(self.bytes_written)} written, {count_text(self.requests, 'request')}; "
            f"a full scan saves {seconds_text(self.scan_seconds_saved)} and "
            f"{count_text(self.scan_requests_saved, 'request')}"
            + ("" if pays is None else f", which pays after {count_text(max(1, round(pays)), 'scan')}")
        )

    def to_dict(self) -> dict[str, object]:
        """Return numbers as JSON values."""
        pays = self.pays_after_scans
        return {
            **GroupEstimate.to_dict(self),
            "pays_after_scans": None if pays is None else round(pays, 1),
        }


def task_work(group: CompactionGroup, shape: RowShape) -> TaskWork:
    """Return the units of work of a group's task."""
    numbers = numbers_of(group.fragments)
    rows, size = group.live_rows, group.data_bytes
    vectors = min(float(size), shape.vector_bytes * rows)
    # Numbers are packed to about half of their width; the rest is variable-length, if there is any.
    texts = max(0.1 * size, size - vectors - shape.number_bytes * rows / 2) if shape.texts else 0.0
    pages = float(
        sum(
            count * _columns(file.column_indices, file.fields, shape)
            for fragment, count in examples(group.fragments)
            for file in fragment.files
        )
    )
    text_pages = pages * shape.texts / max(1, shape.columns)
    worn = numbers.deleted_rows != 0
    return TaskWork(
        group=1.0,
        file=float(numbers.file_counts.sum()),
        page=pages - text_pages,
        text_page=text_pages,
        number=float(shape.numbers * rows),
        text=float(shape.texts * rows),
        text_byte=float(texts),
        vector_byte=vectors,
        filtered_value=float((shape.numbers + shape.texts) * int(numbers.rows[worn].sum())),
        filtered_byte=float(sum(numbers.data_bytes[worn].tolist())),
    )


def _columns(indices: tuple[int, ...], fields: tuple[int, ...], shape: RowShape) -> int:
    """Return the columns of a file with pages: the manifest also counts structs in some versions."""
    return min(len([index for index in indices if index >= 0]) or len(fields), max(1, shape.columns))


def estimate_group(
    group: CompactionGroup,
    shape: RowShape,
    request: float = 0.0,
    indices: Sequence[SegmentRoute] = (),
    rows: Mapping[int, int] | None = None,
) -> GroupEstimate:
    """Estimate cost and benefit of a group.

    Args:
        group: The planned group, with its method.
        shape: Composition of the rows of the dataset.
        request: Additional seconds of a request, see `request_seconds`.
        indices: Segments with costs; the group gets the share of its rows in those that cover it.
        rows: Physical rows of all fragments, by id.
    """
    numbers = numbers_of(group.fragments)
    size = group.data_bytes
    physical = int(numbers.rows.sum())
    # Without deletions, all bytes are those of live rows; a product may exceed 64 bits.
    whole = (numbers.rows > 0) & (numbers.deleted_rows == 0)
    worn = (array[~whole].tolist() for array in (numbers.data_bytes, numbers.rows, numbers.deleted_rows))
    written = sum(numbers.data_bytes[whole].tolist()) + sum(
        held * (rows_held - gone) // max(1, rows_held) for held, rows_held, gone in zip(*worn, strict=True)
    )
    files = int(numbers.file_counts.sum())
    deletions = int(numbers.has_deletions.sum())
    outputs = group.files * int(numbers.file_counts.max(initial=0) if len(group.fragments) else 1)
    fetches = 2 * files + _large_parts(group.fragments, numbers) + deletions
    reads = fetches + 2 * outputs
    writes = outputs + (written // PART_BYTES + 1 if written > PART_BYTES else 0)
    work = task_work(group, shape)
    pages = work.page + work.text_page
    index_seconds = sum(
        item.cost.seconds * physical / max(physical, _rows_of(item, rows or {}))
        for item in indices
        if item.route in AT_ONCE and covers(item, group)
    )
    files_less = max(0, files - outputs)
    pages_less = max(0.0, pages - outputs / max(1, files) * pages)
    bytes_less = max(0, size - written)
    requests_less = max(0, fetches - 2 * outputs - written // PART_BYTES)
    return GroupEstimate(
        bytes_read=size,
        bytes_written=written,
        reads=reads,
        writes=writes,
        seconds=sum(map(mul, _RATES[group.method.method], work)) + request * (reads + writes),
        index_seconds=index_seconds,
        bytes_saved=bytes_less,
        fragments_saved=len(group.fragments) - group.files,
        scan_requests_saved=requests_less,
        scan_seconds_saved=_SCAN_FILE * files_less
        + _SCAN_PAGE * pages_less
        + _SCAN_BYTE * bytes_less
        + request * requests_less,
    )


def estimate_plan(
    groups: Sequence[CompactionGroup],
    estimates: Sequence[GroupEstimate],
    indices: Sequence[SegmentRoute],
    slots: int,
    request: float = 0.0,
) -> PlanEstimate:
    """Estimate the cost of groups together.

    Args:
        groups: All rewritten groups.
        estimates: Estimate of each.
        indices: Covering segments with costs, each counted once.
        slots: Concurrent tasks.
        request: Additional seconds of a request, see `request_seconds`.
    """
    if not groups:
        return PlanEstimate()
    replaced = sum(len(group.fragments) for group in groups)
    touched = (i for i in indices if i.route is Route.PURGE or any(covers(i, group) for group in groups))
    moved = [item for item in touched if item.route in AT_ONCE]
    follow = [item.cost.seconds for item in moved]
    reads = sum(item.reads for item in estimates) + _RUN_READS + sum(len(i.segment.files) for i in moved)
    writes = sum(item.writes for item in estimates) + _RUN_WRITES + sum(len(i.segment.files) for i in moved)
    around = _RUN_SECONDS + _FRAGMENT_SECONDS * replaced + request * (_RUN_READS + _RUN_WRITES)
    tasks = [item.seconds for item in estimates]
    return PlanEstimate(
        bytes_read=sum(item.bytes_read for item in estimates) + sum(item.cost.read_bytes for item in moved),
        bytes_written=sum(item.bytes_written for item in estimates)
        + sum(item.cost.written_bytes for item in moved),
        reads=reads,
        writes=writes,
        seconds=around + makespan(tasks, slots) + makespan(follow, slots),
        task_seconds=sum(tasks),
        index_seconds=sum(follow),
        bytes_saved=sum(item.bytes_saved for item in estimates),
        fragments_saved=sum(item.fragments_saved for item in estimates),
        scan_requests_saved=sum(item.scan_requests_saved for item in estimates),
        scan_seconds_saved=sum(item.scan_seconds_saved for item in estimates),
    )


def makespan(tasks: Sequence[float], slots: int, overlap: float = _OVERLAP) -> float:
    """Return the time in which slots run tasks: at least the longest task, and the shared total.

    Slots that share cores slow each other down: k of them do 1 + (k - 1) * overlap times the work of one.
    """
    used = max(1, min(slots, len(tasks)))
    return max(max(tasks, default=0.0), sum(tasks) / (1 + (used - 1) * overlap))


def covers(item: SegmentRoute, group: CompactionGroup) -> bool:
    """Return whether a segment covers fragments of a group."""
    return not (item.segment.fragment_ids or frozenset()).isdisjoint(group.fragment_ids)


def _large_parts(fragments: Sequence[Fragment], numbers: FragmentNumbers) -> int:
    """Return the requests for data files beyond the minimum for each file."""
    large = numbers.data_bytes >= PART_BYTES
    plain = large & (numbers.file_counts == 1) & ~np.isin(numbers.ids, _overlaid(fragments))
    parts: int = sum((numbers.data_bytes[plain] // PART_BYTES).tolist())
    others = (fragments[place] for place in np.flatnonzero(large & ~plain).tolist())
    return parts + sum(file.size_bytes // PART_BYTES for fragment in others for file in fragment.files)


def _overlaid(fragments: Sequence[Fragment]) -> npt.NDArray[np.int64]:
    return np.array([fragment.id for fragment in fragments_with_overlays(fragments)], np.int64)


def _rows_of(item: SegmentRoute, rows: Mapping[int, int]) -> int:
    return sum(rows.get(number, 0) for number in item.segment.fragment_ids or ())


def within_limits(
    groups: list[CompactionGroup], options: CompactionOptions, uri: str
) -> Iterator[CompactionGroup]:
    """Return the first groups within the limits on sources.

    Raises:
        InvalidArgumentError: There is a limit in bytes, and the size of a file is unknown.
    """
    fragments = rows = size = 0
    for group in groups:
        fragments += len(group.fragments)
        rows += group.live_rows
        if options.max_source_bytes is not None:
            size += recorded_bytes(group, uri, "max_source_bytes")
        for used, limit in (
            (fragments, options.max_source_fragments),
            (rows, options.max_source_rows),
            (size, options.max_source_bytes),
        ):
            if limit is not None and used > limit:
                return
        yield group


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits of the estimated cost of a run; None for no limit. See `CompactionOptions`.

    Attributes:
        seconds: Wall-clock time.
        bytes: Bytes read and written.
        fragments: Replaced fragments.
        requests: Requests to the store.
    """

    seconds: float | None = None
    bytes: int | None = None
    fragments: int | None = None
    requests: int | None = None

    @classmethod
    def of(cls, options: CompactionOptions) -> "Budget":
        """Return the budgets of a compaction."""
        return cls(
            seconds=options.budget_seconds,
            bytes=options.budget_bytes,
            fragments=options.budget_fragments,
            requests=options.budget_requests,
        )

    @property
    def is_set(self) -> bool:
        """True if there is a limit."""
        return self != Budget()

    def allows(self, estimate: PlanEstimate, fragments: int) -> bool:
        """Return whether a run with an estimate, which replaces some fragments, is within all limits."""
        used = (
            (estimate.seconds, self.seconds),
            (estimate.bytes_read + estimate.bytes_written, self.bytes),
            (fragments, self.fragments),
            (estimate.requests, self.requests),
        )
        return all(bound is None or amount <= bound for amount, bound in used)


class RunEstimates:
    """Estimates of the groups of a version, and of runs of some of them.

    Args:
        dataset: The version.
        groups: All candidates.
        routes: Remap strategy of its index segments if all groups are rewritten, with costs.
        options: Options of the compaction.
        slots: Concurrent tasks of the runner.

    Attributes:
        planned: The groups; with a budget, those that exceed it alone are divided.
        groups: The estimate of each.
    """

    def __init__(
        self,
        dataset: Dataset,
        groups: Sequence[CompactionGroup],
        routes: Sequence[SegmentRoute],
        options: CompactionOptions,
        slots: int,
    ) -> None:
        self._dataset, self._options = dataset, options
        self._shape = RowShape.of(dataset.lance_schema)
        self._routes, self._slots, self._request = routes, slots, request_seconds(dataset.uri)
        self._rows: dict[int, int] = {}
        if routes:
            numbers = numbers_of(dataset.fragments)
            self._rows = dict(zip(numbers.ids.tolist(), numbers.rows.tolist(), strict=True))
        self._budget = Budget.of(options)
        self.planned = [part for group in groups for part in self._cut(group)]
        self.groups = [self._estimate(group) for group in self.planned]

    def of_run(self, taken: Sequence[int], routes: Sequence[SegmentRoute]) -> PlanEstimate:
        """Return the estimate of a run of some groups, with its own remap strategies."""
        groups = [self.planned[position] for position in taken]
        estimates = [self.groups[position] for position in taken]
        return estimate_plan(groups, estimates, routes, self._slots, self._request)

    def taken(self) -> list[int]:
        """Return the positions of the groups within the budget, in the order of rows."""
        every = range(len(self.planned))
        if not self._budget.is_set:
            return list(every)
        order = sorted(every, key=lambda position: -self.groups[position].benefit_per_cost)
        return best_within(order, lambda taken: self._fits([self.planned[item] for item in taken]))

    def _cut(self, group: CompactionGroup) -> Iterator[CompactionGroup]:
        """Divide a group that exceeds the budget alone: otherwise no run would ever rewrite it."""
        half = (len(group.fragments) + 1) // 2
        parts = [
            part
            for part in (group.fragments[:half], group.fragments[half:])
            if len(part) and is_worth_it(part, self._options)
        ]
        if not self._budget.is_set or half == len(group.fragments) or not parts or self._fits([group]):
            yield group
            return
        for part in parts:
            yield from self._cut(make_group(self._dataset, part, self._options))

    def _fits(self, groups: Sequence[CompactionGroup]) -> bool:
        estimates = [self._estimate(group) for group in groups]
        estimate = estimate_plan(groups, estimates, self._routes, self._slots, self._request)
        return self._budget.allows(estimate, sum(len(group.fragments) for group in groups))

    def _estimate(self, group: CompactionGroup) -> GroupEstimate:
        return estimate_group(group, self._shape, self._request, self._routes, self._rows)


def best_within(order: Sequence[int], fits: Callable[[Sequence[int]], bool]) -> list[int]:
    """Choose as many groups as fit, by benefit over cost.

    Groups that do not fit alone are skipped. Of the others, the longest prefix that fits is chosen; costs
    only grow with each further group, so it is found by bisection.

    Args:
        order: Positions of the groups, best first.
        fits: Returns whether a run of some groups is within the budget.

    Returns:
        Positions in the order of rows.
    """
    able = [position for position in order if fits([position])]
    low, high = 0, len(able)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(able[:middle]):
            low = middle
        else:
            high = middle - 1
    return sorted(able[:low])


def recorded_bytes(group: CompactionGroup, uri: str, option: str) -> int:
    """Return the bytes of the data files of a group.

    Raises:
        InvalidArgumentError: The size of a file is unknown.
    """
    for fragment in group.fragments:
        for file in fragment.all_files:
            if not file.size_bytes:
                raise InvalidArgumentError(
                    f"the manifest does not record the size of {file.path} of fragment {fragment.id}",
                    path=uri,
                    field=option,
                    hint="use a budget of rows or fragments instead",
                )
    return group.data_bytes
