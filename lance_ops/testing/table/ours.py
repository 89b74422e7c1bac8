"""Adapter of lance_ops: other writers act after the tasks of an operation, before its commit."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TypeVar

import pyarrow as pa

import lance_ops as lo
from lance_ops.maintenance.runner import LocalRunner, OnDone
from lance_ops.storage import Store, open_store
from lance_ops.table.commit.committer import Committer, committer_for
from lance_ops.table.commit.loop import commit
from lance_ops.table.commit.request import CommitRequest
from lance_ops.table.manifest.listing import ManifestLocation
from lance_ops.table.transaction.operations import Append
from lance_ops.testing.table.adapter import Meanwhile, Rows

_T = TypeVar("_T")
_R = TypeVar("_R")

_SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64())])


class LanceOpsTables:
    """See `TableAdapter`."""

    name = "lance_ops"

    def create(self, uri: str, rows: Rows, *, rows_per_file: int) -> None:
        """See `TableAdapter`."""
        lo.write_dataset(_table(rows), uri, max_rows_per_file=rows_per_file)

    def newest(self, uri: str) -> int:
        """See `TableAdapter`."""
        return lo.Dataset.open(uri).version

    def read(
        self, uri: str, *, version: int | None = None, where: str | None = None
    ) -> list[tuple[int, int]]:
        """See `TableAdapter`."""
        table = lo.Dataset.open(uri, version).to_table(filter=where)
        return list(zip(table["id"].to_pylist(), table["k"].to_pylist(), strict=True))

    def append(self, uri: str, rows: Rows, meanwhile: Meanwhile) -> None:
        """See `TableAdapter`."""
        base = lo.Dataset.open(uri)
        fragments = lo.write_fragments(_table(rows), uri)
        meanwhile()
        commit(base, CommitRequest(Append(tuple(fragments))))

    def append_twice(self, uri: str, rows: Rows) -> None:
        """See `TableAdapter`."""
        base = lo.Dataset.open(uri)
        fragments = lo.write_fragments(_table(rows), uri, job_key="one job")
        for _ in range(2):
            commit(base, CommitRequest(Append(tuple(fragments)), job_key="one job"))

    def overwrite(self, uri: str, rows: Rows, meanwhile: Meanwhile) -> None:
        """See `TableAdapter`."""
        lo.write_dataset(_table(rows), uri, mode="overwrite", committer=_Late(open_store(uri), meanwhile))

    def delete(self, uri: str, where: str, meanwhile: Meanwhile) -> None:
        """See `TableAdapter`."""
        lo.delete(uri, where, committer=_Late(open_store(uri), meanwhile), runner=_Then(meanwhile))

    def update(self, uri: str, plus: int, where: str, meanwhile: Meanwhile) -> None:
        """See `TableAdapter`."""
        lo.update(uri, {"k": f"k + {plus}"}, where, runner=_Then(meanwhile))

    def upsert(self, uri: str, rows: Rows, meanwhile: Meanwhile) -> None:
        """See `TableAdapter`."""
        lo.merge_insert(
            uri,
            _table(rows),
            "id",
            when_matched="update_all",
            when_not_matched="insert_all",
            runner=_Then(meanwhile),
            committer=_Late(open_store(uri), meanwhile),
        )

    def compact(self, uri: str, meanwhile: Meanwhile) -> None:
        """See `TableAdapter`."""
        lo.compact(uri, runner=_Then(meanwhile))

    def create_index(self, uri: str, column: str, meanwhile: Meanwhile) -> None:
        """See `TableAdapter`."""
        lo.create_index(uri, column, replace=True, runner=_Then(meanwhile))

    def restore(self, uri: str, version: int, meanwhile: Meanwhile) -> None:
        """See `TableAdapter`."""
        dataset = lo.Dataset.open(uri)
        meanwhile()
        lo.restore(dataset, version)

    def tag(self, uri: str, name: str, version: int, meanwhile: Meanwhile) -> None:
        """See `TableAdapter`."""
        dataset = lo.Dataset.open(uri)
        meanwhile()
        lo.create_tag(dataset, name, version)

    def cleanup(self, uri: str) -> None:
        """See `TableAdapter`."""
        lo.cleanup(uri, older_than=timedelta(0), retain_versions=1)


def _table(rows: Rows) -> pa.Table:
    return pa.table([list(rows), list(rows.values())], _SCHEMA)


class _Then:
    """A runner after whose tasks others act."""

    def __init__(self, meanwhile: Meanwhile) -> None:
        self._meanwhile = meanwhile

    def map(
        self, function: Callable[[_T], _R], tasks: Sequence[_T], *, on_done: OnDone[_R] | None = None
    ) -> list[_R]:
        """See `Runner.map`."""
        results = LocalRunner(1).map(function, tasks, on_done=on_done)
        self._meanwhile()
        return results


class _Late:
    """A committer before whose first manifest others act."""

    def __init__(self, store: Store, meanwhile: Meanwhile) -> None:
        self._inner: Committer = committer_for(store)
        self._meanwhile = meanwhile

    def commit(self, store: Store, location: ManifestLocation, manifest: bytes) -> None:
        """See `Committer.commit`."""
        self._meanwhile()
        self._inner.commit(store, location, manifest)
