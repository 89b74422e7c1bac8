"""A store with objects at hand answers as the store itself does."""

import pickle
import uuid

import pytest

from lance_ops.errors import CorruptFileError, FileMissingError
from lance_ops.storage import is_store, open_store
from lance_ops.storage.fetched_store import FetchedStore, fetch_objects
from tests.support.distant_store import DistantStore

DATA = {"a": b"0123456789", "b": b"", "c/d": b"xyz" * 100}


@pytest.fixture
def inner():
    store = open_store(f"memory://{uuid.uuid4()}")
    for path, data in DATA.items():
        store.put(path, data)
    return store


@pytest.fixture
def distant(inner):
    return DistantStore(inner, wanted=3)


def fetched(distant, max_bytes=1 << 20):
    found = fetch_objects(distant, [*((path, len(data)) for path, data in DATA.items())], max_bytes)
    distant.calls.clear()
    return found


def test_reads_take_no_request_and_give_the_same(inner, distant):
    store = fetched(distant)
    assert distant.most == 3
    for path, data in DATA.items():
        assert bytes(store.read(path)) == data
        assert bytes(store.read(path, 1 if data else 0)) == data[1:]
        ranges = [(0, len(data)), (len(data), 0)]
        assert [bytes(part) for part in store.read_ranges(path, ranges)] == [data, b""]
        for length in (0, 4, 1000):
            tail, size = store.read_tail(path, length)
            assert (bytes(tail), size) == (bytes(inner.read_tail(path, length)[0]), len(data))
        assert store.size(path) == len(data)
        assert store.exists(path)
    assert distant.calls == []


def test_ranges_beyond_the_end_are_damage(distant):
    store = fetched(distant)
    for read in (lambda: store.read("a", 8, 3), lambda: store.read_ranges("a", [(0, 1), (11, 1)])):
        with pytest.raises(CorruptFileError, match="/a"):
            read()


def test_all_else_is_asked_of_the_store(inner, distant):
    store = fetched(distant)
    assert is_store(store)
    assert store.uri == distant.uri
    assert [info.path for info in store.list("")] == sorted(DATA)
    store.put("new", b"1")
    assert bytes(inner.read("new")) == bytes(store.read("new")) == b"1"
    assert not store.exists("missing")
    copy = pickle.loads(pickle.dumps(fetch_objects(open_store("memory://x"), [], 0)))
    assert isinstance(copy, FetchedStore)


def test_what_does_not_fit_or_is_not_there_is_read_when_it_is_asked_for(distant):
    store = fetched(distant, max_bytes=15)
    assert bytes(store.read("c/d")) == DATA["c/d"]
    assert distant.paths("") == ["c/d"]
    missing = fetch_objects(distant, [("missing", 1), ("a", 10)], 100)
    distant.calls.clear()
    with pytest.raises(FileMissingError):
        missing.read("missing")
    assert bytes(missing.read("a")) == DATA["a"]
    assert distant.paths("") == ["missing"]
