"""Batches: tasks of a fleet dealt out so that each batch has about the same work. Pure."""

from collections.abc import Sequence

from lance_ops.fleet.run.task import MaintainTask


def dealt(tasks: Sequence[MaintainTask], count: int) -> list[list[MaintainTask]]:
    """Tasks in so many batches, each the next to the one with least work; the order within is kept."""
    if count >= len(tasks):
        return [[task] for task in tasks]
    batches: list[list[MaintainTask]] = [[] for _ in range(count)]
    loads = [0.0] * count
    for task in tasks:
        least = loads.index(min(loads))
        batches[least].append(task)
        loads[least] += task.item.seconds + 0.01
    return batches
