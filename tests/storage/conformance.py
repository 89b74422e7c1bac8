"""What every store promises, as checks that take a fresh, empty store."""

import pickle
import threading
import uuid
from datetime import UTC, datetime, timedelta

import pytest

from lance_ops.errors import (
    AlreadyExistsError,
    CorruptFileError,
    FileMissingError,
    InvalidArgumentError,
    LanceOpsError,
    PathEscapeError,
    StorageError,
    UnsupportedError,
)
from lance_ops.storage import Store, StoreWriter, open_store

ODD_NAMES = [
    "a b",
    "ü",
    "a\u0308",
    "100%",
    "a%20b",
    "a#b",
    "a?b",
    "a~b",
    "a[b]",
    "a*b",
    "a+b",
    "a&b",
    "=,;@:$!'()",
]


def paths(store, prefix="", **options):
    return [info.path for info in store.list(prefix, **options)]


def content(store, path):
    return store.read(path).to_pybytes()


ASKING = {
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


class StoreConformance:
    """Subclasses or plugins provide the fixtures `store` and `failing`.

    `failing` is a context manager in which whatever is behind the store answers nothing but errors.
    """

    def test_it_is_a_store(self, store):
        assert isinstance(store, Store)
        with store.open_writer("x") as writer:
            assert isinstance(writer, StoreWriter)

    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
    @pytest.mark.parametrize("size", [0, 1, 70_000])
    def test_what_is_put_is_read(self, store, kind, size):
        data = bytes(range(256)) * (size // 256 + 1)
        store.put("data/a", kind(data[:size]))
        assert content(store, "data/a") == data[:size]
        assert store.size("data/a") == size
        assert store.exists("data/a")

    def test_put_takes_an_arrow_buffer(self, store):
        store.put("a", b"0123456789")
        store.put("b", store.read("a").slice(2, 5))
        assert content(store, "b") == b"23456"

    def test_put_keeps_its_own_copy_of_the_bytes(self, store):
        data = bytearray(b"before")
        store.put("a", data)
        data[:] = b"after!"
        assert content(store, "a") == b"before"

    def test_put_replaces(self, store):
        store.put("a/b", b"a longer first version")
        store.put("a/b", b"second")
        assert content(store, "a/b") == b"second"

    def test_a_buffer_survives_the_deletion_of_its_object(self, store):
        store.put("a", b"x" * 3_000_000)
        buffer = store.read("a")
        store.delete("a")
        assert buffer.to_pybytes() == b"x" * 3_000_000

    def test_put_if_absent_never_replaces(self, store):
        if not store.supports_put_if_absent:
            with pytest.raises(UnsupportedError):
                store.put("a", b"1", if_absent=True)
            assert not store.exists("a")
            return
        store.put("v/a", b"1", if_absent=True)
        with pytest.raises(AlreadyExistsError) as caught:
            store.put("v/a", b"2", if_absent=True)
        assert caught.value.path.endswith("v/a")
        assert content(store, "v/a") == b"1"
        assert paths(store) == ["v/a"]

    def test_put_if_absent_works_again_after_a_deletion(self, store):
        if store.supports_put_if_absent:
            store.put("a", b"1", if_absent=True)
            store.delete("a")
            store.put("a", b"2", if_absent=True)
            assert content(store, "a") == b"2"

    def test_of_racing_writers_exactly_one_wins(self, store):
        if not store.supports_put_if_absent:
            return
        for key in range(5):
            barrier = threading.Barrier(8)
            won = []

            def put(number, barrier=barrier, won=won, key=key):
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
    def test_ranges_are_read_exactly(self, store, size):
        data = (
            bytes(i * 7 % 251 for i in range(1000)) * (size // 1000) if size >= 1000 else bytes(range(size))
        )
        store.put("a", data)
        assert store.read("a", size).to_pybytes() == b""
        for offset, length in [(0, size), (0, size // 2), (size // 3, size // 2), (size, 0)]:
            assert store.read("a", offset, length).to_pybytes() == data[offset : offset + length]
        assert store.read("a", size // 2).to_pybytes() == data[size // 2 :]

    def test_many_ranges_come_back_in_the_order_asked_for(self, store):
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
    def test_the_tail_is_shorter_than_asked_when_the_object_is(self, store, length):
        store.put("a", b"0123456789")
        store.put("empty", b"")
        tail, size = store.read_tail("a", length)
        assert (tail.to_pybytes(), size) == (b"0123456789"[max(0, 10 - length) :], 10)
        tail, size = store.read_tail("empty", length)
        assert (tail.to_pybytes(), size) == (b"", 0)

    @pytest.mark.parametrize("size", [0, 10, 2_000_000])
    def test_a_range_beyond_the_end_is_an_error_that_names_the_file(self, store, size):
        store.put("d/a", bytes(size))
        for offset, length in [(size, 1), (size + 1, 1), (0, size + 1), (size + 5, None), (0, 1 << 60)]:
            with pytest.raises(CorruptFileError, match="d/a"):
                store.read("d/a", offset, length)
            if length is not None:
                with pytest.raises(CorruptFileError, match="d/a"):
                    store.read_ranges("d/a", [(0, min(size, 4)), (offset, length)])

    def test_negative_ranges_are_refused(self, store):
        store.put("a", b"123")
        for call in [
            lambda: store.read("a", -1),
            lambda: store.read("a", 0, -1),
            lambda: store.read_ranges("a", [(-1, 1)]),
            lambda: store.read_ranges("a", [(0, 1), (1, -1)]),
            lambda: store.read_tail("a", -1),
        ]:
            with pytest.raises(InvalidArgumentError):
                call()

    def test_a_missing_object_is_named(self, store):
        store.put("folder/a", b"1")
        for path in ["missing", "folder", "folder/missing", "missing/a", "folder/a/b"]:
            for call in [
                lambda path=path: store.read(path),
                lambda path=path: store.read(path, 1, 2),
                lambda path=path: store.read_ranges(path, [(0, 1)]),
                lambda path=path: store.read_tail(path, 4),
                lambda path=path: store.size(path),
                lambda path=path: store.copy(path, "target"),
            ]:
                with pytest.raises(FileMissingError, match=path):
                    call()
            assert not store.exists(path)
        assert paths(store) == ["folder/a"]

    def test_a_writer_shows_nothing_before_it_is_closed(self, store):
        writer = store.open_writer("data/w")
        writer.write(b"12")
        writer.write(bytearray(b"3"))
        writer.write(memoryview(b"45"))
        writer.write(b"")
        assert writer.tell() == 5
        assert not store.exists("data/w")
        writer.close()
        writer.close()
        assert content(store, "data/w") == b"12345"
        assert paths(store) == ["data/w"]
        with pytest.raises(StorageError):
            writer.write(b"6")
        writer.abort()
        assert content(store, "data/w") == b"12345"

    def test_a_writer_takes_more_than_fits_in_its_buffers(self, store):
        block = bytes(range(256)) * 4096
        with store.open_writer("big") as writer:
            for _ in range(20):
                writer.write(block)
            assert writer.tell() == 20 << 20
        assert store.size("big") == 20 << 20
        assert store.read("big", (19 << 20) + 100, 56).to_pybytes() == block[100:156]

    @pytest.mark.parametrize("size", [5, 20 << 20])
    def test_an_aborted_writer_leaves_nothing(self, store, size):
        writer = store.open_writer("data/w")
        writer.write(bytes(size))
        writer.abort()
        writer.abort()
        with pytest.raises(ZeroDivisionError), store.open_writer("data/w") as writer:
            writer.write(bytes(1 // 0))
        assert paths(store) == []
        assert not store.exists("data/w")

    def test_ranges_of_other_objects_are_appended(self, store):
        data = bytes(range(256)) * 90_000
        store.put("data/a", data)
        other = open_store(f"memory://{uuid.uuid4().hex}")
        other.put("b", b"0123456789")
        with store.open_writer("data/w") as writer:
            writer.write(b"head")
            writer.copy_from(store, "data/a", [(3, 5), (0, 0), (100, 20 << 20), (3, 5)])
            writer.copy_from(other, "b", [(8, 2), (0, 3)])
            writer.copy_from(store, "data/a", [])
            assert writer.tell() == (20 << 20) + 19
            writer.write(b"tail")
        expected = b"head" + data[3:8] + data[100 : 100 + (20 << 20)] + data[3:8] + b"89012tail"
        assert content(store, "data/w") == expected

    @pytest.mark.parametrize("ranges", [[(8, 3)], [(0, 5), (11, 1)]])
    def test_a_range_beyond_the_end_is_not_appended(self, store, ranges):
        store.put("a", b"0123456789")
        with pytest.raises(CorruptFileError), store.open_writer("w") as writer:
            writer.copy_from(store, "a", ranges)
        with pytest.raises(FileMissingError), store.open_writer("w") as writer:
            writer.copy_from(store, "b", [(0, 5)])
        assert paths(store) == ["a"]

    def test_an_empty_writer_makes_an_empty_object(self, store):
        store.open_writer("e").close()
        assert content(store, "e") == b""

    def test_a_writer_replaces(self, store):
        store.put("a", b"a longer first version")
        with store.open_writer("a") as writer:
            writer.write(b"second")
        assert content(store, "a") == b"second"

    def test_listing_is_recursive_and_ordered_by_path(self, store):
        names = ["a/b/c", "a.txt", "a/b.txt", "a-b/c", "b", "a0/x"]
        before = datetime.now(UTC) - timedelta(seconds=5)
        for name in names:
            store.put(name, name.encode())
        found = list(store.list(""))
        assert [info.path for info in found] == sorted(names)
        for info in found:
            assert info.size == len(info.path)
            assert info.modified.utcoffset() == timedelta(0)
            assert before < info.modified < datetime.now(UTC) + timedelta(seconds=5)
        assert paths(store, "a") == [name for name in sorted(names) if name.startswith("a/")]
        assert paths(store, "a/") == paths(store, "a")
        assert paths(store, "a/b") == ["a/b/c"]
        for prefix in ["b", "missing", "a/b/c", "a/b/c/d", "a/missing"]:
            assert paths(store, prefix) == []

    def test_listing_starts_after_any_path(self, store):
        names = sorted(["a/1", "a/2/x", "a/2/y", "a/3", "b", "c/d"])
        for name in names:
            store.put(name, b"")
        for start in [*names, "", "a", "a/", "a/2", "a/2/", "a/2/xx", "a0", "zzz", "A"]:
            assert paths(store, start_after=start) == [name for name in names if name > start]
            below = [name for name in names if name.startswith("a/") and name > start]
            assert paths(store, "a", start_after=start) == below

    def test_listing_goes_beyond_one_page(self, store):
        names = [f"p/{number:04}" for number in range(250)]
        for name in names:
            store.put(name, b"")
        assert paths(store) == names
        assert paths(store, "p", start_after="p/0119") == names[120:]
        store.delete_many(names)
        assert paths(store) == []

    def test_folders_are_those_that_hold_objects(self, store):
        for name in ["a/b/c", "a/b/d", "a/x", "e/f/g/h", "top"]:
            store.put(name, b"")
        assert store.list_dirs("") == ["a", "e"]
        assert store.list_dirs("a") == ["b"]
        assert store.list_dirs("a/b") == []
        assert store.list_dirs("missing") == []
        assert store.list_dirs("top") == []
        store.delete("e/f/g/h")
        assert store.list_dirs("") == ["a"]
        assert store.list_dirs("e") == []

    def test_deleting_what_is_missing_is_no_error(self, store):
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

    def test_copies_are_independent(self, store):
        store.put("a", b"1" * 100)
        store.copy("a", "x/y/b")
        store.put("a", b"2")
        assert content(store, "x/y/b") == b"1" * 100
        store.copy("a", "x/y/b")
        assert content(store, "x/y/b") == b"2"
        assert paths(store) == ["a", "x/y/b"]

    def test_a_conditional_copy_never_replaces(self, store):
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

    def test_a_child_sees_its_folder_as_the_root(self, store):
        child = store.child("tree/x y%")
        child.put("data/a", b"1")
        assert paths(store) == ["tree/x y%/data/a"]
        assert paths(child) == ["data/a"]
        assert content(child, "data/a") == b"1"
        assert child.list_dirs("") == ["data"]
        assert child.uri.startswith(store.uri)
        assert content(store.child("tree").child("x y%").child("data"), "a") == b"1"

    @pytest.mark.parametrize("name", ODD_NAMES)
    def test_odd_names_are_kept_as_they_are(self, store, name):
        path = f"{name}/{name}"
        store.put(path, name.encode())
        assert paths(store) == [path]
        assert paths(store, name) == [path]
        assert paths(store, start_after=path) == []
        assert store.list_dirs("") == [name]
        assert content(store, path) == name.encode()
        assert content(store.child(name), name) == name.encode()
        store.copy(path, f"copy/{name}")
        store.delete(path)
        assert paths(store) == [f"copy/{name}"]

    def test_paths_that_leave_the_root_are_refused_everywhere(self, store):
        for path in ["../a", "/etc/passwd", "a/../../b", "", "a//b", "a/./b", "a\\b", "a\0b", "C:/x", "a/.."]:
            for call in [
                lambda path=path: store.read(path),
                lambda path=path: store.read_ranges(path, [(0, 1)]),
                lambda path=path: store.read_tail(path, 1),
                lambda path=path: store.size(path),
                lambda path=path: store.exists(path),
                lambda path=path: store.put(path, b""),
                lambda path=path: store.open_writer(path),
                lambda path=path: store.delete(path),
                lambda path=path: store.delete_many([path]),
                lambda path=path: store.copy(path, "a"),
                lambda path=path: store.copy("a", path),
                lambda path=path: store.child(path),
                lambda path=path: store.list(path) if path else store.read(path),
                lambda path=path: store.list_dirs(path) if path else store.read(path),
            ]:
                with pytest.raises(PathEscapeError):
                    call()
        assert paths(store) == []

    @pytest.mark.parametrize("call", ASKING)
    def test_what_cannot_be_found_out_is_an_error_and_not_absence(self, store, failing, call):
        store.put("folder/a", b"123")
        with failing(), pytest.raises(StorageError) as caught:
            ASKING[call](store)
        assert caught.value.path.startswith(store.uri)
        assert paths(store) == ["folder/a"]
        assert content(store, "folder/a") == b"123"

    def test_a_pickled_store_reaches_the_same_objects(self, store):
        store.put("a", b"1")
        again = pickle.loads(pickle.dumps(store))
        assert again.uri == store.uri
        assert again.supports_put_if_absent == store.supports_put_if_absent
        assert content(again, "a") == b"1"
        again.put("b", b"2")
        assert content(store, "b") == b"2"

    def test_threads_share_a_store(self, store):
        failures = []

        def work(number):
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
