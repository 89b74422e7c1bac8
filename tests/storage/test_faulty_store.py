"""The crash harness itself: a fault that does not fire, or fires twice, makes every crash test worthless."""

import pytest

from lance_ops.errors import StorageError, StorageFullError
from lance_ops.storage import is_temporary, open_store
from tests.support.faulty_store import Call, FaultyStore, InjectedCrash


def write_three(store):
    store.put("a", b"1")
    with store.open_writer("b") as writer:
        writer.write(b"2")
    store.delete_many(["a", "missing"])


@pytest.fixture
def inner(tmp_path):
    return open_store(tmp_path / "root")


def visible(store):
    return [info.path for info in store.list("") if not is_temporary(info.path)]


def test_every_mutating_call_can_be_hit_before_and_after_it_happens(tmp_path):
    seen = {}
    for when in ("before", "after"):
        seen[when] = []
        for number in range(1, 20):
            inner = open_store(tmp_path / f"{when}{number}")
            store = FaultyStore(inner, number, when=when)
            try:
                write_three(store)
            except InjectedCrash:
                seen[when].append(visible(inner))
                assert store.fired
            else:
                assert not store.fired
                break
    # put, open_writer, write, close, delete, delete
    assert seen["before"] == [[], ["a"], ["a"], ["a"], ["a", "b"], ["b"]]
    assert seen["after"] == [["a"], ["a"], ["a"], ["a", "b"], ["b"], ["b"]]


def test_after_a_crash_every_call_fails_and_children_are_dead_too(inner):
    store = FaultyStore(inner, 1)
    with pytest.raises(InjectedCrash):
        store.put("a", b"")
    with pytest.raises(InjectedCrash):
        store.exists("a")
    with pytest.raises(InjectedCrash):
        store.child("sub").list("")
    store.disarm()
    assert not store.exists("a")


def test_a_crash_leaves_the_temporary_file_of_an_open_writer(inner):
    store = FaultyStore(inner, lambda call: call == Call("write", "data/x"), when="after")
    with pytest.raises(InjectedCrash), store.open_writer("data/x") as writer:
        writer.write(b"123")
    (left,) = inner.list("")
    assert is_temporary(left.path)
    assert left.path.startswith("data/")
    assert left.size == 3


def test_an_error_fires_as_often_as_asked_and_then_the_store_works(inner):
    store = FaultyStore(inner, lambda call: call.name == "put", mode="error", when="after", times=2)
    for _ in range(2):
        with pytest.raises(StorageError):
            store.put("a", b"1")
    assert inner.exists("a")
    store.put("b", b"1")
    assert visible(store) == ["a", "b"]


def test_reads_count_only_when_asked_for(inner):
    inner.put("a", b"1")
    store = FaultyStore(inner, 1, count="any", mode="error")
    with pytest.raises(StorageError):
        store.read("a")
    store = FaultyStore(inner, 1)
    assert store.read("a").to_pybytes() == b"1"
    assert store.counted == 0
    assert store.calls == [Call("read", "a")]


def test_calls_of_children_are_logged_below_the_outermost_root(inner):
    store = FaultyStore(inner)
    store.child("tree/x").put("y", b"")
    assert store.calls == [Call("put", "tree/x/y")]
    assert inner.exists("tree/x/y")


def test_a_failed_close_leaves_nothing(inner):
    store = FaultyStore(inner, lambda call: call.name == "close", mode="error")
    with pytest.raises(StorageError), store.open_writer("a") as writer:
        writer.write(b"1")
    assert list(inner.list("")) == []


def test_a_full_disk_takes_what_fits(inner):
    store = FaultyStore(inner, full_disk_after_bytes=5)
    store.put("a", b"123")
    with store.open_writer("b") as writer:
        writer.write(b"45")
    with pytest.raises(StorageFullError), store.open_writer("c") as writer:
        writer.write(b"6")
    with pytest.raises(StorageFullError):
        store.copy("a", "c")
    assert visible(inner) == ["a", "b"]


def test_a_store_without_conditional_put_refuses_it(inner):
    store = FaultyStore(inner, conditional_put=False)
    assert not store.supports_put_if_absent
    with pytest.raises(AssertionError):
        store.put("a", b"", if_absent=True)
