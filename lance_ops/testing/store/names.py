"""Names: listings, folders, unusual names, and paths that leave the root."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from lance_ops.errors import PathEscapeError
from lance_ops.storage import Store
from lance_ops.testing.store.looks import content, paths

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

_WITH_A_PATH: Sequence[Callable[[Store, str], object]] = [
    lambda store, path: store.read(path),
    lambda store, path: store.read_ranges(path, [(0, 1)]),
    lambda store, path: store.read_tail(path, 1),
    lambda store, path: store.size(path),
    lambda store, path: store.exists(path),
    lambda store, path: store.put(path, b""),
    lambda store, path: store.open_writer(path),
    lambda store, path: store.delete(path),
    lambda store, path: store.delete_many([path]),
    lambda store, path: store.copy(path, "a"),
    lambda store, path: store.copy("a", path),
    lambda store, path: store.child(path),
    lambda store, path: store.list(path) if path else store.read(path),
    lambda store, path: store.list_dirs(path) if path else store.read(path),
]


class Names:
    """Contract of object names in a store."""

    def test_listing_is_recursive_and_ordered_by_path(self, store: Store) -> None:
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

    def test_listing_starts_after_any_path(self, store: Store) -> None:
        names = sorted(["a/1", "a/2/x", "a/2/y", "a/3", "b", "c/d"])
        for name in names:
            store.put(name, b"")
        for start in [*names, "", "a", "a/", "a/2", "a/2/", "a/2/xx", "a0", "zzz", "A"]:
            assert paths(store, start_after=start) == [name for name in names if name > start]
            below = [name for name in names if name.startswith("a/") and name > start]
            assert paths(store, "a", start_after=start) == below

    def test_listing_goes_beyond_one_page(self, store: Store) -> None:
        names = [f"p/{number:04}" for number in range(250)]
        for name in names:
            store.put(name, b"")
        assert paths(store) == names
        assert paths(store, "p", start_after="p/0119") == names[120:]
        store.delete_many(names)
        assert paths(store) == []

    def test_folders_are_those_that_hold_objects(self, store: Store) -> None:
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

    def test_a_child_sees_its_folder_as_the_root(self, store: Store) -> None:
        child = store.child("tree/x y%")
        child.put("data/a", b"1")
        assert paths(store) == ["tree/x y%/data/a"]
        assert paths(child) == ["data/a"]
        assert content(child, "data/a") == b"1"
        assert child.list_dirs("") == ["data"]
        assert child.uri.startswith(store.uri)
        assert content(store.child("tree").child("x y%").child("data"), "a") == b"1"

    @pytest.mark.parametrize("name", ODD_NAMES)
    def test_odd_names_are_kept_as_they_are(self, store: Store, name: str) -> None:
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

    def test_paths_that_leave_the_root_are_refused_everywhere(self, store: Store) -> None:
        for path in ["../a", "/etc/passwd", "a/../../b", "", "a//b", "a/./b", "a\\b", "a\0b", "C:/x", "a/.."]:
            for call in _WITH_A_PATH:
                with pytest.raises(PathEscapeError):
                    call(store, path)
        assert paths(store) == []
