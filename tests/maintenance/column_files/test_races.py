"""Compaction of columns among other writers: no order of the two gives a wrong table."""

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.commit import CommitConflictError as PeerConflictError
from lance.file import LanceFileWriter
from lance.fragment import DataFile

import lance_ops as lo
from tests.maintenance.column_files.tables import content, evolved, files_of_fragments

Change = Callable[[lance.LanceDataset], object]


def merge_rows(ds: lance.LanceDataset) -> None:
    new = ds.to_table(filter="id in (5, 700)").append_column("k", pa.array([0, 0])).drop(["k"])
    column = new.schema.get_field_index("c0")
    new = new.set_column(column, "c0", pa.array([-1] * new.num_rows, new.schema.field(column).type))
    ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(new)


CHANGES: dict[str, Change] = {
    "append": lambda ds: lance.write_dataset(ds.to_table(filter="id < 9"), ds, mode="append"),
    "delete": lambda ds: ds.delete("id % 4 = 1"),
    "delete a whole fragment": lambda ds: ds.delete("id < 250"),
    "update": lambda ds: ds.update({"c1": "7"}, where="id % 5 = 2"),
    "merge": merge_rows,
    "add a column": lambda ds: ds.add_columns({"late": "id + 1"}),
    "drop a column": lambda ds: ds.drop_columns(["c1"]),
    "rename a column": lambda ds: ds.alter_columns({"path": "c1", "name": "renamed"}),
    "cast a column": lambda ds: ds.alter_columns({"path": "c1", "data_type": pa.int32()}),
    "index": lambda ds: ds.create_scalar_index("c0", "BTREE"),
    "index upkeep": lambda ds: ds.optimize.optimize_indices(),
    "compaction": lambda ds: ds.optimize.compact_files(target_rows_per_fragment=5000),
    "deferred compaction": lambda ds: ds.optimize.compact_files(
        target_rows_per_fragment=5000, defer_index_remap=True
    ),
    "config": lambda ds: ds.update_config({"a": "b"}),
    "overwrite": lambda ds: lance.write_dataset(ds.to_table(filter="id < 9"), ds.uri, mode="overwrite"),
    "tag": lambda ds: ds.tags.create("t", ds.version),
}


CASES = [(name, False) for name in CHANGES] + [
    (name, True) for name in ("delete", "update", "index", "compaction", "append")
]


def sorted_rows(uri: str) -> list[dict[str, object]]:
    table = lance.dataset(uri).to_table()
    rows = sorted(table.to_pylist(), key=repr)
    assert sorted(lo.dataset(uri).to_table().to_pylist(), key=repr) == rows
    return rows


def check_answers(uri: str) -> None:
    ds = lance.dataset(uri)
    ds.validate()
    assert lo.fsck(uri).ok
    for condition in ("id = 12", "id between 100 and 300", "c0 = 0"):
        found = ds.to_table(filter=condition).num_rows
        assert found == ds.to_table(filter=condition, use_scalar_index=False).num_rows
        assert found == lo.dataset(uri).to_table(filter=condition).num_rows


@pytest.mark.parametrize(("name", "stable"), CASES)
def test_a_writer_of_the_peer_that_loses_is_right_or_refused(tmp_path: Path, name: str, stable: bool):
    uri = evolved(tmp_path / "t", stable_row_ids=stable)
    alone = str(tmp_path / "alone")
    shutil.copytree(uri, alone)
    before = sorted_rows(uri)
    late = lance.dataset(uri)
    assert lo.compact_columns(uri).fragments == 4
    lost = False
    try:
        CHANGES[name](late)
    except (PeerConflictError, OSError) as error:
        lost = "onflict" in str(error) or "retry" in str(error).lower()
    CHANGES[name](lance.dataset(alone))
    assert sorted_rows(uri) == (before if lost else sorted_rows(alone))
    check_answers(uri)


@pytest.mark.parametrize(("name", "stable"), CASES)
def test_losing_to_a_writer_of_the_peer_is_right_or_planned_again(tmp_path: Path, name: str, stable: bool):
    uri = evolved(tmp_path / "t", stable_row_ids=stable)
    alone = str(tmp_path / "alone")
    shutil.copytree(uri, alone)
    pending = [CHANGES[name]]

    def meanwhile(event: lo.ProgressEvent) -> None:
        if event.message == "committing" and pending:
            pending.pop()(lance.dataset(uri))

    done = None
    with suppress(lo.errors.CommitConflictError):
        done = lo.compact_columns(uri, progress=meanwhile)
    assert not pending
    CHANGES[name](lance.dataset(alone))
    assert sorted_rows(uri) == sorted_rows(alone)
    check_answers(uri)
    if name in ("append", "delete", "delete a whole fragment", "index", "config", "tag", "index upkeep"):
        assert done is not None
        assert not done.lost_to
        fragments = files_of_fragments(uri)
        assert all(files == 1 for files in fragments[:2])
    if name in ("index", "delete") and done is not None:
        assert done.rebased_over


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "row ids"])
def test_our_deletes_and_indices_follow_it(tmp_path: Path, stable: bool):
    uri = evolved(tmp_path / "t", stable_row_ids=stable)
    expected = [row for row in content(uri) if row["id"] % 3]
    pending = [True]

    def meanwhile(event: lo.ProgressEvent) -> None:
        if event.message == "committing" and pending:
            pending.pop()
            lo.compact_columns(uri)

    done = lo.delete(uri, "id % 3 = 0", progress=meanwhile)
    assert done.rebased_over
    assert not done.lost_to
    assert content(uri) == expected
    pending.append(True)
    lo.restore(uri, lance.dataset(uri).version - 2)
    built = lo.create_index(uri, "c2", "BTREE", progress=meanwhile)
    assert built.rebased_over
    assert not built.lost_to
    assert lance.dataset(uri).stats.index_stats("c2_idx")["num_unindexed_rows"] == 0
    check_answers(uri)


def test_values_that_the_peer_replaces_in_an_old_file_are_refused(tmp_path: Path):
    uri = evolved(tmp_path / "t")
    late = lance.dataset(uri)
    fragment = late.get_fragments()[1]
    field = next(field.id() for field in late.lance_schema.fields() if field.name() == "c0")
    with LanceFileWriter(f"{uri}/data/new.lance", pa.schema([("c0", pa.int64())]), version="2.1") as writer:
        writer.write_batch(pa.table({"c0": pa.array([-5] * fragment.physical_rows)}))
    file = DataFile("new.lance", [field], [0], 2, 1)
    replacement = lance.LanceOperation.DataReplacement(
        [lance.LanceOperation.DataReplacementGroup(fragment.fragment_id, file)]
    )
    before = content(uri)
    assert lo.compact_columns(uri).fragments == 4
    with pytest.raises((PeerConflictError, OSError), match=r"onflict|retry"):
        lance.LanceDataset.commit(uri, replacement, read_version=late.version)
    assert content(uri) == before
