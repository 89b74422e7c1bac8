"""Objects: full and range reads, missing objects, and errors of lookups."""

import pickle
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

import pytest

from lance_ops.errors import (
    AlreadyExistsError,
    CorruptFileError,
    FileMissingError,
    InvalidArgumentError,
    LanceOpsError,
    StorageError,
    UnsupportedError,
)
from lance_ops.storage import BytesLike, Store, StoreWriter
from lance_ops.testing.store.looks import content, paths

Failing = Callable[[], AbstractContextManager[object]]
"""Makes a context in which every request to the backend fails."""

ASKING: Mapping[str, Callable[[Store], object]] = {
    "list": lambda store: list(store.list("")),
    "list of a folder": lambda store: list(store.list("folder")),
    "list after a path": lambda store: list(store.list("folder", start_after="folder/0")),
    "list of a missing folder": lambda store: list(store.list("missing")),
    "list_dirs": lambda store: store.list_dirs(""),
    "list_dirs of a missing folder": lambda store: store.list_dirs("missing"),
    "exists": lambda store: store.exists("folder/a"),
    "exists for a missing object": lambda store: store.exists("missing"),
    "size": lambda store: store.size("folder/a"),
    "size of a missing object": lambda store: store.size("missing"),
    "read": lambda store: store.read("folder/a"),
    "read of a range": lambda store: store.read("folder/a", 1, 2),
    "read of a missing object": lambda store: store.read("missing"),
    "read_ranges": lambda store: store.read_ranges("folder/a", [(0, 1), (2, 1)]),
    "read_tail": lambda store: store.read_tail("folder/a", 2),
    "copy": lambda store: store.copy("folder/a", "b"),
    "child": lambda store: list(store.child("folder").list("")),
}
"""Every call that looks up something."""

_NEGATIVE: Sequence[Callable[[Store], object]] = [
    lambda store: store.read("a", -1),
    lambda store: store.read("a", 0, -1),
    lambda store: store.read_ranges("a", [(-1, 1)]),
    lambda store: store.read_ranges("a", [(0, 1), (1, -1)]),
    lambda store: store.read_tail("a", -1),
]

_OF_AN_OBJECT: Sequence[Callable[[Store, str], object]] = [
    lambda store, path: store.read(path),
    lambda store, path: store.read(path, 1, 2),
    lambda store, path: store.read_ranges(path, [(0, 1)]),
    lambda store, path: store.read_tail(path, 4),
    lambda store, path: store.size(path),
    lambda store, path: store.copy(path, "target"),
]


class Objects:
    """Contract of objects in a store."""

    def test_it_is_a_store(self, store: Store) -> None:
        assert isinstance(store, Store)
        with store.open_writer("x") as writer:
            assert isinstance(writer, StoreWriter)

    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
    @pytest.mark.parametrize("size", [0, 1, 70_000])
    def test_what_is_put_is_read(self, store: Store, kind: Callable[[bytes], BytesLike], size: int) -> None:
        data = bytes(range(256)) * (size // 256 + 1)
        store.put("data/a", kind(data[:size]))
        assert content(store, "data/a") == data[:size]
        assert store.size("data/a") == size
        assert store.exists("data/a")

    def test_put_takes_an_arrow_buffer(self, store: Store) -> None:
        store.put("a", b"0123456789")
        store.put("b", store.read("a").slice(2, 5))
        assert content(store, "b") == b"23456"

    def test_put_keeps_its_own_copy_of_the_bytes(self, store: Store) -> None:
        data = bytearray(b"before")
        store.put("a", data)
        data[:] = b"after!"
        assert content(store, "a") == b"before"

    def test_put_replaces(self, store: Store) -> None:
        store.put("a/b", b"a longer first version")
        store.put("a/b", b"second")
        assert content(store, "a/b") == b"second"

    def test_a_buffer_survives_the_deletion_of_its_object(self, store: Store) -> None:
        store.put("a", b"x" * 3_000_000)
        buffer = store.read("a")
        store.delete("a")
        assert buffer.to_pybytes() == b"x" * 3_000_000

    def test_put_if_absent_never_replaces(self, store: Store) -> None:
        if not store.supports_put_if_absent:
            with pytest.raises(UnsupportedError):
                store.put("a", b"1", if_absent=True)
            assert not store.exists("a")
            return
        store.put("v/a", b"1", if_absent=True)
        with pytest.raises(AlreadyExistsError) as caught:
            store.put("v/a", b"2", if_absent=True)
        assert (caught.value.path or "").endswith("v/a")
        assert content(store, "v/a") == b"1"
        assert paths(store) == ["v/a"]

    def test_put_if_absent_works_again_after_a_deletion(self, store: Store) -> None:
        if store.supports_put_if_absent:
            store.put("a", b"1", if_absent=True)
            store.delete("a")
            store.put("a", b"2", if_absent=True)
            assert content(store, "a") == b"2"

    def test_of_racing_writers_exactly_one_wins(self, store: Store) -> None:
        if not store.supports_put_if_absent:
            return
        for key in range(5):
            barrier = threading.Barrier(8)
            won: list[int] = []

            def put(
                number: int, barrier: threading.Barrier = barrier, won: list[int] = won, key: int = key
            ) -> None:
                barrier.wait()
                try:
                    store.put(f"race/{key}", bytes([number]) * 1000, if_absent=True)
                except AlreadyExistsError:
                    return
                won.append(number)

            threads = [threading.Thread(target=put, args=(number,)) for number in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(won) == 1
            assert content(store, f"race/{key}") == bytes(won) * 1000
        assert paths(store) == [f"race/{key}" for key in range(5)]

    @pytest.mark.parametrize("size", [0, 10, 3_000_000])
    def test_ranges_are_read_exactly(self, store: Store, size: int) -> None:
        data = (
            bytes(i * 7 % 251 for i in range(1000)) * (size // 1000) if size >= 1000 else bytes(range(size))
        )
        store.put("a", data)
        assert store.read("a", size).to_pybytes() == b""
        for offset, length in [(0, size), (0, size // 2), (size // 3, size // 2), (size, 0)]:
            assert store.read("a", offset, length).to_pybytes() == data[offset : offset + length]
        assert store.read("a", size // 2).to_pybytes() == data[size // 2 :]

    def test_many_ranges_come_back_in_the_order_asked_for(self, store: Store) -> None:
        data = bytes(i * 31 % 253 for i in range(100_000))
        store.put("a", data)
        ranges = [
            (90_000, 10_000),
            (0, 1),
            (50, 0),
            (40, 100),
            (0, 1),
            (99_999, 1),
            (45, 3),
            (20_000, 30_000),
        ]
        assert [buffer.to_pybytes() for buffer in store.read_ranges("a", ranges)] == [
            data[offset : offset + length] for offset, length in ranges
        ]
        assert store.read_ranges("a", []) == []

    @pytest.mark.parametrize("length", [0, 3, 10, 11, 5000])
    def test_the_tail_is_shorter_than_asked_when_the_object_is(self, store: Store, length: int) -> None:
        store.put("a", b"0123456789")
        store.put("empty", b"")
        tail, size = store.read_tail("a", length)
        assert (tail.to_pybytes(), size) == (b"0123456789"[max(0, 10 - length) :], 10)
        tail, size = store.read_tail("empty", length)
        assert (tail.to_pybytes(), size) == (b"", 0)

    @pytest.mark.parametrize("size", [0, 10, 2_000_000])
    def test_a_range_beyond_the_end_is_an_error_that_names_the_file(self, store: Store, size: int) -> None:
        store.put("d/a", bytes(size))
        for offset, length in [(size, 1), (size + 1, 1), (0, size + 1), (size + 5, None), (0, 1 << 60)]:
            with pytest.raises(CorruptFileError, match="d/a"):
                store.read("d/a", offset, length)
            if length is not None:
                with pytest.raises(CorruptFileError, match="d/a"):
                    store.read_ranges("d/a", [(0, min(size, 4)), (offset, length)])

    def test_negative_ranges_are_refused(self, store: Store) -> None:
        store.put("a", b"123")
        for ask in _NEGATIVE:
            with pytest.raises(InvalidArgumentError):
                ask(store)

    def test_a_missing_object_is_named(self, store: Store) -> None:
        store.put("folder/a", b"1")
        for path in ["missing", "folder", "folder/missing", "missing/a", "folder/a/b"]:
            for ask in _OF_AN_OBJECT:
                with pytest.raises(FileMissingError, match=path):
                    ask(store, path)
            assert not store.exists(path)
        assert paths(store) == ["folder/a"]

    def test_deleting_what_is_missing_is_no_error(self, store: Store) -> None:
        store.put("a/b", b"")
        store.put("a/c", b"")
        store.delete("missing")
        store.delete("missing/x")
        store.delete("a")
        store.delete_many(["missing", "a/b", "a/missing", "x/y/z"])
        store.delete_many(iter(()))
        assert paths(store) == ["a/c"]
        store.delete("a/c")
        assert paths(store) == []

    def test_copies_are_independent(self, store: Store) -> None:
        store.put("a", b"1" * 100)
        store.copy("a", "x/y/b")
        store.put("a", b"2")
        assert content(store, "x/y/b") == b"1" * 100
        store.copy("a", "x/y/b")
        assert content(store, "x/y/b") == b"2"
        assert paths(store) == ["a", "x/y/b"]

    def test_a_conditional_copy_never_replaces(self, store: Store) -> None:
        store.put("a", b"1")
        if not store.supports_put_if_absent:
            with pytest.raises(UnsupportedError):
                store.copy("a", "b", if_absent=True)
            return
        store.copy("a", "b", if_absent=True)
        store.put("a", b"2")
        with pytest.raises(AlreadyExistsError):
            store.copy("a", "b", if_absent=True)
        assert content(store, "b") == b"1"

    @pytest.mark.parametrize("call", ASKING)
    def test_what_cannot_be_found_out_is_an_error_and_not_absence(
        self, store: Store, failing: Failing, call: str
    ) -> None:
        store.put("folder/a", b"123")
        with failing(), pytest.raises(StorageError) as caught:
            ASKING[call](store)
        assert (caught.value.path or "").startswith(store.uri)
        assert paths(store) == ["folder/a"]
        assert content(store, "folder/a") == b"123"

    def test_a_pickled_store_reaches_the_same_objects(self, store: Store) -> None:
        store.put("a", b"1")
        again = pickle.loads(pickle.dumps(store))
        assert again.uri == store.uri
        assert again.supports_put_if_absent == store.supports_put_if_absent
        assert content(again, "a") == b"1"
        again.put("b", b"2")
        assert content(store, "b") == b"2"

    def test_threads_share_a_store(self, store: Store) -> None:
        failures: list[Exception] = []

        def work(number: int) -> None:
            try:
                for step in range(10):
                    store.put(f"t{number}/{step}", bytes([number]) * 100)
                    assert content(store, f"t{number}/{step}") == bytes([number]) * 100
                assert len(paths(store, f"t{number}")) == 10
            except (LanceOpsError, AssertionError) as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
