"""Files that are read as one give what they give one by one, whichever rows are asked for."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_ops.errors import LanceOpsError
from lance_ops.file.joined_files import join_alike, read_joined
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter
from lance_ops.storage import Store, open_store
from tests.support.arrays import random_array
from tests.support.counting_store import CountingStore

SIZES = [3_000, 1, 2_000, 3_000]
STRUCT = pa.struct([("a", pa.int64()), ("b", pa.string())])
TYPES = {
    "number": pa.int32(),
    "other number": pa.int32(),
    "third number": pa.int32(),
    "fourth number": pa.int32(),
    "nullable": pa.int64(),
    "flag": pa.bool_(),
    "vector": pa.list_(pa.float32(), 40),
    "struct": STRUCT,
    "list": pa.list_(pa.int32()),
    "lists of structs": pa.list_(STRUCT),
}


def make_table(rows: int, seed: int) -> pa.Table:
    columns = {
        name: random_array(kind, rows, nulls=0.2 if number % 2 else 0.0, seed=seed + number)
        for number, (name, kind) in enumerate(TYPES.items())
    }
    words = [f"the {number % 97}th of {seed} texts, {number}" for number in range(rows)]
    columns["text"] = pa.array(words)
    columns["few"] = pa.array([f"{number % 3} of {seed}" for number in range(rows)])
    return pa.table(columns)


TABLES = [make_table(rows, seed) for seed, rows in enumerate(SIZES)]
WHOLE = pa.concat_tables(TABLES)


@pytest.fixture(scope="module", params=["2.0", "2.1", "2.2"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("joined")
    for number, table in enumerate(TABLES):
        schema = Schema.from_arrow(table.schema)
        with FileWriter(open_store(path), f"{number}", schema, version=request.param) as writer:
            writer.write(table)
    return path


def open_all(store: Store) -> list[FileReader]:
    return [FileReader.open(store, f"{number}") for number in range(len(SIZES))]


@pytest.mark.parametrize("is_mapped", [True, False])
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_rows_and_columns_are_those_of_the_files(folder: Path, is_mapped: bool, data: st.DataObject) -> None:
    store = open_store(folder)
    readers = open_all(store if is_mapped else CountingStore(store))
    names = data.draw(st.lists(st.sampled_from(WHOLE.column_names), unique=True, min_size=1))
    schema = readers[0].schema.project(names)
    rows = None
    if data.draw(st.booleans()):
        count = data.draw(st.sampled_from([1, 2, 30, 500, 7_000]))
        seed = data.draw(st.integers(0, 99))
        rows = np.sort(np.random.default_rng(seed).choice(len(WHOLE), count, replace=False))
    found = read_joined(join_alike(readers), schema, None, rows)
    found.validate(full=True)
    # A projection keeps the order of the schema.
    expected = WHOLE.select(found.column_names)
    assert found.equals(expected if rows is None else expected.take(pa.array(rows)))


@pytest.mark.parametrize("seed", range(3))
def test_damage_is_named_or_changes_the_same(folder: Path, tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    for number in range(len(SIZES)):
        data = bytearray((folder / f"{number}").read_bytes())
        if number == 2:
            for position in random.integers(0, len(data) * 3 // 4, 20).tolist():
                data[position] = int(random.integers(0, 256))
        (tmp_path / f"{number}").write_bytes(data)
    store = open_store(tmp_path)
    rows = np.arange(0, len(WHOLE), 100)
    for field in open_all(store)[0].schema.fields:
        schema = Schema((field,))
        for wanted in (None, rows):
            together = _read(store, schema, wanted, joined=True)
            alone = _read(store, schema, wanted, joined=False)
            if isinstance(together, str):
                assert together == "2" or field.name.startswith("struct"), field.name
            if not isinstance(together, str) and not isinstance(alone, str):
                assert together == alone, field.name


def _read(store: Store, schema: Schema, rows: np.ndarray | None, *, joined: bool) -> list[str] | str:
    """The values; the file that an error names."""
    readers = open_all(store)
    try:
        if joined:
            table = read_joined(join_alike(readers), schema, None, rows)
        else:
            table = pa.concat_tables([reader.read_table(schema) for reader in readers])
            table = table if rows is None else table.take(pa.array(rows))
        table.validate(full=True)
        return [repr(value) for value in table.column(0).to_pylist()]
    except (LanceOpsError, pa.ArrowInvalid, UnicodeDecodeError) as error:
        return str(getattr(error, "path", ""))
