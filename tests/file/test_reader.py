import tracemalloc
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from lance_ops.errors import (
    CorruptFileError,
    FileMissingError,
    InvalidArgumentError,
)
from lance_ops.file.io.row_windows import plan_windows
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter
from lance_ops.storage import Store, open_store
from tests.support.arrays import random_array
from tests.support.counting_store import CountingStore

POINT = pa.struct([("x", pa.int32()), ("y", pa.string())])
TABLE = pa.table(
    {
        "a": random_array(pa.int64(), 1000, seed=1),
        "s": random_array(POINT, 1000, seed=2),
        "l": random_array(pa.list_(POINT), 1000, seed=3),
        "t": random_array(pa.string(), 1000, seed=4),
    }
)


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    store = open_store("memory://reader")
    schema = Schema.from_arrow(TABLE.schema)
    with FileWriter(store, "a.lance", schema, version="2.0", page_bytes=1000) as writer:
        writer.write(TABLE)
        assert writer.add_global_buffer(b"extra") == 1
    return store


def test_projections_read_only_their_columns(store: Store) -> None:
    reader = FileReader.open(store, "a.lance")
    for names in (["t"], ["t", "a"], ["s.y"], ["l.item.x", "s.x"]):
        schema = reader.schema.project(names)
        found = reader.read_table(schema)
        assert found.schema.equals(schema.to_arrow())
        for name in names:
            path = name.split(".")
            expected = TABLE[path[0]].to_pylist()
            if path[0] == "s":
                expected = [{path[1]: row[path[1]]} for row in expected]
            if path[0] == "l":
                expected = [row and [{path[2]: item[path[2]]} for item in row] for row in expected]
            assert found[path[0]].to_pylist() == expected


def test_fields_without_a_column_are_null(store: Store) -> None:
    reader = FileReader.open(store, "a.lance")
    arrow = pa.schema([("a", pa.int64()), ("new", pa.list_(pa.string())), ("s", POINT.field("x").type)])
    ids = Schema.from_arrow(arrow, first_id=100)
    struct = Schema.from_arrow(
        pa.schema([("s", pa.struct([("x", pa.int32()), ("z", pa.bool_())]))]), first_id=200
    )
    schema = Schema((ids.field("a"), ids.field("new"), struct.field("s")))
    # The mapping decides, not the names: 200 and 201 are the struct and its member x, 202 is not in this
    # file.
    found = reader.read_table(schema, {100: 0, 200: 1, 201: 2, 999: -1}, start=10, stop=20)
    expected = TABLE.slice(10, 10)
    assert found["a"].equals(expected["a"])
    assert found["new"].null_count == 10
    assert found["s"].to_pylist() == [{"x": row["x"], "z": None} for row in expected["s"].to_pylist()]


def test_negative_columns_count_as_absent(store: Store) -> None:
    reader = FileReader.open(store, "a.lance")
    assert reader.read_table(reader.schema.project(["a"]), {0: -1})["a"].null_count == 1000


def test_columns_that_the_file_does_not_have_are_corruption(store: Store) -> None:
    reader = FileReader.open(store, "a.lance")
    with pytest.raises(CorruptFileError, match="column 77 does not exist"):
        reader.read_table(reader.schema.project(["a"]), {0: 77})
    with pytest.raises(CorruptFileError, match=r"a\.lance"):
        reader.read_table(reader.schema.project(["t"]), {8: 0})


@pytest.mark.parametrize(("start", "stop"), [(-1, 5), (5, 4), (0, 1001), (1001, None)])
def test_rows_outside_of_the_file_are_refused(store: Store, start: int, stop: int | None) -> None:
    reader = FileReader.open(store, "a.lance")
    with pytest.raises(InvalidArgumentError, match="rows"):
        reader.read_table(start=start, stop=stop)


@pytest.mark.parametrize("rows", [[3, 2], [1, 1], [-1], [1000]])
def test_take_wants_ascending_rows_of_the_file(store: Store, rows: list[int]) -> None:
    with pytest.raises(InvalidArgumentError, match="row"):
        FileReader.open(store, "a.lance").take(rows)


def test_global_buffers_are_read(store: Store) -> None:
    reader = FileReader.open(store, "a.lance")
    assert reader.num_global_buffers == 2
    assert reader.global_buffer(1).to_pybytes() == b"extra"
    for number in (-1, 2):
        with pytest.raises(InvalidArgumentError, match="global buffer"):
            reader.global_buffer(number)


def test_a_missing_file_is_named(store: Store) -> None:
    with pytest.raises(FileMissingError, match=r"b\.lance"):
        FileReader.open(store, "b.lance")


@pytest.mark.parametrize("size", [0, 39, 1000, 10**9])
def test_a_wrong_size_is_corruption(store: Store, size: int) -> None:
    with pytest.raises(CorruptFileError):
        FileReader.open(store, "a.lance", size=size)


def test_all_columns_share_the_rounds_of_requests(store: Store) -> None:
    with FileWriter(store, "large.lance", Schema.from_arrow(TABLE.schema), version="2.0") as writer:
        for _ in range(30):
            writer.write(TABLE)
    counting = CountingStore(store)
    reader = FileReader.open(counting, "large.lance")
    # The end of the file, which describes the rest.
    assert len(counting.requests) == 1
    counting.reset()
    assert reader.read_table().num_rows == 30_000
    # Offsets first, then bytes and items, then the bytes of the items.
    assert len(counting.requests) <= 3


def test_a_row_range_reads_only_its_bytes(store: Store) -> None:
    table = pa.table({"v": random_array(pa.list_(pa.float32(), 64), 10_000, nulls=0.1)})
    with FileWriter(store, "wide.lance", Schema.from_arrow(table.schema)) as writer:
        writer.write(table)
    counting = CountingStore(store)
    reader = FileReader.open(counting, "wide.lance")
    counting.reset()
    assert reader.take([7, 5000]).equals(table.take([7, 5000]))
    # Of 2.6 MB: bits that lie close together share a request.
    assert counting.num_bytes < 50_000


def test_values_are_views_of_what_was_read() -> None:
    store = open_store("memory://views")
    table = pa.table({"v": pa.array(np.arange(100_000))})
    with FileWriter(store, "a.lance", Schema.from_arrow(table.schema), version="2.0") as writer:
        writer.write(table)
    reader = FileReader.open(store, "a.lance")
    pool = pa.total_allocated_bytes()
    tracemalloc.start()
    found = reader.read_table()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.equals(table)
    assert pa.total_allocated_bytes() - pool + peak < 2 * 800_000


def test_batches_come_in_bounded_windows() -> None:
    assert list(plan_windows(5, 105, 10, 35)) == [(5, 35), (35, 65), (65, 95), (95, 105)]
    assert list(plan_windows(0, 5, 10, 2)) == [(0, 2), (2, 4), (4, 5)]
    assert list(plan_windows(0, 2, 10, 0)) == [(0, 1), (1, 2)]
    assert list(plan_windows(3, 3, 10, 100)) == []


@pytest.mark.slow
def test_windows_follow_the_size_in_memory() -> None:
    store = open_store("memory://windows")
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    few = pa.field("f", pa.string())
    table = pa.table([[bytes(1 << 20)] * 100, ["x" * (1 << 20)] * 100], schema=pa.schema([blob, few]))
    with FileWriter(store, "a.lance", Schema.from_arrow(table.schema), version="2.1") as writer:
        writer.write(table)
    reader = FileReader.open(CountingStore(store), "a.lance")
    for name in ("b", "f"):
        batches = list(reader.iter_batches(reader.schema.project([name])))
        assert sum(batch.num_rows for batch in batches) == 100
        assert max(batch.nbytes for batch in batches) < 40 << 20


@pytest.mark.peer
@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_the_levels_of_lists_without_items_are_not_taken_for_large_values(version: str) -> None:
    rows = 400_000
    lists = pa.array([None, []] * (rows // 2), pa.list_(pa.int32()))
    store = open_store("memory://empty-lists")
    schema = Schema.from_arrow(pa.schema([("l", lists.type)]))
    with FileWriter(store, "a.lance", schema, version=version) as writer:
        writer.write(pa.table({"l": lists}))
    reader = FileReader.open(store, "a.lance")
    assert reader.window_rows() >= rows
    assert reader.read_table()["l"].combine_chunks().equals(lists)
    assert reader.read_table(start=7, stop=1000)["l"].combine_chunks().equals(lists[7:1000])
