"""Batches of fleet tasks with about the same work each. Pure."""

from collections.abc import Sequence

from lance_ops.fleet.run.task import MaintainTask


def dealt(tasks: Sequence[MaintainTask], count: int) -> list[list[MaintainTask]]:
    """Assign each task to the batch with least work; the order within a batch is kept."""
    if count >= len(tasks):
        return [[task] for task in tasks]
    batches: list[list[MaintainTask]] = [[] for _ in range(count)]
    loads = [0.0] * count
    for task in tasks:
        least = loads.index(min(loads))
        batches[least].append(task)
        loads[least] += task.item.seconds + 0.01
    return batches
