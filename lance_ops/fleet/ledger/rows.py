"""Rows of the ledger: observations, operations, runs, and alerts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, TypeVar, get_args, get_type_hints

import pyarrow as pa

from lance_ops.errors import encodable

T = TypeVar("T")

GONE = "gone"
"""Verdict in the last row of a dataset that is no longer found."""

REFUSED = "refused"
"""Outcome of a `ttl` operation that would delete more rows than allowed."""

VERDICTS = ("damaged", "overdue", "due", "blocked", "healthy")
"""Verdicts, worst first."""

_TYPES: Mapping[Any, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    datetime: pa.timestamp("us", "UTC"),
    tuple[str, ...]: pa.list_(pa.string()),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Observation of a dataset in a survey. Sizes are in bytes, times in seconds, shares 0 to 1.

    Attributes:
        key: Survey and dataset.
        survey: Id of the survey, or of the run that observed it after maintenance.
        at: Time, by this machine's clock.
        dataset: Its name in the fleet.
        store: Name of its store.
        uri: URI of the dataset.
        class_name: Its class.
        owner: Recipient of alerts; None without one.
        mode: Mode of its class.
        verdict: One of `VERDICTS`, or `GONE`.
        why: The numbers behind it, or the reason of a block, or the damage.
        due: Due operations, in order: `ttl`, `compact`, `index`, `cleanup`.
        due_since: Time since which an operation is due, as far as observed.
        version: Newest version; None if it did not open.
        version_at: Time of its commit.
        schema: Fingerprint of its columns.
        rows: Live rows.
        deleted_ratio: Share of deleted rows.
        fragments: Fragments.
        small_fragments: Fragments below the target size.
        data_bytes: Recorded size of the data files.
        indices: Indices.
        index_coverage: Lowest coverage of an index.
        index_segments: Highest number of segments of an index.
        versions: Versions kept.
        debt_seconds: Extra seconds of each full scan, compared with a compacted table.
        debt_requests: Extra requests of each full scan.
        debt_bytes: Bytes of deleted rows.
        reclaimable_bytes: Estimated bytes that a cleanup would free.
        cost_seconds: Estimated duration of due operations.
        cost_bytes: Estimated bytes that they read and write.
        cost_requests: Estimated requests that they make.
        rank: Benefit over cost, see `benefit_over_cost`.
        versions_per_day: Growth, measured over the newest versions.
        fragments_per_day: So, new fragments.
        rows_per_day: So, new rows, deleted ones included.
        deleted_per_day: So, rows marked deleted.
        bytes_per_day: So, of data files.
        checked_at: When all of its files were last looked for.
        seconds: That the look took.
        requests: That it made.
        error: Type of the error that kept it from being judged; empty for none.
        rules: Fingerprint of the policy that it was judged by; None in rows that are older than this column.
        head: Mark of the newest manifest that was seen, see `survey.look`; None in rows that are older.
        since: When the path was found to have another dataset than before; None since the first survey.
    """

    key: str
    survey: str
    at: datetime
    dataset: str
    store: str
    uri: str
    class_name: str
    owner: str | None = None
    mode: str = "observe"
    verdict: str = "healthy"
    why: str = ""
    due: tuple[str, ...] = ()
    due_since: datetime | None = None
    version: int | None = None
    version_at: datetime | None = None
    schema: str = ""
    rows: int = 0
    deleted_ratio: float = 0.0
    fragments: int = 0
    small_fragments: int = 0
    data_bytes: int = 0
    indices: int = 0
    index_coverage: float = 1.0
    index_segments: int = 0
    versions: int = 0
    debt_seconds: float = 0.0
    debt_requests: int = 0
    debt_bytes: int = 0
    reclaimable_bytes: int = 0
    cost_seconds: float = 0.0
    cost_bytes: int = 0
    cost_requests: int = 0
    rank: float = 0.0
    versions_per_day: float | None = None
    fragments_per_day: float | None = None
    rows_per_day: float | None = None
    deleted_per_day: float | None = None
    bytes_per_day: float | None = None
    checked_at: datetime | None = None
    seconds: float = 0.0
    requests: int = 0
    error: str = ""
    rules: str | None = None
    head: str | None = None
    since: datetime | None = None

    @property
    def is_due(self) -> bool:
        """True if maintenance would help."""
        return self.verdict in ("due", "overdue")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRow:
    """Result of one operation on a dataset.

    Attributes:
        key: Run, dataset and operation.
        run: Id of the run.
        at: Start, by the clock of its machine.
        dataset: Name of the dataset in the fleet.
        store: Name of its store.
        uri: URI of the dataset.
        operation: `ttl`, `compact`, `index` or `cleanup`.
        outcome: `done`, `nothing` (it found nothing to do), `refused` (it would delete more rows than
            `ttl_max_fraction` allows), `failed`, `conflict` (repeated commit conflicts), or `broken off` (its
            process died; the result is unknown).
        error: Type and message of the error; empty for none.
        read_version: Version at the start.
        version: Version that it made; if none, the version it read.
        fragments_before: Fragments before.
        fragments_after: Fragments afterwards.
        bytes_before: Bytes of the data files of the newest version before.
        bytes_after: The same afterwards.
        versions_before: Versions before.
        versions_after: Versions afterwards.
        rows_deleted: Rows deleted by `ttl`.
        bytes_read: Bytes read, by the plan.
        bytes_written: Bytes of data files and index segments written.
        bytes_freed: Bytes freed by a cleanup.
        seconds: Duration.
        conflicts: Commits of other writers that required a new plan.
        seconds_planned: Estimate of `seconds`; None without one.
        bytes_planned: Estimate of the bytes read and written, or freed by a cleanup.
        seconds_raw: Uncorrected estimate of `seconds`.
        bytes_raw: Uncorrected `bytes_planned`.
        scan_seconds_saved: Estimated seconds saved by each full scan.
        level: Reduction of group sizes after conflicts; 0 for none.
        summary: The result in one line.
        rules: Terms of a refused `ttl`, see `DatasetPolicy.terms`; else None.
    """

    key: str
    run: str
    at: datetime
    dataset: str
    store: str
    uri: str
    operation: str
    outcome: str
    error: str = ""
    read_version: int | None = None
    version: int | None = None
    fragments_before: int | None = None
    fragments_after: int | None = None
    bytes_before: int | None = None
    bytes_after: int | None = None
    versions_before: int | None = None
    versions_after: int | None = None
    rows_deleted: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    bytes_freed: int = 0
    seconds: float = 0.0
    conflicts: int = 0
    seconds_planned: float | None = None
    bytes_planned: int | None = None
    seconds_raw: float | None = None
    bytes_raw: int | None = None
    scan_seconds_saved: float = 0.0
    level: int = 0
    summary: str = ""
    rules: str | None = None

    @property
    def seconds_error(self) -> float | None:
        """Relative error of the estimated seconds."""
        return _error(self.seconds, self.seconds_planned)

    @property
    def bytes_error(self) -> float | None:
        """Relative error of the estimated bytes."""
        return _error(self.bytes_done, self.bytes_planned)

    @property
    def bytes_done(self) -> int:
        """Actual value of `bytes_planned`."""
        return self.bytes_freed if self.operation == "cleanup" else self.bytes_read + self.bytes_written


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """Result of one run over many datasets.

    Attributes:
        key: Its id.
        at: Start.
        seconds: Duration.
        plan: Id of the approved plan that it followed; empty for none.
        stopped: Why it ended early; empty if it did not.
        datasets: Number of due datasets.
        done: Of them, finished.
        failed: Of them, failed.
        busy: Of them, skipped because another process had the lease.
        left: Of them, not started.
        operations: Operations that changed something.
        bytes_read: By all operations.
        bytes_written: By all operations.
        bytes_freed: By cleanups.
        scan_seconds_saved: Total seconds saved by a full scan of each.
    """

    key: str
    at: datetime
    seconds: float = 0.0
    plan: str = ""
    stopped: str = ""
    datasets: int = 0
    done: int = 0
    failed: int = 0
    busy: int = 0
    left: int = 0
    operations: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    bytes_freed: int = 0
    scan_seconds_saved: float = 0.0


def arrow_schema(kind: type) -> pa.Schema:
    """Return the columns of a kind of row."""
    return pa.schema([_field(name, hint) for name, hint in get_type_hints(kind).items()])


def to_table(kind: type[T], rows: Iterable[T]) -> pa.Table:
    """Convert rows to a table."""
    listed = list(rows)
    schema = arrow_schema(kind)
    columns = {name: [_plain(getattr(row, name)) for row in listed] for name in schema.names}
    return pa.table(columns, schema=schema)


def from_table(kind: type[T], table: pa.Table) -> list[T]:
    """Convert a table to rows; missing columns have defaults, unknown ones are ignored."""
    names = [item.name for item in fields(kind) if item.name in table.schema.names]  # type: ignore[arg-type]
    columns = [table[name].to_pylist() for name in names]
    return [
        kind(**{name: _own(value) for name, value in zip(names, row, strict=True)})
        for row in zip(*columns, strict=True)
    ]


def to_json(row: Any) -> dict[str, Any]:
    """Return a row as JSON values."""
    found = {item.name: getattr(row, item.name) for item in fields(row)}
    return {
        name: value.isoformat() if isinstance(value, datetime) else _plain(value)
        for name, value in found.items()
    }


def to_short_json(row: Any) -> dict[str, Any]:
    """Return a row as JSON values without defaults, which `from_json` restores."""
    found = ((item, getattr(row, item.name)) for item in fields(row))
    return {
        item.name: value.isoformat() if isinstance(value, datetime) else _plain(value)
        for item, value in found
        if value != item.default
    }


def from_json(kind: type[T], values: Mapping[str, Any]) -> T:
    """Read a row from JSON values; unknown ones are ignored."""
    hints = get_type_hints(kind)
    known = {name: value for name, value in values.items() if name in hints}
    return kind(
        **{
            name: datetime.fromisoformat(value)
            if isinstance(value, str) and datetime in (hints[name], *get_args(hints[name]))
            else _own(value)
            for name, value in known.items()
        }
    )


def _field(name: str, hint: Any) -> pa.Field:
    kinds = [kind for kind in get_args(hint) if kind in _TYPES]
    if hint in _TYPES:
        return pa.field(name, _TYPES[hint], nullable=False)
    return pa.field(name, _TYPES[kinds[0]], nullable=True)


def _plain(value: Any) -> Any:
    """Return a value for a table or JSON; strings may contain paths that are not UTF-8."""
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return encodable(value) if isinstance(value, str) else value


def _own(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _error(done: float, planned: float | None) -> float | None:
    return None if not planned else (done - planned) / planned
