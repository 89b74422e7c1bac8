"""Damaged files of 2.1 and 2.2 end in a typed error or in a valid table, like those of 2.0."""

import resource
from collections.abc import Iterator
from pathlib import Path

import lance.file
import numpy as np
import pyarrow as pa
import pytest

from lance_ops.errors import CorruptFileError, LanceOpsError
from lance_ops.file.container import FOOTER_SIZE, decode_footer
from lance_ops.storage import Store, open_store
from tests.file.test_corruption import read_all
from tests.support.arrays import random_array

pytestmark = pytest.mark.peer

VERSIONS = ["2.1", "2.2"]
SMALL = pa.struct([("a", pa.int32()), ("b", pa.string())])


def small_table(version: str) -> pa.Table:
    """A few rows in each layout, and in most compressions."""
    rows = 64
    rng = np.random.default_rng(5)
    texts = [f"text {n * 7919} of many " * 6 for n in range(rows)]
    packed = pa.StructArray.from_arrays(
        [pa.array(range(rows), pa.int32()), pa.array([str(n) for n in range(rows)])], ["a", "b"]
    )
    columns: list[tuple[str, pa.Array, dict[str, str]]] = [
        ("i", random_array(pa.int32(), rows), {}),
        ("few", pa.array(rng.integers(0, 9, rows)), {}),
        ("runs", pa.array(np.repeat(rng.integers(0, 2**60, 4), 16)), {}),
        ("one", pa.array([7, None] * 32), {}),
        ("s", random_array(pa.string(), rows, seed=3), {}),
        ("low", pa.array(["x", "y", None, "z"] * 16), {}),
        ("d", random_array(pa.dictionary(pa.int8(), pa.string()), rows), {}),
        ("text", pa.array(texts), {}),
        ("zstd", pa.array(texts), {"lance-encoding:compression": "zstd"}),
        ("f", pa.array(rng.random(rows)), {"lance-encoding:compression": "lz4", "lance-encoding:bss": "on"}),
        ("v", random_array(pa.list_(pa.float32(), 3), rows), {}),
        (
            "w",
            random_array(pa.list_(pa.float32(), 80), rows),
            {"lance-encoding:structural-encoding": "fullzip"},
        ),
        ("l", random_array(pa.list_(pa.struct([("x", pa.string()), ("y", pa.list_(pa.int8()))])), rows), {}),
        ("b", random_array(pa.bool_(), rows), {}),
        ("blob", random_array(pa.large_binary(), rows), {"lance-encoding:blob": "true"}),
    ]
    if version == "2.2":
        columns.append(("p", packed, {"lance-encoding:packed": "true"}))
    schema = pa.schema([pa.field(name, array.type, metadata=options) for name, array, options in columns])
    return pa.Table.from_arrays([array for _, array, _ in columns], schema=schema)


@pytest.fixture(scope="module")
def store() -> Store:
    return open_store("memory://corruption-2-1")


@pytest.fixture(scope="module", params=VERSIONS)
def good(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path: Path = tmp_path_factory.mktemp("good") / "good.lance"
    table = small_table(request.param)
    with lance.file.LanceFileWriter(str(path), table.schema, version=request.param) as writer:
        writer.write_batch(table)
    return path.read_bytes()


@pytest.fixture(autouse=True)
def bounded_memory() -> Iterator[None]:
    # Whatever a damaged file claims, reading it must not take memory for it.
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500 << 10


def metadata_start(data: bytes) -> int:
    return decode_footer(data[-FOOTER_SIZE:], len(data), "good").column_metadata_start


def test_the_undamaged_file_is_read(store: Store, good: bytes) -> None:
    assert isinstance(read_all(store, good), pa.Table)


def test_every_truncation_is_a_typed_error(store: Store, good: bytes) -> None:
    for length in range(len(good)):
        assert isinstance(read_all(store, good[:length]), CorruptFileError), length


@pytest.mark.parametrize("seed", range(3))
def test_mutations_of_the_metadata_end_in_a_typed_error_or_a_valid_table(
    store: Store, good: bytes, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    start = metadata_start(good)
    outcomes = {"error": 0, "table": 0}
    for _ in range(250):
        damaged = bytearray(good)
        damaged[int(rng.integers(start, len(good)))] = int(rng.integers(0, 256))
        result = read_all(store, bytes(damaged))
        outcomes["table" if isinstance(result, pa.Table) else "error"] += 1
    assert min(outcomes.values()) > 0


@pytest.mark.parametrize("seed", range(4))
def test_mutations_of_the_data_end_in_a_typed_error_or_a_valid_table(
    store: Store, good: bytes, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    end = metadata_start(good)
    outcomes = {"error": 0, "table": 0}
    for _ in range(250):
        damaged = bytearray(good)
        for _ in range(1 + seed):
            damaged[int(rng.integers(0, end))] = int(rng.choice([0, 1, 127, 128, 255, rng.integers(0, 256)]))
        result = read_all(store, bytes(damaged))
        assert isinstance(result, pa.Table | LanceOpsError)
        outcomes["table" if isinstance(result, pa.Table) else "error"] += 1
    assert min(outcomes.values()) > 0
