"""Small pages that are alike are decoded together, and are what they are one by one."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lance_ops.errors import LanceOpsError
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.v2_1 import read_batch
from lance_ops.file.v2_1.mini_block import read_whole
from lance_ops.file.writer import FileWriter
from lance_ops.storage import open_store
from tests.support.arrays import random_array
from tests.support.counting_store import CountingStore

ROWS = 4_000
STRUCT = pa.struct([("a", pa.int64()), ("b", pa.float64()), ("c", pa.string())])
TYPES = {
    "numbers": pa.int32(),
    "flags": pa.bool_(),
    "strings": pa.string(),
    "vectors": pa.list_(pa.float32(), 2),
    "structs": STRUCT,
    "lists": pa.list_(pa.int32()),
    "lists of lists": pa.list_(pa.list_(pa.int16())),
    "lists of structs": pa.list_(STRUCT),
    "lists of vectors": pa.list_(pa.list_(pa.int8(), 3)),
}


def make_table() -> pa.Table:
    columns = {}
    for name, data_type in TYPES.items():
        columns[name] = random_array(data_type, ROWS, nulls=0.0, seed=1)
        columns[f"nullable {name}"] = random_array(data_type, ROWS, nulls=0.3, seed=2)
    numbers = np.arange(ROWS)
    # Dictionaries differ from page to page.
    words = pa.array([f"{number // 700} and {number % 3}" for number in numbers.tolist()])
    columns["few strings"] = words
    columns["coded strings"] = words.dictionary_encode()
    columns["lists of few strings"] = pa.ListArray.from_arrays(
        pa.array(np.append(numbers // 2 * 2, ROWS).astype(np.int32)), words
    )
    texts = [f"the {number % 97}th of {number // 700 * 12345} texts" for number in numbers.tolist()]
    columns["compressed strings"] = pa.array(texts)
    columns["nullable compressed strings"] = pa.array(texts, mask=numbers % 5 == 0)
    columns["null or empty"] = pa.array([None, []] * (ROWS // 2), pa.list_(pa.int32()))
    table = pa.table(columns)
    fields = [
        field.with_metadata({"lance-encoding:compression": "fsst"}) if "compressed" in field.name else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))


TABLE = make_table()
DAMAGED = [
    "nullable numbers",
    "strings",
    "nullable lists of structs",
    "few strings",
    "lists of few strings",
    "compressed strings",
]
SYMBOL_TABLE = b"TSSF"


@contextlib.contextmanager
def one_by_one() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_batch, "_SMALL_BYTES", -1)
        yield


@pytest.fixture(scope="module", params=["2.1", "2.2"])
def folder(request, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("pages")
    schema = Schema.from_arrow(TABLE.schema)
    store = open_store(path)
    with FileWriter(store, "a.lance", schema, version=request.param, page_bytes=6_000) as writer:
        writer.write(TABLE)
    return path


@pytest.mark.parametrize("mapped", [True, False])
def test_tables_of_many_pages(folder: Path, mapped: bool) -> None:
    store = open_store(folder) if mapped else CountingStore(open_store(folder))
    reader = FileReader.open(store, "a.lance")
    for start, stop in ((0, ROWS), (1, ROWS - 1), (700, 2100), (5, 6)):
        found = reader.read_table(start=start, stop=stop)
        found.validate(full=True)
        assert found.equals(TABLE.slice(start, stop - start))


def test_alike_pages_become_one_piece(folder: Path) -> None:
    reader = FileReader.open(open_store(folder), "a.lance")
    together = reader.read_table()
    with one_by_one():
        apart = reader.read_table()
    assert together.equals(apart)
    assert (folder / "a.lance").read_bytes().count(SYMBOL_TABLE) >= 10
    for name in ("numbers", "nullable lists", "lists of few strings", "nullable compressed strings"):
        assert apart[name].num_chunks > 1
        assert together[name].num_chunks < apart[name].num_chunks, name


@pytest.mark.parametrize("limit", ["_PAGES_AT_ONCE", "_VALUES_AT_ONCE", "_BYTES_AT_ONCE"])
def test_no_more_pages_than_memory_allows(folder: Path, limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_batch, limit, 2)
    assert FileReader.open(open_store(folder), "a.lance").read_table().equals(TABLE)


def test_long_entries_are_looked_up_page_by_page(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_whole, "_ENTRY_BYTES_AT_ONCE", 100)
    assert FileReader.open(open_store(folder), "a.lance").read_table().equals(TABLE)


@pytest.mark.parametrize("seed", range(8))
def test_damage_is_found_or_changes_the_same(folder: Path, tmp_path: Path, seed: int) -> None:
    data = bytearray((folder / "a.lance").read_bytes())
    random = np.random.default_rng(seed)
    for position in random.integers(0, len(data) * 3 // 4, 5 + seed).tolist():
        data[position] = int(random.integers(0, 256))
    (tmp_path / "a.lance").write_bytes(data)
    answers = []
    for how in (contextlib.nullcontext(), one_by_one()):
        with how:
            answers.append(read_columns(tmp_path))
    for name, together, apart in zip(DAMAGED, *answers, strict=True):
        # Who reads whole pages needs no index of their rows, and does not look whether it is damaged.
        undamaged = apart is None and together == [repr(value) for value in TABLE[name].to_pylist()]
        assert together == apart or undamaged, name


def read_columns(folder: Path) -> list[list[object] | None]:
    """The values of each column, None of those that cannot be read."""
    reader = FileReader.open(open_store(folder), "a.lance")
    found: list[list[object] | None] = []
    for name in DAMAGED:
        field = reader.schema.fields[TABLE.column_names.index(name)]
        try:
            column = reader.read_table(Schema((field,))).column(0)
            column.validate(full=True)
            found.append([repr(value) for value in column.to_pylist()])
        except LanceOpsError:
            found.append(None)
    return found
