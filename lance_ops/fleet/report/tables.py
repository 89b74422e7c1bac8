"""Tables of one dataset: newest commits with their writers, and indices."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from lance_ops.fleet.ledger.rows import OperationRow
from lance_ops.fleet.run.noted import seconds_until
from lance_ops.fleet.run.perform import RUN_PROPERTY
from lance_ops.index.upkeep.statistics import describe_indices
from lance_ops.table.commit.jobs.stream_epochs import QUERY_ID
from lance_ops.table.dataset import Dataset
from lance_ops.table.history.history import HistoryEntry

_DAGSTER = "dagster.run_id"
_RUNS = (_DAGSTER, "airflow.run_id", RUN_PROPERTY)
_WRITERS = (
    ("dagster.job", "Dagster, {}"),
    ("airflow.dag_id", "Airflow, {}"),
    (RUN_PROPERTY, "lance-ops fleet"),
    (QUERY_ID, "stream {}"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLine:
    """A version.

    Attributes:
        version: Its number.
        at: Time of the commit; UTC.
        operation: Its operation; "unknown" if its transaction is lost.
        what: The operation in one line.
        writer: Its writer: job, DAG, fleet, stream, or library.
        rows: Live rows; None if not recorded.
        fragments: Fragments.
        bytes: Size of its data files.
        seconds: Duration by the ledger, or from the start noted by its writer; None if unknown.
        run: Id of the run; empty for none.
        dagster_run: Id of the Dagster run; empty for none.
        damage: Why it does not open; empty if it does.
        upkeep: See `HistoryEntry`.
    """

    version: int
    at: datetime
    operation: str
    what: str
    writer: str
    rows: int | None
    fragments: int
    bytes: int
    seconds: float | None
    run: str
    dagster_run: str
    damage: str
    upkeep: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexLine:
    """An index with all its segments.

    Attributes:
        name: Its name.
        kind: Its kind.
        columns: Paths of its columns.
        coverage: Share of the live rows, 0 to 1.
        segments: Segments.
        bytes: Size of its files; None if not recorded.
        at: Time of building its newest segment; None if not recorded.
    """

    name: str
    kind: str
    columns: str
    coverage: float
    segments: int
    bytes: int | None
    at: datetime | None


def history_lines(
    dataset: Dataset, limit: int, operations: Iterable[OperationRow] = ()
) -> tuple[HistoryLine, ...]:
    """Return the newest versions, newest first.

    Args:
        dataset: Any version.
        limit: Maximum number.
        operations: Operations in the ledger, with durations.
    """
    return lines_of(dataset.history(limit), operations)


def lines_of(
    entries: Iterable[HistoryEntry], operations: Iterable[OperationRow] = ()
) -> tuple[HistoryLine, ...]:
    """Return the lines of a history that was already read; see `history_lines`."""
    took = {row.version: row for row in operations if row.outcome == "done" and row.version is not None}
    return tuple(_line(entry, took.get(entry.version)) for entry in entries)


def _line(entry: HistoryEntry, done: OperationRow | None) -> HistoryLine:
    noted = entry.properties
    run = next((noted[name] for name in _RUNS if name in noted), "")
    # A run without changes notes the version that it found: if that is of another run, it is not its work.
    ours = done is not None and run == done.run
    return HistoryLine(
        version=entry.version,
        at=entry.timestamp,
        operation=entry.operation or "unknown",
        what=entry.description,
        writer=writer_of(noted) or entry.writer,
        rows=entry.size.rows,
        fragments=entry.size.fragments,
        bytes=entry.size.data_bytes,
        seconds=done.seconds if ours and done is not None else seconds_until(entry.timestamp, noted),
        run=run,
        dagster_run=noted.get(_DAGSTER, ""),
        damage=entry.damage,
        upkeep=entry.upkeep,
    )


def writer_of(properties: Mapping[str, str]) -> str:
    """Return the writer noted in a version; empty if there is none."""
    return next((text.format(properties[name]) for name, text in _WRITERS if name in properties), "")


def index_lines(dataset: Dataset) -> tuple[IndexLine, ...]:
    """Return the indices of a version, by name."""
    built: dict[str, int] = {}
    for segment in dataset.indices:
        built[segment.name] = max(built.get(segment.name, 0), segment.created_at or 0)
    return tuple(
        IndexLine(
            name=item.name,
            kind=item.index_type,
            columns=", ".join(name or "?" for name in item.field_names),
            coverage=item.coverage,
            segments=item.num_segments,
            bytes=item.total_size_bytes,
            at=datetime.fromtimestamp(built[item.name] / 1000, UTC) if built.get(item.name) else None,
        )
        for item in describe_indices(dataset)
    )
