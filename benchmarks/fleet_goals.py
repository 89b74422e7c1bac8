"""The goals of the fleet plane beside what was measured, from the parts of `python -m benchmarks.fleet`."""

from collections.abc import Iterator, Mapping
from typing import Any

Found = Mapping[str, Mapping[str, Any]]


def goals(found: Found) -> Iterator[str]:
    """Lines of the table, with a row for each goal whose parts were measured.

    Args:
        found: Results by part.
    """
    yield "| work | goal | measured |"
    yield "|---|---|---|"
    for needed, work, goal, measured in _rows():
        if all(part in found for part in needed):
            yield f"| {work} | {goal} | {measured(found)} |"


def _rows() -> Iterator[tuple[tuple[str, ...], str, str, Any]]:
    yield (
        ("definitions",),
        "definitions of 1,000 datasets over the import",
        "< 3 s",
        lambda found: _cpu(found["definitions"]["work"]),
    )
    yield (
        ("sensors",),
        "idle sensor tick, 1,000 datasets",
        "< 0.5 s",
        lambda found: _cpu(found["sensors"]["idle_work"]),
    )
    yield (
        ("sensors", "alerts"),
        "alert work of a tick, 1,000 datasets with checks",
        "< 1 s",
        lambda found: (
            f"checks {_cpu(found['sensors']['checks_work'])}; "
            f"fleet {_cpu(found['alerts']['nothing'])}, {_cpu(found['alerts']['all'])} the first"
        ),
    )
    yield (
        ("sensors",),
        "first contact, 1,000 datasets",
        "< 5 min",
        lambda found: (
            f"{found['sensors']['contact_with_intervals']:.0f} s as a daemon begins its "
            f"{found['sensors']['contact_ticks']} ticks; of that {_both(found['sensors'], 'contact')}"
        ),
    )
    yield (
        ("sensors",),
        "100 changed datasets published",
        "< 30 s",
        lambda found: f"{found['sensors']['changed_ticks']} ticks, {_both(found['sensors'], 'changed')}",
    )
    yield (
        ("spark",),
        "1,000 due small datasets to nothing due, one command",
        "<= 2 Spark jobs, < 10 min, memory flat",
        lambda found: (
            f"{found['spark']['jobs']} jobs, {found['spark']['run_seconds']:.0f} s, "
            f"{_cpu(found['spark']['run_work'])} in all; memory of all processes "
            f"{_mega(found['spark']['memory_third'])} after a third, "
            f"{_mega(found['spark']['memory_end'])} at the end"
        ),
    )
    yield (
        ("run", "pure"),
        "the same on this machine, over the pure work",
        "<= 1.3",
        lambda found: (
            f"{found['run']['processor'] / found['pure']['processor']:.2f}; "
            f"memory {_mega(found['run']['memory_tenth'])} after a tenth, "
            f"{_mega(found['run']['memory_end'])} at the end"
        ),
    )
    yield (
        ("distant",),
        "survey of 1,000 through a store with 100 ms a request",
        "< 60 s",
        lambda found: "; ".join(
            f"{name} {item['seconds']:.0f} s, {item['requests_per_dataset']:.1f} requests each"
            for name, item in ((name, found["distant"][name]) for name in ("first", "again"))
        ),
    )
    yield (
        ("many", "many_ticks"),
        "10,000 datasets: survey by shards, cursor, memory",
        "bounded, < 20 kB, flat",
        lambda found: (
            f"{_cpu(found['many']['shard_seconds'])} a shard; cursor "
            f"{found['many_ticks']['cursor_most']:,} bytes at most, "
            f"{found['many_ticks']['cursor']:,} at rest; "
            f"memory {_mega(found['many']['memory_first'])} after the first shard, "
            f"{_mega(found['many']['memory_last'])} after the last"
        ),
    )
    yield (
        ("forecast",),
        "forecast of bytes and seconds, median error",
        "<= 20 %",
        lambda found: "; ".join(
            f"{name}: bytes {_share(item.get('bytes'))}, seconds {_share(item.get('seconds'))}"
            for name, item in found["forecast"].items()
            if isinstance(item, Mapping)
        ),
    )


def _cpu(seconds: float) -> str:
    return f"{seconds:.2f} s of processor"


def _both(found: Mapping[str, Any], name: str) -> str:
    return f"{found[f'{name}_seconds']:.0f} s, {_cpu(found[f'{name}_work'])}"


def _mega(size: float) -> str:
    return f"{size / 1e6:.0f} MB"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"
