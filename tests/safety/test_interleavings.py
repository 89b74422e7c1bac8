"""Another writer acts between any two store calls of an operation: both happened, one after the other."""

import pytest

from tests.safety import peer
from tests.safety.actions import (
    Action,
    Append,
    Cleanup,
    Compact,
    Create,
    CreateIndex,
    Delete,
    DropIndex,
    OptimizeIndices,
    Overwrite,
    ReplaceWhere,
    Restore,
    Tag,
    Then,
    Update,
    UpdateConfig,
    Upsert,
)
from tests.safety.column_actions import UpdateInPlace
from tests.safety.crashes import state_of
from tests.safety.interleaving import Interleaving
from tests.safety.profile import SIMULATING
from tests.safety.rows import compare, either, remainder
from tests.safety.states import folder, telling_calls

START = (
    Create(count=3),
    Overwrite(first=0, count=8, rows_per_file=4),
    Delete(remainder(5, 2)),
    CreateIndex("v"),
    Append(first=20, count=3, pattern=1),
    Tag(name="kept", version=3),
)

OURS: dict[str, Action] = {
    "append": Append(first=30, count=3, rows_per_file=2),
    "overwrite": Overwrite(first=40, count=3),
    "delete": Delete(either(compare("v", ">", 1.0), compare("id", "<", 4))),
    "update": Update(either(compare("v", ">", 1.0), compare("id", "<", 4))),
    "update in place": UpdateInPlace(either(compare("v", ">", 1.0), compare("id", "<", 4))),
    "upsert": Upsert(first=6, count=5, pattern=2),
    "replace where": ReplaceWhere(first=0, count=9, pattern=1, predicate=compare("id", "<", 5)),
    "compact": Compact(),
    "compact in steps": Compact(target=5, commit_every=1),
    "create index": CreateIndex("k"),
    "rebuild index": CreateIndex("v"),
    "optimize indices": OptimizeIndices(),
    "drop index": DropIndex(),
    "restore": Restore(version=1),
    "update config": UpdateConfig(),
    "cleanup": Cleanup(retain=1),
    "tag": Tag(name="new", version=2),
}

MORE = Append(first=60, count=1)
BELOW_6 = Delete(compare("id", "<", 6))

THEIRS: dict[str, Action] = {
    **OURS,
    "append": Append(first=50, count=2),
    "delete": BELOW_6,
    "replace where": ReplaceWhere(first=0, count=70, pattern=2, predicate=compare("id", "<", 7)),
    "replace elsewhere": ReplaceWhere(first=20, count=3, pattern=2, predicate=compare("id", ">=", 20)),
    "delete of most": Delete(compare("id", ">=", 4)),
    "update config": UpdateConfig(key="owner"),
    "delete, compact": Then((BELOW_6, Compact())),
    "append, append, cleanup": Then((Append(first=50, count=2), MORE, Cleanup(retain=1))),
    "delete, append, cleanup": Then((BELOW_6, MORE, Cleanup(retain=1))),
    "compact, append, cleanup": Then((Compact(), MORE, Cleanup(retain=1))),
}

USUAL = {
    ("append", "delete, append, cleanup"),
    ("append", "overwrite"),
    ("delete", "append"),
    ("delete", "delete"),
    ("delete", "compact, append, cleanup"),
    ("delete", "compact"),
    ("overwrite", "append"),
    ("replace where", "append"),
    ("replace where", "compact"),
    ("replace where", "create index"),
    ("replace where", "delete"),
    ("replace where", "delete of most"),
    ("replace where", "delete, append, cleanup"),
    ("replace where", "replace elsewhere"),
    ("replace where", "replace where"),
    ("replace where", "restore"),
    ("upsert", "append"),
    ("upsert", "compact"),
    ("upsert", "delete"),
    ("upsert", "upsert"),
    ("compact", "upsert"),
    ("update", "append"),
    ("update", "delete"),
    ("update", "update"),
    ("update", "compact"),
    ("compact", "update"),
    ("optimize indices", "update"),
    ("append", "replace where"),
    ("cleanup", "replace where"),
    ("compact", "replace where"),
    ("create index", "replace where"),
    ("delete", "replace where"),
    ("optimize indices", "replace where"),
    ("compact", "append"),
    ("compact", "delete"),
    ("compact", "append, append, cleanup"),
    ("compact", "delete, append, cleanup"),
    ("compact in steps", "rebuild index"),
    ("compact", "compact in steps"),
    ("create index", "compact"),
    ("optimize indices", "delete, compact"),
    ("rebuild index", "append, append, cleanup"),
    ("restore", "delete, append, cleanup"),
    ("restore", "overwrite"),
    ("cleanup", "restore"),
    ("cleanup", "compact"),
    ("cleanup", "tag"),
    ("tag", "cleanup"),
    ("update config", "delete"),
}
"""What is tried in every run; the campaign tries all pairs."""

PAIRS = sorted((ours, theirs) for ours in OURS for theirs in THEIRS) if SIMULATING else sorted(USUAL)


@pytest.fixture(scope="module")
def start() -> dict[str, bytes]:
    return state_of(*START)


def check_everywhere(work: Interleaving) -> None:
    """Let the other writer in before each call where that can make a difference."""
    for number in telling_calls(work.calls):
        if not work.is_hopeless(number) and (SIMULATING or not work.commutes(number)):
            work.check(number)


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=[f"{a} with {b}" for a, b in PAIRS])
def test_two_operations_at_once_are_one_after_the_other(start, ours, theirs):
    work = Interleaving(start, OURS[ours], THEIRS[theirs])
    check_everywhere(work)


PEERS = {
    ("append", "delete, append, cleanup"),
    ("append", "compact in steps"),
    ("delete", "delete"),
    ("delete", "compact"),
    ("replace where", "append"),
    ("replace where", "delete"),
    ("replace where", "compact"),
    ("replace where", "append, append, cleanup"),
    ("compact", "delete"),
    ("compact", "append, append, cleanup"),
    ("create index", "compact"),
    ("optimize indices", "optimize indices"),
    ("rebuild index", "delete, append, cleanup"),
    ("restore", "append"),
    ("cleanup", "restore"),
}

PEERS_PAIRS = PAIRS if SIMULATING else sorted(PEERS)


@pytest.mark.peer
@pytest.mark.parametrize(("ours", "theirs"), PEERS_PAIRS, ids=[f"{a} with {b}" for a, b in PEERS_PAIRS])
def test_the_peer_may_act_at_any_moment(start, ours, theirs):
    work = Interleaving(
        start, OURS[ours], THEIRS[theirs], folder, lambda action, store: peer.act(action, store.uri)
    )
    check_everywhere(work)
