"""Damaged files end in a typed error or in a valid table, never in a crash, a hang or a huge allocation."""

import resource
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from lance_ops.errors import CorruptFileError, LanceOpsError, UnsupportedVersionError
from lance_ops.file.container.read import FOOTER_SIZE
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter
from lance_ops.storage import Store, open_store
from tests.support.arrays import random_array

TYPES = {
    "i": pa.int32(),
    "s": pa.string(),
    "l": pa.list_(pa.struct([("x", pa.string()), ("y", pa.list_(pa.float32(), 3))])),
    "d": pa.dictionary(pa.int8(), pa.string()),
    "n": pa.null(),
    "b": pa.bool_(),
}


@pytest.fixture(scope="module")
def store() -> Store:
    return open_store("memory://corruption")


@pytest.fixture(scope="module")
def good(store: Store) -> bytes:
    table = pa.table({name: random_array(kind, 40, seed=3) for name, kind in TYPES.items()})
    table = table.append_column("low", pa.array(["x", "y", None, "z"] * 10))
    schema = Schema.from_arrow(table.schema)
    with FileWriter(store, "good.lance", schema, page_bytes=200, version="2.0") as writer:
        writer.write(table)
    return store.read("good.lance").to_pybytes()


@pytest.fixture(autouse=True)
def bounded_memory() -> Iterator[None]:
    # Whatever a damaged file claims, reading it must not take memory for it.
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500 << 10


def read_all(store: Store, data: bytes) -> pa.Table | LanceOpsError:
    store.put("bad.lance", data)
    try:
        reader = FileReader.open(store, "bad.lance")
        if reader.num_rows > 1 << 40:
            # Nobody asks for that many rows; a few of them must be refused all the same.
            return reader.read_table(stop=1000)
        table = reader.read_table()
        reader.take([0, 7] if reader.num_rows > 7 else [])
    except LanceOpsError as error:
        return error
    table.validate(full=True)
    return table


def test_every_truncation_is_a_typed_error(store: Store, good: bytes) -> None:
    for length in range(len(good)):
        result = read_all(store, good[:length])
        assert isinstance(result, CorruptFileError), length
        assert "bad.lance" in str(result)


def test_every_byte_of_the_footer_can_be_wrong(store: Store, good: bytes) -> None:
    for position in range(len(good) - FOOTER_SIZE, len(good)):
        for value in (0, 1, 2, 3, 127, 128, 255):
            damaged = bytearray(good)
            damaged[position] = value
            result = read_all(store, bytes(damaged))
            assert isinstance(result, pa.Table | LanceOpsError)


@pytest.mark.parametrize(
    ("numbers", "name"),
    [
        ((2, 4), "2.4"),
        ((3, 0), "3.0"),
        ((65535, 7), "65535.7"),
    ],
)
def test_other_storage_versions_are_named(
    store: Store, good: bytes, numbers: tuple[int, int], name: str
) -> None:
    damaged = bytearray(good)
    damaged[-8:-4] = np.array(numbers, dtype="<u2").tobytes()
    result = read_all(store, bytes(damaged))
    assert isinstance(result, UnsupportedVersionError)
    assert f"storage version {name} is not supported" in str(result)
    assert "bad.lance" in str(result)


@pytest.mark.parametrize("data", [b"", b"LANC", b"\0" * 36 + b"LANC", b"PAR1" * 100, b"\xff" * 4096])
def test_other_files_are_not_lance_files(store: Store, data: bytes) -> None:
    assert isinstance(read_all(store, data), LanceOpsError)
