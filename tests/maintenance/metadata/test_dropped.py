"""Members of columns are dropped as pylance drops them, and both go on with the table."""

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, UnsupportedError
from lance_ops.maintenance.metadata.actions import drop_columns

pytestmark = pytest.mark.peer

PAIR = pa.struct([("a", pa.int64()), ("b", pa.string())])
ROWS = pa.table(
    {
        "id": range(4),
        "s": [
            {"a": 1, "b": {"c": 1, "d": "x"}},
            None,
            {"a": None, "b": None},
            {"a": 4, "b": {"c": None, "d": ""}},
        ],
        "l": pa.array([[{"a": 1, "b": "x"}], [], None, [None, {"a": 2, "b": None}]], pa.list_(PAIR)),
        "one": [{"only": 1}, None, {"only": None}, {"only": 4}],
        "m": pa.array([[("k", {"a": 1, "b": "x"})], None, [], [("k", None)]], pa.map_(pa.string(), PAIR)),
    }
)
PATHS = [
    ["s.b"],
    ["s.b.c"],
    ["s.a"],
    ["s.a", "s.b.d"],
    ["s.a", "s.b"],
    ["s.b.c", "s.b.d"],
    ["one.only"],
    ["l.item.a"],
    ["l.item"],
    ["m.entries.value.a"],
    ["s", "s.a"],
    ["s.a", "s.a", "id"],
    ["`s`.`a`"],
]


@pytest.mark.parametrize("paths", PATHS, ids=str)
def test_members_are_dropped_as_by_the_peer_and_the_table_lives_on(tmp_path, paths):
    uri = {who: str(tmp_path / f"{who}.lance") for who in ("ours", "theirs")}
    for path in uri.values():
        lance.write_dataset(ROWS, path, data_storage_version="2.2", max_rows_per_file=2)
    result = drop_columns(uri["ours"], paths)
    lance.dataset(uri["theirs"]).drop_columns(paths)
    wanted = lance.dataset(uri["theirs"]).to_table()
    assert result.dataset.to_table().equals(wanted)
    assert lance.dataset(uri["ours"]).to_table().equals(wanted)
    assert [field.id() for field in lance.dataset(uri["ours"]).lance_schema.fields()] == [
        field.id() for field in lance.dataset(uri["theirs"]).lance_schema.fields()
    ]
    # Both append, one deletes and compacts: the rows are the same in both libraries.
    lo.append(uri["ours"], wanted)
    lance.write_dataset(wanted, uri["ours"], mode="append")
    lo.add_columns(uri["ours"], {"again": "1"})
    lo.compact(uri["ours"])
    expected = pa.concat_tables([wanted] * 3)
    assert lo.dataset(uri["ours"]).to_table(wanted.column_names).equals(expected)
    assert (
        lance.dataset(uri["ours"])
        .to_table(wanted.column_names)
        .combine_chunks()
        .equals(expected.combine_chunks())
    )
    lance.dataset(uri["ours"]).optimize.compact_files()
    assert lo.fsck(uri["ours"], deep=True).ok


def test_indices_on_a_dropped_member_go_with_it(tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(ROWS, uri)
    lo.create_index(uri, "s.a", "BTREE")
    lo.create_index(uri, "s.b.c", "BTREE")
    found = drop_columns(uri, ["s.b"]).dataset
    assert [index.name for index in found.indices] == ["s.a_idx"] or len(found.indices) == 1
    assert found.to_table(["id"], "s.a = 4")["id"].to_pylist() == [3]
    with pytest.raises(InvalidArgumentError, match="no field 'b'"):
        found.to_table(filter="s.b.c = 1")


@pytest.mark.parametrize(
    ("paths", "match"),
    [
        (["s.zz"], "cannot drop 's.zz': column not found"),
        (["s.a", "s.b.zz"], "cannot drop 's.b.zz'"),
        (["id.x"], "cannot drop 'id.x'"),
        (["l.a"], "cannot drop 'l.a'"),
        (["S.a"], "cannot drop 'S.a'"),
        ([""], "cannot drop ''"),
        ([], "the list is empty"),
        (["id", "s.a", "s.b", "l.item", "one.only", "m"], "no column would be left"),
        ("s.b", r"got the string 's.b'.*write \['s.b'\]"),
    ],
)
def test_what_is_not_there_is_named_and_nothing_is_dropped(tmp_path, paths, match):
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(ROWS, uri)
    with pytest.raises(InvalidArgumentError, match=match):
        drop_columns(uri, paths)
    assert lo.dataset(uri).version == 1


@pytest.mark.parametrize(
    ("field", "path", "version"),
    [
        (pa.field("c", pa.list_(PAIR, 2)), "c.item.a", "2.2"),
        (pa.field("c", pa.map_(pa.string(), pa.int64())), "c.entries.value", "2.2"),
        (pa.field("c", pa.map_(pa.string(), pa.struct([("x", pa.int64())]))), "c.entries.value.x", "2.2"),
        (pa.field("c", PAIR, metadata={"lance-encoding:packed": "true"}), "c.a", "2.0"),
    ],
    ids=str,
)
def test_what_could_not_be_read_afterwards_is_refused(tmp_path, field, path, version):
    uri = str(tmp_path / "t.lance")
    column = pa.nulls(2, field.type) if version != "2.0" else pa.array([{"a": 1, "b": 2}, {"a": 3, "b": 4}])
    field = field.with_type(column.type)
    rows = pa.table([pa.array([1, 2]), column], pa.schema([pa.field("id", pa.int64()), field]))
    lo.write_dataset(rows, uri, data_storage_version=version)
    with pytest.raises(UnsupportedError, match="cannot drop"):
        drop_columns(uri, [path])
    assert drop_columns(uri, ["c"]).dataset.schema.names == ["id"]


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("more", [0, 1])
def test_a_fragment_keeps_a_file_when_the_last_column_with_values_goes(tmp_path, stable, more):
    """Pylance cannot read a fragment without files, and makes such fragments itself."""
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(ROWS.select(["id", "s"]), uri, max_rows_per_file=2, enable_stable_row_ids=stable)
    for number in range(more):
        lo.add_columns(uri, {f"more{number}": "id + 1"})
    lance.dataset(uri).add_columns(pa.field("empty", pa.string()))
    found = drop_columns(uri, ["id", "s", *(f"more{number}" for number in range(more))]).dataset
    assert [len(fragment.files) for fragment in found.fragments] == [1, 1]
    assert lo.fsck(uri, deep=True).findings == ()
    expected = pa.table({"empty": pa.nulls(4, pa.string())})
    assert lance.dataset(uri).to_table() == found.to_table() == expected
    # No later column is taken for one of these.
    lo.add_columns(uri, pa.schema([pa.field("id", pa.int64())]))
    lance.dataset(uri).add_columns({"q": "1 + 1"})
    assert lance.dataset(uri).to_table().to_pydict() == lo.dataset(uri).to_table().to_pydict()
    assert lo.dataset(uri).to_table()["id"].null_count == 4


def test_fragments_that_pylance_left_without_files_are_found_and_compacted(tmp_path):
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(ROWS.select(["id"]), uri, max_rows_per_file=2)
    lance.dataset(uri).add_columns(pa.field("empty", pa.string()))
    lance.dataset(uri).drop_columns(["id"])
    assert "compact writes one" in lo.fsck(uri).findings[0].message
    lo.compact(uri)
    assert lo.fsck(uri, deep=True).findings == ()
    assert lance.dataset(uri).to_table().num_rows == 4
