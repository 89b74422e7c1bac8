from pathlib import Path

import pyarrow as pa
import pytest

from lance_ops.errors import (
    InvalidArgumentError,
    SchemaMismatchError,
    UnsupportedTypeError,
    UnsupportedVersionError,
)
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.versions import storage_version, version_name
from lance_ops.file.writer import FileWriter, check_writable
from lance_ops.storage import Store, open_store
from tests.support.arrays import ALL_2_0_TYPES


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path))


@pytest.fixture(params=["2.0", "2.1", "2.2"])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def schema_of(*fields: tuple[str, pa.DataType] | pa.Field) -> Schema:
    return Schema.from_arrow(pa.schema(list(fields)))


def test_small_batches_share_a_page(version: str, store: Store) -> None:
    batch = pa.record_batch(
        {"a": list(range(100)), "s": [f"s{n}" for n in range(100)], "l": [[n] for n in range(100)]}
    )
    with FileWriter(store, "a.lance", Schema.from_arrow(batch.schema), version=version) as writer:
        for _ in range(1000):
            writer.write(batch)
    reader = FileReader.open(store, "a.lance")
    assert reader.num_rows == 100_000
    assert [len(reader.column_metadata(index).pages) for index in range(reader.num_columns)] == [1] * (
        4 if version == "2.0" else 3
    )


def test_large_batches_are_cut_into_pages(version: str, store: Store) -> None:
    table = pa.table({"a": pa.array(range(10_000)), "s": pa.array(["x" * n for n in range(100)] * 100)})
    with FileWriter(
        store, "a.lance", Schema.from_arrow(table.schema), page_bytes=10_000, version=version
    ) as writer:
        writer.write(table)
    reader = FileReader.open(store, "a.lance")
    for index in range(2):
        pages = reader.column_metadata(index).pages
        assert len(pages) > 5
        assert all(size <= 20_000 and position % 64 == 0 for page in pages for position, size in page.buffers)
    assert reader.read_table().equals(table)


def test_a_struct_column_has_exactly_one_page(store: Store) -> None:
    table = pa.table({"s": [{"a": n, "b": {"c": n}} for n in range(5000)]})
    with FileWriter(
        store, "a.lance", Schema.from_arrow(table.schema), page_bytes=1000, version="2.0"
    ) as writer:
        for batch in table.to_batches(max_chunksize=100):
            writer.write(batch)
    reader = FileReader.open(store, "a.lance")
    assert [len(reader.column_metadata(index).pages) for index in (0, 2)] == [1, 1]
    assert len(reader.column_metadata(1).pages) > 1


def test_waiting_rows_do_not_keep_large_batches_alive(version: str, store: Store) -> None:
    with FileWriter(store, "a.lance", schema_of(("a", pa.int64())), version=version) as writer:
        pool = pa.total_allocated_bytes()
        for _ in range(50):
            writer.write(pa.record_batch({"a": pa.array(range(100_000))}).slice(7, 10))
        assert pa.total_allocated_bytes() - pool < 1_000_000
        assert writer.tell() == 50 * 80


def test_waiting_lists_do_not_keep_large_batches_alive(version: str, store: Store) -> None:
    kind = pa.list_(pa.int8())
    with FileWriter(store, "a.lance", schema_of(("a", kind)), version=version) as writer:
        pool = pa.total_allocated_bytes()
        for number in range(30):
            # Rows 3, 13, 23, ... are null.
            rows = [None if row % 10 == 3 else [number] for row in range(20_000)]
            writer.write(pa.record_batch({"a": pa.array(rows, kind)}).slice(7, 10))
            del rows
        assert pa.total_allocated_bytes() - pool < 1_000_000
    expected = ([[number] if row != 6 else None for row in range(10)] for number in range(30))
    found = FileReader.open(store, "a.lance").read_table()["a"].to_pylist()
    assert found == [row for rows in expected for row in rows]


def test_an_error_leaves_nothing_behind(version: str, store: Store) -> None:
    def fail() -> None:
        with FileWriter(store, "a.lance", schema_of(("a", pa.int64())), version=version) as writer:
            writer.write(pa.record_batch({"a": [1]}))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list(store.list("")) == []


def test_finish_is_final_and_repeatable(version: str, store: Store) -> None:
    writer = FileWriter(store, "d/a.lance", schema_of(("a", pa.int64())), version=version)
    writer.write(pa.record_batch({"a": [1, 2]}))
    written = writer.finish()
    assert writer.finish() == written
    assert (written.path, written.num_rows, written.size_bytes) == ("d/a.lance", 2, store.size("d/a.lance"))
    assert version_name(written.major, written.minor) == version
    for late in (
        lambda: writer.write(pa.record_batch({"a": [1]})),
        lambda: writer.add_global_buffer(b""),
        lambda: writer.add_schema_metadata({}),
    ):
        with pytest.raises(InvalidArgumentError, match="finished"):
            late()


def test_metadata_and_global_buffers_are_kept(version: str, store: Store) -> None:
    with FileWriter(store, "a.lance", schema_of(("a", pa.int64())), version=version) as writer:
        assert writer.add_global_buffer(b"one") == 1
        writer.write(pa.record_batch({"a": [1]}))
        assert writer.add_global_buffer(b"") == 2
        writer.add_schema_metadata({"k": b"\xff"})
    reader = FileReader.open(store, "a.lance")
    assert [reader.global_buffer(number).to_pybytes() for number in (1, 2)] == [b"one", b""]
    assert reader.schema.metadata == {"k": b"\xff"}


def test_columns_are_matched_by_name(version: str, store: Store) -> None:
    with FileWriter(
        store, "a.lance", schema_of(("a", pa.int64()), ("b", pa.string())), version=version
    ) as writer:
        writer.write(pa.table({"b": ["x"], "a": [1]}))
    assert FileReader.open(store, "a.lance").read_table().to_pydict() == {"a": [1], "b": ["x"]}


def test_every_mismatch_is_listed(version: str, store: Store) -> None:
    writer = FileWriter(
        store, "a.lance", schema_of(("a", pa.int64()), ("b", pa.string()), ("c", pa.bool_())), version=version
    )
    with pytest.raises(SchemaMismatchError) as caught:
        writer.write(pa.table({"a": pa.array([1], pa.int32()), "b": ["x"], "d": [1]}))
    writer.abort()
    assert caught.value.mismatches == (
        "column 'c' is missing",
        "column 'd' is not in the schema",
        "column 'a' has type int32, expected int64",
    )


def test_nullability_and_names_of_items_do_not_matter(version: str, store: Store) -> None:
    wanted = pa.list_(pa.field("item", pa.struct([("x", pa.int8())])))
    given = pa.list_(
        pa.field("element", pa.struct([pa.field("x", pa.int8(), nullable=False)]), nullable=False)
    )
    with FileWriter(store, "a.lance", schema_of(("a", wanted)), version=version) as writer:
        writer.write(pa.table({"a": pa.array([[{"x": 1}]], given)}))
    assert FileReader.open(store, "a.lance").read_table().schema.field("a").type == wanted


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (pa.field("a", pa.int64(), nullable=False), None),
        (pa.field("a", pa.list_(pa.field("item", pa.int8(), nullable=False))), [1, None]),
        (pa.field("a", pa.struct([pa.field("x", pa.string(), nullable=False)])), {"x": None}),
        (pa.field("a", pa.large_binary(), nullable=False, metadata={"lance-encoding:blob": "true"}), None),
    ],
)
def test_nulls_where_none_may_be_are_refused(
    version: str, store: Store, field: pa.Field, value: object
) -> None:
    if field.metadata and version == "2.2":
        # It has blobs of another type.
        return
    nullable = Schema.from_arrow(pa.schema([field.with_nullable(True)])).to_arrow().field(0).type
    writer = FileWriter(store, "a.lance", schema_of(field), version=version)
    with pytest.raises(SchemaMismatchError, match="must not be null"):
        writer.write(pa.record_batch([pa.array([value], nullable)], names=["a"]))
    writer.abort()
    assert not store.exists("a.lance")


@pytest.mark.parametrize(
    "fields", [[], [("a", pa.int64())], [("s", pa.struct([("x", pa.list_(pa.int8()))]))]]
)
def test_files_without_rows_are_read(
    version: str, store: Store, fields: list[tuple[str, pa.DataType]]
) -> None:
    schema = pa.schema(fields)
    with FileWriter(store, "a.lance", Schema.from_arrow(schema), version=version) as writer:
        writer.write(schema.empty_table())
    reader = FileReader.open(store, "a.lance")
    assert reader.num_rows == 0
    assert reader.read_table().equals(schema.empty_table())
    assert list(reader.iter_batches()) == []
    assert reader.take([]).equals(schema.empty_table())


def test_storable_types_are_writable() -> None:
    check_writable(pa.schema([(str(number), kind) for number, kind in enumerate(ALL_2_0_TYPES)]), "2.0")


@pytest.mark.parametrize(
    "field",
    [
        pa.field("c", pa.map_(pa.string(), pa.int8())),
        pa.field("c", pa.list_(pa.map_(pa.string(), pa.int8()))),
        pa.field("c", pa.list_(pa.string(), 2)),
        pa.field("c", pa.list_(pa.struct([("a", pa.int8())]), 2)),
        pa.field("c", pa.dictionary(pa.int8(), pa.date32())),
        pa.field("c", pa.dictionary(pa.int8(), pa.binary(2))),
        pa.field("c", pa.binary(0)),
        pa.field("c", pa.month_day_nano_interval()),
        pa.field("c", pa.string(), metadata={"lance-encoding:blob": "true"}),
        pa.field("c", pa.struct([("a", pa.string())]), metadata={"packed": "true"}),
        pa.field("c", pa.struct([("a", pa.bool_())]), metadata={"lance-encoding:packed": "true"}),
        pa.field("c", pa.struct([("a", pa.struct([("b", pa.int8())]))]), metadata={"packed": "true"}),
        pa.field("c", pa.struct([]), metadata={"packed": "true"}),
    ],
    ids=str,
)
def test_types_that_2_0_cannot_hold_are_refused_before_anything_is_written(
    store: Store, field: pa.Field
) -> None:
    with pytest.raises(UnsupportedTypeError, match=r"storage version 2\.0 cannot hold the schema"):
        check_writable(pa.schema([pa.field("a", pa.int8()), field]), "2.0")


def test_every_problem_of_a_schema_is_listed(store: Store) -> None:
    schema = pa.schema(
        [("m", pa.map_(pa.string(), pa.int8())), ("x", pa.struct([("f", pa.list_(pa.string(), 2))]))]
    )
    with pytest.raises(UnsupportedTypeError) as caught:
        check_writable(schema, "2.0")
    assert "'m' (map)" in str(caught.value)
    assert "'x.f'" in str(caught.value)
    with pytest.raises(UnsupportedTypeError):
        FileWriter(store, "a.lance", Schema.from_arrow(schema), version="2.0")
    assert list(store.list("")) == []


@pytest.mark.parametrize("version", ["0.1", "9.9"])
def test_other_storage_versions_cannot_be_written(store: Store, version: str) -> None:
    with pytest.raises(UnsupportedVersionError, match=version):
        check_writable(pa.schema([("a", pa.int8())]), version)
    with pytest.raises(UnsupportedVersionError, match=version):
        FileWriter(store, "a.lance", schema_of(("a", pa.int8())), version=version)


def test_the_alias_of_a_version_that_is_not_written_says_what_it_means(store: Store) -> None:
    for refused in (
        lambda: check_writable(pa.schema([("a", pa.int8())]), "legacy"),
        lambda: FileWriter(store, "a.lance", schema_of(("a", pa.int8())), version="legacy"),
    ):
        with pytest.raises(UnsupportedVersionError, match=r"0\.1"):
            refused()


def test_versions_have_names() -> None:
    assert storage_version("stable") is storage_version("2.2")
    numbers = [(0, 0), (0, 2), (0, 3), (2, 0), (2, 1), (2, 2), (7, 8)]
    assert [version_name(*pair) for pair in numbers] == ["0.1", "0.1", "2.0", "2.0", "2.1", "2.2", "7.8"]
    assert storage_version("2.0").manifest == (2, 0)
