"""Fragments that tasks wrote, here or in pylance, become one version, after a look at what they are."""

import json
import os
import pickle
import shutil

import lance
import pyarrow as pa
import pytest
from lance.fragment import write_fragments as peer_write_fragments

import lance_ops as lo
from lance_ops.errors import (
    CommitConflictError,
    DatasetExistsError,
    DatasetNotFoundError,
    InvalidArgumentError,
    RetryableCommitConflictError,
    SchemaMismatchError,
    UnsupportedError,
)
from lance_ops.operations import Append, Delete, Merge, Overwrite, Update
from lance_ops.table.transaction.operations.foreign import ForeignOperation
from tests.support.interop import data_files, our_dataset, peer_table, rows


@pytest.fixture
def uri(tmp_path):
    return str(tmp_path / "t.lance")


def spread(uri, *parts, **options):
    """What tasks of an engine do, in JSON as it travels."""
    found = [fragment for part in parts for fragment in lo.write_fragments(part, uri, **options)]
    texts = [json.dumps(lo.fragment_to_json(fragment)) for fragment in found]
    return tuple(lo.fragment_from_json(text) for text in texts)


@pytest.mark.peer
@pytest.mark.parametrize("stable", [False, True])
def test_tasks_write_and_one_commit_makes_the_version(uri, stable):
    schema = lo.Schema.from_arrow(rows(0, 1).schema)
    first = spread(uri, rows(0, 4), rows(4, 6), mode="create")
    made = lo.commit(uri, Overwrite(first, schema), enable_stable_row_ids=stable)
    assert (made.version, made.dataset.count_rows(), made.dataset.uses_stable_row_ids) == (1, 6, stable)
    more = spread(uri, rows(6, 9), rows(9, 10))
    done = lo.commit(made.dataset, Append(more), commit_message="by two tasks", properties={"run": "7"})
    assert (done.version, done.read_version) == (2, 1)
    assert lo.dataset(uri).to_table().equals(peer_table(uri))
    assert peer_table(uri)["x"].to_pylist() == list(range(10))
    noted = lance.dataset(uri).read_transaction(2).transaction_properties
    assert noted == {"run": "7", "__lance_commit_message": "by two tasks"}
    lance.dataset(uri).delete("x = 3")
    lo.compact(uri)
    assert lo.fsck(uri, deep=True).ok
    assert peer_table(uri)["x"].to_pylist() == [0, 1, 2, 4, 5, 6, 7, 8, 9]


@pytest.mark.peer
def test_fragments_of_the_peer_are_committed_here_and_ours_there(uri):
    our_dataset(uri, [3])
    theirs = [json.dumps(part.to_json()) for part in peer_write_fragments(rows(3, 5), uri)]
    lo.commit(uri, Append(tuple(map(lo.fragment_from_json, theirs))), read_version=1)
    ours = lo.write_fragments(rows(5, 8), uri)
    read = [lance.fragment.FragmentMetadata.from_json(json.dumps(lo.fragment_to_json(part))) for part in ours]
    lance.LanceDataset.commit(uri, lance.LanceOperation.Append(read), read_version=2)
    assert lo.dataset(uri).to_table().equals(peer_table(uri))
    assert peer_table(uri)["x"].to_pylist() == list(range(8))


@pytest.mark.peer
@pytest.mark.parametrize("stable", [False, True])
def test_fragments_with_deletions_and_row_ids_travel_as_json_both_ways(uri, stable):
    our_dataset(uri, [6, 3], enable_stable_row_ids=stable)
    lance.dataset(uri).delete("x in (1, 7)")
    lance.dataset(uri).update({"x": "x + 100"}, where="x = 2")
    own = {part.id: part for part in lo.dataset(uri).fragments}
    for theirs in lance.dataset(uri).get_fragments():
        values = theirs.metadata.to_json()
        assert lo.fragment_from_json(values) == own[theirs.fragment_id]
        assert lo.fragment_to_json(own[theirs.fragment_id]) == values


def test_a_transaction_of_write_fragments_is_committed_and_rebased(uri):
    our_dataset(uri, [3])
    pending = lo.write_fragments(rows(3, 5), uri, return_transaction=True)
    lo.delete(uri, "x = 0")
    done = lo.commit(uri, pickle.loads(pickle.dumps(pending)))
    assert done.read_version == 1
    assert len(done.rebased_over) == 1
    assert lo.dataset(uri).to_table()["x"].to_pylist() == [1, 2, 3, 4]


def test_a_job_is_committed_once_and_a_dry_run_changes_nothing(uri):
    our_dataset(uri, [3])
    parts = lo.write_fragments(rows(3, 5), uri, job_key="k")
    plan = lo.commit(uri, Append(parts), 1, dry_run=True)
    assert (plan.files, lo.dataset(uri).version) == (1, 1)
    assert "Append of 2 rows" in str(plan)
    assert plan.to_dict()["bytes"] == parts[0].data_bytes
    lo.commit(uri, Append(parts), 1, job_key="k")
    again = lo.commit(uri, Append(lo.write_fragments(rows(3, 5), uri, job_key="k")), 1, job_key="k")
    assert again.already_committed
    assert again.version == 2
    assert lo.dataset(uri).count_rows() == 5


def test_the_same_files_are_not_committed_twice(uri):
    our_dataset(uri, [3])
    parts = lo.write_fragments(rows(3, 5), uri)
    lo.commit(uri, Append(parts), 1)
    assert lo.commit(uri, Append(parts), 1).already_committed
    assert lo.dataset(uri).count_rows() == 5


def test_files_of_another_commit_are_refused_and_no_row_is_lost(uri):
    our_dataset(uri, [3])
    first, second = (lo.write_fragments(rows(at, at + 1), uri) for at in (3, 4))
    schema = lo.dataset(uri).lance_schema
    lo.commit(uri, Append(first), 1)
    for operation in (Append(first + second), Overwrite(first, schema), Update((), (), first)):
        with pytest.raises(InvalidArgumentError, match=first[0].files[0].path):
            lo.commit(uri, operation, 1)
    assert lo.dataset(uri).version == 2
    lo.commit(uri, Append(second), 1)
    assert lo.commit(uri, Append(first), 1).already_committed
    assert lo.commit(uri, Append(second), 1).already_committed
    assert peer_table(uri)["x"].to_pylist() == [0, 1, 2, 3, 4]


def pending_delete(uri, *conditions):
    """A Delete on the newest version that nothing commits yet: its files are those of a delete in a copy."""
    copy = f"{uri}.copy"
    shutil.copytree(uri, copy)
    for condition in conditions:
        lo.delete(copy, condition)
    shutil.copytree(f"{copy}/_deletions", f"{uri}/_deletions", dirs_exist_ok=True)
    before = lo.dataset(uri).fragments
    after = {part.id: part for part in lo.dataset(copy).fragments}
    shutil.rmtree(copy)
    updated = tuple(after[part.id] for part in before if part.id in after and after[part.id] != part)
    return Delete(updated, tuple(part.id for part in before if part.id not in after), " or ".join(conditions))


@pytest.mark.parametrize("meanwhile", ["nothing", "delete", "compact"])
def test_a_delete_is_carried_over_others_and_known_again_after_a_compaction(uri, meanwhile):
    our_dataset(uri, [4, 4, 4])
    ours = pending_delete(uri, "x in (1, 5, 9)")
    version = lo.dataset(uri).version
    if meanwhile == "delete":
        lo.delete(uri, "x = 4")
    elif meanwhile == "compact":
        lo.compact(uri)
    done = lo.commit(uri, ours, version)
    assert not done.already_committed
    expected = [x for x in range(12) if x not in (1, 5, 9) and (meanwhile != "delete" or x != 4)]
    assert peer_table(uri)["x"].to_pylist() == expected
    if meanwhile == "nothing":
        lo.compact(uri, materialize_deletions_threshold=0.0)
        assert lo.commit(uri, ours, version).already_committed
    assert peer_table(uri)["x"].to_pylist() == expected


def test_a_delete_of_more_is_not_taken_for_the_one_that_shares_a_file(uri):
    our_dataset(uri, [4, 4])
    both = pending_delete(uri, "x in (1, 5)")
    version = lo.dataset(uri).version
    lo.commit(uri, Delete(both.updated_fragments[1:], (), "x = 5"), version)
    with pytest.raises(InvalidArgumentError, match="belongs to the dataset"):
        lo.commit(uri, both, version)
    with pytest.raises(InvalidArgumentError, match="belongs to the dataset"):
        lo.commit(uri, Delete(both.updated_fragments[1:], (0,), "x < 4 or x = 5"), version)
    lo.commit(uri, Delete(both.updated_fragments[:1], (), "x = 1"), version)
    assert peer_table(uri)["x"].to_pylist() == [0, 2, 3, 4, 6, 7]


def bringing(uri, kind, fragments):
    if kind is Overwrite:
        return Overwrite(fragments, lo.dataset(uri).lance_schema)
    return Update((), (), fragments) if kind is Update else Append(fragments)


@pytest.mark.parametrize("kind", [Append, Overwrite, Update])
def test_a_fragment_that_comes_twice_is_refused(uri, kind):
    our_dataset(uri, [3])
    parts = lo.write_fragments(rows(3, 5), uri)
    with pytest.raises(InvalidArgumentError, match=rf"{parts[0].files[0].path}' is listed twice"):
        lo.commit(uri, bringing(uri, kind, parts + parts), 1)
    assert lo.dataset(uri).version == 1
    lo.commit(uri, bringing(uri, kind, parts), 1)


def test_a_dataset_is_not_created_by_a_fragment_that_comes_twice(uri):
    parts = lo.write_fragments(rows(3, 5), uri, mode="create")
    with pytest.raises(InvalidArgumentError, match="listed twice"):
        lo.commit(uri, Overwrite(parts + parts, lo.Schema.from_arrow(rows(0, 1).schema)))
    with pytest.raises(DatasetNotFoundError):
        lo.dataset(uri)


@pytest.mark.parametrize("kind", [Append, Overwrite, Update])
def test_fragments_that_get_an_id_bring_no_deletion_file(uri, kind):
    our_dataset(uri, [3, 3])
    lo.delete(uri, "x = 4")
    before = lo.dataset(uri)
    (kept,) = before.fragments[1:]
    (new,) = lo.write_fragments(rows(6, 9), uri)
    part = kept if kind is Overwrite else new.replace(deletion_file=kept.deletion_file)
    with pytest.raises(InvalidArgumentError, match="deletion file"):
        lo.commit(before, bringing(uri, kind, (part,)))
    assert peer_table(uri)["x"].to_pylist() == [0, 1, 2, 3, 5]


def test_columns_under_the_name_of_another_one_are_refused(uri):
    lo.write_dataset(pa.table({"a": [0], "b": [0]}), uri)
    parts = lo.write_fragments(pa.table({"a": [1, 2], "b": [10, 20]}), uri)
    lo.write_dataset(pa.table({"b": [0], "a": [0]}), uri, mode="overwrite")
    with pytest.raises(InvalidArgumentError, match="column 'b' has the name 'a' in a data file"):
        lo.commit(uri, Append(parts), 2)
    assert lo.dataset(uri).version == 2


def test_columns_that_were_renamed_pass(uri):
    lo.write_dataset(pa.table({"a": [0], "b": [0]}), uri)
    parts = lo.write_fragments(pa.table({"a": [1, 2], "b": [10, 20]}), uri)
    lance.dataset(uri).alter_columns({"path": "a", "name": "c"})
    with pytest.raises(InvalidArgumentError, match=r"'c' has the name 'a' in a data file.*read_version"):
        lo.commit(uri, Append(parts), 2)
    lo.commit(uri, Append(parts), 1)
    assert peer_table(uri).to_pydict() == {"c": [0, 1, 2], "b": [0, 10, 20]}


MEMBERS = pa.struct([("p", pa.int64()), ("q", pa.list_(pa.int64()))])
OTHER_MEMBERS = pa.struct([("p", pa.int64()), ("z", pa.list_(pa.int64()))])


@pytest.mark.parametrize("by", [lance.write_dataset, lo.write_dataset])
@pytest.mark.parametrize(("names", "members"), [("a salary s", MEMBERS), ("a b s", OTHER_MEMBERS)])
def test_fragments_of_before_an_overwrite_show_their_values_under_no_other_name(uri, by, names, members):
    """Also where they are committed as if they were written for the version after it."""
    old = pa.table({"a": [1], "b": [10.0], "s": pa.array([{"p": 1, "q": [2]}], MEMBERS)})
    lo.write_dataset(old, uri)
    parts = lo.write_fragments(old, uri)
    new = pa.table([[7], [700.0], pa.array([None], members)], names=names.split())
    by(new, uri, mode="overwrite")
    with pytest.raises(InvalidArgumentError, match=r"in a data file.*read_version"):
        lo.commit(uri, Append(parts), 2)
    with pytest.raises(CommitConflictError):
        lo.commit(uri, Append(parts), 1)
    assert peer_table(uri) == new
    lo.commit(uri, Append(lo.write_fragments(new, uri)), 2)
    assert peer_table(uri).num_rows == 2


def test_of_two_transactions_that_create_one_does(uri):
    first, second = (
        lo.write_fragments(rows(at, at + 2), uri, mode="create", return_transaction=True) for at in (0, 2)
    )
    lo.commit(uri, first)
    for target in (uri, lo.dataset(uri)):
        with pytest.raises(DatasetExistsError, match="by now"):
            lo.commit(target, second)
    assert peer_table(uri)["x"].to_pylist() == [0, 1]
    lo.commit(uri, second, 1)
    assert peer_table(uri)["x"].to_pylist() == [2, 3]


def damaged(fragment, **changes):
    return (fragment.replace(**changes),)


def of_file(**changes):
    def change(fragment):
        from dataclasses import replace

        return damaged(fragment, files=(replace(fragment.files[0], **changes),))

    return change


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda part: damaged(part, physical_rows=3), "has 2 rows, expected 3"),
        (of_file(path="nowhere.lance"), "does not exist"),
        (of_file(size_bytes=7), "bytes, expected 7"),
        (of_file(minor=0), "has version 2.2, expected 2.0"),
        (of_file(column_indices=(0, 1, 9)), "has no column 9 for 'f'"),
        (of_file(column_indices=(1, 0, 2)), "column 'x' has type string in a data file, expected int64"),
        (of_file(column_indices=(0, 0, 2)), "all to column 0"),
        (of_file(path="../t.lance"), "may leave the dataset"),
        (lambda part: damaged(part, files=()), "no data file"),
    ],
)
def test_what_is_not_what_it_is_said_to_be_is_refused_by_name(uri, change, match):
    our_dataset(uri, [3])
    (part,) = lo.write_fragments(rows(3, 5), uri)
    before = data_files(uri)
    with pytest.raises(lo.errors.LanceOpsError, match=match):
        lo.commit(uri, Append(change(part)), 1)
    assert lo.dataset(uri).version == 1
    assert data_files(uri) == before
    lo.commit(uri, Append((part,)), 1)
    assert lo.dataset(uri).count_rows() == 5


def test_a_truncated_file_is_refused(uri):
    our_dataset(uri, [3])
    (part,) = lo.write_fragments(rows(3, 5), uri)
    path = f"{uri}/data/{part.files[0].path}"
    os.truncate(path, 100)
    with pytest.raises(InvalidArgumentError, match="100 bytes"):
        lo.commit(uri, Append((part,)), 1)


def test_columns_that_may_not_be_null_are_looked_into(uri, tmp_path):
    required = pa.schema([pa.field("x", pa.int64(), nullable=False), ("s", pa.string())])
    lo.append(uri, pa.table({"x": [1], "s": ["a"]}).cast(required))
    other = str(tmp_path / "other")
    with_nulls = pa.table({"x": pa.array([1, None], pa.int64()), "s": ["a", "b"]})
    (part,) = lo.write_fragments(with_nulls, other, mode="create")
    os.rename(f"{other}/data/{part.files[0].path}", f"{uri}/data/{part.files[0].path}")
    with pytest.raises(InvalidArgumentError, match="'x' is not nullable, but has 1 nulls"):
        lo.commit(uri, Append((part,)), 1)
    (part,) = lo.write_fragments(pa.table({"s": ["a"]}), other, mode="create")
    os.rename(f"{other}/data/{part.files[0].path}", f"{uri}/data/{part.files[0].path}")
    from dataclasses import replace

    alone = part.replace(files=(replace(part.files[0], fields=(1,)),))
    with pytest.raises(InvalidArgumentError, match="none of its files has the non-nullable column 'x'"):
        lo.commit(uri, Append((alone,)), 1)


def test_a_deletion_file_is_looked_into(uri):
    our_dataset(uri, [6])
    lo.delete(uri, "x < 2")
    made = lo.dataset(uri).fragments[0]
    from dataclasses import replace

    assert made.deletion_file is not None
    wrong = made.replace(deletion_file=replace(made.deletion_file, num_deleted_rows=4))
    with pytest.raises(InvalidArgumentError, match="deletion file is invalid"):
        lo.commit(uri, Delete((wrong,), (), "x"), 1)
    with pytest.raises(InvalidArgumentError, match="omits it"):
        lo.commit(uri, Merge((), lo.dataset(uri).lance_schema), 2)


def test_what_makes_no_sense_is_refused(uri):
    with pytest.raises(DatasetNotFoundError):
        lo.commit(uri, Append(()), 1)
    our_dataset(uri, [3])
    with pytest.raises(InvalidArgumentError, match="requires its read_version"):
        lo.commit(uri, Append(()))
    with pytest.raises(UnsupportedError, match="supported in history only"):
        lo.commit(uri, ForeignOperation("DataOverlay"), 1)
    with pytest.raises(InvalidArgumentError):
        lo.commit(uri, {"append": []}, 1)
    with pytest.raises(InvalidArgumentError, match="JSON of a fragment"):
        lo.fragment_from_json({"id": 1})
    with pytest.raises(UnsupportedError, match="overlays"):
        lo.fragment_from_json({"overlays": [1]})
    with pytest.raises(DatasetExistsError):
        lo.write_fragments(rows(0, 1), uri, mode="create")
    with pytest.raises(SchemaMismatchError):
        lo.write_fragments(pa.table({"nope": [1]}), uri)


def test_a_conflict_is_for_the_caller_and_files_stay(uri):
    our_dataset(uri, [3])
    parts = lo.write_fragments(rows(5, 6), uri)
    schema = lo.dataset(uri).lance_schema
    lo.commit(uri, Overwrite((), schema), 1)
    before = data_files(uri)
    with pytest.raises(lo.errors.CommitConflictError):
        lo.commit(uri, Append(parts), 1)
    assert data_files(uri) == before
    with pytest.raises(RetryableCommitConflictError):
        lo.commit(uri, Overwrite((), schema), 1)


def test_data_are_cast_where_a_schema_is_given(uri):
    schema = pa.schema([("x", pa.int64())])
    (part,) = lo.write_fragments(pa.table({"x": pa.array([1], pa.int8())}), uri, schema, mode="create")
    assert part.physical_rows == 1
    lo.commit(uri, Overwrite((part,), lo.Schema.from_arrow(schema)))
    assert lo.dataset(uri).schema.field("x").type == pa.int64()
    with pytest.raises(SchemaMismatchError):
        lo.write_fragments(pa.table({"x": ["a"]}), uri, schema, mode="overwrite")
