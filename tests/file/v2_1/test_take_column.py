"""Single rows of many small pages: picked, they are what decoding everything and then choosing gives."""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lance_ops.errors import LanceOpsError
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.v2_1 import take_column
from lance_ops.file.writer import FileWriter
from lance_ops.storage import open_store
from tests.file.matrix.cells import assert_same
from tests.support.arrays import random_array
from tests.support.counting_store import CountingStore
from tests.support.random_tables import random_tables

ROWS = 3_000
TYPES = {
    "numbers": pa.int32(),
    "flags": pa.bool_(),
    "vectors": pa.list_(pa.float32(), 2),
    "lists": pa.list_(pa.int32()),
    "lists of lists": pa.list_(pa.list_(pa.int16())),
    "lists of structs": pa.list_(pa.struct([("a", pa.int64()), ("b", pa.string())])),
    "structs of lists": pa.struct([("a", pa.list_(pa.int8())), ("b", pa.bool_())]),
}
NUMBERS = np.arange(ROWS)


def make_table() -> pa.Table:
    columns = {}
    for name, data_type in TYPES.items():
        columns[name] = random_array(data_type, ROWS, nulls=0.0, seed=1)
        columns[f"nullable {name}"] = random_array(data_type, ROWS, nulls=0.3, seed=2)
    # Dictionaries differ from page to page; levels and values come in runs.
    words = pa.array([f"{number // 700} and {number % 3}" for number in NUMBERS.tolist()])
    columns["few strings"] = words
    columns["lists of few strings"] = pa.ListArray.from_arrays(
        pa.array(np.append(NUMBERS // 2 * 2, ROWS).astype(np.int32)), words
    )
    columns["runs"] = pa.array(NUMBERS // 90)
    columns["runs of nulls"] = pa.array(NUMBERS, mask=NUMBERS % 1000 > 3)
    columns["long lists"] = pa.array([list(range(number % 3 * 900)) for number in range(60)]).take(
        pa.array(NUMBERS % 60)
    )
    # More levels than what single rows are given room for.
    columns["lists, some of them long"] = pa.array(
        [list(range(120 if number % 10 == 0 else 1)) for number in NUMBERS.tolist()]
    )
    columns["null or empty"] = pa.array([None, []] * (ROWS // 2), pa.list_(pa.int32()))
    columns["all null"] = pa.nulls(ROWS, pa.list_(pa.list_(pa.int8())))
    return pa.table(columns)


TABLE = make_table()
DAMAGED = ["nullable lists of structs", "lists of few strings", "runs", "runs of nulls", "null or empty"]


def write(folder: Path, table: pa.Table, version: str, page_bytes: int) -> None:
    schema = Schema.from_arrow(table.schema)
    with FileWriter(open_store(folder), "a.lance", schema, version=version, page_bytes=page_bytes) as writer:
        writer.write(table)


@pytest.fixture(scope="module", params=["2.1", "2.2"])
def folder(request, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("runs")
    write(path, TABLE, request.param, 4_000)
    return path


@pytest.mark.parametrize("mapped", [True, False])
def test_rows_of_many_pages(folder: Path, mapped: bool) -> None:
    store = open_store(folder) if mapped else CountingStore(open_store(folder))
    rng = np.random.default_rng(5)
    reader = FileReader.open(store, "a.lance")
    counts = (30, 2, 400, ROWS - 1)
    selections = [np.sort(rng.choice(ROWS, count, replace=False)) for count in counts]
    for rows in (*selections, NUMBERS[::10]):
        found = reader.take(rows)
        found.validate(full=True)
        assert found.equals(TABLE.take(rows))


def test_heads_are_fetched_once_and_only_chunks_with_rows(folder: Path) -> None:
    store = CountingStore(open_store(folder))
    reader = FileReader.open(store, "a.lance", size=(folder / "a.lance").stat().st_size)
    lists = reader.schema.project(["nullable lists"])
    rows = np.array([5, 1_000, 1_001, 2_900])
    expected = TABLE.select(["nullable lists"]).take(rows)
    assert reader.take(rows, lists).equals(expected)
    store.reset()
    assert reader.take(rows[1:], lists).equals(expected.slice(1))
    assert store.num_ranges <= len(rows[1:])
    assert store.num_bytes < 20_000


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), version=st.sampled_from(["2.1", "2.2"]), page_bytes=st.sampled_from([100, 400, 2_000]))
def test_picking_is_decoding_and_choosing(data: st.DataObject, version: str, page_bytes: int) -> None:
    table = data.draw(random_tables(version))
    with tempfile.TemporaryDirectory() as name:
        try:
            write(Path(name), table, version, page_bytes)
        except LanceOpsError:
            return
        everything = FileReader.open(open_store(name), "a.lance").read_table()
        assert_same(everything, table)
        numbers = st.sets(st.integers(0, table.num_rows - 1), min_size=1, max_size=40)
        rows = np.array(sorted(data.draw(numbers)) if table.num_rows else [], dtype=np.int64)
        reader = FileReader.open(open_store(name), "a.lance")
        for wanted in (rows, rows[::2], rows):
            assert_same(reader.take(wanted), everything.take(wanted))


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_damaged_pages_are_read_or_refused(tmp_path: Path, version: str) -> None:
    write(tmp_path, TABLE.select(DAMAGED), version, 4_000)
    data = (tmp_path / "a.lance").read_bytes()
    whole = FileReader.open(open_store(tmp_path), "a.lance")
    rng = np.random.default_rng(7)
    rows = np.sort(rng.choice(ROWS, 100, replace=False))
    store = open_store(tmp_path)
    refused = 0
    for number in range(40):
        column = whole.column_metadata(number % whole.num_columns)
        page = column.pages[int(rng.integers(0, len(column.pages)))]
        sized = [buffer for buffer in page.buffers if buffer[1]]
        if not sized:
            continue
        position, size = sized[int(rng.integers(0, len(sized)))]
        damaged = bytearray(data)
        for _ in range(int(rng.integers(1, 4))):
            damaged[position + int(rng.integers(0, size))] = int(rng.integers(0, 256))
        (tmp_path / "b.lance").write_bytes(damaged)
        try:
            reader = FileReader.open(store, "b.lance")
            found = reader.take(rows)
        except LanceOpsError:
            refused += 1
        else:
            assert found.num_rows == len(rows)
            found.validate()
    assert refused


@given(seed=st.integers(0, 1 << 30))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rows_are_the_same_whatever_was_taken_before(folder: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    reader = FileReader.open(open_store(folder), "a.lance")
    for _ in range(4):
        # Pages that were not looked at before come to those that were.
        start = int(rng.integers(0, ROWS - 40))
        few = np.arange(start, start + 40)[:: int(rng.integers(2, 9))]
        rows = np.unique(np.concatenate([few, rng.choice(ROWS, int(rng.integers(1, 5)))]))
        assert_same(reader.take(rows), TABLE.take(pa.array(rows)))


def test_pages_that_are_alike_have_one_head_however_they_were_found(folder: Path) -> None:
    reader = FileReader.open(open_store(folder), "a.lance")
    schema = Schema(tuple(field for field in reader.schema.fields if field.name == "numbers"))
    column = reader.column(reader.layout.assign_columns(reader.schema)[schema.fields[0].id])
    assert len(column.starts) > 2
    reader.take(np.array(column.starts[:2]), schema)
    reader.take(np.array(column.starts[1:]), schema)
    (looked,) = [found for _, found in reader.heads.items() if isinstance(found, take_column._Looked)]
    (group,) = looked.groups
    assert group.numbers.tolist() == list(range(len(column.starts)))


@pytest.mark.parametrize("nulls", [0.0, 0.2])
@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_wide_values_of_many_pages(tmp_path: Path, version: str, nulls: float) -> None:
    table = pa.table({"wide": random_array(pa.list_(pa.float32(), 200), 300, nulls=nulls, seed=4)})
    write(tmp_path, table, version, 20_000)
    reader = FileReader.open(open_store(tmp_path), "a.lance")
    rng = np.random.default_rng(3)
    for count in (2, 30, 299):
        rows = np.sort(rng.choice(300, count, replace=False))
        assert_same(reader.take(rows), table.take(pa.array(rows)))
