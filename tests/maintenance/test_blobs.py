"""Tables with blob columns: written, appended to, compacted and cleaned by us and by the peer."""

from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import CommitConflictError, SchemaMismatchError, UnsupportedTypeError
from lance_ops.storage import open_store
from lance_ops.table.dataset import Dataset
from tests.support.counting_store import CountingStore

pytestmark = pytest.mark.peer

_MEDIUM = b"m" * 100_000
_LARGE = b"L" * (5 << 20)
_OLD = {"lance-encoding:blob": "true"}


def _rows(values: list, **options) -> pa.Table:
    schema = pa.schema([pa.field("i", pa.int64()), lance.blob_field("b", **options)])
    return pa.table({"i": range(len(values)), "b": lance.blob_array(values)}, schema=schema)


def _old_rows(values: list, data_type: pa.DataType | None = None) -> pa.Table:
    array = pa.array(values, data_type or pa.large_binary())
    return pa.table({"b": array}, schema=pa.schema([pa.field("b", array.type, metadata=_OLD)]))


def _ours(uri: Path) -> list:
    return [None if row is None else row["data"] for row in lo.dataset(uri).to_table()["b"].to_pylist()]


def _peers(uri: Path) -> list:
    dataset = lance.dataset(str(uri))
    dataset.validate()
    return dataset.to_table(blob_handling="all_binary")["b"].to_pylist()


def _places(uri: Path) -> list[tuple[int, str]]:
    descriptors = lance.dataset(str(uri)).to_table()["b"].to_pylist()
    return [(one["blob_id"], one["blob_uri"]) for one in descriptors]


def _side_files(uri: Path) -> list[Path]:
    return sorted((uri / "data").rglob("*.blob"))


VALUES = [b"", b"small", None, _MEDIUM, b"", _LARGE, _MEDIUM[:70_000], None]


@pytest.mark.parametrize("writer", ["ours", "the peer's"])
def test_both_sides_read_inline_packed_and_dedicated_blobs(writer: str, tmp_path: Path) -> None:
    uri = tmp_path / "t"
    if writer == "ours":
        lo.write_dataset(_rows(VALUES), uri, data_storage_version="2.2")
    else:
        lance.write_dataset(_rows(VALUES), str(uri), data_storage_version="2.2")

    assert sorted(path.stat().st_size for path in _side_files(uri)) == [170_000, 5 << 20]
    assert _ours(uri) == VALUES
    assert _peers(uri) == VALUES
    assert lo.dataset(uri).to_table(filter="i = 3")["b"].to_pylist()[0]["data"] == _MEDIUM
    files = lance.dataset(str(uri)).take_blobs("b", indices=[1, 3, 5])
    assert [file.read() for file in files] == [b"small", _MEDIUM, _LARGE]


def test_thresholds_of_the_field_are_kept(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    rows = _rows(
        [b"a" * 20, b"b" * 200, b"c" * 2000, b"d" * 900],
        inline_size_threshold=100,
        dedicated_size_threshold=1000,
        pack_file_size_threshold=1000,
    )
    lo.write_dataset(rows, uri, data_storage_version="2.2")

    assert [path.stat().st_size for path in _side_files(uri)] == [2000, 200, 900]
    assert _peers(uri) == _ours(uri) == [row["data"] for row in rows["b"].to_pylist()]


def test_both_sides_append_and_compact_without_losing_a_byte(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    outside = tmp_path / "outside.bin"
    outside.write_bytes(b"0123456789")
    external = [f"file://{outside}", lance.Blob.from_uri(f"file://{outside}", position=5, size=3)]
    rows = _rows([*VALUES, *external])
    lo.write_dataset(rows, uri, data_storage_version="2.2")
    lance.write_dataset(rows, str(uri), mode="append", allow_external_blob_outside_bases=True)
    lo.write_dataset(rows, uri, mode="append")
    expected = [*VALUES, b"0123456789", b"567"] * 3
    assert _peers(uri) == expected

    lo.compact(uri)

    assert len(lo.dataset(uri).fragments) == 1
    assert _peers(uri) == expected
    references = [row for row in lo.dataset(uri).to_table()["b"].to_pylist() if row and row["uri"]]
    assert references == rows["b"].to_pylist()[-2:] * 3


@pytest.mark.parametrize("folder", ["base", "a base"])
def test_blobs_named_relative_to_a_base_stay_so(folder: str, tmp_path: Path) -> None:
    base, uri = tmp_path / folder, tmp_path / "t"
    base.mkdir()
    (base / "a%20b?.bin").write_bytes(b"0123456789")
    where = f"{base.as_uri()}/a%2520b%3F.bin"
    rows = _rows([where, lance.Blob.from_uri(where, position=2, size=3), b"own"])
    bases = [lance.DatasetBasePath(str(base), "base", False)]
    lance.write_dataset(rows, str(uri), data_storage_version="2.2", initial_bases=bases)
    assert _places(uri) == [(1, "a%20b?.bin"), (1, "a%20b?.bin"), (0, "")]

    assert lo.dataset(uri).to_table()["b"].to_pylist() == rows["b"].to_pylist()
    lo.write_dataset(rows, uri, mode="append")
    for _ in range(2):
        assert lo.dataset(uri).to_table()["b"].to_pylist() == rows["b"].to_pylist() * 2
        assert _places(uri) == [(1, "a%20b?.bin"), (1, "a%20b?.bin"), (0, "")] * 2
        assert _peers(uri) == [b"0123456789", b"234", b"own"] * 2
        lo.compact(uri)


@pytest.mark.parametrize(
    "way",
    [
        "append",
        "overwrite",
        "add_columns",
        "merge",
        "merge_insert",
        "compact",
        "replace_columns",
        "update_all",
    ],
)
def test_every_way_in_names_external_blobs_by_their_base(way: str, tmp_path: Path) -> None:
    (tmp_path / "ext").mkdir()
    (tmp_path / "ext" / "b.bin").write_bytes(b"external")
    uri = str(tmp_path / "t")
    blobs = lance.blob_array([b"inline", (tmp_path / "ext" / "b.bin").as_uri(), None])
    full = pa.table({"id": range(3), "blob": blobs})
    base = [lance.DatasetBasePath((tmp_path / "ext").as_uri(), name="external", id=1)]
    start = full.select(["id"]) if way in ("add_columns", "merge") else full.slice(0, 0)
    if way in ("replace_columns", "update_all"):
        start = full.set_column(1, full.field("blob"), lance.blob_array([b"old"] * 3))
    lance.write_dataset(start, uri, data_storage_version="2.2", initial_bases=base)
    if way == "append":
        lo.append(uri, full)
    elif way == "overwrite":
        lo.write_dataset(full, uri, mode="overwrite")
    elif way == "merge_insert":
        lo.merge_insert(uri, full, "id", when_not_matched="insert_all")
    elif way == "add_columns":
        lo.add_columns(uri, full.select(["blob"]))
    elif way == "merge":
        lo.merge(uri, full, "id")
    elif way == "replace_columns":
        lo.replace_columns(uri, full.select(["blob"]))
    elif way == "update_all":
        lo.merge_insert(uri, full, "id", when_matched="update_all")
    else:
        for number in range(2):
            lo.append(uri, full.slice(number, 2 - number))
        lo.compact(uri)
    dataset = lance.dataset(uri)
    external = [blob for blob in dataset.to_table()["blob"].to_pylist() if blob and blob["kind"] == 3]
    assert {(blob["blob_id"], blob["blob_uri"]) for blob in external} == {(1, "b.bin")}
    found = dataset.scanner(blob_handling="all_binary").to_table()["blob"].to_pylist()
    assert b"external" in found
    assert b"inline" in found
    assert b"old" not in found


@pytest.mark.parametrize("has_bases", [True, False])
def test_an_overwrite_beside_a_restore_names_no_base_that_is_gone(has_bases: bool, tmp_path: Path) -> None:
    class Late:
        restores = True

        def commit(self, store, location, manifest) -> None:
            if self.restores:
                self.restores = False
                lo.restore(uri, 1)
            store.put(location.path, manifest, if_absent=True)

    (tmp_path / "ext").mkdir()
    (tmp_path / "ext" / "b.bin").write_bytes(b"external")
    uri, where = str(tmp_path / "t"), (tmp_path / "ext" / "b.bin").as_uri()
    base = lance.DatasetBasePath((tmp_path / "ext").as_uri(), name="external", id=1)
    bases = {"initial_bases": [base]} if has_bases else {}
    lance.write_dataset(_rows([b"old"]), uri, data_storage_version="2.2", **bases)
    if has_bases:
        lo.append(uri, _rows([b"two"]))
    else:
        lance.dataset(uri).add_bases([base])
    if has_bases:
        lo.write_dataset(_rows([where]), uri, mode="overwrite", committer=Late())
        assert _peers(Path(uri)) == [b"external"]
    else:
        with pytest.raises(CommitConflictError, match="bases"):
            lo.write_dataset(_rows([where]), uri, mode="overwrite", committer=Late())
        assert _peers(Path(uri)) == [b"old"]
        assert lo.fsck(uri, deep=True).ok


def test_a_commit_of_fragments_counts_the_bytes_of_blobs(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    lo.write_dataset(_rows([b"a"]), uri, data_storage_version="2.2")
    parts = lo.write_fragments(_rows(VALUES), uri)
    plan = lo.commit(uri, lo.operations.Append(parts), 1, dry_run=True)
    beside = sum(path.stat().st_size for path in _side_files(uri))
    assert beside == 170_000 + (5 << 20)
    assert plan.bytes == beside + sum(file.size_bytes for part in parts for file in part.files)


@pytest.mark.parametrize("name", ["inline_size", "dedicated_size", "pack_file_size"])
@pytest.mark.parametrize(
    ("stored", "given", "fits"),
    [(None, None, True), (9000, None, True), (9000, 9000, True), (9000, 9001, False), (None, 9000, False)],
)
def test_an_append_with_other_limits_is_refused_as_by_the_peer(
    name: str, stored: int | None, given: int | None, fits: bool, tmp_path: Path
) -> None:
    def rows(limit: int | None) -> pa.Table:
        field = lance.blob_field("blob", **{} if limit is None else {f"{name}_threshold": limit})
        return pa.table([lance.blob_array([b"value"])], schema=pa.schema([field]))

    for library in (lance, lo):
        uri = str(tmp_path / library.__name__)
        lance.write_dataset(rows(stored), uri, data_storage_version="2.2")
        if fits:
            library.write_dataset(rows(given), uri, mode="append")
        else:
            with pytest.raises((OSError, SchemaMismatchError), match="threshold"):
                library.write_dataset(rows(given), uri, mode="append")
        assert lance.dataset(uri).count_rows() == 1 + fits


def test_bytes_of_blobs_are_read_of_wanted_rows_only(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    values = [None if n % 4 == 0 else bytes([n]) * 20_000 for n in range(200)]
    blob = lance.blob_field("x.y")
    within = pa.StructArray.from_arrays([lance.blob_array(values)], fields=[blob])
    rows = _rows(values).append_column(pa.field("s", within.type), within)
    lo.write_dataset(rows, uri)
    store = CountingStore(open_store(str(uri)))
    dataset = Dataset.open(store)

    for predicate, count in {"b is null": 50, "s.`x.y` is not null": 150, "b is null and i < 8": 2}.items():
        assert dataset.count_rows(predicate) == count
        assert lance.dataset(str(uri)).count_rows(predicate) == count
    assert dataset.to_table(["b"], filter="b is null")["b"].to_pylist() == [None] * 50
    # The end of the file, and pages of descriptors.
    assert store.num_bytes < 128 << 10
    found = dataset.to_table(["b"], filter="i in (1, 2, 4, 5, 6)")["b"].to_pylist()
    assert [row and row["data"] for row in found] == [values[n] for n in (1, 2, 4, 5, 6)]
    assert store.num_bytes < 256 << 10
    assert dataset.to_table(filter="b is null or b.data = x'01'") == dataset.to_table().filter(
        pa.array([n % 4 == 0 for n in range(200)])
    )


@pytest.mark.parametrize("cleaner", ["ours", "the peer's"])
def test_cleanup_takes_side_files_with_their_data_file_and_no_others(cleaner: str, tmp_path: Path) -> None:
    uri = tmp_path / "t"
    lo.write_dataset(_rows(VALUES), uri, data_storage_version="2.2")
    lo.write_dataset(_rows(VALUES), uri, mode="append")
    lo.compact(uri)
    before = len(_side_files(uri))

    if cleaner == "ours":
        lo.cleanup(uri, older_than=timedelta(0))
    else:
        lance.dataset(str(uri)).cleanup_old_versions(older_than=timedelta(0))

    live = {Path(file.path).stem for fragment in lo.dataset(uri).fragments for file in fragment.files}
    assert {path.parent.name for path in _side_files(uri)} == live
    assert 0 < len(_side_files(uri)) < before
    assert _ours(uri) == VALUES * 2


def test_a_failed_write_leaves_nothing_beside_its_file(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    lo.write_dataset(_rows([b"x"]), uri, data_storage_version="2.2")
    relative = _rows([_LARGE, _MEDIUM, "no/scheme"])

    with pytest.raises(SchemaMismatchError, match="absolute URI"):
        lo.write_dataset(relative, uri, mode="append")

    assert not _side_files(uri)
    assert len(list((uri / "data").glob("*.lance"))) == 1


def test_blobs_within_lists_and_structs(tmp_path: Path) -> None:
    blob = lance.blob_field("item")
    lists = pa.ListArray.from_arrays(
        pa.array([0, 1, None, 1, 3], pa.int32()), lance.blob_array([b"a", _MEDIUM, None])
    )
    structs = pa.StructArray.from_arrays(
        [lance.blob_array([b"hidden", _MEDIUM, None, b""])],
        fields=[blob],
        mask=pa.array([True, False, False, False]),
    )
    schema = pa.schema([("l", pa.list_(blob)), ("s", pa.struct([blob]))])
    uri = tmp_path / "t"
    lo.write_dataset(pa.table([lists, structs], schema=schema), uri, data_storage_version="2.2")
    expected = {
        "l": [[b"a"], [], None, [_MEDIUM, None]],
        "s": [None, {"item": _MEDIUM}, {"item": None}, {"item": b""}],
    }

    def plain(value: object) -> object:
        if isinstance(value, list):
            return [plain(item) for item in value]
        if isinstance(value, dict):
            return value["data"] if "data" in value else {key: plain(item) for key, item in value.items()}
        return value

    assert {
        name: plain(column) for name, column in lo.dataset(uri).to_table().to_pydict().items()
    } == expected
    assert lance.dataset(str(uri)).to_table(blob_handling="all_binary").to_pydict() == expected


@pytest.mark.parametrize("version", ["2.0", "2.1"])
@pytest.mark.parametrize("values", [[b"abc", None, b"", _MEDIUM], [None, None], [b"", b""]])
def test_blobs_of_the_old_kind(version: str, values: list, tmp_path: Path) -> None:
    uri = tmp_path / "t"
    lo.write_dataset(_old_rows(values), uri, data_storage_version=version)
    lance.write_dataset(_old_rows(values), str(uri), mode="append")

    assert lo.dataset(uri).to_table()["b"].to_pylist() == values * 2
    assert _peers(uri) == values * 2
    lo.compact(uri)
    assert _peers(uri) == values * 2


def test_old_blobs_below_null_structs_in_2_1(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    data_type = pa.struct([pa.field("q", pa.large_binary(), metadata=_OLD)])
    values = [{"q": b"a"}, None, {"q": None}, {"q": b""}]
    rows = pa.table({"b": pa.array(values, data_type)}, schema=pa.schema([("b", data_type)]))
    lo.write_dataset(rows, uri, data_storage_version="2.1")

    assert lo.dataset(uri).to_table()["b"].to_pylist() == values
    assert _peers(uri) == values


@pytest.mark.parametrize("data_type", [pa.binary(), pa.large_binary()])
def test_a_table_of_2_2_turns_columns_that_ask_for_blobs_into_blobs(
    data_type: pa.DataType, tmp_path: Path
) -> None:
    values = [b"abc", None, b"", _MEDIUM]
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    lo.write_dataset(_old_rows(values, data_type), ours, data_storage_version="2.2")
    lance.write_dataset(_old_rows(values, data_type), str(theirs), data_storage_version="2.2")

    assert lo.dataset(ours).schema == lo.dataset(theirs).schema
    lo.write_dataset(_old_rows(values, data_type), ours, mode="append")
    assert _ours(ours) == _peers(ours) == values * 2


def test_a_table_of_2_2_turns_nested_columns_that_ask_for_blobs_into_blobs(tmp_path: Path) -> None:
    blob = pa.field("item", pa.large_binary(), metadata=_OLD)
    data_type = pa.list_(pa.struct([pa.field("i", pa.int32()), blob]))
    values = [[{"i": 1, "item": b"abc"}, None], None, [], [{"i": 2, "item": None}]]
    plain = pa.array([[], *values], data_type).slice(1)
    rows = pa.table([plain], schema=pa.schema([("b", data_type)]))
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    lo.write_dataset(rows, ours, data_storage_version="2.2")
    lance.write_dataset(rows, str(theirs), data_storage_version="2.2")

    assert lo.dataset(ours).schema == lo.dataset(theirs).schema
    assert lo.dataset(ours).to_table() == lo.dataset(theirs).to_table()
    assert _peers(ours) == _peers(theirs) == values


def test_what_a_version_cannot_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedTypeError, match="use large_binary"):
        lo.write_dataset(_rows([b"x"]), tmp_path / "a", data_storage_version="2.1")
    with pytest.raises(UnsupportedTypeError, match="use large_binary"):
        lo.write_dataset(_rows([b"x"]), tmp_path / "b", data_storage_version="2.0")
    lists = pa.list_(pa.field("item", pa.large_binary(), metadata=_OLD))
    rows = pa.table({"b": pa.array([[b"x"]], lists)}, schema=pa.schema([("b", lists)]))
    with pytest.raises(UnsupportedTypeError, match="no blobs within lists"):
        lo.write_dataset(rows, tmp_path / "c", data_storage_version="2.1")
