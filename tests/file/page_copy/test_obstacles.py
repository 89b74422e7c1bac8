"""What cannot be copied page by page is refused with the file, the column and the reason."""

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileWriter

from lance_ops.errors import FileMissingError, UnsupportedError
from lance_ops.file.container.read import Column, Encoding, Page
from lance_ops.file.container.write import ContainerWriter
from lance_ops.file.page_copy import CopySource, copy_pages, find_obstacles
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter
from lance_ops.storage import open_store
from tests.support.page_copy import write_peer_files

pytestmark = pytest.mark.peer


@pytest.fixture
def store(tmp_path):
    return open_store(tmp_path, {"fsync": "false"})


def check_refused(store, names, *words, deleted=None):
    sources = [CopySource(store, name, deleted=deleted) for name in names]
    found = find_obstacles(sources)
    assert found
    for word in words:
        assert any(word in line for line in found), found
    assert all(any(name in line for name in names) for line in found)
    before = sorted(info.path for info in store.list(""))
    with pytest.raises(UnsupportedError) as caught:
        copy_pages(store, "copy.lance", sources)
    assert any(word in str(caught.value) for word in words)
    assert sorted(info.path for info in store.list("")) == before


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_blob_columns(tmp_path, store, version):
    metadata = {"lance-encoding:blob": "true"}
    schema = pa.schema([pa.field("n", pa.int32()), pa.field("b", pa.large_binary(), metadata=metadata)])
    table = pa.table({"n": [1, 2], "b": [b"x" * 100, None]}, schema=schema)
    names = write_peer_files(tmp_path, [table, table], version)
    check_refused(store, names, "column 'b': it is a blob column")


def test_blob_columns_of_the_second_kind(tmp_path, store):
    schema = pa.schema([lance.blob_field("b")])
    table = pa.table([lance.blob_array([b"x" * 100, None])], schema=schema)
    lance.write_dataset(table, str(tmp_path / "d"), data_storage_version="2.2")
    (file,) = (tmp_path / "d" / "data").glob("*.lance")
    file.rename(tmp_path / "a.lance")
    check_refused(store, ["a.lance"], "blob column")


def test_other_versions_and_other_schemas(tmp_path, store):
    def write(name, schema, version="2.1"):
        with LanceFileWriter(str(tmp_path / name), schema, version=version) as writer:
            writer.write_batch(pa.record_batch([pa.nulls(2, field.type) for field in schema], schema=schema))

    base = pa.schema([pa.field("a", pa.int32()), pa.field("b", pa.string())])
    write("base", base)
    write("version", base, "2.2")
    check_refused(store, ["base", "version"], "version is 2.2, not 2.1")
    for other, words in (
        (pa.schema([base.field(0)]), "1 fields"),
        (pa.schema([base.field(0), pa.field("c", pa.string())]), "its name is 'c'"),
        (pa.schema([base.field(0), pa.field("b", pa.large_string())]), "its type is 'large_string'"),
        (pa.schema([base.field(1), base.field(0)]), "its name is 'b'"),
        (
            pa.schema([base.field(0), pa.field("b", pa.string(), metadata={"ARROW:extension:name": "x"})]),
            "metadata",
        ),
    ):
        write("other", other)
        check_refused(store, ["base", "other"], words)


def test_nullability_and_field_ids(tmp_path, store):
    def write(name, schema, first_id=0):
        with FileWriter(store, name, Schema.from_arrow(schema, first_id=first_id), version="2.0") as writer:
            writer.write(pa.table({"a": [1]}, schema=schema))

    write("base", pa.schema([pa.field("a", pa.int64())]))
    write("required", pa.schema([pa.field("a", pa.int64(), nullable=False)]))
    write("renumbered", pa.schema([pa.field("a", pa.int64())]), first_id=5)
    check_refused(store, ["base", "required"], "nullability")
    check_refused(store, ["base", "renumbered"], "field id is 5")


def test_harmless_metadata_may_differ(tmp_path, store):
    for number in range(2):
        field = pa.field("a", pa.int64(), metadata={"comment": str(number)})
        schema = pa.schema([field])
        with FileWriter(store, f"{number}", Schema.from_arrow(schema), version="2.0") as writer:
            writer.write(pa.table({"a": [number]}, schema=schema))
    sources = [CopySource(store, "0"), CopySource(store, "1")]
    assert find_obstacles(sources) == []
    assert copy_pages(store, "copy.lance", sources).num_rows == 2


def test_global_buffers(store):
    schema = Schema.from_arrow(pa.schema([("a", pa.int64())]))
    with FileWriter(store, "a", schema, version="2.0") as writer:
        writer.write(pa.table({"a": [1]}))
        writer.add_global_buffer(b"something")
    check_refused(store, ["a"], "1 global buffers")


def test_column_buffers(store, monkeypatch):
    from lance_ops.file.container import write as container_writer

    schema = Schema.from_arrow(pa.schema([("a", pa.int64())]))
    encode = container_writer.encode_column
    monkeypatch.setattr(
        container_writer,
        "encode_column",
        lambda column: encode(Column(column.encoding, column.pages, ((0, 4),))),
    )
    with FileWriter(store, "a", schema, version="2.0") as writer:
        writer.write(pa.table({"a": [1]}))
    check_refused(store, ["a"], "column 0", "buffers shared by all of its pages")


def test_columns_that_the_schema_does_not_have(store):
    schema = Schema.from_arrow(pa.schema([("a", pa.int64())]))
    with store.open_writer("a") as output:
        container = ContainerWriter(output, 2)
        encoding = Encoding("/lance.encodings.ColumnEncoding", b"\x0a\x00")
        for column in range(2):
            container.add_page(column, [], 0, 0, Encoding("", b""))
        container.finish(schema, 0, [encoding, encoding], (2, 1))
    check_refused(store, ["a"], "its schema has 1 columns")
    assert Page  # what `add_page` makes


def test_legacy_files(tmp_path, store):
    lance.write_dataset(pa.table({"a": [1, 2]}), str(tmp_path / "d"), data_storage_version="legacy")
    (file,) = (tmp_path / "d" / "data").glob("*.lance")
    file.rename(tmp_path / "a.lance")
    check_refused(store, ["a.lance"], "storage version 0.1")


def test_pages_of_2_3_are_written_anew(tmp_path, store):
    table = pa.table({"a": np.arange(50)})
    names = write_peer_files(tmp_path, [table, table], "2.3")
    check_refused(store, names, "storage version 2.3")


def test_a_missing_file_is_no_obstacle_but_an_error(store):
    for call in (find_obstacles, lambda sources: copy_pages(store, "copy", sources)):
        with pytest.raises(FileMissingError):
            call([CopySource(store, "nothing")])
