"""Indices that a refresh leaves unchanged: reasons for its result."""

from lance_ops.errors import UnreadableIndexError
from lance_ops.index.coverage import IndexCoverage
from lance_ops.index.reading import REPAIR
from lance_ops.index.registry import kind_of, why_not_indexed_here
from lance_ops.maintenance.index.plan import mean_coverage
from lance_ops.maintenance.text import share_text
from lance_ops.table.dataset import Dataset


def kept_as_it_is(item: IndexCoverage) -> str:
    """Return the start of every reason."""
    return f"covers {share_text(item.ratio)} of rows and is left unchanged"


def why_left_alone(dataset: Dataset, item: IndexCoverage, *, rebuild: bool) -> str | None:
    """Return why an index is left unchanged, by the manifest; None if it is not."""
    if item.kind is None:
        # pylance up to 0.19 did not.
        return f"{kept_as_it_is(item)}: its writer did not record its kind; {REPAIR}"
    kinds = [kind_of(segment) for segment in item.segments]
    if any(kind is None or (rebuild and not kind.can_build) for kind in kinds):
        return f"{kept_as_it_is(item)}: lance_ops cannot build an index of kind {item.kind}"
    if len(item.fields) != 1:
        return f"{kept_as_it_is(item)}: it covers several columns"
    unknown = why_not_indexed_here(dataset, item.segments[0]) if rebuild else None
    return f"{kept_as_it_is(item)}: {unknown}" if unknown is not None else None


def why_kept(dataset: Dataset, item: IndexCoverage, error: UnreadableIndexError) -> str:
    """Return why an unusable index is skipped, damaged or not."""
    unknown = why_not_indexed_here(dataset, item.segments[0])
    if unknown is None:
        return why_unreadable(dataset, item.name, error)
    return f"{item.name} {kept_as_it_is(item)}: {unknown}"


def why_unreadable(dataset: Dataset, name: str, error: UnreadableIndexError) -> str:
    """Return why an unreadable index is skipped, with the repair."""
    share = share_text(mean_coverage(dataset, (name,)))
    return f"{name} covers {share} of rows and is left unchanged: {error.message}; {error.hint}"
