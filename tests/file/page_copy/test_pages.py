"""What is copied is the same bytes, and what loses rows is not encoded again."""

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileWriter

from lance_ops.errors import InvalidArgumentError
from lance_ops.file.container.read import ALIGNMENT
from lance_ops.file.page_copy import DEFAULT_RULE, KEEP_ALL, CopySource, MergeRule, copy_pages
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.v2_0.columns import ARRAY_ENCODING_URL
from lance_ops.file.writer import FileWriter
from lance_ops.pb import encodings20_pb2, encodings21_pb2
from lance_ops.storage import open_store
from tests.support.page_copy import copy_and_check, pages, peer_rows, write_peer_files
from tests.support.page_signature import page_signatures

pytestmark = pytest.mark.peer

ROWS = 20_000


@pytest.fixture
def store(tmp_path):
    return open_store(tmp_path, {"fsync": "false"})


def described(file):
    return {
        "fields": file.fields,
        "column_indices": file.column_indices,
        "file_major_version": file.file_major_version,
        "file_minor_version": file.file_minor_version,
    }


def layouts(store, path, column=0):
    found = []
    for number, page, _ in pages(store, path):
        if number == column:
            if page.encoding.type_url == ARRAY_ENCODING_URL:
                found.append(encodings20_pb2.ArrayEncoding.FromString(page.encoding.value))
            else:
                found.append(encodings21_pb2.PageLayout.FromString(page.encoding.value))
    return found


def texts(count, seed=0):
    rng = np.random.default_rng(seed)
    return pa.array([f"user-{n:08d}@example.com" for n in rng.integers(0, 10**8, count)])


def mixed(count, seed=0):
    rng = np.random.default_rng(seed)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(rng.random(count * 8, dtype=np.float32)), 8)
    return pa.table(
        {
            "id": np.arange(count),
            "text": texts(count, seed),
            "kind": pa.array([f"kind {n % 5}" for n in range(count)]),
            "list": pa.array([list(range(n % 4)) for n in range(count)], pa.list_(pa.int32())),
            "struct": pa.array([{"a": n, "b": str(n)} for n in range(count)]),
            "vector": vectors,
        }
    )


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_pages_without_deletions_keep_their_bytes_and_are_aligned(tmp_path, store, version):
    tables = [mixed(3000, seed) for seed in range(3)]
    names = write_peer_files(tmp_path, tables, version)
    copy_pages(store, "copy.lance", [CopySource(store, name) for name in names], rule=KEEP_ALL)
    assert peer_rows(tmp_path / "copy.lance") == [row for table in tables for row in table.to_pylist()]
    found = list(pages(store, "copy.lance"))
    originals = [page for name in names for page in pages(store, name)]
    originals.sort(key=lambda page: page[0])
    headers = {number for number, _, buffers in originals if not buffers and version == "2.0"}
    assert [(column, buffers) for column, _, buffers in found if column not in headers] == [
        (column, buffers) for column, _, buffers in originals if column not in headers
    ]
    for column, page, _ in found:
        assert all(position % ALIGNMENT == 0 for position, size in page.buffers if size)
        if column not in headers:
            assert page.priority in (0, 3000, 6000)


def test_struct_headers_of_2_0_become_one_page(tmp_path, store):
    tables = [mixed(700).select(["struct"]), mixed(300).select(["struct"])]
    names = write_peer_files(tmp_path, tables, "2.0")
    deleted = [np.arange(10), None]
    copy_and_check(tmp_path, names, deleted)
    (header,) = [page for column, page, _ in pages(store, "copy.lance") if column == 0]
    assert (header.length, header.priority) == (990, 0)
    assert encodings20_pb2.ArrayEncoding.FromString(header.encoding.value).HasField("struct")
    copy_and_check(tmp_path, names, [np.arange(700), np.arange(300)])


def test_files_of_ours_are_copied(tmp_path, store):
    table = mixed(2000)
    for version in ("2.0", "2.1", "2.2"):
        for number in range(3):
            with FileWriter(
                store, f"{number}", Schema.from_arrow(table.schema), version=version, page_bytes=5000
            ) as writer:
                writer.write(table)
        deleted = [None, np.arange(0, 2000, 7), np.arange(500, 1500)]
        names = [str(number) for number in range(3)]
        for rule in (DEFAULT_RULE, KEEP_ALL):
            copy_and_check(tmp_path, names, deleted, rule=rule, expected=[table.to_pylist()] * 3)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_a_page_that_loses_rows_keeps_its_symbol_table(tmp_path, store, version):
    table = pa.table({"c": texts(ROWS)})
    names = write_peer_files(tmp_path, [table], version)
    (before,) = layouts(store, names[0])
    table_before = before.mini_block_layout.value_compression.fsst.symbol_table
    assert len(table_before) > 2000
    copy_and_check(tmp_path, names, [np.arange(0, ROWS, 100)])
    (after,) = layouts(store, "copy.lance")
    assert after.mini_block_layout.value_compression.fsst.symbol_table == table_before
    assert after.mini_block_layout.num_items == ROWS - ROWS // 100


def test_a_full_zip_page_that_loses_rows_keeps_its_symbol_table(tmp_path, store):
    long = pa.array([f"{n * 7919} the quick brown fox jumps over the lazy dog " * 12 for n in range(900)])
    names = write_peer_files(tmp_path, [pa.table({"c": long})], "2.2")
    (before,) = layouts(store, names[0])
    copy_and_check(tmp_path, names, [np.array([0, 5, 6, 899])])
    (after,) = layouts(store, "copy.lance")
    assert after.full_zip_layout.value_compression == before.full_zip_layout.value_compression
    assert (after.full_zip_layout.num_items, before.full_zip_layout.num_items) == (896, 900)


def test_a_page_that_loses_rows_keeps_its_dictionary(tmp_path, store):
    table = pa.table({"c": [f"kind {n % 9}" for n in range(ROWS)]})
    for version in ("2.0", "2.1", "2.2"):
        names = write_peer_files(tmp_path, [table], version)
        copy_and_check(tmp_path, names, [np.arange(0, ROWS, 10)])
        (_, _, before), (_, _, after) = [*pages(store, names[0]), *pages(store, "copy.lance")]
        position = 1 if version == "2.0" else 2
        assert after[position:] == before[position:]


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_page_signatures_survive_deletions(tmp_path, store, version):
    table = mixed(ROWS)
    names = write_peer_files(tmp_path, [table], version)
    copy_and_check(tmp_path, names, [np.arange(0, ROWS, 13)])
    if version != "2.0":
        before, after = (page_signatures(FileReader.open(store, name)) for name in (names[0], "copy.lance"))
        assert after == before


def test_nullable_pages_may_lose_all_of_their_nulls_or_of_their_values(tmp_path):
    table = pa.table({"c": [None if n < 1500 else n for n in range(3000)]})
    for version in ("2.0", "2.1", "2.2"):
        names = write_peer_files(tmp_path, [table], version)
        copy_and_check(tmp_path, names, [np.arange(1500)])
        copy_and_check(tmp_path, names, [np.arange(1500, 3000)])


def test_long_values_that_lose_the_short_ones_between_them(tmp_path):
    values = [("x" * 9000 if n % 2 else "y") + str(n) for n in range(64)]
    table = pa.table({"c": values}, schema=pa.schema([pa.field("c", pa.string())]))
    for version in ("2.1", "2.2"):
        names = write_peer_files(tmp_path, [table], version)
        copy_and_check(tmp_path, names, [np.arange(0, 64, 2)])


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_small_pages_become_one_as_if_written_at_once(tmp_path, store, version):
    table = mixed(4000)
    parts = [table.slice(start, 100) for start in range(0, 4000, 100)]
    names = write_peer_files(
        tmp_path, [pa.table(part.to_pydict(), schema=table.schema) for part in parts], version
    )
    copy_and_check(tmp_path, names, [None] * 40)
    merged = list(pages(store, "copy.lance"))
    columns = {column for column, _, _ in merged}
    assert len(merged) == len(columns)
    if version != "2.0":
        with FileWriter(store, "fresh", Schema.from_arrow(table.schema), version=version) as writer:
            writer.write(table)
        signatures = [page_signatures(FileReader.open(store, name)) for name in ("copy.lance", "fresh")]
        assert signatures[0] == signatures[1]
    deleted = [None if n % 3 else np.arange(0, 100, 5) for n in range(40)]
    copy_and_check(tmp_path, names, deleted)


def test_dictionaries_that_differ_become_one_or_none(tmp_path, store):
    few = [pa.table({"c": [f"{n}-{k % 10}" for k in range(400)]}) for n in range(10)]
    names = write_peer_files(tmp_path, few, "2.2")
    copy_and_check(tmp_path, names, [None] * 10)
    (layout,) = layouts(store, "copy.lance")
    assert layout.mini_block_layout.num_dictionary_items == 100
    many = [pa.table({"c": [f"{n}-{k % 150}" for k in range(400)]}) for n in range(10)]
    names = write_peer_files(tmp_path, many, "2.2")
    copy_and_check(tmp_path, names, [None] * 10)


def test_plain_rows_are_joined_and_large_pages_are_not(tmp_path, store):
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.random.default_rng(0).random(300 * 768)), 768)
    tables = [pa.table({"c": vectors})] * 4
    for version in ("2.0", "2.1", "2.2"):
        names = write_peer_files(tmp_path, tables, version)
        deleted = [None, np.arange(0, 300, 2), np.array([7]), None]
        copy_and_check(tmp_path, names, deleted)
        lengths = [page.length for _, page, _ in pages(store, "copy.lance")]
        assert lengths == [450, 599]
        copy_and_check(tmp_path, names, deleted, rule=MergeRule(join_bytes=1 << 30))
        assert [page.length for _, page, _ in pages(store, "copy.lance")] == [1049]
        copy_and_check(tmp_path, names, deleted, rule=KEEP_ALL)
        assert [page.length for _, page, _ in pages(store, "copy.lance")] == [300, 150, 299, 300]


def test_schema_metadata_are_merged(tmp_path, store):
    for number, metadata in enumerate([{b"a": b"1", b"b": b"2"}, {b"a": b"9", b"c": b"3"}]):
        schema = pa.schema([pa.field("c", pa.int32())], metadata=metadata)
        with LanceFileWriter(str(tmp_path / f"{number}"), schema, version="2.1") as writer:
            writer.write_batch(pa.record_batch([pa.array([number], pa.int32())], schema=schema))
    copy_pages(store, "copy", [CopySource(store, "0"), CopySource(store, "1")])
    reader = FileReader.open(store, "copy")
    assert dict(reader.schema.metadata) == {"a": b"1", "b": b"2", "c": b"3"}
    assert reader.read_table()["c"].to_pylist() == [0, 1]


def test_the_deleted_rows_must_be_rows_of_the_file(tmp_path, store):
    (name,) = write_peer_files(tmp_path, [pa.table({"c": [1, 2, 3]})], "2.2")
    wrong = ([3], [1, 1], [2, 1], [-1], [0.5], np.zeros(2, bool), [[0]])
    for rows in wrong:
        with pytest.raises(InvalidArgumentError) as caught:
            copy_pages(store, "copy", [CopySource(store, name, deleted=np.asarray(rows))])
        assert caught.value.path == name
    with pytest.raises(InvalidArgumentError):
        copy_pages(store, "copy", [])
    assert not store.exists("copy")


def test_a_dataset_of_the_peer_takes_a_copied_file_in_place_of_its_fragments(tmp_path):
    table = mixed(6000)
    path = str(tmp_path / "d.lance")
    lance.write_dataset(table, path, max_rows_per_file=1000, data_storage_version="2.2")
    dataset = lance.dataset(path)
    dataset.delete("id % 9 = 4")
    expected = dataset.to_table().to_pylist()
    fragments = dataset.get_fragments()
    store = open_store(path)
    sources = []
    for fragment in fragments:
        ids = np.arange(fragment.physical_rows) + 1000 * fragment.fragment_id
        data = fragment.metadata.files[0]
        sources.append(CopySource(store, "data/" + data.path, data.file_size_bytes, ids % 9 == 4))
    written = copy_pages(store, "data/copy.lance", sources)
    old = [fragment.metadata for fragment in fragments]
    file = old[0].files[0]
    changed = {"path": "copy.lance", "file_size_bytes": written.size_bytes}
    assert list(written.field_ids) == list(file.fields)
    assert list(written.column_indices) == list(file.column_indices)
    new = lance.FragmentMetadata(
        id=0, files=[type(file)(**{**described(file), **changed})], physical_rows=written.num_rows
    )
    group = lance.LanceOperation.RewriteGroup(
        old_fragments=[fragment.metadata for fragment in dataset.get_fragments()], new_fragments=[new]
    )
    rewrite = lance.LanceOperation.Rewrite(groups=[group], rewritten_indices=[])
    committed = lance.LanceDataset.commit(path, rewrite, read_version=dataset.version)
    assert len(committed.get_fragments()) == 1
    committed.validate()
    assert committed.to_table().to_pylist() == expected


@pytest.mark.parametrize("length", [3, 5000])
def test_pages_of_one_value_are_put_together_unless_the_value_would_take_too_much(tmp_path, store, length):
    tables = [pa.table({"c": [letter * length] * 4000}) for letter in "aab"]
    names = write_peer_files(tmp_path, tables, "2.2")
    copy_and_check(tmp_path, names, [None] * 3)
    lengths = [page.length for _, page, _ in pages(store, "copy.lance")]
    assert lengths == ([12_000] if length == 3 else [4000] * 3)


def test_pages_of_many_rows_are_never_small(tmp_path, store):
    tables = [pa.table({"c": pa.nulls(1000, pa.int64())})] * 3
    names = write_peer_files(tmp_path, tables, "2.2")
    copy_and_check(tmp_path, names, [None] * 3)
    assert [page.length for _, page, _ in pages(store, "copy.lance")] == [3000]
    copy_and_check(tmp_path, names, [None] * 3, rule=MergeRule(small_rows=999))
    assert [page.length for _, page, _ in pages(store, "copy.lance")] == [1000] * 3


def test_dictionaries_and_plain_strings_alternate(tmp_path):
    few = pa.table({"c": [f"kind {n % 5}" for n in range(600)]})
    many = pa.table({"c": texts(600)})
    names = write_peer_files(tmp_path, [few, few, many, few, many, many], "2.2")
    copy_and_check(tmp_path, names, [None, np.arange(5), None, np.arange(590), np.array([0]), None])


_MEMBERS = pa.struct([("l", pa.list_(pa.int64())), ("x", pa.int32())])
_ROWS_OF_FILES = {
    "struct": (_MEMBERS, [{"l": [1, 2], "x": 3}, {"l": [], "x": None}], [None, {"l": [4], "x": 5}]),
    "list": (
        pa.list_(_MEMBERS),
        [[{"l": [1], "x": 2}], [{"l": [3, 4], "x": 5}, {"l": None, "x": 6}]],
        [[None, {"l": [7], "x": 8}], None],
    ),
    "nested": (
        pa.struct([("s", _MEMBERS)]),
        [{"s": {"l": [1, 2], "x": 3}}],
        [{"s": None}, {"s": {"l": [None], "x": 5}}],
    ),
}


@pytest.mark.parametrize("rule", [DEFAULT_RULE, KEEP_ALL], ids=["merged", "apart"])
@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("kind", _ROWS_OF_FILES)
def test_pages_that_readers_would_mix_up_are_written_anew(kind, version, rule, tmp_path):
    # Structs above lists that are null in one file only: the peer, which writes them so, reads wrong nulls
    # when such pages follow each other.
    data_type, *files = _ROWS_OF_FILES[kind]
    expected = []
    for number in range(6):
        rows = files[number % 2] * 40
        table = pa.table({"c": pa.array(rows, data_type)})
        with LanceFileWriter(str(tmp_path / f"{number}.lance"), table.schema, version=version) as writer:
            writer.write_batch(table)
        expected.append(table.to_pylist())
    names = [f"{number}.lance" for number in range(6)]
    for gone in (None, np.arange(0, 30, 7)):
        (tmp_path / "copy.lance").unlink(missing_ok=True)
        copy_and_check(tmp_path, names, [gone] * 6, rule=rule, expected=expected)
