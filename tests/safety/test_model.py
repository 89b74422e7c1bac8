"""Random sequences of all operations, against lists of rows that do the same."""

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.storage import open_store
from tests.safety import peer
from tests.safety.actions import Action, Append, Cleanup
from tests.safety.crashes import Crash
from tests.safety.interleaving import Interleaving
from tests.safety.profile import examples
from tests.safety.states import memory, objects, on_disk, telling_calls
from tests.safety.strategies import ACTIONS, CREATES, HISTORIES, TURNS
from tests.safety.table_model import TableModel, by_us, run_history


@examples(40)
@given(create=CREATES, steps=HISTORIES)
def test_any_sequence_of_operations_gives_the_rows_it_should(create, steps):
    with memory() as store:
        run_history(store, create, steps).check_history()


@pytest.mark.peer
@examples(12)
@given(create=CREATES, steps=HISTORIES)
def test_the_peer_sees_the_same_after_any_sequence(create, steps):
    with memory() as store, tempfile.TemporaryDirectory() as folder:
        model = TableModel(store)
        for number, step in enumerate([create, *steps]):
            model.step(model.fit(step))
            peer.check(on_disk(objects(store), Path(folder) / f"{number}.lance"), model.rows)


@pytest.mark.peer
@examples(25)
@given(
    create=CREATES,
    created_by_peer=st.booleans(),
    old_names=st.booleans(),
    steps=st.lists(TURNS, max_size=12),
)
def test_both_writers_in_turn_give_the_rows_they_should(create, created_by_peer, old_names, steps):
    def by_peer(action, store):
        peer.act(action, store.uri)

    def create_by_peer(action, store):
        peer.act(action, store.uri, enable_v2_manifest_paths=not old_names)

    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"{folder}/t.lance", {"fsync": "false"})
        model = TableModel(store)
        model.step(create, create_by_peer if created_by_peer else by_us)
        for step, is_peers in steps:
            model.step(model.fit(step), by_peer if is_peers else by_us)
            peer.check(store.uri, model.rows)
        model.check_history()


@examples(15)
@given(create=CREATES, steps=HISTORIES, last=ACTIONS, data=st.data())
def test_a_crash_after_any_sequence_leaves_the_table_before_or_after(create, steps, last, data):
    with memory() as store:
        last = run_history(store, create, steps).fit(last)
        crash = Crash(objects(store), last)
    number = data.draw(st.integers(1, len(crash.calls)))
    crash.check_crash(number, data.draw(st.sampled_from(["before", "after"])))
    crash.check_error(number, data.draw(st.sampled_from(["before", "after"])))


def beside_others(action: Action) -> Action:
    """Whoever removes files that no version uses says that nobody else is writing."""
    return replace(action, delete_unverified=False) if isinstance(action, Cleanup) else action


@examples(15)
@given(create=CREATES, steps=HISTORIES, pair=st.tuples(ACTIONS, ACTIONS), data=st.data())
def test_any_two_operations_at_once_are_one_after_the_other(create, steps, pair, data):
    with memory() as store:
        model = run_history(store, create, steps)
        ours, theirs = (beside_others(model.fit(action)) for action in pair)
        # Rows that are appended have ids that nobody else adds: an append looks at no key.
        if isinstance(ours, Append):
            ours = replace(ours, first=ours.first + 100)
        if isinstance(theirs, Append):
            theirs = replace(theirs, first=theirs.first + 200)
        work = Interleaving(objects(store), ours, theirs)
    number = data.draw(st.sampled_from(telling_calls(work.calls)))
    if not work.is_hopeless(number):
        work.check(number)
