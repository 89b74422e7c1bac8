"""Layout debt: what full scans lose to the layout of a version, in the unit of what ends that.

The difference between the version as it is and as a compaction without any budget would leave it, by the same
model that compactions are planned with. Pure; index segments, and what they keep from being rewritten, are
left out: they say what a compaction costs, not what scans lose.
"""

from dataclasses import dataclass

from lance_ops.maintenance.compact.costs import CostModel
from lance_ops.maintenance.compact.estimate import RowShape, estimate_group
from lance_ops.maintenance.compact.groups import find_groups
from lance_ops.maintenance.compact.options import CompactionOptions
from lance_ops.table.dataset import Dataset


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutDebt:
    """What a layout costs.

    Attributes:
        scan_seconds: That each full scan takes longer.
        scan_requests: That each full scan makes more.
        bytes: Stored for deleted rows that a compaction would leave out.
        fragments: More than need be.
        work_seconds: That the tasks of this compaction take, one after the other.
    """

    scan_seconds: float = 0.0
    scan_requests: int = 0
    bytes: int = 0
    fragments: int = 0
    work_seconds: float = 0.0


def layout_debt(dataset: Dataset, options: CompactionOptions, costs: CostModel) -> LayoutDebt:
    """Work out the debt of a version.

    Args:
        dataset: The version.
        options: Of the compaction that it is measured by; its limits and budgets do not count.
        costs: Coefficients of the estimates.
    """
    if _is_whole(dataset):
        return LayoutDebt()
    shape = RowShape.of(dataset.lance_schema)
    found = [
        estimate_group(group, shape, costs) for group in find_groups(dataset, options, pinned=frozenset())
    ]
    return LayoutDebt(
        scan_seconds=sum(item.scan_seconds_saved for item in found),
        scan_requests=sum(item.scan_requests_saved for item in found),
        bytes=sum(item.bytes_saved for item in found),
        fragments=sum(item.fragments_saved for item in found),
        work_seconds=sum(item.seconds for item in found),
    )


def _is_whole(dataset: Dataset) -> bool:
    """Whether it is at most one fragment as it was written: there is nothing to merge with, or to purge."""
    if len(dataset.fragments) > 1:
        return False
    return not any(fragment.num_deleted_rows or fragment.overlays for fragment in dataset.fragments)
