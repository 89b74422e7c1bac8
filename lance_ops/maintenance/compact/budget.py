"""Budgets of a compaction: the candidate groups that one run rewrites. Pure.

There are two kinds. The limits on sources (`max_source_*`) are those of pylance: groups are chosen in the
order of rows, up to the first that would exceed one. The budgets (`budget_*`) limit the estimated cost of a
run: groups are chosen by benefit per second of work, too large ones are divided, and no budget may be
exceeded.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from lance_ops.errors import InvalidArgumentError
from lance_ops.index.upkeep.routes import SegmentRoute
from lance_ops.maintenance.compact.estimate import (
    GroupEstimate,
    PlanEstimate,
    RowShape,
    estimate_group,
    estimate_plan,
    request_seconds,
)
from lance_ops.maintenance.compact.groups import CompactionGroup, is_worth_it, make_group
from lance_ops.maintenance.compact.options import CompactionOptions
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragments.numbers import numbers_of


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
