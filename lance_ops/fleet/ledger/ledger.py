"""Ledger: reads and writes its tables, imports journals of killed processes, and removes old rows."""

import contextlib
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.alerts.row import AlertRow
from lance_ops.errors import (
    CommitConflictError,
    DatasetExistsError,
    DatasetNotFoundError,
    FileMissingError,
    FormatError,
    InvalidArgumentError,
    LanceOpsError,
)
from lance_ops.fleet.ledger.journal import Entry, Journal
from lance_ops.fleet.ledger.rows import (
    GONE,
    Look,
    OperationRow,
    RunRow,
    arrow_schema,
    from_table,
    to_table,
)
from lance_ops.fleet.policy.model import FleetPolicy
from lance_ops.maintenance.cleanup.operation import cleanup
from lance_ops.maintenance.columns.operation import add_columns
from lance_ops.maintenance.compact.operation import compact
from lance_ops.maintenance.delete.operation import delete
from lance_ops.maintenance.ingest.operation import append, write_dataset
from lance_ops.maintenance.merge_insert.operation import merge_insert
from lance_ops.storage import Store, open_store
from lance_ops.table.dataset import Dataset

T = TypeVar("T", Look, OperationRow, RunRow, AlertRow)

_TABLES: dict[type, str] = {
    Look: "looks.lance",
    OperationRow: "operations.lance",
    RunRow: "runs.lance",
    AlertRow: "alerts.lance",
}
_ALSO: dict[type, str] = {AlertRow: " AND state = 'over'"}
"""Additional condition for the removal of old rows."""

_LOST: dict[type, str] = {
    Look: "the history of all measures",
    OperationRow: "the history of operations, the corrections of estimates, and the time of the last "
    "ttl operations",
    RunRow: "the history of runs",
    AlertRow: "the record of sent alerts, so that open ones are sent again,",
}

_MOST_FRAGMENTS = 24
_MOST_VERSIONS = 60
_KEEP_VERSIONS = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class FleetLedger:
    """The ledger of a fleet: four Lance datasets, and a journal of operations in progress.

    Many processes may write concurrently. Each row has a key: rewriting it replaces the row.

    Attributes:
        store: Its root.
        keep: Retention of rows.
    """

    store: Store
    keep: timedelta = timedelta(days=90)

    @classmethod
    def of(cls, policy: FleetPolicy) -> "FleetLedger":
        """Open the ledger of a policy.

        Raises:
            InvalidArgumentError: Its location is invalid, or the environment lacks a variable of its options.
        """
        return cls(open_store(policy.ledger_uri, policy.ledger_storage_options()), policy.keep)

    @property
    def journal(self) -> Journal:
        """The journal of operations in progress."""
        return Journal(self.store)

    # Reading

    def looks(self, *, since: datetime | None = None, dataset: str | None = None) -> list[Look]:
        """Return observations, oldest first.

        Args:
            since: Minimum time.
            dataset: Name of one dataset; None for all.
        """
        return self._read(Look, since, dataset)

    def latest(self, *, with_gone: bool = False) -> dict[str, Look]:
        """Return the newest observation of each dataset, by name.

        Args:
            with_gone: Include datasets that the newest discovery no longer found.
        """
        dataset = self._open(Look)
        if dataset is None:
            return {}
        # First two narrow columns of all rows, then the rest of the newest ones only.
        narrow = dataset.to_table(columns=["dataset", "at"], with_row_address=True)
        newest: dict[str, tuple[datetime, int]] = {}
        columns = [narrow[name].to_pylist() for name in ("dataset", "at", "_rowaddr")]
        for name, at, address in zip(*columns, strict=True):
            if name not in newest or newest[name][0] <= at:
                newest[name] = (at, address)
        wanted = {address for _, address in newest.values()}
        found: dict[str, Look] = {}
        for batch in dataset.to_batches(with_row_address=True):
            mask = pc.is_in(batch["_rowaddr"], pa.array(sorted(wanted), pa.uint64()))
            chosen = pa.Table.from_batches([batch.filter(mask)]).drop_columns(["_rowaddr"])
            found |= {
                look.dataset: look for look in from_table(Look, chosen) if with_gone or look.verdict != GONE
            }
        return found

    def verdicts(self) -> dict[str, str]:
        """Return the newest verdict of each dataset, by name."""
        dataset = self._open(Look)
        if dataset is None:
            return {}
        found = dataset.to_table(columns=["dataset", "at", "verdict"]).sort_by("at")
        newest = dict(zip(found["dataset"].to_pylist(), found["verdict"].to_pylist(), strict=True))
        return {name: verdict for name, verdict in newest.items() if verdict != GONE}

    def operations(self, *, since: datetime | None = None, dataset: str | None = None) -> list[OperationRow]:
        """Return operations, oldest first; see `looks`."""
        return self._read(OperationRow, since, dataset)

    def runs(self, *, since: datetime | None = None) -> list[RunRow]:
        """Return runs, oldest first."""
        return self._read(RunRow, since, None)

    def alerts(self, *, since: datetime) -> list[AlertRow]:
        """Return alerts since a time, and all open ones, oldest first."""
        return self._read(AlertRow, since, None, or_else="state <> 'over'")

    # Writing

    def add_looks(self, looks: Sequence[Look], *, key: str) -> None:
        """Add observations; repeated calls with a key add them once.

        Args:
            looks: The rows.
            key: Job key.
        """
        if looks:
            self._create(Look)
            append(self._child(Look), to_table(Look, looks), job_key=f"fleet-looks-{key}")

    def add_operations(self, rows: Sequence[OperationRow]) -> None:
        """Add new operations."""
        self._merge(OperationRow, rows)

    def add_run(self, row: RunRow) -> None:
        """Add or update a run."""
        self._put(RunRow, [row])

    def put_alerts(self, rows: Sequence[AlertRow]) -> None:
        """Add or update alerts."""
        if rows:
            self._put(AlertRow, rows)

    def settle(self, is_held: Callable[[OperationRow], bool]) -> int:
        """Import the journal, interrupted operations included.

        Args:
            is_held: Returns whether the dataset of a row has a lease.

        Returns:
            Interrupted operations.
        """
        entries = list(self.journal.entries())
        ended = [entry for entry in entries if entry.ended]
        told = {row.key for entry in ended for row in entry.rows}
        lost: list[Entry] = [
            entry
            for entry in entries
            if not entry.ended
            and entry.rows
            and not any(row.key in told for row in entry.rows)
            and not is_held(entry.rows[0])
        ]
        # An outcome may have arrived since the listing: those intents are read again.
        lost = [entry for entry in lost if self._is_still_open(entry)]
        rows = [row for entry in (*ended, *lost) for row in entry.rows]
        self.add_operations(rows)
        self.journal.remove([*ended, *lost])
        return sum(len(entry.rows) for entry in lost)

    def _is_still_open(self, entry: Entry) -> bool:
        return self.store.exists(entry.path) and not self.store.exists(
            f"{entry.path.rpartition('.')[0]}.ended"
        )

    # Maintenance

    def maintain(self, now: datetime | None = None) -> None:
        """Remove old rows, merge small fragments, and remove old versions of the tables.

        Errors are left to the next run.
        """
        now = now or datetime.now(UTC)
        for kind in _TABLES:
            dataset = self._open(kind)
            if dataset is None or len(dataset.fragments) <= _MOST_FRAGMENTS:
                continue
            cutoff = (now - self.keep).astimezone(UTC).replace(tzinfo=None)
            try:
                delete(self._child(kind), f"at < TIMESTAMP '{cutoff:%Y-%m-%d %H:%M:%S}'{_ALSO.get(kind, '')}")
                compact(self._child(kind))
                if dataset.version > _MOST_VERSIONS:
                    cleanup(self._child(kind), older_than=_KEEP_VERSIONS, retain_versions=2)
            except LanceOpsError:
                continue

    # Tables

    def _child(self, kind: type) -> Store:
        return self.store.child(_TABLES[kind])

    def _open(self, kind: type) -> Dataset | None:
        try:
            return Dataset.open(self._child(kind))
        except DatasetNotFoundError:
            return None
        except FormatError as error:
            raise self._damaged(kind, error) from error

    def _damaged(self, kind: type, error: LanceOpsError) -> FormatError:
        """Return an error about damage of the ledger, with a repair hint."""
        uri = self._child(kind).uri
        return FormatError(
            f"the ledger of the fleet is damaged: {error.message}",
            path=uri,
            hint=f"the datasets are not affected: {removal_of(uri)}, and `lance-ops fleet status` "
            f"creates it again; this loses {_LOST[kind]}",
        )

    def _create(self, kind: type) -> Dataset:
        found = self._open(kind)
        if found is None:
            with contextlib.suppress(DatasetExistsError):
                write_dataset(to_table(kind, []), self._child(kind), mode="create")
            found = Dataset.open(self._child(kind))
        # A ledger of an earlier release lacks new columns, which are null in its rows.
        missing = [column for column in arrow_schema(kind) if column.name not in found.schema.names]
        if missing:
            # Another process may do the same: the second commit finds the columns.
            with contextlib.suppress(InvalidArgumentError, CommitConflictError):
                add_columns(self._child(kind), missing)
            found = Dataset.open(self._child(kind))
        return found

    def _merge(self, kind: type[T], rows: Iterable[T]) -> None:
        distinct = {row.key: row for row in rows}
        if distinct:
            self._create(kind)
            merge_insert(
                self._child(kind), to_table(kind, distinct.values()), on="key", when_not_matched="insert_all"
            )

    def _put(self, kind: type[T], rows: Sequence[T]) -> None:
        self._create(kind)
        merge_insert(
            self._child(kind),
            to_table(kind, rows),
            on="key",
            when_matched="update_all",
            when_not_matched="insert_all",
        )

    def _read(
        self, kind: type[T], since: datetime | None, dataset: str | None, *, or_else: str = ""
    ) -> list[T]:
        opened = self._open(kind)
        if opened is None:
            return []
        conditions: list[str] = []
        if since is not None:
            text = since.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
            moment = f"at >= TIMESTAMP '{text}'"
            conditions.append(f"({moment} OR {or_else})" if or_else else moment)
        if dataset is not None:
            quoted = dataset.replace("'", "''")
            conditions.append(f"dataset = '{quoted}'")
        try:
            table: Any = opened.to_table(filter=" AND ".join(conditions) or None)
        except (FormatError, FileMissingError) as error:
            raise self._damaged(kind, error) from error
        return sorted(from_table(kind, table), key=lambda row: row.at)


def removal_of(uri: str) -> str:
    """Return how to remove a folder with all its contents, with the tools of its store.

    Args:
        uri: URI of the store.
    """
    scheme, told, rest = uri.partition("://")
    if not told:
        return f"`rm -r {shlex.quote(uri)}`"
    if scheme in ("s3", "s3a"):
        return f"`aws s3 rm --recursive {shlex.quote(f's3://{rest}')}`"
    if scheme in ("gs", "gcs"):
        return f"`gcloud storage rm --recursive {shlex.quote(f'gs://{rest}')}`"
    if scheme in ("az", "adl", "abfs", "abfss"):
        container, _, prefix = rest.partition("/")
        pattern = shlex.quote(f"{prefix}/*")
        source = shlex.quote(container.partition("@")[0])
        return f"`az storage blob delete-batch --source {source} --pattern {pattern}`"
    return f"remove {uri} with all its contents"
