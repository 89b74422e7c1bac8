"""Cache of index answers to recent filters of a dataset, for repeated queries.

A dataset is one immutable version, so the answers stay valid while it is open. Another open dataset has its
own cache.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from lance_ops.filter.expression import Expression
from lance_ops.storage.fork_safe import new_lock
from lance_ops.table.scan.pruner import Pruning
from lance_ops.table.snapshot import Snapshot

_MOST = 16
"""Maximum cached answers of one dataset; the least recently used is evicted."""

_MOST_ROWS = 1 << 18
"""Rows of an answer that is kept: half a megabyte where they are scattered."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer of the indices to a filter.

    Attributes:
        expression: The filter: kept, because its identity is the key.
        pruning: None if no index helps.
    """

    expression: Expression
    pruning: Pruning | None


@dataclass(slots=True)
class _Answers:
    by_identity: OrderedDict[int, Answer] = field(default_factory=OrderedDict)


_of_datasets: WeakKeyDictionary[Snapshot, _Answers] = WeakKeyDictionary()
_lock = new_lock()


def kept_answer(dataset: Snapshot, expression: Expression) -> Answer | None:
    """Return the cached answer to this expression; None without one."""
    with _lock:
        answers = _of_datasets.get(dataset)
        found = None if answers is None else answers.by_identity.get(id(expression))
        if answers is not None and found is not None:
            answers.by_identity.move_to_end(id(expression))
        return found


def keep_answer(dataset: Snapshot, expression: Expression, pruning: Pruning | None) -> None:
    """Cache an answer if every index was readable; others are tried again."""
    if pruning is not None and len(pruning.rows) > _MOST_ROWS:
        return
    with _lock:
        kept = _of_datasets.setdefault(dataset, _Answers()).by_identity
        kept[id(expression)] = Answer(expression, pruning)
        while len(kept) > _MOST:
            kept.popitem(last=False)
