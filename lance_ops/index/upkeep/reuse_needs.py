"""Generations of the fragment reuse index that the segments of a dataset still need."""

from collections.abc import Iterable, Iterator

import numpy as np

from lance_ops.errors import LanceOpsError
from lance_ops.index.coverage import effective_fragments
from lance_ops.index.kind import IndexKind
from lance_ops.index.registry import kind_of
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragment_reuse.read import FragmentReuse
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.row_set import Addresses


def needed_generations(dataset: Dataset, segment: IndexMetadata) -> frozenset[int]:
    """Return positions of the generations that addresses of a segment have to be mapped through.

    The dataset version of a segment is not sufficient: pylance keeps it when it merges or remaps a segment,
    and a segment may be committed after a compaction that it does not include. The addresses decide.

    Args:
        dataset: A version with a fragment reuse index that can be read.
        segment: One of its `indices`.
    """
    reuse = dataset.fragment_reuse
    if reuse is None or segment.is_system:
        return frozenset()
    covered = effective_fragments(dataset.manifest, segment)
    kind = kind_of(segment)
    open_ = {
        number
        for number in range(len(reuse.generations))
        if not covered.isdisjoint(reuse.descendants(number))
        or (kind is not None and reuse.younger(number, covered))
    }
    if not open_:
        return frozenset()
    recorded = next(index.fragment_ids for index in dataset.manifest.indices if index.uuid == segment.uuid)
    stated = {number for number in open_ if not reuse.ancestors(number).isdisjoint(recorded or ())}
    if stated == open_:
        return frozenset(stated)
    if kind is None:
        return frozenset(stated | _not_built_after(dataset, reuse, segment, open_))
    try:
        return frozenset(stated | _needs(_parts(dataset, kind, segment), reuse, covered, open_))
    except LanceOpsError:
        return frozenset(open_)


def _parts(dataset: Dataset, kind: IndexKind, segment: IndexMetadata) -> Iterator[Addresses]:
    yield from kind.addresses(dataset, segment)


def _needs(
    parts: Iterable[Addresses], reuse: FragmentReuse, covered: frozenset[int], open_: set[int]
) -> set[int]:
    """The generations among `open_` that move an address into a covered fragment, or show that none is right.

    A segment is written at one point of the history, with all addresses as they were then: an address of what
    a generation made shows that the segment is newer, and the rest of it need not be read.
    """
    live = np.array(sorted(covered), dtype=np.uint64)
    needed: set[int] = set()
    lost: set[int] = set()
    for addresses in parts:
        owners = addresses >> np.uint64(32)
        present = frozenset(np.unique(owners).tolist())
        for number in sorted(open_ - needed):
            old = present & reuse.ancestors(number)
            if old:
                moved, kept = reuse.map(addresses[np.isin(owners, np.array(sorted(old), dtype=np.uint64))])
                found = np.isin(moved >> np.uint64(32), live)
                if bool((kept & found).any()):
                    needed.add(number)
                elif bool((kept & ~found).any()) and reuse.younger(number, covered):
                    lost.add(number)
            elif not present.isdisjoint(reuse.descendants(number) | reuse.younger(number, covered)):
                open_ = open_ - {number}
        if not open_ - needed:
            break
    # There is no other record of the row locations of a damaged segment (see `current_addresses`).
    return needed | (lost & open_)


def _not_built_after(
    dataset: Dataset, reuse: FragmentReuse, segment: IndexMetadata, open_: set[int]
) -> set[int]:
    """Return, for an unreadable segment, all generations that its version did not have."""
    try:
        built = {fragment.id for fragment in dataset.checkout_version(segment.dataset_version).fragments}
    except LanceOpsError:
        return open_
    return {number for number in open_ if not reuse.ancestors(number).isdisjoint(built)}
