"""Storage version 2.0: what field metadata and unusual arrays change, against the peer."""

from pathlib import Path

import lance.file
import numpy as np
import pyarrow as pa
import pytest

from lance_ops.errors import UnsupportedTypeError
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter
from lance_ops.storage import Store, open_store
from tests.support.arrays import random_array

pytestmark = pytest.mark.peer

PACKED = {"packed": "true"}
BLOB = {"lance-encoding:blob": "true"}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path))


def write(store: Store, table: pa.Table, *, page_bytes: int | None = None) -> FileReader:
    with FileWriter(
        store, "ours.lance", Schema.from_arrow(table.schema), page_bytes=page_bytes, version="2.0"
    ) as writer:
        writer.write(table)
    return FileReader.open(store, "ours.lance")


def peer_write(store: Store, table: pa.Table) -> FileReader:
    with lance.file.LanceFileWriter(f"{store.uri}/theirs.lance", table.schema, version="2.0") as writer:
        writer.write_batch(table)
    return FileReader.open(store, "theirs.lance")


def peer_read(store: Store, name: str = "ours.lance") -> pa.Table:
    return lance.file.LanceFileReader(f"{store.uri}/{name}").read_all().to_table()


def one_column(array: pa.Array, metadata: dict[str, str] | None = None) -> pa.Table:
    return pa.table([array], schema=pa.schema([pa.field("c", array.type, metadata=metadata)]))


PACKED_TYPE = pa.struct(
    [("a", pa.int32()), ("b", pa.list_(pa.float32(), 2)), ("c", pa.binary(3)), ("d", pa.decimal128(10, 2))]
)


def test_packed_structs_are_read_by_both(store: Store) -> None:
    table = one_column(random_array(PACKED_TYPE, 500, nulls=0), PACKED)
    reader = write(store, table)
    assert (reader.num_columns, len(reader.schema.fields[0].children)) == (1, 4)
    assert reader.column_metadata(0).pages[0].buffers[0][1] == 500 * (4 + 8 + 3 + 16)
    for found in (reader.read_table(), peer_read(store), peer_write(store, table).read_table()):
        assert found.equals(table)
    assert reader.read_table(start=101, stop=303).equals(table.slice(101, 202))
    assert reader.take([3, 77]).equals(table.take([3, 77]))


def test_one_member_of_a_packed_struct_can_be_read(store: Store) -> None:
    table = one_column(random_array(PACKED_TYPE, 50, nulls=0), PACKED)
    reader = peer_write(store, table)
    found = reader.read_table(reader.schema.project(["c.b"]))
    assert found["c"].combine_chunks().field("b").equals(table["c"].combine_chunks().field("b"))


def test_members_of_packed_structs_are_not_listed_for_the_table(store: Store) -> None:
    table = pa.table(
        [pa.array([1]), random_array(PACKED_TYPE, 1, nulls=0), pa.array([2])],
        schema=pa.schema([("x", pa.int64()), pa.field("p", PACKED_TYPE, metadata=PACKED), ("y", pa.int64())]),
    )
    with FileWriter(store, "a.lance", Schema.from_arrow(table.schema), version="2.0") as writer:
        writer.write(table)
    written = writer.finish()
    assert (written.field_ids, written.column_indices) == ((0, 1, 6), (0, 1, 2))
    assert (written.major, written.minor, written.num_rows) == (2, 0, 1)


def test_packed_structs_with_nulls_are_refused(store: Store) -> None:
    table = one_column(random_array(PACKED_TYPE, 50, nulls=0.5), PACKED)
    with pytest.raises(UnsupportedTypeError, match=r"c\.a"):
        write(store, table)
    assert not store.exists("ours.lance")


def test_null_structs_are_refused_as_the_peer_does(store: Store) -> None:
    array = pa.array([{"a": 1}, None], pa.struct([("a", pa.int8())]))
    nested = pa.array([[{"a": 1}, None]], pa.list_(array.type))
    for table in (one_column(array), one_column(nested)):
        with pytest.raises(ValueError, match="null"):
            peer_write(store, table)
        with pytest.raises(UnsupportedTypeError, match="null structs"):
            write(store, table)
        assert not store.exists("ours.lance")


@pytest.mark.parametrize("nulls", [0.0, 0.5, 1.0])
def test_blobs_are_read_by_both(store: Store, nulls: float) -> None:
    table = one_column(random_array(pa.large_binary(), 40, nulls=nulls), BLOB)
    reader = write(store, table, page_bytes=128)
    for found in (reader.read_table(), peer_read(store), peer_write(store, table).read_table()):
        assert found.equals(table)
    assert peer_write(store, table).take([1, 9, 30]).equals(table.take([1, 9, 30]))
    assert peer_write(store, table).read_table(start=11, stop=19).equals(table.slice(11, 8))


def test_blobs_inside_lists_are_read(store: Store) -> None:
    item = pa.field("item", pa.large_binary(), metadata=BLOB)
    array = pa.array([[b"a", None], [], None, [b"", b"long" * 1000]], pa.list_(item))
    table = one_column(array)
    assert write(store, table).read_table().to_pylist() == table.to_pylist()
    assert peer_write(store, table).read_table().to_pylist() == table.to_pylist()


@pytest.mark.parametrize("scheme", ["zstd", "lz4", "none", "fsst", "unheard-of"])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_binary()])
def test_compressed_strings_are_read_by_both(store: Store, scheme: str, kind: pa.DataType) -> None:
    if scheme == "fsst" and pa.types.is_large_binary(kind):
        # The peer panics on FSST with 64-bit offsets.
        kind = pa.binary()
    words = [None if n % 7 == 0 else f"some words of row {n} and {n * n}" for n in range(20_000)]
    table = one_column(pa.array(words, kind), {"lance-encoding:compression": scheme})
    reader = write(store, table)
    for found in (reader.read_table(), peer_read(store), peer_write(store, table).read_table()):
        assert found.equals(table)
    assert peer_write(store, table).read_table(start=1001, stop=1100).equals(table.slice(1001, 99))
    if scheme in ("zstd", "lz4"):
        assert reader.size_bytes < peer_write(store, table).size_bytes * 1.05
        assert reader.size_bytes < 20_000 * 25


def test_fsst_strings_with_escapes_are_read(store: Store) -> None:
    rng = np.random.default_rng(0)
    text = [f"https://example.org/{n}/" * 4 for n in range(5000)]
    noise = ["".join(chr(c) for c in rng.integers(1, 0x3FF, 20)) for _ in range(5000)]
    table = one_column(
        pa.array([x for pair in zip(text, noise, strict=True) for x in pair]),
        {"lance-encoding:compression": "fsst"},
    )
    reader = peer_write(store, table)
    assert reader.size_bytes < 10_000 * 80
    assert reader.read_table().equals(table)
    assert reader.read_table(start=77, stop=177).equals(table.slice(77, 100))


def test_a_compression_level_is_kept(store: Store) -> None:
    metadata = {"lance-encoding:compression": "zstd", "lance-encoding:compression-level": "9"}
    table = one_column(pa.array([f"row {n}" for n in range(1000)]), metadata)
    assert write(store, table).read_table().equals(table)
    assert peer_read(store).equals(table)


def test_extension_types_come_back(store: Store) -> None:
    uuids = pa.array([bytes([n]) * 16 for n in range(20)] + [None], pa.uuid())
    tensors = pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.float32(), [2, 2]), random_array(pa.list_(pa.float32(), 4), 21)
    )
    nested = pa.StructArray.from_arrays([uuids], names=["u"])
    table = pa.table({"u": uuids, "t": tensors, "n": nested})
    reader = write(store, table)
    assert reader.read_table().equals(table)
    assert reader.take([3, 20]).equals(table.take([3, 20]))
    assert peer_write(store, table).read_table().equals(table)
    assert peer_read(store).equals(table)


def test_bfloat16_lists_are_read_by_both(store: Store) -> None:
    metadata = {"ARROW:extension:name": "lance.bfloat16", "ARROW:extension:metadata": ""}
    kind = pa.list_(pa.field("item", pa.binary(2), metadata=metadata), 3)
    table = one_column(random_array(kind, 100))
    assert write(store, table).schema.fields[0].logical_type == "fixed_size_list:lance.bfloat16:3"
    ours, theirs = write(store, table).read_table(), peer_read(store)
    for read in (ours, theirs):
        items = read["c"].combine_chunks().flatten()
        # Once any test has loaded the peer's extension types, Arrow gives bfloat16 instead of bytes.
        stored = items.storage if isinstance(items, pa.ExtensionArray) else items
        assert read["c"].is_valid().equals(table["c"].is_valid())
        assert stored.to_pylist() == table["c"].combine_chunks().flatten().to_pylist()


def test_json_is_read_as_text_and_stored_as_the_peer_stores_it(store: Store) -> None:
    table = one_column(pa.array(['{"a": 1}', None], pa.json_()))
    reader = peer_write(store, table)
    assert reader.schema.fields[0].logical_type == "json"
    found = reader.read_table()
    assert found.schema.types == [pa.json_()]
    assert found["c"].to_pylist() == ['{"a":1}', None]
    assert write(store, found).read_table().equals(found)
    assert peer_read(store).equals(peer_read(store, "theirs.lance"))


def test_views_are_stored_as_their_plain_types(store: Store) -> None:
    table = pa.table(
        {"s": pa.array(["a", None, "bb"], pa.string_view()), "b": pa.array([b"x"] * 3, pa.binary_view())}
    )
    found = write(store, table).read_table()
    assert found.schema.types == [pa.string(), pa.binary()]
    assert found.to_pylist() == peer_read(store).to_pylist() == table.to_pylist()


def test_values_under_null_rows_are_dropped_or_hidden(store: Store) -> None:
    mask = pa.array([False, True, False])
    offsets = pa.array([0, 2, 4, 5], pa.int32())
    values = pa.array([1, 2, 3, 4, 5])
    columns = {
        "fsl": pa.FixedSizeListArray.from_arrays(pa.array([1, 2, 3, 4, 5, 6], pa.int8()), 2, mask=mask),
        "list": pa.ListArray.from_arrays(offsets, values, mask=mask),
        "string": pa.Array.from_buffers(
            pa.string(), 3, [pa.py_buffer(b"\x05"), offsets.buffers()[1], pa.py_buffer(b"abcde")]
        ),
    }
    table = pa.table(columns)
    reader = write(store, table)
    assert reader.read_table().equals(table)
    assert peer_read(store).equals(table)
    # The items and bytes of the null rows are gone.
    assert reader.column_metadata(2).pages[0].length == 3
    assert reader.column_metadata(3).pages[0].buffers[1][1] == 3


def test_full_dictionaries_with_nulls_are_split_into_pages(store: Store) -> None:
    values = pa.array([f"value {n}" for n in range(128)])
    indices = pa.array([*range(128), None, 5], pa.int8())
    table = one_column(pa.DictionaryArray.from_arrays(indices, values))
    reader = write(store, table)
    assert len(reader.column_metadata(0).pages) > 1
    assert reader.read_table()["c"].to_pylist() == table["c"].to_pylist()
    assert peer_read(store)["c"].to_pylist() == table["c"].to_pylist()


def test_nulls_inside_a_dictionary_are_null_rows(store: Store) -> None:
    array = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 2, None, 1], pa.int8()), pa.array(["a", None, "c"])
    )
    table = one_column(array)
    for reader in (write(store, table), peer_write(store, table)):
        column = reader.read_table()["c"]
        assert column.null_count == 3
        assert column.to_pylist() == ["a", None, "c", None, None]
    assert peer_read(store)["c"].to_pylist() == ["a", None, "c", None, None]


def test_batches_with_different_dictionaries_share_a_page(store: Store) -> None:
    tables = [one_column(pa.array([f"v{n % 5}", f"w{n}"]).dictionary_encode()) for n in range(100)]
    with FileWriter(store, "ours.lance", Schema.from_arrow(tables[0].schema), version="2.0") as writer:
        for table in tables:
            writer.write(table)
    reader = FileReader.open(store, "ours.lance")
    assert len(reader.column_metadata(0).pages) == 1
    expected = [value for table in tables for value in table["c"].to_pylist()]
    assert reader.read_table()["c"].to_pylist() == expected
    assert peer_read(store)["c"].to_pylist() == expected


def test_slices_are_written_as_what_they_show(store: Store) -> None:
    kinds = [pa.bool_(), pa.int16(), pa.string(), pa.list_(pa.int8()), pa.list_(pa.bool_(), 3)]
    kinds.append(pa.struct([("x", pa.bool_()), ("y", pa.list_(pa.string()))]))
    table = pa.table({str(kind): random_array(kind, 100, seed=n) for n, kind in enumerate(kinds)})
    for start, length in [(1, 50), (13, 87), (99, 1), (5, 0)]:
        part = table.slice(start, length)
        assert write(store, part).read_table().equals(part)
        assert peer_read(store).equals(part)


def test_few_distinct_strings_take_the_space_that_the_peer_takes(store: Store) -> None:
    for distinct in (1, 99, 100, 150):
        table = one_column(pa.array([None if n % 50 == 0 else f"value {n % distinct}" for n in range(5000)]))
        assert write(store, table).size_bytes == pytest.approx(peer_write(store, table).size_bytes, rel=0.02)
