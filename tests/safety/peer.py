"""The same operations done by the peer, and the table as it sees it."""

from dataclasses import dataclass
from datetime import timedelta
from functools import singledispatch
from pathlib import Path

import lance

import lance_ops as lo
from lance_ops.errors import VersionNotFoundError
from lance_ops.index.coverage import coverage
from lance_ops.storage import Store
from lance_ops.table.history.refs import BRANCH_TREES
from tests.safety.actions import (
    Action,
    Append,
    Cleanup,
    Compact,
    Create,
    CreateIndex,
    Delete,
    DropIndex,
    OptimizeIndices,
    Overwrite,
    ReplaceWhere,
    Restore,
    Rows,
    Tag,
    Then,
    Update,
    UpdateConfig,
    Upsert,
)
from tests.safety.rows import PROBES, from_arrow, literal, make_rows, to_arrow


@dataclass(frozen=True)
class PeerAction(Action):
    """What only the peer can do so far."""

    def run(self, store: Store, **options: object) -> None:
        act(self, store.uri)


@dataclass(frozen=True)
class CompactAndRemapLater(PeerAction):
    """Leaves the indices with old addresses, and a note on where the rows went."""

    target: int = 1 << 20

    @property
    def moves_rows(self) -> bool:
        return True


@dataclass(frozen=True)
class OtherIndex(PeerAction):
    """An index of a kind that only the peer can use."""

    column: str = "k"
    kind: str = "BITMAP"


def open_line(uri: str, version: int | None = None) -> lance.LanceDataset:
    """A version of a dataset, or of one of its branches, by the folder that holds the versions."""
    root, _, branch = uri.partition(f"/{BRANCH_TREES}/")
    if not branch:
        return lance.dataset(root, version=version)
    return lance.dataset(root).checkout_version((branch, version))


def target_of(uri: str) -> str | lance.LanceDataset:
    """What writes to a dataset or branch name."""
    return open_line(uri) if f"/{BRANCH_TREES}/" in uri else uri


@singledispatch
def act(action: Action, uri: str) -> None:
    """Do an operation as the peer does it."""
    raise TypeError(f"no such operation of the peer: {action}")


@act.register
def _(action: Create, uri: str, **options: object) -> None:
    lance.write_dataset(
        to_arrow(make_rows(action.first, action.count, action.pattern)),
        uri,
        max_rows_per_file=action.rows_per_file,
        enable_stable_row_ids=action.stable_row_ids,
        data_storage_version="2.0",
        **options,
    )


@act.register
def _(action: Append, uri: str) -> None:
    data = to_arrow(make_rows(action.first, action.count, action.pattern))
    lance.write_dataset(data, target_of(uri), mode="append", max_rows_per_file=action.rows_per_file)


@act.register
def _(action: Overwrite, uri: str) -> None:
    data = to_arrow(make_rows(action.first, action.count, action.pattern))
    options = {"mode": "overwrite", "data_storage_version": "2.0"}
    lance.write_dataset(data, target_of(uri), max_rows_per_file=action.rows_per_file, **options)


@act.register
def _(action: ReplaceWhere, uri: str) -> None:
    # The peer has no such operation, and takes two.
    open_line(uri).delete(action.predicate.sql)
    lance.write_dataset(
        to_arrow(action.new), target_of(uri), mode="append", max_rows_per_file=action.rows_per_file
    )


@act.register
def _(action: Delete, uri: str) -> None:
    open_line(uri).delete(action.predicate.sql)


@act.register
def _(action: Compact, uri: str) -> None:
    open_line(uri).optimize.compact_files(
        target_rows_per_fragment=action.target,
        materialize_deletions_threshold=action.threshold,
        num_threads=1,
    )


@act.register
def _(action: Update, uri: str) -> None:
    open_line(uri).update({"s": literal(action.text)}, where=action.predicate.sql)


@act.register
def _(action: Upsert, uri: str) -> None:
    data = to_arrow(make_rows(action.first, action.count, action.pattern))
    merge = open_line(uri).merge_insert("id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute(data)


@act.register
def _(action: CompactAndRemapLater, uri: str) -> None:
    dataset = open_line(uri)
    dataset.optimize.compact_files(
        target_rows_per_fragment=action.target,
        materialize_deletions_threshold=0.0,
        # With stable row ids there is nothing to remap, and the peer says so.
        defer_index_remap=not dataset.has_stable_row_ids,
        num_threads=1,
    )


@act.register
def _(action: OtherIndex, uri: str) -> None:
    name = f"{action.column}_{action.kind.lower()}"
    open_line(uri).create_scalar_index(action.column, action.kind, name=name, replace=True)


@act.register
def _(action: CreateIndex, uri: str) -> None:
    open_line(uri).create_scalar_index(action.column, "BTREE", replace=True)


@act.register
def _(_action: OptimizeIndices, uri: str) -> None:
    open_line(uri).optimize.optimize_indices()


@act.register
def _(action: DropIndex, uri: str) -> None:
    names = sorted({index.name for index in open_line(uri).describe_indices()})
    if names:
        open_line(uri).drop_index(names[action.position % len(names)])


@act.register
def _(action: Cleanup, uri: str) -> None:
    open_line(uri).cleanup_old_versions(
        timedelta(0),
        retain_versions=action.retain,
        delete_unverified=action.delete_unverified,
        error_if_tagged_old_versions=False,
    )


@act.register
def _(action: Restore, uri: str) -> None:
    try:
        open_line(uri, action.version).restore()
    except ValueError as error:
        raise VersionNotFoundError(str(error)) from error


@act.register
def _(action: UpdateConfig, uri: str) -> None:
    open_line(uri).update_config({action.key: action.value})


@act.register
def _(action: Tag, uri: str) -> None:
    tags = open_line(uri).tags
    if action.name in tags.list():
        tags.delete(action.name)
    tags.create(action.name, action.version)


@act.register
def _(action: Then, uri: str) -> None:
    for part in action.parts:
        act(part, uri)


def check(uri: Path | str, rows: Rows) -> None:
    """The peer finds nothing wrong, the same rows in order, and the same answers from every index."""
    dataset = open_line(str(uri))
    dataset.validate()
    assert from_arrow(dataset.to_table(scan_in_order=True)) == rows, "rows that the peer reads"
    assert dataset.count_rows() == len(rows)
    ours = lo.dataset(uri)
    used = {
        ours.lance_schema.path(item.fields[0])
        for item in coverage(ours)
        if item.covered and item.kind == "btreeindexdetails"
    }
    columns = {column for index in dataset.describe_indices() for column in index.field_names}
    for column in sorted(columns):
        for probe in PROBES[column]:
            expected = sorted(item.id for item in probe.select(rows))
            scanner = dataset.scanner(["id"], filter=probe.sql)
            if column in used:
                assert "ScalarIndexQuery" in scanner.explain_plan(verbose=True), f"{probe}: no index is used"
            found = sorted(scanner.to_table()["id"].to_pylist())
            assert found == expected, f"the peer, {probe} through the index"
            plain = dataset.to_table(["id"], filter=probe.sql, use_scalar_index=False)["id"].to_pylist()
            assert sorted(plain) == expected, f"the peer, {probe} without the index"
