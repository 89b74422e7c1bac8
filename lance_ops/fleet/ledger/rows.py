"""Rows of the ledger: a look at a dataset, an operation on one, a run over many, and what people are told."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, TypeVar, get_args, get_type_hints

import pyarrow as pa

from lance_ops.errors import encodable

T = TypeVar("T")

GONE = "gone"
"""Verdict of the last row of a dataset that is found no more: it is none of those that there are."""

REFUSED = "refused"
"""Outcome of a rule for rows that would take more of them than it may."""

VERDICTS = ("damaged", "overdue", "due", "blocked", "healthy")
"""The worst first."""

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
    """What one look at a dataset found. Sizes are in bytes, times in seconds, shares 0 to 1.

    Attributes:
        key: Survey and dataset: there is one row for each.
        survey: Id of the survey, or of the run that looked after its work.
        at: When, by this machine's clock.
        dataset: Its name in the fleet.
        store: Name of its store.
        uri: Where it is.
        class_name: Its class.
        owner: Who is told; None for nobody.
        mode: Of its class.
        verdict: Of `VERDICTS`, or `GONE`.
        why: The numbers behind it, or what blocks it, or what is damaged.
        due: Operations that are due, in their order: `ttl`, `compact`, `index`, `cleanup`.
        due_since: Since when something has been due, as far as looks tell.
        version: Newest version; None when it did not open.
        version_at: When that was made.
        schema: Fingerprint of its columns.
        rows: Live rows.
        deleted_ratio: Share of deleted rows.
        fragments: Fragments.
        small_fragments: Of them, smaller than the policy wants.
        data_bytes: Recorded size of the data files.
        indices: Indices.
        index_coverage: Of the worst one.
        index_segments: Of the index that has most.
        versions: Versions kept.
        debt_seconds: What each full scan takes longer than it need.
        debt_requests: Requests that each full scan makes more.
        debt_bytes: Stored for deleted rows.
        reclaimable_bytes: What a cleanup would free, an estimate.
        cost_seconds: What the operations that are due take, an estimate.
        cost_bytes: What they read and write, an estimate.
        cost_requests: Requests that they make, an estimate.
        rank: Benefit over cost, see `benefit_over_cost`.
        versions_per_day: Growth, as the newest versions tell.
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
        since: When the path was found to have another dataset than before; None for as long as looks tell.
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
        """Whether maintenance would help."""
        return self.verdict in ("due", "overdue")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRow:
    """What one operation on a dataset did.

    Attributes:
        key: Run, dataset and operation: there is one row for each.
        run: Id of the run.
        at: When it began, by the clock of who ran it.
        dataset: Name of the dataset in the fleet.
        store: Name of its store.
        uri: Where it is.
        operation: `ttl`, `compact`, `index` or `cleanup`.
        outcome: `done`, `nothing` (it found nothing to do), `refused` (it would delete more rows than
            `ttl_max_fraction` lets it), `failed`, `conflict` (other writers were faster,
            again and again), or `broken off` (whoever ran it died; nobody told what became of it).
        error: Type and message of the error; empty for none.
        read_version: Version that it began at.
        version: Version that it made; that it looked at, where it made none.
        fragments_before: Fragments, as the other `_before` and `_after`.
        fragments_after: So, afterwards.
        bytes_before: Of data files of the newest version.
        bytes_after: So, afterwards.
        versions_before: Versions kept.
        versions_after: So, afterwards.
        rows_deleted: Of `ttl`.
        bytes_read: By the plan.
        bytes_written: Data files and index segments.
        bytes_freed: By a cleanup.
        seconds: That it took.
        conflicts: Commits of others that cost another planning.
        seconds_planned: The estimate of `seconds`; None without any.
        bytes_planned: The estimate of the bytes read and written, or, of a cleanup, of those freed.
        seconds_raw: The estimate of `seconds` without what earlier operations taught.
        bytes_raw: So, of `bytes_planned`.
        scan_seconds_saved: What each full scan is faster by, an estimate.
        level: How much smaller than usual its groups were, after conflicts: 0 for as usual.
        summary: The result in one line.
        rules: What a rule for rows that was refused said, see `DatasetPolicy.terms`; None of all others.
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
        """How far `seconds` lies from its estimate, as a share of that."""
        return _error(self.seconds, self.seconds_planned)

    @property
    def bytes_error(self) -> float | None:
        """How far the bytes lie from their estimate, as a share of that."""
        return _error(self.bytes_done, self.bytes_planned)

    @property
    def bytes_done(self) -> int:
        """What `bytes_planned` estimates."""
        return self.bytes_freed if self.operation == "cleanup" else self.bytes_read + self.bytes_written


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """What one run over many datasets did.

    Attributes:
        key: Its id.
        at: When it began.
        seconds: That it took.
        plan: Id of the approved plan that it followed; empty for none.
        stopped: Why it ended before all was done; empty when all was.
        datasets: Datasets that were due.
        done: Of them, brought to an end.
        failed: Of them, with an error.
        busy: Of them, left to somebody else who was at work there.
        left: Of them, not begun.
        operations: Operations that changed something.
        bytes_read: By all operations.
        bytes_written: By all operations.
        bytes_freed: By cleanups.
        scan_seconds_saved: What a full scan of each is faster by, in all.
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
    """Columns of a kind of row."""
    return pa.schema([_field(name, hint) for name, hint in get_type_hints(kind).items()])


def to_table(kind: type[T], rows: Iterable[T]) -> pa.Table:
    """Rows as a table."""
    listed = list(rows)
    schema = arrow_schema(kind)
    columns = {name: [_plain(getattr(row, name)) for row in listed] for name in schema.names}
    return pa.table(columns, schema=schema)


def from_table(kind: type[T], table: pa.Table) -> list[T]:
    """Rows of a table; columns that it lacks have their defaults, unknown ones are left out."""
    names = [item.name for item in fields(kind) if item.name in table.schema.names]  # type: ignore[arg-type]
    columns = [table[name].to_pylist() for name in names]
    return [
        kind(**{name: _own(value) for name, value in zip(names, row, strict=True)})
        for row in zip(*columns, strict=True)
    ]


def to_json(row: Any) -> dict[str, Any]:
    """A row as JSON values."""
    found = {item.name: getattr(row, item.name) for item in fields(row)}
    return {
        name: value.isoformat() if isinstance(value, datetime) else _plain(value)
        for name, value in found.items()
    }


def to_short_json(row: Any) -> dict[str, Any]:
    """A row as JSON values without those that are the default, which `from_json` puts back."""
    found = ((item, getattr(row, item.name)) for item in fields(row))
    return {
        item.name: value.isoformat() if isinstance(value, datetime) else _plain(value)
        for item, value in found
        if value != item.default
    }


def from_json(kind: type[T], values: Mapping[str, Any]) -> T:
    """A row from JSON values; unknown ones are left out."""
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
    """A value as a column of a table or JSON holds it; texts may quote paths that are not UTF-8."""
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return encodable(value) if isinstance(value, str) else value


def _own(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _error(done: float, planned: float | None) -> float | None:
    return None if not planned else (done - planned) / planned
