"""Whole columns get other values in place, as the peer commits them, and fragments updated by the peer."""

import json

import lance
import pyarrow as pa
import pytest
from lance.fragment import DataFile as PeerDataFile

import lance_ops as lo
from lance_ops.errors import CommitConflictError, InvalidArgumentError, SchemaMismatchError
from lance_ops.operations import DataReplacement, Update
from tests.support.interop import data_files, our_dataset, peer_table, rows

VERSIONS = ["_row_created_at_version", "_row_last_updated_at_version"]


@pytest.fixture
def uri(tmp_path):
    return str(tmp_path / "t.lance")


def peer_replaces(uri, fragment_id, table):
    """What the peer commits for the same columns of one fragment."""
    dataset = lance.dataset(uri)
    (part,) = lo.write_fragments(table, uri + ".side", mode="create")
    name = part.files[0].path
    with open(f"{uri}.side/data/{name}", "rb") as source, open(f"{uri}/data/{name}", "wb") as copy:
        copy.write(source.read())
    group = lance.LanceOperation.DataReplacementGroup(fragment_id, PeerDataFile.create(dataset, name))
    operation = lance.LanceOperation.DataReplacement([group])
    lance.LanceDataset.commit(uri, operation, read_version=dataset.version)


@pytest.mark.peer
@pytest.mark.parametrize("stable", [False, True])
def test_columns_are_replaced_as_by_the_peer(tmp_path, stable):
    seen = []
    for side in ("ours", "peers"):
        uri = str(tmp_path / side)
        our_dataset(uri, [5, 4], enable_stable_row_ids=stable)
        lo.create_index(uri, "x")
        lo.create_index(uri, "s", "BITMAP")
        if side == "ours":
            plan = lo.replace_columns(uri, {"x": "x + 100"}, fragments=[0], dry_run=True)
            assert "replace x" in str(plan)
            done = lo.replace_columns(uri, {"x": "x + 100"}, fragments=[0])
            assert (done.columns, done.fragments_updated) == (("x",), 1)
        else:
            peer_replaces(uri, 0, pa.table({"x": range(100, 105)}))
        dataset = lo.dataset(uri)
        seen.append(
            (
                peer_table(uri, columns=["x", "s", "f", *(VERSIONS if stable else [])]),
                {item.name: sorted(item.fragment_ids or ()) for item in dataset.indices},
                [[file.fields for file in part.files] for part in dataset.fragments],
            )
        )
        assert dataset.to_table(filter="x = 102")["s"].to_pylist() == ["row 2"]
        assert dataset.count_rows("x = 2") == lance.dataset(uri).count_rows("x = 2") == 0
        lo.optimize_indices(uri)
        assert lo.fsck(uri, deep=True).ok
        lance.dataset(uri).optimize.compact_files()
        assert sorted(lo.dataset(uri).to_table()["x"].to_pylist()) == [5, 6, 7, 8, *range(100, 105)]
    assert seen[0] == seen[1]


def test_a_whole_file_is_replaced_and_columns_without_one_get_it(uri):
    our_dataset(uri, [4, 3])
    lo.add_columns(uri, pa.field("n", pa.int32()))
    lo.replace_columns(uri, {"n": "x"}, job_key="k")
    assert lo.replace_columns(uri, {"n": "x"}, job_key="k").already_committed
    lo.replace_columns(uri, pa.table({"s": [f"t{n}" for n in range(7)], "x": range(7), "f": [0.5] * 7}))
    found = peer_table(uri)
    assert found["n"].to_pylist() == list(range(7))
    assert found["s"].to_pylist() == [f"t{n}" for n in range(7)]
    assert [len(part.files) for part in lo.dataset(uri).fragments] == [2, 2]
    assert lo.fsck(uri, deep=True).ok


def meanwhile(act):
    acts = [act]

    def progress(event):
        if event.message == "committing" and acts:
            acts.pop()()

    return progress


@pytest.mark.parametrize("stable", [False, True])
def test_others_delete_append_and_compact_meanwhile(uri, stable):
    our_dataset(uri, [4, 4], enable_stable_row_ids=stable)

    def others():
        lance.dataset(uri).delete("x = 2")
        lo.append(uri, rows(8, 10))

    done = lo.replace_columns(uri, {"f": "x * 2.0"}, progress=meanwhile(others))
    assert len(done.rebased_over) == 2
    expected = [0, 2, 6, 8, 10, 12, 14, *rows(8, 10)["f"].to_pylist()]
    assert peer_table(uri)["f"].to_pylist() == expected
    done = lo.replace_columns(uri, {"f": "1.0"}, progress=meanwhile(lambda: lo.compact(uri)))
    assert done.lost_to
    assert peer_table(uri)["f"].to_pylist() == [1.0] * 9


@pytest.mark.parametrize(
    ("columns", "more", "error"),
    [
        ({"nope": "1"}, {}, InvalidArgumentError),
        ({"x": "'a'"}, {}, SchemaMismatchError),
        ({"x": "x + 0.5"}, {}, SchemaMismatchError),
        ({"x": "1"}, {"fragments": [7]}, InvalidArgumentError),
        ({"x": "1"}, {"fragments": [0, 0]}, InvalidArgumentError),
        (pa.field("x", pa.int64()), {}, InvalidArgumentError),
    ],
    ids=str,
)
def test_what_cannot_be_replaced_is_refused(uri, columns, more, error):
    our_dataset(uri, [4])
    before = data_files(uri)
    with pytest.raises(error):
        lo.replace_columns(uri, columns, **more)
    assert (lo.dataset(uri).version, data_files(uri)) == (1, before)


def test_a_column_that_takes_no_null_gets_none(uri):
    schema = pa.schema([pa.field("x", pa.int64(), nullable=False)])
    lo.append(uri, pa.table({"x": [1, 2, 3]}, schema=schema))
    lo.delete(uri, "x = 2")
    lo.replace_columns(uri, {"x": "x * 10"})
    assert peer_table(uri)["x"].to_pylist() == [10, 30]
    with pytest.raises(SchemaMismatchError, match="x: a null in the row with address 0"):
        lo.replace_columns(uri, {"x": "CASE WHEN x > 10 THEN x END"})


def test_replacements_that_do_not_fit_are_refused(uri):
    our_dataset(uri, [4])
    dataset = lo.dataset(uri)
    (part,) = lo.write_fragments(rows(0, 4), uri)
    (short,) = lo.write_fragments(rows(0, 3), uri)
    for operation, match in (
        (DataReplacement(((0, short.files[0]),)), "3 rows, expected 4"),
        (DataReplacement(((9, part.files[0]),)), "fragment 9 is not in"),
        (DataReplacement(((0, part.files[0]), (0, part.files[0]))), "twice"),
        (DataReplacement(((0, dataset.fragments[0].files[0]),)), "part of the dataset"),
    ):
        with pytest.raises(InvalidArgumentError, match=match):
            lo.commit(dataset, operation)
    lo.commit(dataset, DataReplacement(((0, part.files[0]),)))
    assert lo.dataset(uri).to_table().equals(rows(0, 4))


@pytest.mark.peer
@pytest.mark.parametrize("stable", [False, True])
def test_a_fragment_that_the_peer_updated_in_place_is_committed_here(tmp_path, stable):
    seen = []
    for side in ("ours", "peers"):
        uri = str(tmp_path / side)
        our_dataset(uri, [5, 4], enable_stable_row_ids=stable)
        lo.create_index(uri, "s")
        lo.delete(uri, "x = 3")
        dataset = lance.dataset(uri)
        values = pa.table({"x": [1, 2, 3], "s": ["B", "C", "D"]})
        part = dataset.get_fragments()[0]
        made, fields, offsets = part.update_columns(values, "x", with_offsets=True)
        if side == "ours":
            mine = lo.fragment_from_json(json.dumps(made.to_json()))
            operation = Update(
                (), (mine,), (), tuple(fields), rewrites_columns=True, offsets={0: bytes(offsets)}
            )
            lo.commit(lo.dataset(uri), operation)
        else:
            operation = lance.LanceOperation.Update(
                updated_fragments=[made],
                fields_modified=fields,
                update_mode="rewrite_columns",
                updated_fragment_offsets={0: offsets},
            )
            lance.LanceDataset.commit(uri, operation, read_version=dataset.version)
        read = lo.dataset(uri)
        seen.append(
            (
                peer_table(uri, columns=["x", "s", "f", *(VERSIONS if stable else [])]),
                [sorted(item.fragment_ids or ()) for item in read.indices],
                read.read_transaction().operation.offsets,
            )
        )
        assert read.to_table(filter="s = 'C'")["x"].to_pylist() == [2]
        assert lo.fsck(uri, deep=True).ok
        if side == "ours":
            assert lo.commit(lo.dataset(uri, read.version - 1), operation).already_committed
            lo.delete(uri, "x = 0")
            late = Update((), (mine.replace(files=()),), (), tuple(fields))
            with pytest.raises(InvalidArgumentError):
                lo.commit(lo.dataset(uri), late)
    assert seen[0] == seen[1]


def test_updates_in_place_that_do_not_fit_are_refused(uri):
    our_dataset(uri, [4])
    dataset = lo.dataset(uri)
    (old,) = dataset.fragments
    (part,) = lo.write_fragments(rows(0, 4), uri)
    swapped = old.replace(files=part.files)
    for operation, match in (
        (Update((), (old.replace(files=(*old.files, *part.files)),), (), (0,)), "columns are not those"),
        (Update((), (swapped.replace(physical_rows=3),), (), (0, 1, 2)), "only change data"),
        (Update((), (swapped,), (), (0,), offsets={0: b"no bitmap"}), "cannot be decoded"),
        (Update((), (swapped,), (), (0,), unknown=b"\x2a\x00"), "not implemented"),
    ):
        with pytest.raises(InvalidArgumentError, match=match):
            lo.commit(dataset, operation)
    assert lo.dataset(uri).version == 1


class _Late:
    """Lets others commit just before the version is stored."""

    def __init__(self, others) -> None:
        self.others = others

    def commit(self, store, location, manifest) -> None:
        others, self.others = self.others, None
        if others is not None:
            others()
        store.put(location.path, manifest, if_absent=True)


@pytest.mark.parametrize(
    "operation",
    [
        lambda uri, **run: lo.add_columns(uri, {"y": "i * 2"}, **run),
        lambda uri, **run: lo.add_columns(uri, pa.field("y", pa.int8()), **run),
        lambda uri, **run: lo.alter_columns(uri, {"path": "i", "data_type": pa.string()}, **run),
        lambda uri, **run: lo.replace_columns(uri, {"i": "i + 1"}, **run),
        lambda uri, **run: lo.replace_columns(uri, {"i": "i + 1"}, fragments=[1], **run),
    ],
    ids=["add", "add nulls", "cast", "replace", "replace in a fragment"],
)
@pytest.mark.parametrize(
    "change",
    [
        lambda uri: lo.alter_columns(uri, {"path": "u", "name": "v"}),
        lambda uri: lo.drop_columns(uri, ["u"]),
        lambda uri: lo.delete(uri, "i < 3"),
    ],
    ids=["rename", "drop", "all rows of a fragment"],
)
def test_columns_are_planned_again_beside_changes_of_others(operation, change, tmp_path):
    uris = [str(tmp_path / name) for name in ("both", "serial")]
    for uri in uris:
        data = pa.table({"i": range(6), "u": [0.5] * 6})
        lo.write_dataset(data, uri, max_rows_per_file=3)
    operation(uris[0], committer=_Late(lambda: change(uris[0])))
    change(uris[1])
    operation(uris[1])
    assert lo.dataset(uris[0]).to_table() == lo.dataset(uris[1]).to_table()


def test_named_fragments_that_others_emptied_are_a_conflict(tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(pa.table({"i": range(6)}), uri, max_rows_per_file=3)
    late = _Late(lambda: lo.delete(uri, "i < 3"))
    with pytest.raises(CommitConflictError, match=r"fragments \[0\] no longer exist"):
        lo.replace_columns(uri, {"i": "i + 1"}, fragments=[0, 1], committer=late)
    with pytest.raises(InvalidArgumentError, match="do not exist"):
        lo.replace_columns(uri, {"i": "i + 1"}, fragments=[0])
