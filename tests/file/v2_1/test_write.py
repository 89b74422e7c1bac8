"""Storage versions 2.1 and 2.2 as we write them, read by the peer and by ourselves."""

from pathlib import Path

import lance
import lance.file
import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import SchemaMismatchError, UnsupportedTypeError
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter, check_writable
from lance_ops.storage import Store, open_store
from tests.file.matrix.cells import assert_same, some_rows
from tests.support.arrays import ALL_2_0_TYPES, EXTENSION_TYPES, ONLY_2_2_TYPES, random_array
from tests.support.page_signature import page_signatures

pytestmark = pytest.mark.peer

VERSIONS = ["2.1", "2.2"]
TYPES = [*ALL_2_0_TYPES, *EXTENSION_TYPES, *ONLY_2_2_TYPES]
CASES = [
    pytest.param(version, kind, id=f"{version}-{kind}".replace(" ", ""))
    for version in VERSIONS
    for kind in TYPES
    if version == "2.2" or kind not in ONLY_2_2_TYPES
]
PACKED = {"lance-encoding:packed": "true"}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path), {"fsync": "false"})


def write(store: Store, table: pa.Table, version: str, *, rows: int | None = None, **options) -> None:
    with FileWriter(store, "a.lance", Schema.from_arrow(table.schema), version=version, **options) as writer:
        for batch in table.to_batches(max_chunksize=rows):
            writer.write(batch)


def kinds_of(version: str) -> list[pa.DataType]:
    """What can stand beside other columns: the peer cannot read its own fixed-size lists of structs so."""
    alone = [pa.struct([]), *(kind for kind in ONLY_2_2_TYPES if "fixed_size_list<item: struct" in str(kind))]
    return [kind for kind in TYPES if kind not in alone and (version == "2.2" or kind not in ONLY_2_2_TYPES)]


def theirs(tmp_path: Path) -> lance.file.LanceFileReader:
    return lance.file.LanceFileReader(str(tmp_path / "a.lance"))


def assert_both_read(store: Store, tmp_path: Path, expected: pa.Table) -> FileReader:
    size = expected.num_rows
    peer = theirs(tmp_path)
    ours = FileReader.open(store, "a.lance")
    assert peer.num_rows() == ours.num_rows == size
    assert_same(peer.read_all().to_table(), expected)
    assert_same(ours.read_table(), expected)
    if size:
        start = size // 3
        assert_same(peer.read_range(start, size - start).to_table(), expected.slice(start))
        assert_same(ours.read_table(start=start, stop=size), expected.slice(start))
        rows = some_rows(size)
        assert_same(peer.take_rows(rows.tolist()).to_table(), expected.take(rows))
        assert_same(ours.take(rows), expected.take(rows))
    return ours


@pytest.mark.parametrize(("version", "kind"), CASES)
def test_many_small_pages_from_many_small_batches_are_read(
    version: str, kind: pa.DataType, store: Store, tmp_path: Path
) -> None:
    array = random_array(kind, 3000, nulls=0.3, seed=1, null_structs=kind != pa.struct([]))
    table = pa.table({"c": array})
    write(store, table, version, rows=77, page_bytes=1000)
    reader = assert_both_read(store, tmp_path, table)
    if kind not in (pa.null(), pa.struct([])):
        assert len(reader.column_metadata(0).pages) > 1


@pytest.mark.parametrize("version", VERSIONS)
def test_slices_of_larger_arrays_are_written_as_they_are(version: str, store: Store, tmp_path: Path) -> None:
    columns = {
        f"c{number}": random_array(kind, 300, nulls=0.3, seed=number).slice(13, 200)
        for number, kind in enumerate(kinds_of(version))
    }
    table = pa.table(columns)
    write(store, table, version)
    assert_both_read(store, tmp_path, table)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_peer_scans_filters_and_takes_from_a_dataset_of_all_types(version: str, tmp_path: Path) -> None:
    kinds = kinds_of(version)
    columns = {f"c{number}": random_array(kind, 3000, nulls=0.2) for number, kind in enumerate(kinds)}
    table = pa.table({"n": range(3000), **columns})
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(table, uri, data_storage_version=version)
    dataset = lance.dataset(uri)
    dataset.validate()
    assert dataset.data_storage_version == version
    rows = [5, 17, 1023, 1024, 2999]
    expected = table.take(rows)
    for name in table.column_names:
        for found in (
            dataset.to_table(columns=[name], filter="n in (5, 17, 1023, 1024, 2999)"),
            dataset.take(rows, columns=[name]),
        ):
            assert found.column(name).to_pylist() == expected.column(name).to_pylist(), name
    assert lo.dataset(uri).to_table(columns=["n"], filter="n in (5, 17)").num_rows == 2


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("options", "build", "wanted"),
    [
        (
            {"lance-encoding:compression": "zstd"},
            lambda: [f"some words {n} " * 3 for n in range(4000)],
            "general",
        ),
        (
            {"lance-encoding:compression": "lz4"},
            lambda: [f"some words {n} " * 3 for n in range(4000)],
            "general",
        ),
        (
            {"lance-encoding:compression": "none"},
            lambda: [f"word {n}" for n in range(4000)],
            "value=variable[",
        ),
        ({"lance-encoding:compression": "none"}, lambda: list(range(4000)), "value=flat64"),
        ({"lance-encoding:rle-threshold": "1.0"}, lambda: [n // 40 for n in range(4000)], "value=rle"),
        (
            {"lance-encoding:bss": "on", "lance-encoding:compression": "zstd"},
            lambda: [n / 7 for n in range(4000)],
            "general[byte_stream_split",
        ),
    ],
)
def test_compressions_that_a_field_asks_for_are_used(
    options, build, wanted: str, version: str, store: Store, tmp_path: Path
) -> None:
    array = pa.array(build())
    table = pa.table([array], schema=pa.schema([pa.field("c", array.type, metadata=options)]))
    write(store, table, version)
    signatures = page_signatures(assert_both_read(store, tmp_path, table))
    assert all(wanted in signature for signature in signatures), signatures


def test_values_that_never_change_take_no_space(store: Store, tmp_path: Path) -> None:
    count = 100_000
    table = pa.table(
        {
            "n": pa.nulls(count, pa.int64()),
            "i": pa.array(np.full(count, 7)),
            "b": pa.array([True] * count),
            "x": pa.array([b"0123456789" * 4] * count, pa.binary(40)),
            "s": ["always the same"] * count,
            "e": [""] * count,
            "some": [None if n % 3 == 0 else "the same" for n in range(count)],
            "l": pa.array([[1, 1], [], None, [1, None]] * (count // 4)),
            "t": [{"a": 1, "b": None}] * count,
        }
    )
    write(store, table, "2.2")
    reader = assert_both_read(store, tmp_path, table)
    signatures = [page_signatures(reader, column) for column in range(reader.num_columns)]
    # With levels beside them, chunks take less.
    assert all(found <= {"constant", "constant inline"} for found in signatures[:6]), signatures
    assert store.size("a.lance") < 120_000


SEGMENTS = [
    [],
    [None],
    [{"l": None}, {}, {"l": []}],
    [None, {"l": [1, 2]}, {"l": None}],
    [{"l": [3]}, {"l": [4, None]}],
    [{"l": [None]}, {"l": [None, None]}],
    [{"l": []}],
    [{"l": [5, 6, 7]}],
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("wrap", ["struct", "list", "deep", "fixed"])
def test_pages_that_differ_in_what_is_null_are_read_together(
    wrap: str, version: str, store: Store, tmp_path: Path
) -> None:
    # Every pair of kinds of pages, next to each other.
    if (wrap, version) == ("fixed", "2.1"):
        return
    order = [rows for first in SEGMENTS for second in SEGMENTS for rows in (first, second)]
    inner = pa.struct([("l", pa.list_(pa.int64())), ("x", pa.int32())])
    kinds = {
        "struct": (inner, lambda row: row),
        "list": (pa.list_(inner), lambda row: [] if row == {} else row and [row, None, row]),
        "deep": (pa.struct([("s", inner)]), lambda row: None if row == {} else {"s": row}),
        "fixed": (
            pa.list_(pa.struct([("x", pa.int32())]), 2),
            lambda row: [{"x": len(row["l"] or [1])}, None] if row else None,
        ),
    }
    kind, build = kinds[wrap]
    arrays = [pa.array([build(row) for row in rows] * 5, kind) for rows in order]
    table = pa.table({"c": pa.chunked_array([array for array in arrays if len(array)])})
    # Each batch is more than a page.
    write(store, table, version, page_bytes=50)
    assert_both_read(store, tmp_path, table)


@pytest.mark.parametrize("version", VERSIONS)
def test_many_empty_lists_between_two_values_are_spread_over_pages(
    version: str, store: Store, tmp_path: Path
) -> None:
    lists = [[1, 2]] + [[]] * 150_000 + [[3]] * 5000 + [None, []] * 70_000 + [[4, 5]]
    table = pa.table({"l": pa.array(lists, pa.list_(pa.int32())), "n": range(len(lists))})
    write(store, table, version)
    assert_both_read(store, tmp_path, table)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", [pa.int32(), pa.string()], ids=str)
def test_a_row_of_more_entries_than_a_chunk_can_have_is_written(
    version: str, kind: pa.DataType, store: Store, tmp_path: Path
) -> None:
    value = pa.array(["7"]).cast(kind)[0].as_py()
    rows = [[[value]], [[], None] * 50_000 + [[value, value]] + [[]] * 70_000, [[value]], None]
    table = pa.table({"l": pa.array(rows, pa.list_(pa.list_(kind)))})
    write(store, table, version)
    reader = assert_both_read(store, tmp_path, table)
    assert any("full_zip" in signature for signature in page_signatures(reader))


@pytest.mark.parametrize("version", VERSIONS)
def test_large_and_small_values_in_one_column_are_read(version: str, store: Store, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sizes = [0, 1, 255, 256, 257, 4095, 4096, 4097, 8192, 40_000, 200_000]
    values = [rng.bytes(int(size)) for size in rng.choice(sizes, 300)]
    some = [None if n % 5 == 0 else value for n, value in enumerate(values)]
    table = pa.table(
        {
            "b": pa.array(some),
            "l": pa.array([some[n : n + n % 4] for n in range(300)], pa.list_(pa.large_binary())),
            "short": pa.array([b"ab"] * 299 + [rng.bytes(3000)]),
        }
    )
    write(store, table, version)
    assert_both_read(store, tmp_path, table)


@pytest.mark.parametrize("version", VERSIONS)
def test_nulls_inside_dictionaries_are_nulls(version: str, store: Store, tmp_path: Path) -> None:
    array = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, None, 2, 1] * 300, pa.int8()), pa.array(["a", None, "c"])
    )
    lists = pa.ListArray.from_arrays(pa.array(range(0, 1501, 3), pa.int32()), array)
    table = pa.table({"d": array.slice(0, 500), "l": lists})
    write(store, table, version)
    assert_both_read(store, tmp_path, table)


@pytest.mark.parametrize("version", VERSIONS)
def test_dictionaries_that_do_not_fit_together_get_pages_of_their_own(
    version: str, store: Store, tmp_path: Path
) -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    arrays = [pa.array([f"{part}-{n}" for n in range(100)]).cast(kind) for part in range(4)]
    table = pa.table({"d": pa.chunked_array(arrays)})
    write(store, table, version)
    assert_same(FileReader.open(store, "a.lance").read_table(), table)
    for start in range(0, 400, 100):
        # The peer wants one dictionary for each batch that it gives out.
        assert_same(theirs(tmp_path).read_range(start, 100).to_table(), table.slice(start, 100))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "fields", [[], [("a", pa.int64())], [("s", pa.struct([("x", pa.list_(pa.int8()))]))]], ids=str
)
def test_files_without_rows_are_read(
    version: str, fields: list[tuple[str, pa.DataType]], store: Store, tmp_path: Path
) -> None:
    table = pa.schema(fields).empty_table()
    write(store, table, version)
    if fields:
        assert_both_read(store, tmp_path, table)
    assert FileReader.open(store, "a.lance").read_table().equals(table)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_empty_struct_may_be_the_last_column(version: str, store: Store, tmp_path: Path) -> None:
    empty = pa.Array.from_buffers(pa.struct([]), 50, [None])
    inner = pa.StructArray.from_arrays([pa.array(range(50)), empty], names=["x", "e"])
    for table in (pa.table({"x": range(50), "e": empty}), pa.table({"s": inner})):
        write(store, table, version)
        assert_both_read(store, tmp_path, table)
    for table in (pa.table({"e": empty, "x": range(50)}), pa.table({"s": inner, "x": range(50)})):
        with pytest.raises(UnsupportedTypeError, match="must be the last column"):
            write(store, table, version)
    for null in (pa.array([{}, None], pa.struct([])), pa.nulls(3, pa.struct([]))):
        with pytest.raises(UnsupportedTypeError, match="empty structs that are null"):
            write(store, pa.table({"e": null}), version)


REFUSED = [
    pa.field("c", pa.list_(pa.string(), 2)),
    pa.field("c", pa.list_(pa.dictionary(pa.int8(), pa.string()), 2)),
    pa.field("c", pa.list_(pa.list_(pa.struct([("a", pa.int8())]), 2))),
    pa.field("c", pa.list_(pa.list_(pa.struct([("a", pa.int8())]), 2), 2)),
    pa.field("c", pa.list_(pa.struct([("a", pa.list_(pa.int8()))]), 2)),
    pa.field("c", pa.list_(pa.struct([]))),
    pa.field("c", pa.binary(0)),
    pa.field("c", pa.dictionary(pa.int8(), pa.date32())),
    pa.field("c", pa.dictionary(pa.int8(), pa.binary(2))),
    pa.field("c", pa.month_day_nano_interval()),
    pa.field("c", pa.list_view(pa.int8())),
    pa.field("c", pa.decimal32(5, 1)),
    pa.field("c", pa.string(), metadata={"lance-encoding:blob": "true"}),
    pa.field("c", pa.struct([("a", pa.bool_())]), metadata=PACKED),
    pa.field("c", pa.struct([("a", pa.struct([("b", pa.int8())]))]), metadata=PACKED),
    pa.field("c", pa.struct([("a", pa.list_(pa.int8()))]), metadata=PACKED),
    pa.field("c", pa.struct([("a", pa.dictionary(pa.int8(), pa.string()))]), metadata=PACKED),
]
ONLY_2_1_REFUSES = [
    *(pa.field("c", kind) for kind in ONLY_2_2_TYPES),
    pa.field("c", pa.struct([("a", pa.string())]), metadata=PACKED),
    pa.field("c", pa.struct([("a", pa.list_(pa.int8(), 2))]), metadata=PACKED),
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("field", [*REFUSED, *ONLY_2_1_REFUSES], ids=str)
def test_what_a_version_cannot_hold_is_refused_before_anything_is_written(
    field: pa.Field, version: str, store: Store
) -> None:
    if version == "2.2" and field in ONLY_2_1_REFUSES:
        check_writable(pa.schema([field]), version)
        return
    with pytest.raises(UnsupportedTypeError, match="c"):
        check_writable(pa.schema([field]), version)
    with pytest.raises(UnsupportedTypeError):
        write(store, pa.schema([field]).empty_table(), version)
    assert list(store.list("")) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_nulls_in_packed_structs_are_refused(version: str, store: Store) -> None:
    kind = pa.struct([("a", pa.int32()), ("b", pa.float64())])
    field = pa.field("c", kind, metadata=PACKED)
    table = pa.table([pa.array([{"a": 1, "b": None}], kind)], schema=pa.schema([field]))
    with pytest.raises(UnsupportedTypeError, match="cannot hold nulls"):
        write(store, table, version)
    null_rows = pa.table([pa.array([{"a": 1, "b": 2.0}, None], kind)], schema=pa.schema([field]))
    write(store, null_rows, version)
    assert list(store.list(""))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (pa.field("a", pa.int64(), nullable=False), None),
        (pa.field("a", pa.struct([pa.field("x", pa.string(), nullable=False)])), {"x": None}),
        (
            pa.field("a", pa.list_(pa.struct([pa.field("x", pa.int8(), nullable=False)]), 2)),
            [{"x": 1}, {"x": None}],
        ),
        (pa.field("a", pa.list_(pa.struct([pa.field("x", pa.string(), nullable=False)]))), [{"x": None}]),
    ],
    ids=str,
)
def test_nulls_where_none_may_be_are_refused(store: Store, field: pa.Field, value: object) -> None:
    writer = FileWriter(store, "a.lance", Schema.from_arrow(pa.schema([field])), version="2.2")
    with pytest.raises(SchemaMismatchError, match="must not be null"):
        writer.write(pa.record_batch([pa.array([value], field.type)], names=["a"]))
    with pytest.raises(SchemaMismatchError, match="column 'a'"):
        writer.write(pa.record_batch([pa.array([value], _nullable(field.type))], names=["a"]))
    writer.abort()
    assert not store.exists("a.lance")


def test_required_members_of_null_structs_and_lists_may_be_null_in_memory(
    store: Store, tmp_path: Path
) -> None:
    required = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    structs = pa.StructArray.from_arrays(
        [pa.array([1, None, 3, None])], fields=list(required), mask=pa.array([False, True, False, True])
    )
    lists = pa.ListArray.from_arrays(
        pa.array([0, 1, 2, 3, 4], pa.int32()),
        structs,
        type=pa.list_(pa.field("item", required)),
    )
    table = pa.table({"s": structs, "l": lists})
    write(store, table, "2.2")
    found = FileReader.open(store, "a.lance").read_table()
    assert found.to_pylist() == theirs(tmp_path).read_all().to_table().to_pylist() == table.to_pylist()


@pytest.mark.parametrize("version", VERSIONS)
def test_waiting_rows_keep_neither_large_batches_nor_siblings_alive(version: str, store: Store) -> None:
    kind = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])
    with FileWriter(store, "a.lance", Schema.from_arrow(pa.schema([("s", kind)])), version=version) as writer:
        pool = pa.total_allocated_bytes()
        for _ in range(30):
            big = pa.StructArray.from_arrays(
                [pa.array(range(100_000)), pa.array([["x" * 20]] * 100_000)], fields=list(kind)
            )
            writer.write(pa.record_batch({"s": big}).slice(7, 10))
        del big
        assert pa.total_allocated_bytes() - pool < 1_000_000


def _nullable(data_type: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_struct(data_type):
        return pa.struct([(field.name, _nullable(field.type)) for field in data_type])
    if types.is_fixed_size_list(data_type):
        return pa.list_(_nullable(data_type.value_type), data_type.list_size)
    return pa.list_(_nullable(data_type.value_type)) if types.is_list(data_type) else data_type


def _signatures(store: Store, tmp_path: Path, array: pa.Array, version: str, **options: str) -> set[str]:
    metadata = {f"lance-encoding:{key.replace('_', '-')}": value for key, value in options.items()}
    table = pa.table([array], schema=pa.schema([pa.field("c", array.type, metadata=metadata)]))
    write(store, table, version)
    return page_signatures(assert_both_read(store, tmp_path, table))


@pytest.mark.parametrize("version", VERSIONS)
def test_options_of_dictionaries_are_honoured(version: str, store: Store, tmp_path: Path) -> None:
    words = pa.array([f"some longer value {n % 90}" for n in range(4000)])
    assert all("dictionary=" in found for found in _signatures(store, tmp_path, words, version))
    for options in ({"dict_size_ratio": "0.0001"}, {"dict_divisor": "1000"}):
        assert not any(
            "dictionary=" in found for found in _signatures(store, tmp_path, words, version, **options)
        ), options
    plain = _signatures(store, tmp_path, words, version, dict_values_compression="none")
    assert all("dictionary=variable" in found for found in plain), plain


@pytest.mark.peer
@pytest.mark.parametrize("level", ["-3", "7", "19", "100"])
@pytest.mark.parametrize(
    "array",
    [
        pa.array([f"a name of some length {n % 400:05d} and what follows it" for n in range(9000)]),
        pa.array([n % 90 for n in range(9000)]).cast(pa.decimal128(25)),
    ],
    ids=["strings", "decimals"],
)
def test_dictionaries_are_compressed_as_much_as_the_peer_does(
    array: pa.Array, level: str, store: Store, tmp_path: Path
) -> None:
    key = "lance-encoding:dict-values-compression"
    options = {key: "zstd", f"{key}-level": level}
    table = pa.table([array], schema=pa.schema([pa.field("c", array.type, metadata=options)]))
    write(store, table, "2.2")
    with lance.file.LanceFileWriter(str(tmp_path / "b.lance"), table.schema, version="2.2") as writer:
        writer.write_batch(table)
    dictionaries = []
    assert_both_read(store, tmp_path, table)
    for name in ("a.lance", "b.lance"):
        reader = FileReader.open(store, name)
        (page,) = reader.column(0).pages
        position, size = reader.column_metadata(0).pages[0].buffers[2]
        stored = (tmp_path / name).read_bytes()[position : position + size]
        dictionaries.append((page.layout.mini_block_layout.dictionary, stored))
    assert dictionaries[0] == dictionaries[1]
    assert dictionaries[0][0].general.compression.level == int(level)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", [pa.string(), pa.large_binary()], ids=str)
def test_chunks_of_strings_are_as_small_as_a_field_asks_for(
    kind: pa.DataType, version: str, store: Store, tmp_path: Path
) -> None:
    array = pa.array([f"user-{n * 7919}" for n in range(5000)]).cast(kind)
    sizes = []
    for options in ({}, {"lance-encoding:minichunk-size": "512"}):
        table = pa.table([array], schema=pa.schema([pa.field("c", kind, metadata=options)]))
        write(store, table, version)
        reader = assert_both_read(store, tmp_path, table)
        sizes.append(reader.column_metadata(0).pages[0].buffers[0][1])
    assert sizes[1] > 4 * sizes[0]
