"""Size-tiered merging: every byte that a compaction writes ends in a larger tier than it came from. Pure.

A table that grows by small appends and is compacted after every few of them would write its youngest large
fragment again each time: n appends cost a number of bytes that grows with the square of n. So sizes are put
into tiers, each `growth` times as large as the one below, up to the target. A run of neighbours is merged
only when what comes out lies in a larger tier than each of those that go in. A byte climbs a tier whenever it
is written, and there are log(target / first size) tiers: so often it is written at most, whatever the order
of appends and compactions. (Cassandra's size-tiered strategy and RocksDB's universal compaction do the same.)

Fragments that are to be rewritten anyway, for their deleted rows or their version, climb for nothing: they
may be in any run.
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
    """The longest runs of neighbours whose merging moves every one of them into a larger tier.

    When the whole does not reach the next tier, no run with a fragment of its largest tier does, for it holds
    less. So what lies between those is looked at alone, and nothing is overlooked.

    Args:
        neighbours: In the order of rows; all may be rewritten together.
        targets: What a full fragment is.
        growth: How many times each tier is as large as the one below, 2 at least.
        due: Whether each of them is rewritten in any case.
    """
    amounts = live_amounts(neighbours)
    # Due fragments lie below all tiers: merging them costs nothing that would not be spent anyway.
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
