"""The same operations done by the peer, and the table as it sees it."""

from datetime import timedelta
from functools import singledispatch
from pathlib import Path

import lance

import lance_ops as lo
from lance_ops.errors import VersionNotFoundError
from lance_ops.index.coverage import coverage
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
    Restore,
    Rows,
    Tag,
    Then,
    UpdateConfig,
)
from tests.safety.rows import PROBES, from_arrow, make_rows, to_arrow


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
    lance.write_dataset(data, uri, mode="append", max_rows_per_file=action.rows_per_file)


@act.register
def _(action: Overwrite, uri: str) -> None:
    data = to_arrow(make_rows(action.first, action.count, action.pattern))
    options = {"mode": "overwrite", "data_storage_version": "2.0"}
    lance.write_dataset(data, uri, max_rows_per_file=action.rows_per_file, **options)


@act.register
def _(action: Delete, uri: str) -> None:
    lance.dataset(uri).delete(action.predicate.sql)


@act.register
def _(action: Compact, uri: str) -> None:
    lance.dataset(uri).optimize.compact_files(
        target_rows_per_fragment=action.target,
        materialize_deletions_threshold=action.threshold,
        num_threads=1,
    )


@act.register
def _(action: CreateIndex, uri: str) -> None:
    lance.dataset(uri).create_scalar_index(action.column, "BTREE", replace=True)


@act.register
def _(_action: OptimizeIndices, uri: str) -> None:
    lance.dataset(uri).optimize.optimize_indices()


@act.register
def _(action: DropIndex, uri: str) -> None:
    names = sorted({index.name for index in lance.dataset(uri).describe_indices()})
    if names:
        lance.dataset(uri).drop_index(names[action.position % len(names)])


@act.register
def _(action: Cleanup, uri: str) -> None:
    lance.dataset(uri).cleanup_old_versions(
        timedelta(0),
        retain_versions=action.retain,
        delete_unverified=action.delete_unverified,
        error_if_tagged_old_versions=False,
    )


@act.register
def _(action: Restore, uri: str) -> None:
    try:
        lance.dataset(uri, version=action.version).restore()
    except ValueError as error:
        raise VersionNotFoundError(str(error)) from error


@act.register
def _(action: UpdateConfig, uri: str) -> None:
    lance.dataset(uri).update_config({action.key: action.value})


@act.register
def _(action: Tag, uri: str) -> None:
    tags = lance.dataset(uri).tags
    if action.name in tags.list():
        tags.delete(action.name)
    tags.create(action.name, action.version)


@act.register
def _(action: Then, uri: str) -> None:
    for part in action.parts:
        act(part, uri)


def check(uri: Path | str, rows: Rows) -> None:
    """The peer finds nothing wrong, the same rows in order, and the same answers from every index."""
    dataset = lance.dataset(str(uri))
    dataset.validate()
    assert from_arrow(dataset.to_table(scan_in_order=True)) == rows, "rows that the peer reads"
    assert dataset.count_rows() == len(rows)
    ours = lo.dataset(uri)
    used = {ours.lance_schema.path(item.fields[0]) for item in coverage(ours.manifest) if item.covered}
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
