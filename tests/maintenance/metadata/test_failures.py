"""Tags, branches and clones that fail in a living process: nothing of them is left."""

from collections.abc import Callable
from itertools import count

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import CommitOutcomeUnknownError, LanceOpsError
from lance_ops.maintenance.metadata import clone, deep_clone
from lance_ops.storage import Store
from lance_ops.storage.memory import MemoryStore
from lance_ops.table.commit import committer
from tests.support.faulty_store import Call, FaultyStore
from tests.support.interleaving import Snapshot

_names = count()

OPERATIONS: dict[str, Callable[[Store, str], object]] = {
    "create a tag": lambda store, _: lo.create_tag(store, "new", 2),
    "move a tag": lambda store, _: lo.move_tag(store, "kept", 2),
    "create a branch": lambda store, _: lo.create_branch(lo.dataset(store), "a", 2),
    "create a branch of a branch": lambda store, _: lo.create_branch(
        lo.dataset(store, ("side", None)), "side/a"
    ),
    "shallow clone": lambda store, uri: lo.shallow_clone(lo.dataset(store), uri),
    "deep clone": lambda store, uri: lo.deep_clone(lo.dataset(store), uri),
}


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    store = MemoryStore("memory://failures/source")
    for number in range(3):
        lo.append(store, pa.table({"x": [number]}))
    lo.delete(store, "x = 1")
    lo.create_index(store, "x", "BTREE")
    lo.create_tag(store, "kept", 1)
    lo.create_branch(store, "side", 3)
    return Snapshot(store)


def content(*stores: Store) -> dict[str, bytes]:
    return {
        f"{store.uri}/{info.path}": bytes(store.read(info.path))
        for store in stores
        for info in store.list("")
    }


class Interrupt:
    """Raises KeyboardInterrupt at a call that changes the store, but not when a pin or lease ends."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, call: Call) -> bool:
        is_end = call.name == "delete" and ("/pins/" in call.path or "/making/" in call.path)
        self.left -= not is_end
        if not self.left:
            self.left = -1
            raise KeyboardInterrupt
        return False

    @property
    def fired(self) -> bool:
        return self.left < 0


@pytest.mark.parametrize("fault", ["before", "after", "interrupt"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_what_fails_at_any_call_leaves_nothing(
    name: str, fault: str, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committer, "_PAUSES", (0.0, 0.0))
    tried = failed = 0
    for number in count(1):
        source, target = snapshot.restore(), MemoryStore(f"memory://failures/target{next(_names)}")
        before = content(source, target)
        interrupt = Interrupt(number)
        faulty = (
            FaultyStore(source, interrupt)
            if fault == "interrupt"
            else FaultyStore(source, number, when="after" if fault == "after" else "before", mode="error")
        )
        other = FaultyStore(target)
        other._faults = faulty._faults
        for module in (clone, deep_clone):
            monkeypatch.setattr(module, "open_store", lambda *_, other=other: other)
        try:
            OPERATIONS[name](faulty, target.uri)
        except CommitOutcomeUnknownError:
            pass
        except (LanceOpsError, KeyboardInterrupt):
            failed += 1
            left = content(source, target)
            # A pin that could not be removed counts for a week.
            assert {path: data for path, data in left.items() if "/_lance_ops/pins/" not in path} == before, (
                number,
                faulty.calls[-1],
            )
        is_over = not (interrupt.fired if fault == "interrupt" else faulty.fired)
        snapshot.drop(source)
        snapshot.drop(target)
        if is_over:
            break
        tried += 1
    assert tried >= 3
    assert failed >= 1
