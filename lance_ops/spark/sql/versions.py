"""Statements on versions: `DESCRIBE HISTORY | DETAIL`, `RESTORE`, `CLONE`."""

from collections.abc import Mapping

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError
from lance_ops.maintenance.metadata.actions import restore
from lance_ops.maintenance.metadata.clone import shallow_clone
from lance_ops.maintenance.metadata.deep_clone import deep_clone
from lance_ops.spark.options import parse_timestamp
from lance_ops.spark.sql import results, statements
from lance_ops.spark.sql.statements import Clone, Describe, Restore
from lance_ops.table.dataset import Dataset


def run_on_versions(statement: Describe | Restore | Clone, uri: str, storage: Mapping[str, str]) -> pa.Table:
    """Run one of these statements.

    Args:
        statement: The parsed statement.
        uri: The dataset.
        storage: Options of its store.
    """
    match statement:
        case Describe(what="history", limit=limit):
            return _history(Dataset.open(uri, storage_options=storage), limit)
        case Describe():
            return _detail(Dataset.open(uri, storage_options=storage))
        case Restore():
            return _restored(statement, uri, storage)
    return _cloned(statement, uri, storage)


def _history(dataset: Dataset, limit: int | None) -> pa.Table:
    entries = dataset.history(limit)
    names = results.HISTORY.names
    return results.rows(
        results.HISTORY, [{name: getattr(entry, name) for name in names} for entry in entries]
    )


def _detail(dataset: Dataset) -> pa.Table:
    fragments = dataset.fragments
    return results.one_row(
        results.DETAIL,
        "lance",
        dataset.uri,
        dataset.version,
        dataset.count_rows(),
        len(fragments),
        sum(len(fragment.all_files) for fragment in fragments),
        sum(fragment.data_bytes for fragment in fragments),
        dataset.data_storage_version,
        dataset.uses_stable_row_ids,
        dataset.versions()[-1].timestamp,
    )


def _restored(statement: Restore, uri: str, storage: Mapping[str, str]) -> pa.Table:
    version = statement.version
    if statement.timestamp is not None:
        moment = parse_timestamp(statement.timestamp, None, field="TIMESTAMP AS OF")
        version = Dataset.open(uri, storage_options=storage, asof=moment).version
    assert version is not None
    done = restore(uri, version, storage_options=dict(storage) or None)
    return results.one_row(results.RESTORE, done.dataset.version, done.dataset.count_rows())


def _cloned(statement: Clone, uri: str, storage: Mapping[str, str]) -> pa.Table:
    place = statement.location or clone_path(statement)
    if place is None:
        raise InvalidArgumentError(
            f"the clone {'.'.join(statement.target)} has no place",
            field="LOCATION",
            hint="add LOCATION 'path', or write its path in backticks in place of the name",
        )
    clone = deep_clone if statement.is_deep else shallow_clone
    made = clone(uri, place, statement.version, storage_options=storage)
    return results.one_row(results.CLONE, made.uri, made.version, made.count_rows())


def clone_path(statement: statements.Clone) -> str | None:
    """Return the path of a clone that is named by it; None for a name."""
    last = statement.target[-1]
    return last if "/" in last or last.endswith(".lance") else None
