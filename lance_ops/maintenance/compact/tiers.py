"""Size-tiered merging: every byte that a compaction writes ends in a larger tier than it came from. Pure.

A table that grows by small appends and is compacted after every few of them would rewrite its youngest large
fragment each time: the bytes written by n appends are quadratic in n. So sizes are divided into tiers, each
`growth` times as large as the one below, up to the target. A run of neighbours is merged only if the result
is in a larger tier than each of its parts. A byte moves up a tier whenever it is written, and there are
log(target / first size) tiers, which bounds its number of writes for any order of appends and compactions.
(Cassandra's size-tiered strategy and RocksDB's universal compaction do the same.)

Fragments that are rewritten anyway, for their deleted rows or their version, cost nothing extra: they may be
in any run.
"""

from collections.abc import Iterator, Sequence

from lance_ops.maintenance.compact.targets import Amount, Targets, live_amounts
from lance_ops.table.manifest.fragment import Fragment


def tiered_runs(
    neighbours: Sequence[Fragment],
    targets: Targets,
    growth: int,
    due: Sequence[bool],
) -> Iterator[Sequence[Fragment]]:
    """Return the longest runs of neighbours whose merge moves each into a larger tier.

    If the whole does not reach the next tier, no run with a fragment of its largest tier does, since it is
    smaller. So it is sufficient to examine the parts between those.

    Args:
        neighbours: In the order of rows; all may be rewritten together.
        targets: Size of a full fragment.
        growth: Factor between tiers, at least 2.
        due: Whether each of them is rewritten anyway.
    """
    amounts = live_amounts(neighbours)
    # Due fragments are below all tiers: merging them costs nothing extra.
    below_all = -(1 << 31)
    tiers = [
        below_all if is_due else targets.tier(amount, growth)
        for is_due, amount in zip(due, amounts, strict=True)
    ]
    waiting = [(0, len(neighbours))]
    runs: list[tuple[int, int]] = []
    while waiting:
        start, stop = waiting.pop()
        if start == stop:
            continue
        largest = max(tiers[start:stop])
        whole = sum(amounts[start:stop], Amount())
        if largest == below_all or targets.tier(whole, growth) > largest:
            runs.append((start, stop))
            continue
        edge = start
        for position in range(start, stop):
            if tiers[position] == largest:
                waiting.append((edge, position))
                edge = position + 1
        waiting.append((edge, stop))
    for start, stop in sorted(runs):
        yield neighbours[start:stop]
