"""Storage version 2.3: a sample of types and patterns of nulls, as the peer stores them and as we do."""

from collections.abc import Callable
from pathlib import Path

import lance.file
import numpy as np
import pyarrow as pa
import pytest

from lance_ops.errors import UnsupportedError, UnsupportedTypeError
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.v2_1.columns import LayoutColumn
from lance_ops.file.v2_1.planar import parse_planar
from lance_ops.file.writer import FileWriter, check_writable
from lance_ops.pb import encodings23_pb2 as pb23
from lance_ops.storage import open_store
from tests.file.matrix.cells import LARGE_TYPES, assert_same, build_table, some_rows, type_id
from tests.file.matrix.test_peer_writes import check_reader

pytestmark = pytest.mark.peer

SPARSE = {"lance-encoding:structural-encoding": "sparse"}
SIZE = 1025
ROWS = 2000
FEW = (3, 77, 78, 79, 1500)


def write_peer(path: Path, table: pa.Table, metadata: dict[str, str] | None = None) -> None:
    fields = [field.with_metadata({**(field.metadata or {}), **(metadata or {})}) for field in table.schema]
    table = pa.table(table.columns, schema=pa.schema(fields))
    with lance.file.LanceFileWriter(str(path), table.schema, version="2.3") as writer:
        writer.write_batch(table)


@pytest.mark.parametrize("data_type", LARGE_TYPES[::3], ids=type_id)
def test_types(data_type: pa.DataType, tmp_path: Path) -> None:
    """Both structures of the peer are read, and what is written here is read by it."""
    store = open_store(str(tmp_path))
    table = build_table(data_type, SIZE, "2.3")
    for metadata in ({}, SPARSE):
        write_peer(tmp_path / "peer.lance", table, metadata)
        check_reader(FileReader.open(store, "peer.lance"), table)
    with FileWriter(store, "ours.lance", Schema.from_arrow(table.schema), version="2.3") as writer:
        writer.write(table)
    check_reader(FileReader.open(store, "ours.lance"), table)
    # Next to fixed-size lists of structs the peer reads no other column, in its own files, too.
    together = "fixed_size_list<item: struct" not in str(data_type)
    rows = some_rows(SIZE)
    for names in [table.column_names] if together else [[name] for name in table.column_names]:
        peer = lance.file.LanceFileReader(str(tmp_path / "ours.lance"), columns=names)
        assert_same(peer.read_all().to_table(), table.select(names))
        assert_same(peer.take_rows(rows.tolist()).to_table(), table.select(names).take(rows))


def few_nulls(value: Callable[[int], object], data_type: pa.DataType, rows: int = ROWS) -> pa.Array:
    return pa.array([None if n in FEW else value(n) for n in range(rows)], data_type)


LISTS = pa.list_(pa.int32())
LENGTHS = np.random.default_rng(7).integers(0, 4, ROWS).tolist()
COLUMNS = {
    "listed nulls": few_nulls(lambda n: n, pa.int64()),
    "strings by lengths": few_nulls(lambda n: f"s{n}", pa.string()),
    "strings of one length": pa.array([f"{n:06d}" for n in range(ROWS)]),
    "strings by runs of lengths": pa.array(["x" * (n // 500) for n in range(ROWS)]),
    "empty strings": pa.array([""] * ROWS),
    "dictionary": few_nulls(lambda n: f"s{n % 7}", pa.string()),
    "arrow dictionary": few_nulls(lambda n: f"s{n % 7}", pa.string()).dictionary_encode(),
    "dictionary of lists with nulls": pa.array([[1.0, None, 3.0]] * ROWS, pa.list_(pa.float32(), 3)),
    "runs with packed lengths": pa.array(np.repeat(np.arange(400), 5).astype("f4")),
    "long values without nulls": few_nulls(lambda n: bytes([n]) * 4000, pa.binary(), 100),
    "vectors without nulls": few_nulls(lambda n: [float(n)] * 768, pa.list_(pa.float32(), 768), 100),
    "long values in null structs": pa.array(
        [None if n % 3 == 0 else {"b": None if n % 3 == 1 else bytes([n]) * 4000} for n in range(60)],
        pa.struct([("b", pa.binary())]),
    ),
    "one value or null": pa.array([7, None] * ROWS),
    "one value in lists": pa.array([[5] * (n % 4) for n in range(ROWS)], pa.list_(pa.int64())),
    "null or empty": pa.array([None, []] * ROWS, LISTS),
    "empty": pa.array([[]] * ROWS, LISTS),
    "lists of nulls": pa.array([[None] * n for n in LENGTHS], LISTS),
    "lists of two": pa.array([[1, 2]] * ROWS, LISTS),
    "lists": pa.array([None if n % 9 == 0 else list(range(n)) for n in LENGTHS], LISTS),
    "lists of lists": pa.array(
        [[[1], None, [2, None]] if n % 2 else [] for n in range(ROWS)], pa.list_(LISTS)
    ),
    "few in many": pa.array([[n] if n % 50 == 0 else [] for n in range(100_000)], LISTS),
    "fixed-size lists of structs": pa.array(
        [[{"a": n}, {"a": None}] if n % 5 else None for n in range(ROWS)],
        pa.list_(pa.struct([("a", pa.int64())]), 2),
    ),
    "those in lists": pa.array(
        [[[{"a": n}, {"a": None}]] * (n % 3) if n % 5 else None for n in range(ROWS)],
        pa.list_(pa.list_(pa.struct([("a", pa.int64())]), 2)),
    ),
    "all null": pa.nulls(ROWS, LISTS),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_structures(name: str, tmp_path: Path) -> None:
    table = pa.table({"c": COLUMNS[name]})
    for metadata in ({}, SPARSE):
        path = tmp_path / "peer.lance"
        write_peer(path, table, metadata)
        reader = FileReader.open(open_store(str(tmp_path)), "peer.lance")
        assert_same(reader.read_table(), table)
        for start, stop in ((0, 1), (3, 40), (table.num_rows // 2, table.num_rows)):
            assert_same(reader.read_table(start=start, stop=stop), table.slice(start, stop - start))
        for rows in (np.array([3, 5, 40]), np.arange(0, table.num_rows, 7)):
            assert_same(reader.take(rows), table.take(rows))


@pytest.mark.parametrize("size", [1, 2])
def test_nulls_and_constants_in_fixed_size_lists_are_read_by_the_peer(size: int, tmp_path: Path) -> None:
    kind = pa.list_(pa.struct([("a", pa.int64())]), size)
    inside = pa.struct([("x", kind)])
    one = [{"a": 5}] * size
    for number, array in enumerate(
        (
            pa.nulls(50, kind),
            pa.array([[None] * size] * 50, kind),
            pa.array([None, [{"a": None}] * size] * 50, kind),
            pa.array([None, one, [None] * size] * 50, kind),
            pa.array([one] * 50, kind),
            pa.array([None, {"x": None}, {"x": one}] * 50, inside),
        )
    ):
        table = pa.table({"c": array})
        path = tmp_path / f"{number}.lance"
        store = open_store(str(tmp_path))
        with FileWriter(store, path.name, Schema.from_arrow(table.schema), version="2.3") as writer:
            writer.write(table)
        assert FileReader.open(store, path.name).read_table()["c"].to_pylist() == array.to_pylist()
        peer = lance.file.LanceFileReader(str(path)).read_all().to_table()
        assert peer["c"].to_pylist() == array.to_pylist()


def test_columns_of_several_pages(tmp_path: Path) -> None:
    batches = [pa.table({"c": COLUMNS["lists"].slice(start, 500)}) for start in range(0, ROWS, 500)]
    schema = pa.schema([pa.field("c", LISTS, metadata=SPARSE)])
    path = str(tmp_path / "a.lance")
    with lance.file.LanceFileWriter(path, schema, version="2.3", data_cache_bytes=1) as writer:
        for batch in batches:
            writer.write_batch(pa.table([batch["c"].take(pa.array(range(500)))], schema=schema))
    reader = FileReader.open(open_store(str(tmp_path)), "a.lance")
    column = reader.column(0)
    assert isinstance(column, LayoutColumn)
    assert len(column.pages) > 1
    assert all(page.sparse is not None for page in column.pages)
    check_reader(reader, pa.table({"c": COLUMNS["lists"]}))


def test_blobs_of_the_older_kind_are_refused_as_by_the_peer(tmp_path: Path) -> None:
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    with pytest.raises(ValueError, match="Blob v1"):
        lance.file.LanceFileWriter(str(tmp_path / "a.lance"), pa.schema([field]), version="2.3")
    with pytest.raises(UnsupportedTypeError, match=r"2\.3 has blobs of the extension type"):
        check_writable(pa.schema([field]), "2.3")


def test_descriptions_of_another_release_are_refused() -> None:
    """2.3 is not settled: a part that is not known may change what the others mean."""
    planar = pb23.PlanarLayout()
    planar.structure.dense.layers.append(1)
    planar.values.constant.value = b"\x07"
    data = planar.SerializeToString()
    assert parse_planar(data).layout.HasField("constant_layout")
    for more in (data + b"\x98\x06\x01", data[:-5] + bytes([data[-5]]) + data[-4:] + b"\x1a\x00"):
        with pytest.raises(UnsupportedError, match="not known"):
            parse_planar(more)
