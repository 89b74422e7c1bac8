"""Writers: an object appears as a whole after its writer is closed, or not at all."""

import uuid

import pytest

from lance_ops.errors import (
    AlreadyExistsError,
    CorruptFileError,
    FileMissingError,
    StorageError,
    UnsupportedError,
)
from lance_ops.storage import Store, open_store
from lance_ops.testing.store.looks import content, paths


class Writers:
    """Contract of writers of a store."""

    def test_a_writer_shows_nothing_before_it_is_closed(self, store: Store) -> None:
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

    def test_a_writer_takes_more_than_fits_in_its_buffers(self, store: Store) -> None:
        block = bytes(range(256)) * 4096
        with store.open_writer("big") as writer:
            for _ in range(20):
                writer.write(block)
            assert writer.tell() == 20 << 20
        assert store.size("big") == 20 << 20
        assert store.read("big", (19 << 20) + 100, 56).to_pybytes() == block[100:156]

    @pytest.mark.parametrize("size", [5, 20 << 20])
    def test_an_aborted_writer_leaves_nothing(self, store: Store, size: int) -> None:
        writer = store.open_writer("data/w")
        writer.write(bytes(size))
        writer.abort()
        writer.abort()
        with pytest.raises(ZeroDivisionError), store.open_writer("data/w") as writer:
            writer.write(bytes(1 // 0))
        assert paths(store) == []
        assert not store.exists("data/w")

    @pytest.mark.parametrize("size", [5, 20 << 20])
    def test_a_writer_with_if_absent_never_replaces(self, store: Store, size: int) -> None:
        if not store.supports_put_if_absent:
            with pytest.raises(UnsupportedError):
                store.open_writer("data/w", if_absent=True)
            assert paths(store) == []
            return
        with store.open_writer("data/w", if_absent=True) as writer:
            writer.write(b"12")
        with pytest.raises(AlreadyExistsError), store.open_writer("data/w", if_absent=True) as writer:
            writer.write(bytes(size))
        assert content(store, "data/w") == b"12"
        assert paths(store) == ["data/w"]

    def test_ranges_of_other_objects_are_appended(self, store: Store) -> None:
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
    def test_a_range_beyond_the_end_is_not_appended(
        self, store: Store, ranges: list[tuple[int, int]]
    ) -> None:
        store.put("a", b"0123456789")
        with pytest.raises(CorruptFileError), store.open_writer("w") as writer:
            writer.copy_from(store, "a", ranges)
        with pytest.raises(FileMissingError), store.open_writer("w") as writer:
            writer.copy_from(store, "b", [(0, 5)])
        assert paths(store) == ["a"]

    def test_an_empty_writer_makes_an_empty_object(self, store: Store) -> None:
        store.open_writer("e").close()
        assert content(store, "e") == b""

    def test_a_writer_replaces(self, store: Store) -> None:
        store.put("a", b"a longer first version")
        with store.open_writer("a") as writer:
            writer.write(b"second")
        assert content(store, "a") == b"second"
