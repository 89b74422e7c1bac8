"""Nested columns that we and the peer exchange: where levels are many, or values few."""

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lance.file import LanceFileReader, LanceFileWriter

import lance_ops as lo
from lance_ops.encoding.chunks import ChunkBuffer, decode_chunk_table, split_chunks
from lance_ops.encoding.pages.ravel import ravel
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.v2_1.columns import LayoutColumn, LayoutPage, parse_layers
from lance_ops.file.v2_1.compression.decode import decode_levels
from lance_ops.file.v2_1.compression.levels import compress_levels, levels_per_chunk, repetition_index
from lance_ops.file.writer import FileWriter
from lance_ops.storage import Store, open_store
from tests.support.arrays import random_array
from tests.support.nested import nested_arrays

pytestmark = pytest.mark.peer

INTS = pa.list_(pa.int32())
MANY_EMPTY: list[list[int]] = [[]] * 70_000

LARGE = {
    "one list over many chunks": pa.array([[1], list(range(200_000)), [2, 3], None, []], INTS),
    "lists with few values": pa.array(([None] * 30 + [[1]]) * 8000, INTS),
    "rows without values for long": pa.array([None] * 70_000 + [[1]] + [[]] * 70_000 + [[2, 3]], INTS),
    "a row of empty lists around values": pa.array([[[1], *MANY_EMPTY, [2]], [[3]], None], pa.list_(INTS)),
    "rows of nothing but empty lists": pa.array([MANY_EMPTY, MANY_EMPTY], pa.list_(INTS)),
    "strings among empty lists": pa.array([[["ab"], *MANY_EMPTY, ["c"]]], pa.list_(pa.list_(pa.string()))),
}

SMALL_LEVELS = {
    "nullable": pa.int64(),
    "list": INTS,
    "lists of lists": pa.list_(pa.list_(pa.int16())),
    "list of structs": pa.list_(pa.struct([("x", pa.int32())])),
    "struct of lists": pa.struct([("l", pa.list_(pa.int32()))]),
}


def write(folder: Path, array: pa.Array, version: str) -> tuple[Store, Path]:
    store = open_store(str(folder))
    schema = pa.schema([("c", array.type)])
    with FileWriter(store, "a.lance", Schema.from_arrow(schema), version=version) as writer:
        writer.write(pa.record_batch([array], schema=schema))
    return store, folder / "a.lance"


def equal(found: pa.Table, expected: pa.Array) -> bool:
    column = found["c"].combine_chunks()
    return column.equals(expected) or column.to_pylist() == expected.to_pylist()


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("name", LARGE)
def test_the_peer_reads_long_levels(tmp_path: Path, name: str, version: str) -> None:
    array = LARGE[name]
    store, path = write(tmp_path, array, version)
    assert equal(FileReader.open(store, path.name).read_table(), array)
    reader = LanceFileReader(str(path))
    assert equal(reader.read_all().to_table(), array)
    rows = sorted({0, len(array) // 2, len(array) - 1})
    assert equal(reader.take_rows(rows).to_table(), array.take(pa.array(rows)))


def _struct(member: pa.DataType) -> pa.DataType:
    return pa.struct([("m", member)])


LISTS = pa.list_(INTS)
STRUCTS_OF_LISTS = {
    "list": (pa.list_(_struct(LISTS)), lambda rows: rows),
    "large lists": (pa.large_list(_struct(pa.large_list(INTS))), lambda rows: rows),
    "three lists": (pa.list_(_struct(pa.list_(LISTS))), lambda rows: rows),
    "two members": (pa.list_(pa.struct([("m", LISTS), ("n", pa.int8())])), lambda rows: rows),
    "strings": (pa.list_(_struct(pa.list_(pa.list_(pa.string())))), lambda rows: rows),
    "structs between": (pa.list_(_struct(_struct(LISTS))), lambda rows: rows),
    "lists around": (pa.list_(pa.list_(_struct(LISTS))), lambda rows: [rows, None, []]),
    "in a struct": (_struct(pa.list_(_struct(LISTS))), lambda rows: [{"m": row} for row in rows]),
    "map": (
        pa.map_(pa.string(), _struct(LISTS)),
        lambda rows: [row and [(f"k{n}", item) for n, item in enumerate(row)] for row in rows],
    ),
}
"""Structs whose first member is a list of lists, within a list or map; and how to make rows of them."""
STRUCT_ROWS: dict[str, list[list[dict[str, list[None] | None] | None] | None]] = {
    "all null": [None] * 3,
    "all empty": [[]] * 3,
    "null and empty": [None, [], None],
    "null items": [[None, None], None],
    "null members": [None, [{"m": None}]],
    "empty members": [[], None, [{"m": []}], [None]],
}


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("name", STRUCTS_OF_LISTS)
def test_the_peer_reads_structs_of_lists_of_lists(tmp_path: Path, name: str, version: str) -> None:
    data_type, make = STRUCTS_OF_LISTS[name]
    if version == "2.1" and "map" in name:
        return
    for number, rows in enumerate(STRUCT_ROWS.values()):
        array = pa.array(make(rows), data_type)
        folder = tmp_path / str(number)
        folder.mkdir()
        _, path = write(folder, array, version)
        assert LanceFileReader(str(path)).read_all().to_table()["c"].to_pylist() == array.to_pylist()


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_the_peer_counts_required_structs_in_nullable_ones(tmp_path: Path, version: str) -> None:
    """They are null in the pages where the struct around them is, and have lists below them."""
    inner = pa.field("m", _struct(INTS), nullable=False)
    array = pa.array([{"m": {"m": [1, 2]}}, None, {"m": {"m": [3]}}], pa.struct([inner]))
    store = open_store(str(tmp_path))
    schema = pa.schema([("c", array.type)])
    with FileWriter(store, "a.lance", Schema.from_arrow(schema), version=version, page_bytes=1) as writer:
        for row in range(3):
            writer.write(pa.record_batch([array.slice(row, 1)], schema=schema))
    assert (
        LanceFileReader(str(tmp_path / "a.lance")).read_all().to_table()["c"].to_pylist() == array.to_pylist()
    )


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_a_copy_repairs_levels_that_the_peer_misreads(tmp_path: Path, version: str) -> None:
    """The peer writes pages that it cannot read itself."""
    uri = str(tmp_path / "t.lance")
    rows = pa.array(STRUCT_ROWS["null items"], pa.list_(_struct(LISTS)))
    for _ in range(2):
        lance.write_dataset(pa.table({"c": rows}), uri, mode="append", data_storage_version=version)
    with pytest.raises(pa.ArrowInvalid, match="Incorrect number of nulls"):
        lance.dataset(uri).to_table()
    assert lo.compact(uri, method="copy").fragments_removed == 2
    assert lance.dataset(uri).to_table()["c"].to_pylist() == rows.to_pylist() * 2


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(nested_arrays(), st.sampled_from(["2.1", "2.2"]))
def test_the_peer_reads_random_nesting(tmp_path: Path, array: pa.Array, version: str) -> None:
    text = str(array.type)
    # What the peer cannot read either: maps in 2.1, and fixed-size lists of structs in 2.1 or within structs.
    fixed = "fixed_size_list<item: struct" in text
    if (version == "2.1" and ("map<" in text or fixed)) or (fixed and pa.types.is_struct(array.type)):
        return
    if not len(array):
        return
    store, path = write(tmp_path, array, version)
    assert equal(FileReader.open(store, path.name).read_table(), array)
    assert equal(LanceFileReader(str(path)).read_all().to_table(), array)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("name", SMALL_LEVELS)
def test_levels_and_index_are_those_of_the_peer(tmp_path: Path, name: str, version: str) -> None:
    array = random_array(SMALL_LEVELS[name], 30_000, nulls=0.1, seed=5)
    path = tmp_path / "peer.lance"
    schema = pa.schema([("c", array.type)])
    with LanceFileWriter(str(path), schema, version=version) as writer:
        writer.write_batch(pa.record_batch([array], schema=schema))
    column = FileReader.open(open_store(str(tmp_path)), path.name).column(0)
    assert isinstance(column, LayoutColumn)
    data = np.fromfile(path, dtype=np.uint8)
    for page in column.pages:
        _check_page(page, array.slice(page.start, page.length), data, version)


def _check_page(page: LayoutPage, array: pa.Array, data: np.ndarray, version: str) -> None:
    layout = page.layout.mini_block_layout
    raveled = ravel(array, _path(array.type))
    assert [layer.is_list for layer in parse_layers(layout.layers)] == [
        layer.is_list for layer in raveled.layers
    ]

    def buffer(number: int) -> np.ndarray:
        position, size = page.buffer(number)
        return data[position : position + size]

    width = 4 if layout.has_large_chunk else 2
    table = decode_chunk_table(
        buffer(0), word_bytes=width, num_values=layout.num_items, size=page.buffer(1)[1]
    )
    chunks = split_chunks(
        ChunkBuffer(buffer(1), table.starts, table.sizes),
        has_rep=layout.HasField("rep_compression"),
        has_def=layout.HasField("def_compression"),
        num_buffers=layout.num_buffers,
        size_bytes=width,
    )
    counts = levels_per_chunk(raveled, table.counts)
    assert counts.tolist() == chunks.num_levels.tolist()
    for theirs, encoding, ours in (
        (chunks.rep, layout.rep_compression, raveled.rep),
        (chunks.definition, layout.def_compression, raveled.definition),
    ):
        assert (theirs is None) == (ours is None)
        if theirs is not None and ours is not None:
            assert decode_levels(encoding, theirs, counts).tolist() == ours.tolist()
            packed = compress_levels(ours, counts, version).buffer
            assert int(packed.sizes.sum()) <= int(theirs.sizes.sum())
    if raveled.rep is not None:
        assert buffer(len(page.buffers) - 1).tobytes() == repetition_index(raveled, counts).tobytes()


def _path(data_type: pa.DataType) -> tuple[int, ...]:
    return (0, *_path(data_type.field(0).type)) if pa.types.is_nested(data_type) else ()


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize(
    ("members", "path"),
    [
        (pa.array(range(12), pa.int64()), "s.x"),
        (pa.array(["text"] * 12), "s.x"),
        (pa.StructArray.from_arrays([pa.array(range(12), pa.int64())], ["y"]), "s.x.y"),
        (pa.array([[1.0, 2.0]] * 12, pa.list_(pa.float32(), 2)), "s.x"),
        (pa.array([[1]] * 12, INTS), "s.x"),
    ],
    ids=["numbers", "texts", "structs", "vectors", "lists"],
)
def test_members_of_null_structs_are_null_to_filters_of_the_peer(tmp_path, members, path, version) -> None:
    """It looks at the members alone then, so that what a null struct hides has to be null by itself."""
    null = pa.array([row % 3 == 0 for row in range(12)])
    structs = pa.StructArray.from_arrays([members], ["x"], mask=null)
    rows = pa.table({"id": range(12), "s": structs})
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(rows, uri, data_storage_version=version)
    hidden = {0, 3, 6, 9}
    for condition, wanted in (
        (f"{path} IS NULL", sorted(hidden)),
        (f"{path} IS NOT NULL", sorted(set(range(12)) - hidden)),
    ):
        assert lance.dataset(uri).to_table(columns=["id"], filter=condition)["id"].to_pylist() == wanted
        assert lo.dataset(uri).to_table(["id"], filter=condition)["id"].to_pylist() == wanted
    assert lance.dataset(uri).to_table()["s"].to_pylist() == structs.to_pylist()
