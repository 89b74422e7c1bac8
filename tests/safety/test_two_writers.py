"""Two processes, ours and the peer's, append, delete and compact one table at once."""

import multiprocessing
from itertools import count

import lance
import pytest

import lance_ops as lo
from lance_ops.errors import CommitConflictError
from lance_ops.storage import open_store
from tests.safety import peer
from tests.safety.actions import Append, Cleanup, Compact, Create, CreateIndex, Delete
from tests.safety.profile import SIMULATING
from tests.safety.rows import is_in, make_rows
from tests.safety.states import check_sound, is_same_set, litter

APPENDS = 15
DELETES = 10
BASE = 60
PATIENCE = 50
"""How often a writer tries again what another writer was in the way of."""


def work(who: str, uri: str, first: int, compacts: bool, barrier, results) -> None:
    """Do a writer's share, and tell what was committed: the ids added and those deleted."""
    store = open_store(uri, {"fsync": "false"})

    def act(action) -> None:
        for attempt in count(1):
            try:
                if who == "ours":
                    action.run(store)
                else:
                    peer.act(action, uri)
            except (CommitConflictError, OSError, RuntimeError) as error:
                if attempt == PATIENCE or "onflict" not in f"{type(error).__name__}: {error}":
                    raise
            else:
                return

    added: list[int] = []
    deleted: list[int] = []
    for turn in range(APPENDS):
        # Else the faster one would be done before the other begins.
        barrier.wait(60)
        start = first + 10 * turn
        act(Append(first=start, count=4, rows_per_file=2))
        added += range(start, start + 4)
        if turn < DELETES:
            # Rows of the start that the other writer deletes too, some of its own neighbours, one of ours.
            gone = [3 * turn, 3 * turn + 1, BASE - 1 - turn, start + 1]
            act(Delete(is_in("id", gone)))
            deleted += gone
        if compacts and turn % 5 == 4:
            act(Compact(target=20, threshold=0.0))
    results.put((who, added, deleted))


COMPACTING = [("ours",), ("peer",), *([("ours", "peer"), ()] * 10 if SIMULATING else [])]


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.parametrize("compacting", COMPACTING)
def test_nothing_is_lost_and_nothing_comes_twice(tmp_path, compacting):
    uri = str(tmp_path / "t.lance")
    store = open_store(uri, {"fsync": "false"})
    Create(count=BASE, rows_per_file=8).run(store)
    CreateIndex("id").run(store)
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(2), context.Queue()
    writers = [
        context.Process(target=work, args=(who, uri, first, who in compacting, barrier, results))
        for who, first in (("ours", 1_000), ("peer", 2_000))
    ]
    for writer in writers:
        writer.start()
    done = [results.get(timeout=120) for _ in writers]
    for writer in writers:
        writer.join(30)
        assert writer.exitcode == 0
    added = [number for _, numbers, _ in done for number in numbers]
    gone = {number for _, _, numbers in done for number in numbers}
    expected = [row for row in make_rows(0, BASE) if row.id not in gone]
    expected += [row for number in added if number not in gone for row in make_rows(number, 1)]
    rows = check_sound(lo.dataset(uri))
    assert is_same_set(rows, expected)
    peer.check(uri, rows)
    # Every commit is there: none was made twice, none took the place of another.
    operations = [entry.operation for entry in lo.dataset(uri).history()]
    assert operations.count("Append") == 2 * APPENDS
    assert operations.count("Delete") == 2 * DELETES
    assert len(operations) == lo.dataset(uri).version == len(lance.dataset(uri).versions())
    if "peer" not in compacting:
        assert not {path for path in litter(store) if path.startswith("data/")}
    Compact().run(store)
    Cleanup(retain=1).run(store)
    peer.check(uri, check_sound(lo.dataset(uri)))
