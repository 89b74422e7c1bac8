"""Budgets of a compaction: which of the groups that are worth rewriting one run takes. Pure.

There are two kinds. The limits on sources (`max_source_*`) are those of the peer: groups are taken in the
order of rows, up to the first that would exceed one. The budgets (`budget_*`) are about what a run costs, by
its estimate: groups are taken by what they save for each second of work, those that are too large alone are
cut, and none may be exceeded.
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
    """The first groups that the limits on sources allow.

    Raises:
        InvalidArgumentError: There is a limit of bytes, and the size of a file is not known.
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
    """What one run may cost by its estimate; None for no bound. See `CompactionOptions`.

    Attributes:
        seconds: Of the clock.
        bytes: Read and written.
        fragments: Replaced.
        requests: To the store.
    """

    seconds: float | None = None
    bytes: int | None = None
    fragments: int | None = None
    requests: int | None = None

    @classmethod
    def of(cls, options: CompactionOptions) -> "Budget":
        """The budgets of a compaction."""
        return cls(
            seconds=options.budget_seconds,
            bytes=options.budget_bytes,
            fragments=options.budget_fragments,
            requests=options.budget_requests,
        )

    @property
    def is_set(self) -> bool:
        """Whether there is a bound."""
        return self != Budget()

    def allows(self, estimate: PlanEstimate, fragments: int) -> bool:
        """Whether a run of that estimate, which replaces so many fragments, stays within all bounds."""
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
        groups: All that may be taken.
        routes: How its index segments follow when all groups are taken, with what that costs.
        options: Of the compaction.
        slots: Tasks that the runner executes at once.

    Attributes:
        planned: The groups; under a budget those that exceed it alone are cut.
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
        """What a run of the groups at some positions takes, with its own routes."""
        groups = [self.planned[position] for position in taken]
        estimates = [self.groups[position] for position in taken]
        return estimate_plan(groups, estimates, routes, self._slots, self._request)

    def taken(self) -> list[int]:
        """Positions of the groups that the budget allows, in the order of rows."""
        every = range(len(self.planned))
        if not self._budget.is_set:
            return list(every)
        order = sorted(every, key=lambda position: -self.groups[position].benefit_per_cost)
        return best_within(order, lambda taken: self._fits([self.planned[item] for item in taken]))

    def _cut(self, group: CompactionGroup) -> Iterator[CompactionGroup]:
        """A group that exceeds the budget alone in parts that do not: else no run would ever take it."""
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
    """The groups to take: as many as fit of those that save most for what they cost.

    Groups that do not fit alone are passed over. Of the others a whole row of the best is taken; all that is
    bounded only grows with each further group, so the longest such row is found by halving.

    Args:
        order: Positions of the groups, the best first.
        fits: Whether a run of some groups stays within the budget.

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
    """Bytes of the data files of a group.

    Raises:
        InvalidArgumentError: The size of a file is not known.
    """
    for fragment in group.fragments:
        for file in fragment.all_files:
            if not file.size_bytes:
                raise InvalidArgumentError(
                    f"the manifest does not record the size of {file.path} of fragment {fragment.id}",
                    path=uri,
                    field=option,
                    hint="give a budget of rows or fragments instead",
                )
    return group.data_bytes
