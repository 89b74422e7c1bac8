"""Ledger: reading and writing its tables, what died writers left, and keeping all of it small."""

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
"""What has to hold, too, for a row to go."""

_LOST: dict[type, str] = {
    Look: "the course of all measures",
    OperationRow: "the history of operations, what estimates learned, and when rows were last looked for",
    RunRow: "the history of runs",
    AlertRow: "what people were told, so that they are told again of what is still so,",
}

_MOST_FRAGMENTS = 24
_MOST_VERSIONS = 60
_KEEP_VERSIONS = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class FleetLedger:
    """The ledger of a fleet: four Lance datasets, and a journal of what is under way.

    Many may write at once. Rows have a key each: a look or an operation that is written twice is there once.

    Attributes:
        store: Its root.
        keep: How long rows are kept.
    """

    store: Store
    keep: timedelta = timedelta(days=90)

    @classmethod
    def of(cls, policy: FleetPolicy) -> "FleetLedger":
        """The ledger of a policy.

        Raises:
            InvalidArgumentError: Its place makes no sense, or the environment lacks what its options need.
        """
        return cls(open_store(policy.ledger_uri, policy.ledger_storage_options()), policy.keep)

    @property
    def journal(self) -> Journal:
        """Operations under way."""
        return Journal(self.store)

    # Reading

    def looks(self, *, since: datetime | None = None, dataset: str | None = None) -> list[Look]:
        """Looks, oldest first.

        Args:
            since: Not older than this.
            dataset: Of this one only.
        """
        return self._read(Look, since, dataset)

    def latest(self, *, with_gone: bool = False) -> dict[str, Look]:
        """The newest look at each dataset, by name.

        Args:
            with_gone: Those too that the newest discovery did not find any more.
        """
        dataset = self._open(Look)
        if dataset is None:
            return {}
        # Two narrow columns of all looks first: the rest is read of the newest ones only.
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
        """The verdict of the newest look at each dataset, by name."""
        dataset = self._open(Look)
        if dataset is None:
            return {}
        found = dataset.to_table(columns=["dataset", "at", "verdict"]).sort_by("at")
        newest = dict(zip(found["dataset"].to_pylist(), found["verdict"].to_pylist(), strict=True))
        return {name: verdict for name, verdict in newest.items() if verdict != GONE}

    def operations(self, *, since: datetime | None = None, dataset: str | None = None) -> list[OperationRow]:
        """Operations, oldest first; see `looks`."""
        return self._read(OperationRow, since, dataset)

    def runs(self, *, since: datetime | None = None) -> list[RunRow]:
        """Runs, oldest first."""
        return self._read(RunRow, since, None)

    def alerts(self, *, since: datetime) -> list[AlertRow]:
        """Alerts that came up since then, and all that are not over, oldest first."""
        return self._read(AlertRow, since, None, or_else="state <> 'over'")

    # Writing

    def add_looks(self, looks: Sequence[Look], *, key: str) -> None:
        """Add looks, once under a key however often it is called.

        Args:
            looks: The rows.
            key: Names this piece of work.
        """
        if looks:
            self._create(Look)
            append(self._child(Look), to_table(Look, looks), job_key=f"fleet-looks-{key}")

    def add_operations(self, rows: Sequence[OperationRow]) -> None:
        """Add operations that are not there yet."""
        self._merge(OperationRow, rows)

    def add_run(self, row: RunRow) -> None:
        """Add a run, or say more of it."""
        self._put(RunRow, [row])

    def put_alerts(self, rows: Sequence[AlertRow]) -> None:
        """Add alerts, or say what became of them."""
        if rows:
            self._put(AlertRow, rows)

    def settle(self, is_held: Callable[[OperationRow], bool]) -> int:
        """Take over what is in the journal; what was broken off, too.

        Args:
            is_held: Whether somebody is at work on the dataset of a row.

        Returns:
            Operations that were broken off.
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
        # An outcome may have come since the listing: those intents are looked at again.
        lost = [entry for entry in lost if self._is_still_open(entry)]
        rows = [row for entry in (*ended, *lost) for row in entry.rows]
        self.add_operations(rows)
        self.journal.remove([*ended, *lost])
        return sum(len(entry.rows) for entry in lost)

    def _is_still_open(self, entry: Entry) -> bool:
        return self.store.exists(entry.path) and not self.store.exists(
            f"{entry.path.rpartition('.')[0]}.ended"
        )

    # Upkeep

    def maintain(self, now: datetime | None = None) -> None:
        """Remove rows that are too old, merge small fragments, and remove old versions of the tables.

        What fails is left to the next time.
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
        """That it is the ledger and none of the datasets, and what to do about it."""
        uri = self._child(kind).uri
        return FormatError(
            f"the ledger of the fleet is damaged: {error.message}",
            path=uri,
            hint=f"no dataset is: {removal_of(uri)}, and `lance-ops fleet status` begins it anew; "
            f"{_LOST[kind]} is lost with it",
        )

    def _create(self, kind: type) -> Dataset:
        found = self._open(kind)
        if found is None:
            with contextlib.suppress(DatasetExistsError):
                write_dataset(to_table(kind, []), self._child(kind), mode="create")
            found = Dataset.open(self._child(kind))
        # A ledger of an earlier release lacks columns of this one; they are null in its rows.
        missing = [column for column in arrow_schema(kind) if column.name not in found.schema.names]
        if missing:
            # Somebody else may be at it: whose commit is second finds the columns there.
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
    """How a person removes a folder with all that is in it, by the tools of its store.

    Args:
        uri: As a store says it.
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
    return f"remove {uri} and all that is in it"
