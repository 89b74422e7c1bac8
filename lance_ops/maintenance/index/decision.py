"""Effect of degradation on a refresh: which segments are rewritten, and when a model is retrained. Pure.

Each limit balances the cost of queries with a degraded index against the cost of a rebuild:

- deleted rows: with a third of the rows deleted, a search reads half as much again as necessary, and a
  rewrite writes two rows for each deleted one;
- drift: the error of a code grows with the distance of a row from its centroid. On clusters that move
  (IVF_PQ, 32 dimensions) recall@10 of newer rows stands 0.04 below that of a model that knows them at a drift
  of 1.3, 0.08 at 1.7 and 0.16 at 2.7. It is worth reading all rows again once a quarter of them is newer, so
  that each is read as often as the logarithm of their number;
- imbalance: a search of partitions twice as uneven as training left them reads twice the rows.

A model is never retrained on the same rows: it is compared with its own training.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from lance_ops.errors import InvalidArgumentError
from lance_ops.index.coverage import IndexCoverage
from lance_ops.index.upkeep.wear import IndexWear, SegmentWear
from lance_ops.maintenance.index.plan import SegmentChoice, SegmentPlan
from lance_ops.maintenance.text import count_text, share_text
from lance_ops.table.manifest.index_metadata import IndexMetadata

LEAST_ROWS = 1 << 14
"""Minimum rows of a degraded index: a search of fewer takes milliseconds."""
_LEAST_NEWER = 0.25
_UNKNOWN_TRAINING = 2.0
"""Assumed imbalance after training if not recorded: real data have 1 to 2."""


@dataclass(frozen=True, slots=True)
class WearLimits:
    """Limits up to which an index is refreshed instead of rebuilt.

    Attributes:
        max_dead_ratio: Share of deleted rows in a segment, 0 to 1.
        max_drift: Mean distance of newer rows from their centroids, relative to the training rows.
        max_imbalance: Imbalance of partitions, relative to that after training.
    """

    max_dead_ratio: float = 1 / 3
    max_drift: float = 1.5
    max_imbalance: float = 2.0

    def __post_init__(self) -> None:
        if not 0 <= self.max_dead_ratio <= 1:
            raise InvalidArgumentError("max_dead_ratio must be between 0 and 1", field="max_dead_ratio")
        for name in ("max_drift", "max_imbalance"):
            if not getattr(self, name) >= 1:
                raise InvalidArgumentError(f"{name} must be at least 1", field=name)


@dataclass(frozen=True, slots=True)
class Decision:
    """Required rewrites of a degraded index.

    Attributes:
        rebuild: Why the whole index is rebuilt; empty if not.
        rewrite: Why single segments are rewritten without deleted rows.
    """

    rebuild: str = ""
    rewrite: Mapping[UUID, str] = field(default_factory=dict)

    @property
    def is_due(self) -> bool:
        """True if anything is required."""
        return bool(self.rebuild or self.rewrite)


def decide(wear: IndexWear, limits: WearLimits) -> Decision:
    """Decide on the rewrites of one index."""
    rewrite = {
        segment.uuid: dead_text(segment, limits)
        for segment in wear.segments
        if segment.rows >= LEAST_ROWS and segment.dead_ratio > limits.max_dead_ratio
    }
    fit = wear.fit
    if fit is None:
        return Decision(rewrite=rewrite)
    large = fit.rows >= LEAST_ROWS
    trained = _UNKNOWN_TRAINING if fit.imbalance_trained is None else fit.imbalance_trained
    newer = fit.newer_rows / max(1, fit.rows)
    reasons = []
    if large and fit.drift is not None and fit.drift > limits.max_drift and newer >= _LEAST_NEWER:
        reasons.append(
            f"{share_text(newer)} of rows are newer than its training, and {fit.drift:.2f} times as far from "
            f"their centroids (limit {limits.max_drift:.2f})"
        )
    if large and fit.imbalance > limits.max_imbalance * trained:
        reasons.append(f"its imbalance is {fit.imbalance:.2f} (limit {limits.max_imbalance * trained:.2f})")
    return Decision("; ".join(reasons), rewrite)


def dead_text(segment: SegmentWear, limits: WearLimits) -> str:
    """Return the text about deleted rows of a segment."""
    return (
        f"{share_text(segment.dead_ratio)} of {count_text(segment.rows, 'row')} are deleted (limit "
        f"{share_text(limits.max_dead_ratio)})"
    )


def choices_of(
    item: IndexCoverage, written: Sequence[SegmentPlan], wear: IndexWear, limits: WearLimits
) -> list[SegmentChoice]:
    """Return the choice for each segment of an index.

    Args:
        item: The index.
        written: Segments to be written.
        wear: Measured degradation.
        limits: Limits of degradation.
    """
    known = {segment.uuid: segment for segment in wear.segments}
    found = []
    for segment in item.segments:
        state = known.get(segment.uuid)
        action, reason = "keep", "no new rows are added to it"
        if state is not None and state.rows:
            reason = dead_text(state, limits)
        for part in written:
            if segment in part.removed:
                action, reason = _action(part, segment), part.reason
        found.append(
            SegmentChoice(
                item.name,
                segment.uuid,
                action,
                reason,
                None if state is None else state.rows,
                None if state is None else state.dead_ratio,
            )
        )
    return found


def _action(part: SegmentPlan, segment: IndexMetadata) -> str:
    if part.catches_up:
        return "catch up"
    if segment not in part.merged:
        return "rebuild"
    return "merge" if part.fragments or len(part.removed) > 1 else "rewrite"
