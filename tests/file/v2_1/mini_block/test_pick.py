"""Single rows of pages: by compiled loops and without, mapped and over a network, whole and damaged."""

import contextlib
import functools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lance_ops.errors import LanceOpsError
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter
from lance_ops.storage import open_store
from tests.support.arrays import random_array
from tests.support.counting_store import CountingStore

ROWS = 8_000
RNG = np.random.default_rng(0)
TYPES = {
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "bool": pa.bool_(),
    "float64": pa.float64(),
    "decimal": pa.decimal128(20, 3),
    "string": pa.string(),
    "large_binary": pa.large_binary(),
    "vector": pa.list_(pa.float32(), 4),
    "list": pa.list_(pa.int32()),
    "list of strings": pa.list_(pa.string()),
    "list of lists": pa.list_(pa.list_(pa.int16())),
    "list of structs": pa.list_(pa.struct([("a", pa.int64()), ("b", pa.string())])),
    "list of vectors": pa.list_(pa.list_(pa.float32(), 4)),
}


def numbers(limit: int) -> pa.Array:
    return pa.array(RNG.integers(0, limit, ROWS))


@functools.cache
def table() -> pa.Table:
    columns = {}
    for name, data_type in TYPES.items():
        columns[name] = random_array(data_type, ROWS, nulls=0.0, seed=1)
        columns[f"nullable {name}"] = random_array(data_type, ROWS, nulls=0.3, seed=2)
    columns["packed"] = numbers(1000)
    columns["few strings"] = numbers(5).cast(pa.string())
    columns["runs"] = pa.array(np.repeat(np.arange(ROWS // 100), 100))
    columns["long rows"] = pa.array([list(range(n % 7 * 300)) for n in range(ROWS // 40)]).take(
        pa.array(np.arange(ROWS) % (ROWS // 40))
    )
    columns["texts"] = pa.array([f"{n} " * 100 for n in range(ROWS)])
    return pa.table(columns)


SELECTIONS = {
    "one": [4_321],
    "ends": [0, ROWS - 1],
    "few": sorted(RNG.choice(ROWS, 40, replace=False).tolist()),
    "many": sorted(RNG.choice(ROWS, 700, replace=False).tolist()),
    "every ninth": list(range(4, ROWS, 9)),
    "most": sorted(RNG.choice(ROWS, ROWS * 2 // 3, replace=False).tolist()),
    "neighbours": [*range(1000, 1060), *range(5000, 5020)],
}


@pytest.fixture(scope="module", params=["2.1", "2.2"])
def folder(request, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("picking")
    schema = Schema.from_arrow(table().schema)
    with FileWriter(open_store(path), "a.lance", schema, version=request.param) as writer:
        writer.write(table())
    return path


@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.parametrize("name", SELECTIONS)
def test_rows_of_every_kind(folder: Path, name: str, mapped: bool) -> None:
    store = open_store(folder) if mapped else CountingStore(open_store(folder))
    reader = FileReader.open(store, "a.lance")
    rows = SELECTIONS[name]
    # The second time, where the rows are is known.
    for _ in range(2):
        found = reader.take(rows)
        found.validate(full=True)
        assert found.equals(table().take(rows))


def test_damaged_chunks_are_read_or_refused(folder: Path, tmp_path: Path) -> None:
    data = (folder / "a.lance").read_bytes()
    pages = FileReader.open(open_store(folder), "a.lance")
    rng = np.random.default_rng(7)
    rows = np.array(SELECTIONS["few"])
    store = open_store(tmp_path)
    names = table().column_names
    for number in range(60):
        column = pages.column_metadata(int(rng.integers(0, pages.num_columns)))
        page = column.pages[int(rng.integers(0, len(column.pages)))]
        if not page.buffers:
            continue
        position, size = page.buffers[int(rng.integers(0, len(page.buffers)))]
        damaged = bytearray(data)
        for _ in range(int(rng.integers(1, 20))):
            damaged[position + int(rng.integers(0, max(size, 1)))] = int(rng.integers(0, 256))
        (tmp_path / "b.lance").write_bytes(damaged)
        reader = FileReader.open(store, "b.lance")
        chosen = reader.schema.project([names[number % len(names)]]) if number % 2 else reader.schema
        with contextlib.suppress(LanceOpsError):
            found = reader.take(rows, chosen)
            assert found.num_rows == len(rows)
            found.validate()
