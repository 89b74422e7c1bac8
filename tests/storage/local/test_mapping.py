"""Whole files in the address space."""

import gc
import os
from pathlib import Path

import pytest

from lance_ops.errors import FileMissingError
from lance_ops.storage import open_store
from lance_ops.storage.local.mapping import map_joined, map_whole, page_places
from lance_ops.storage.store import maps_files


def test_a_mapped_file_has_its_bytes_and_outlives_its_name(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(bytes(range(256)) * 40)
    gc.collect()
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else None
    part = map_whole(str(file)).slice(256, 512)
    file.unlink()
    gc.collect()
    assert part.to_pybytes() == bytes(range(256)) * 2
    if before is not None:
        # Connections of other tests may close meanwhile.
        assert len(os.listdir("/proc/self/fd")) <= before


def test_what_cannot_be_mapped_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for name in ("missing", "empty"):
        with pytest.raises(OSError, match=name):
            map_whole(str(tmp_path / name))


def test_files_follow_each_other_in_one_buffer(tmp_path: Path) -> None:
    contents = [os.urandom(size) for size in (1, 4096, 70_000, 4097)]
    files = [tmp_path / str(number) for number in range(4)]
    for file, content in zip(files, contents, strict=True):
        file.write_bytes(content)
    sizes = [len(content) for content in contents]
    mapped = map_joined([str(file) for file in files], sizes)
    assert mapped is not None
    for file in files:
        file.unlink()
    gc.collect()
    for place, content in zip(page_places(sizes), contents, strict=True):
        assert mapped.slice(place, len(content)).to_pybytes() == content


def test_a_file_of_another_size_is_not_mapped_with_others(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"x" * 100)
    store = open_store(tmp_path)
    assert maps_files(store)
    assert store.map_files([("a", 100), ("b", 100)]) is not None
    assert store.map_files([("a", 100), ("b", 101)]) is None
    with pytest.raises(FileMissingError, match="gone"):
        store.map_files([("a", 100), ("gone", 100)])
