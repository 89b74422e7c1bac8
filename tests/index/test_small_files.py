"""What is kept of small index files is found by their bytes alone."""

import pyarrow as pa
import pytest

from lance_ops.cache import cache_stats
from lance_ops.errors import CorruptFileError
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter
from lance_ops.index.small_files import read_small
from lance_ops.storage import Store, open_store
from tests.support.caches import budget


@pytest.fixture
def store(tmp_path) -> Store:
    return open_store(str(tmp_path))


def write(store: Store, name: str, rows: pa.Table) -> None:
    with FileWriter(store, name, Schema.from_arrow(rows.schema), version="2.2") as writer:
        writer.write(rows)
        writer.finish()


def test_the_same_bytes_are_decoded_once_and_others_anew(store):
    rows = pa.table({"x": list(range(100)), "y": [f"value {number}" for number in range(100)]})
    write(store, "one.lance", rows)
    store.copy("one.lance", "two.lance")
    first = read_small(FileReader.open(store, "one.lance"))
    assert first.equals(rows)
    assert read_small(FileReader.open(store, "two.lance")) is first
    store.delete("one.lance")
    write(store, "one.lance", rows.slice(1))
    assert read_small(FileReader.open(store, "one.lance")).equals(rows.slice(1))


def test_a_file_that_was_damaged_since_is_not_taken_for_what_it_was(store):
    write(store, "t.lance", pa.table({"x": ["a", "b", "c"] * 50}))
    read_small(FileReader.open(store, "t.lance"))
    data = bytearray(store.read("t.lance").to_pybytes())
    data[: len(data) // 3] = bytes(len(data) // 3)
    store.put("t.lance", bytes(data))
    for _ in range(2):
        try:
            found = read_small(FileReader.open(store, "t.lance"))
        except CorruptFileError:
            continue
        assert found["x"].to_pylist() != ["a", "b", "c"] * 50


def test_large_files_and_more_than_fits_are_not_kept(store):
    write(store, "large.lance", pa.table({"x": list(range(0, 1 << 40, 1 << 22))}))
    reader = FileReader.open(store, "large.lance")
    assert reader.whole is None
    before = used()
    assert read_small(reader).num_rows == 1 << 18
    assert used() == before
    with budget(0):
        assert used() == (0, 0)
    with budget(20_000):
        for number in range(20):
            write(store, f"{number}.lance", pa.table({"x": [number] * 300}))
            read_small(FileReader.open(store, f"{number}.lance"))
        entries, size = used()
        assert 0 < entries < 20
        assert size <= 20_000


def used() -> tuple[int, int]:
    use = cache_stats().kinds["small index files"]
    return use.entries, use.size_bytes
