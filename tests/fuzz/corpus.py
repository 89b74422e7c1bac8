"""Small files of all storage versions, layouts and encodings, written by the peer and by us."""

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import lance
import lance.file
import numpy as np
import pyarrow as pa

from lance_ops.errors import LanceOpsError
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter, check_writable
from lance_ops.storage import open_store
from tests.support.arrays import ALL_2_0_TYPES, MORE_DICTIONARY_TYPES, ONLY_2_2_TYPES, random_array
from tests.support.peer_columns import COLUMNS
from tests.support.peer_panics import PeerPanicError, panics_as_errors

_ROWS = 40
_BYTES = 12 << 10
_LONGER = 1300
_SPARSE = {b"lance-encoding:structural-encoding": b"sparse"}
_PEER_REFUSES = (OSError, ValueError, NotImplementedError, RuntimeError, pa.ArrowException, PeerPanicError)


@dataclass(frozen=True, slots=True)
class Sample:
    """An undamaged file.

    Attributes:
        name: Version, writer and kind of column.
        version: Storage version.
        data: The file.
    """

    name: str
    version: str
    data: bytes


def build_corpus() -> list[Sample]:
    """All files, a few thousand bytes each."""
    with tempfile.TemporaryDirectory() as folder:
        return list(_build(Path(folder)))


def _build(folder: Path) -> Iterator[Sample]:
    store = open_store("memory://corpus")
    for number, (name, table) in enumerate(_tables()):
        yield from _legacy(name, table, folder)
        for version in ("2.0", "2.1", "2.2", "2.3"):
            data = _peer(table, version, folder)
            if data is not None:
                yield Sample(f"{version} peer {name}", version, data)
            try:
                check_writable(table.schema, version)
                with FileWriter(
                    store, "our.lance", Schema.from_arrow(table.schema), version=version, page_bytes=2000
                ) as ours:
                    ours.write(table)
            except LanceOpsError:
                continue
            yield Sample(f"{version} ours {name}", version, store.read("our.lance").to_pybytes())
        if number % 3:
            continue
        fields = [field.with_metadata({**(field.metadata or {}), **_SPARSE}) for field in table.schema]
        data = _peer(pa.table(table.columns, schema=pa.schema(fields)), "2.3", folder)
        if data is not None:
            yield Sample(f"2.3 peer sparse {name}", "2.3", data)


def _peer(table: pa.Table, version: str, folder: Path) -> bytes | None:
    """A file of the peer; None of what it does not write."""
    path = folder / "peer.lance"
    try:
        with (
            panics_as_errors(),
            lance.file.LanceFileWriter(str(path), table.schema, version=version) as writer,
        ):
            writer.write_batch(table)
    except _PEER_REFUSES:
        return None
    return path.read_bytes()


def _legacy(name: str, table: pa.Table, folder: Path) -> Iterator[Sample]:
    uri = folder / "legacy"
    shutil.rmtree(uri, ignore_errors=True)
    numbered = table.add_column(0, "id", pa.array(np.arange(table.num_rows)))
    try:
        with panics_as_errors():
            lance.write_dataset(numbered, str(uri), data_storage_version="legacy", max_rows_per_group=17)
            # Some that it writes it does not read.
            lance.dataset(str(uri)).to_table()
    except _PEER_REFUSES:
        return
    for path in (uri / "data").iterdir():
        yield Sample(f"0.1 peer {name}", "0.1", path.read_bytes())


def _tables() -> Iterator[tuple[str, pa.Table]]:
    types = [*ALL_2_0_TYPES, *MORE_DICTIONARY_TYPES, *ONLY_2_2_TYPES]
    for number, data_type in enumerate(types):
        array = random_array(data_type, _ROWS, nulls=0.2, seed=number)
        yield str(data_type), pa.table({"c": array})
        with_null_structs = random_array(data_type, _ROWS, nulls=0.2, seed=number, null_structs=True)
        if not with_null_structs.equals(array):
            yield f"{data_type} with null structs", pa.table({"c": with_null_structs})
    for column in COLUMNS:
        array = _shorten(column.build())
        yield (
            column.name,
            pa.table([array], schema=pa.schema([pa.field("c", array.type, metadata=column.options)])),
        )
    mixed = {
        "a": random_array(pa.int32(), 70),
        "b": random_array(pa.struct([("x", pa.string()), ("y", pa.list_(pa.int8()))]), 70),
        "c": random_array(pa.list_(pa.float32(), 3), 70),
    }
    yield "mixed", pa.table(mixed)


def _shorten(array: pa.Array) -> pa.Array:
    rows = min(len(array), _LONGER)
    while rows > 3 and array.slice(0, rows).nbytes > _BYTES:
        rows = rows * 2 // 3
    # A copy, because the peer panics on slices of nested structs.
    return array.take(pa.array(np.arange(rows)))
