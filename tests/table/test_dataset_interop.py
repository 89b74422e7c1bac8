"""What the peer writes in storage version 2.0, we read: same rows, same order, same schema."""

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance.arrow import bfloat16_array

from lance_ops.table.dataset import Dataset
from tests.support.arrays import ALL_2_0_TYPES, random_array

pytestmark = pytest.mark.peer

ROW_COLUMNS = ["_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"]


def assert_equal(ours: pa.Table, theirs: pa.Table) -> None:
    ours.validate(full=True)
    assert ours.schema.equals(theirs.schema, check_metadata=True)
    assert ours.num_rows == theirs.num_rows
    assert [name for name in theirs.column_names if not same_values(ours[name], theirs[name])] == []


def same_values(ours: pa.ChunkedArray, theirs: pa.ChunkedArray) -> bool:
    # Dictionaries differ from page to page without a difference in values.
    return ours.equals(theirs) or ("dictionary" in str(ours.type) and ours.to_pylist() == theirs.to_pylist())


def assert_reads_the_same(ours: Dataset, theirs: lance.LanceDataset) -> None:
    assert ours.version == theirs.version
    assert ours.schema.equals(theirs.schema, check_metadata=True)
    assert ours.count_rows() == theirs.count_rows()
    assert_equal(ours.to_table(), theirs.to_table())
    assert_equal(ours.to_batches().read_all(), theirs.to_table())
    assert_equal(ours.to_table([], with_row_id=True), theirs.to_table(columns=[], with_row_id=True))
    assert_equal(ours.to_table(ROW_COLUMNS), theirs.to_table(columns=ROW_COLUMNS))
    assert {f.id: f.num_rows for f in ours.fragments} == {
        f.fragment_id: f.count_rows() for f in theirs.get_fragments()
    }


def assert_all_versions_read_the_same(uri) -> None:
    theirs = lance.dataset(uri)
    ours = Dataset.open(uri)
    assert [v.version for v in ours.versions()] == [v["version"] for v in theirs.versions()]
    for version in theirs.versions():
        assert_reads_the_same(
            ours.checkout_version(version["version"]), theirs.checkout_version(version["version"])
        )


@pytest.fixture
def uri(tmp_path):
    return str(tmp_path / "table.lance")


def write(uri, table, mode="create", **options):
    options.setdefault("data_storage_version", "2.0")
    return lance.write_dataset(table, uri, mode=mode, **options)


def people(start, stop):
    return pa.table(
        {
            "i": pa.array(range(start, stop), pa.int32()),
            "s": pa.array([None if k % 5 == 0 else f"name {k}" for k in range(start, stop)], pa.string()),
            "p": pa.array(
                [{"a": k, "b": {"c": str(k), "d": None if k % 3 else k / 2}} for k in range(start, stop)],
                pa.struct(
                    [
                        pa.field("a", pa.int64(), nullable=False, metadata={"unit": "m"}),
                        ("b", pa.struct([("c", pa.string()), ("d", pa.float64())])),
                    ]
                ),
            ),
            "l": pa.array(
                [[{"x": k, "y": -k}] * (k % 3) for k in range(start, stop)],
                pa.list_(pa.struct([("x", pa.int64()), ("y", pa.int64())])),
            ),
        },
        metadata={"made by": "a test"},
    )


def test_all_types_with_deletes_over_several_fragments(uri):
    columns = {f"c{number}": kind for number, kind in enumerate(ALL_2_0_TYPES)}
    for seed in range(3):
        table = pa.table(
            {name: random_array(kind, 300, seed=seed) for name, kind in columns.items()}
            | {"key": pa.array(range(seed * 300, seed * 300 + 300))}
        )
        write(uri, table, "append" if seed else "create")
    lance.dataset(uri).delete("key % 7 = 3")
    lance.dataset(uri).delete("key >= 300 and key < 600")
    assert_all_versions_read_the_same(uri)


def test_nested_paths_come_out_flat_and_nullable_as_with_the_peer(uri):
    theirs = write(uri, people(0, 20))
    ours = Dataset.open(uri)
    for columns in (
        ["p.a"],
        ["p.b.d", "i"],
        ["p.a", "p"],
        ["p", "p.b.c", "l"],
        ["_rowid", "p.b", "_rowaddr"],
    ):
        assert_equal(ours.to_table(columns), theirs.to_table(columns=columns))


@pytest.mark.parametrize("limit", [None, 0, 1, 7, 1000])
@pytest.mark.parametrize("offset", [None, 0, 5, 12, 23, 1000])
def test_limit_and_offset_across_fragments_and_deletions(tmp_path_factory, limit, offset):
    uri = str(tmp_path_factory.getbasetemp() / "limits.lance")
    try:
        theirs = lance.dataset(uri)
    except ValueError:
        for start in range(0, 30, 10):
            write(uri, people(start, start + 10), "append" if start else "create")
        theirs = lance.dataset(uri)
        theirs.delete("i % 4 = 1")
    ours = Dataset.open(uri)
    assert_equal(
        ours.to_table(["i"], limit=limit, offset=offset),
        theirs.to_table(columns=["i"], limit=limit, offset=offset),
    )


def test_columns_added_dropped_renamed_and_retyped(uri):
    write(uri, people(0, 10))
    write(uri, people(10, 20), "append")
    theirs = lance.dataset(uri)
    theirs.add_columns({"twice": "i * 2", "text": "cast(i as string)"})
    theirs.add_columns(pa.schema([pa.field("empty", pa.list_(pa.int8())), pa.field("none", pa.float32())]))
    theirs.delete("i = 4")
    theirs.alter_columns({"path": "s", "name": "renamed"})
    theirs.alter_columns({"path": "i", "data_type": pa.int64()})
    theirs.drop_columns(["twice", "p.b.c"])
    write(uri, theirs.to_table().slice(0, 3), "append")
    theirs = lance.dataset(uri)
    theirs.update({"renamed": "'changed'"}, where="i = 7")
    theirs.merge(pa.table({"i": pa.array(range(30)), "joined": [str(k) for k in range(30)]}), "i")
    assert_all_versions_read_the_same(uri)


def test_rows_that_lack_columns_and_members_of_structs_and_lists(uri):
    write(uri, people(0, 5))
    part = pa.table(
        {
            "l": pa.array([[{"y": 1}], [], None, [{"y": 2}, {"y": None}]]),
            "p": pa.array([{"a": 1}] * 4, pa.struct([pa.field("a", pa.int64(), nullable=False)])),
        }
    )
    write(uri, part, "append")
    write(uri, pa.table({"s": ["only s"]}), "append")
    theirs = lance.dataset(uri)
    assert_reads_the_same(Dataset.open(uri), theirs)
    for columns in (["p.b"], ["p.b.d"], ["l"], ["p.a"]):
        assert_equal(Dataset.open(uri).to_table(columns), theirs.to_table(columns=columns))


def test_every_delete_kind_array_bitmap_and_growth(uri):
    write(uri, pa.table({"i": pa.array(range(20_000))}))
    for predicate in ("i = 0", "i < 4999", "i < 5000", "i % 2 = 0", "i > 19000"):
        lance.dataset(uri).delete(predicate)
    endings = {info.path.rpartition(".")[2] for info in Dataset.open(uri).store.list("_deletions")}
    assert endings == {"arrow", "bin"}
    assert_all_versions_read_the_same(uri)


def test_tags_from_both_sides(uri):
    theirs = write(uri, people(0, 3))
    write(uri, people(3, 6), "append")
    theirs.tags.create("first", 1)
    ours = Dataset.open(uri, "first")
    assert ours.version == 1
    assert_reads_the_same(ours, lance.dataset(uri, version="first"))
    assert ours.tags["first"].version == 1


def test_branches_and_tags_on_them(uri):
    theirs = write(uri, people(0, 3))
    write(uri, people(3, 6), "append")
    branch = lance.dataset(uri).create_branch("team/exp", 1)
    lance.write_dataset(people(10, 12), branch.uri, mode="append")
    branch = lance.dataset(uri).checkout_version(("team/exp", None))
    branch.tags.create("tried", ("team/exp", branch.version))
    theirs = lance.dataset(uri)

    ours = Dataset.open(uri)
    assert ours.branches["team/exp"].parent_version == 1
    assert ours.branch is None
    for opened in (
        ours.checkout_version(("team/exp", None)),
        Dataset.open(uri, ("team/exp", branch.version)),
        Dataset.open(uri, "tried"),
        Dataset.open(ours.checkout_version("tried").uri, "tried"),
    ):
        assert opened.branch == "team/exp"
        assert_reads_the_same(opened, branch)
        assert list(opened.tags) == ["tried"]
    assert_reads_the_same(opened.checkout_version(("main", None)), theirs)
    assert opened.checkout_version(1).branch == "team/exp"


def test_shallow_clones_read_the_files_of_their_source(uri, tmp_path):
    write(uri, people(0, 10))
    theirs = lance.dataset(uri)
    theirs.delete("i = 3")
    theirs.create_scalar_index("i", "BTREE")
    theirs.tags.create("stable", theirs.version)
    clone = theirs.shallow_clone(str(tmp_path / "clone.lance"), "stable")
    assert_reads_the_same(Dataset.open(clone.uri), clone)
    clone.delete("i = 5")
    write(clone.uri, people(50, 55), "append")
    clone = lance.dataset(clone.uri)
    assert_reads_the_same(Dataset.open(clone.uri), clone)
    again = clone.shallow_clone(str(tmp_path / "again.lance"), clone.version)
    assert_reads_the_same(Dataset.open(again.uri), again)


@pytest.mark.parametrize("is_root", [True, False])
def test_files_in_declared_bases(uri, tmp_path, is_root):
    base = lance.DatasetBasePath(str(tmp_path / "other"), "other", is_dataset_root=is_root, id=1)
    write(uri, people(0, 5), initial_bases=[base], target_bases=["other"])
    write(uri, people(5, 9), "append", target_bases=["other"])
    write(uri, people(9, 12), "append")
    theirs = lance.dataset(uri)
    theirs.delete("i = 7")
    assert_all_versions_read_the_same(uri)
    assert {file.base_id for item in Dataset.open(uri).fragments for file in item.files} == {None, 1}


def test_packed_structs_and_extension_types(uri):
    pair = pa.struct([("a", pa.int32()), ("b", pa.float64())])
    table = pa.table(
        {
            "packed": pa.array([{"a": k, "b": k / 2} for k in range(20)], pair),
            "id": pa.array([bytes([k] * 16) for k in range(20)], pa.uuid()),
            "half": bfloat16_array([k / 4 for k in range(20)]),
            "k": range(20),
        }
    )
    marked = table.schema.field("packed").with_metadata({"packed": "true"})
    write(uri, table.cast(table.schema.set(0, marked)))
    lance.dataset(uri).delete("k = 3")
    assert_all_versions_read_the_same(uri)
    # The peer returns other numbers for a single member of a packed struct, and selects by them.
    assert Dataset.open(uri).to_table(["packed.b"])["packed.b"].to_pylist()[2:4] == [1.0, 2.0]


def test_stable_row_ids_through_update_delete_and_compaction(uri):
    for start in range(0, 30, 10):
        write(uri, people(start, start + 10), "append" if start else "create", enable_stable_row_ids=True)
    theirs = lance.dataset(uri)
    theirs.update({"s": "'new'"}, where="i % 3 = 0")
    theirs.delete("i % 5 = 1")
    theirs.optimize.compact_files()
    write(uri, people(40, 45), "append")
    lance.dataset(uri).update({"s": "'newer'"}, where="i % 2 = 0")
    assert_all_versions_read_the_same(uri)
    ours = Dataset.open(uri)
    ids = ours.to_table(["_rowid"])["_rowid"].to_pylist()
    assert ids != sorted(ids)
    assert ours.take(ids[::-3], ["_rowid"], by="id")["_rowid"].to_pylist() == ids[::-3]


def test_rows_are_taken_as_by_the_peer(uri):
    for start in range(0, 30, 10):
        write(uri, people(start, start + 10), "append" if start else "create")
    theirs = lance.dataset(uri)
    theirs.delete("i % 4 = 1")
    ours = Dataset.open(uri)
    rows = [17, 0, 3, 3, 21, 8]
    taken = ours.take(rows, ["i", "s", "l"])
    assert taken.schema.metadata == ours.schema.metadata
    # The peer drops the schema metadata here, and nowhere else.
    assert_equal(taken.replace_schema_metadata(None), theirs.take(rows, columns=["i", "s", "l"]))
    addresses = ours.to_table(["_rowaddr"])["_rowaddr"].take(pa.array(rows))
    assert ours.take(addresses.to_numpy(), ["i"], by="address").equals(ours.take(rows, ["i"]))


def test_both_naming_schemes(uri):
    write(uri, people(0, 3), enable_v2_manifest_paths=False)
    write(uri, people(3, 6), "append")
    assert_all_versions_read_the_same(uri)
    lance.dataset(uri).migrate_manifest_paths_v2()
    assert_all_versions_read_the_same(uri)


def test_compaction_index_config_restore_overwrite_and_an_empty_dataset(uri):
    write(uri, people(0, 0))
    assert_reads_the_same(Dataset.open(uri), lance.dataset(uri))
    for start in range(0, 30, 10):
        write(uri, people(start, start + 10), "append")
    theirs = lance.dataset(uri)
    theirs.delete("i < 5")
    theirs.create_scalar_index("i", "BTREE")
    theirs.update_config({"owner": "me"})
    theirs.update_metadata({"about": "tests"})
    theirs.optimize.compact_files()
    before = theirs.version
    write(uri, pa.table({"other": ["x", "y"]}), "overwrite")
    old = lance.dataset(uri, version=before)
    old.restore()
    assert_all_versions_read_the_same(uri)
    ours = Dataset.open(uri)
    assert ours.config["owner"] == "me"
    assert ours.manifest.table_metadata == {"about": "tests"}
    assert [index.name for index in ours.indices] == ["i_idx"]
    assert [entry.operation for entry in ours.history()][:3] == ["Restore", "Overwrite", "Rewrite"]


def test_detached_versions_open_by_number_and_are_not_listed(uri):
    theirs = write(uri, people(0, 3))
    file = theirs.get_fragments()[0].metadata
    detached = lance.LanceDataset.commit(
        uri, lance.LanceOperation.Append([file]), read_version=1, detached=True
    )
    ours = Dataset.open(uri, detached.version)
    assert_reads_the_same(ours, detached)
    assert ours.latest().version == 1
    assert [version.version for version in ours.versions()] == [1]


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_rows_of_other_storage_versions_are_read(uri, version):
    theirs = write(uri, people(0, 10), data_storage_version=version)
    theirs.delete("i = 3")
    theirs.create_scalar_index("i", "BTREE")
    ours = Dataset.open(uri)
    assert ours.data_storage_version == version
    assert ours.count_rows() == 9
    assert [entry.operation for entry in ours.history()] == ["CreateIndex", "Delete", "Overwrite"]
    assert_reads_the_same(ours, theirs)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_blobs_and_the_columns_beside_them_are_read(uri, version):
    schema = pa.schema(
        [
            ("i", pa.int64()),
            pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
            ("s", pa.string()),
        ]
    )
    table = pa.table([range(4), [b"a", None, b"", b"c" * 100], list("wxyz")], schema=schema)
    write(uri, table, data_storage_version=version)
    ours = Dataset.open(uri)
    assert ours.to_table(["i", "s"]).equals(table.select(["i", "s"]).replace_schema_metadata(None))
    found = ours.to_table(["b"])["b"].to_pylist()
    if version == "2.2":
        # Blobs are structs of bytes, or of where they are.
        found = [blob and blob["data"] for blob in found]
    assert found == [b"a", None, b"", b"c" * 100]


def test_history_says_what_the_peer_did(uri):
    theirs = write(uri, people(0, 10))
    theirs.delete("i = 3")
    newest, oldest = Dataset.open(uri).history()
    assert (newest.operation, newest.read_version, newest.size.rows, newest.size.deleted_rows) == (
        "Delete",
        1,
        9,
        1,
    )
    assert "i = 3" in newest.description
    assert oldest.operation == "Overwrite"
    assert (
        oldest.size.data_bytes == theirs.stats.data_stats().fields[0].bytes_on_disk or oldest.size.data_bytes
    )
    assert Dataset.open(uri).history(1) == [newest]


def test_the_data_version_moves_with_the_data_alone(uri):
    def data_version(version=None):
        return Dataset.open(uri, version).data_version

    write(uri, people(0, 10))
    first = data_version()
    write(uri, people(10, 20), "append")
    second = data_version()
    lance.dataset(uri).optimize.compact_files()
    lance.dataset(uri).create_scalar_index("i", "BTREE")
    lance.dataset(uri).update_config({"a": "b"})
    assert data_version() == second
    assert len({first, second}) == 2
    changed = [first, second]
    for change in (
        lambda ds: ds.delete("i = 3"),
        lambda ds: ds.update({"s": "'x'"}, where="i = 4"),
        lambda ds: ds.add_columns({"n": "i + 1"}),
        lambda ds: ds.drop_columns(["n"]),
        lambda ds: write(uri, people(0, 2), "overwrite"),
    ):
        change(lance.dataset(uri))
        changed.append(data_version())
    assert len(set(changed)) == len(changed)
    lance.dataset(uri, version=2).restore()
    assert data_version() == second
    assert all(len(value) == 32 for value in changed)
    assert int(pc.max(lance.dataset(uri).to_table()["i"]).as_py()) == 19
