"""Answers of indices to the filters that a dataset was asked last, for who asks the same again.

A dataset is one version, whose files never change: what its indices said of a condition stays right as long
as it is open. Whoever opens it anew, at the same version or another, asks anew.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from lance_ops.filter.expression import Expression
from lance_ops.storage.fork_safe import new_lock
from lance_ops.table.scan.pruner import Pruning
from lance_ops.table.snapshot import Snapshot

_MOST = 16
"""Answers of one dataset that are kept; the one that was not asked for longest goes."""

_MOST_ROWS = 1 << 18
"""Rows of an answer that is kept: half a megabyte where they are scattered."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the indices said of a filter.

    Attributes:
        expression: The filter: kept, so that no other one gets its identity.
        pruning: None when they know nothing that helps.
    """

    expression: Expression
    pruning: Pruning | None


@dataclass(slots=True)
class _Answers:
    by_identity: OrderedDict[int, Answer] = field(default_factory=OrderedDict)


_of_datasets: WeakKeyDictionary[Snapshot, _Answers] = WeakKeyDictionary()
_lock = new_lock()


def kept_answer(dataset: Snapshot, expression: Expression) -> Answer | None:
    """What was said of this very expression; None when it was not asked, or the answer was not kept."""
    with _lock:
        answers = _of_datasets.get(dataset)
        found = None if answers is None else answers.by_identity.get(id(expression))
        if answers is not None and found is not None:
            answers.by_identity.move_to_end(id(expression))
        return found


def keep_answer(dataset: Snapshot, expression: Expression, pruning: Pruning | None) -> None:
    """Keep an answer that every readable index had its say in: who could not be read is asked again."""
    if pruning is not None and len(pruning.rows) > _MOST_ROWS:
        return
    with _lock:
        kept = _of_datasets.setdefault(dataset, _Answers()).by_identity
        kept[id(expression)] = Answer(expression, pruning)
        while len(kept) > _MOST:
            kept.popitem(last=False)
