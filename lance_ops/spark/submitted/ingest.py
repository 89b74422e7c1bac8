"""Ingest on a cluster: a named source returns the rows of a partition, which become one commit."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from lance_ops.maintenance.ingest.partition_rows import Bound, PartitionRule, rows_of_partition
from lance_ops.maintenance.progress import Progress
from lance_ops.maintenance.results import AppendResult
from lance_ops.maintenance.runner import Runner
from lance_ops.spark.row_writer import RowWrite, write_rows
from lance_ops.spark.submitted.request import Request, import_named

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INGEST = "ingest"
"""Name of the operation in requests."""


class TimeWindow(NamedTuple):
    """Start and end of a partition, with UTC offsets."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class SessionOfProgram:
    """Provides the Spark session that a source requests from the scheduler's resource."""

    session: "SparkSession"

    def spark_session(self) -> "SparkSession":
        """Return the session of this program."""
        return self.session


@dataclass(frozen=True, slots=True)
class SourceRequest:
    """Request to a source, with the attributes of the scheduler's own request.

    Attributes:
        partition_key: Partition to load; None when the ingest has none.
        time_window: Start and end of a time partition.
        wall_clock_window: The times without a time zone that belong to it.
        store: Has the session: `request.store.spark_session()`.
    """

    partition_key: str | None
    time_window: TimeWindow | None
    wall_clock_window: tuple[datetime, datetime] | None
    store: SessionOfProgram


def ingest_arguments(
    source: str,
    *,
    partition_key: str | None,
    window: tuple[datetime, datetime] | None,
    wall_clock_window: tuple[datetime, datetime] | None,
    mode: str,
    on: Sequence[str],
    predicate: str | Sequence[PartitionRule] | None,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the arguments of a request for an ingest.

    Args:
        source: `module:name` of the function.
        partition_key: As in `SourceRequest`.
        window: As in `SourceRequest`.
        wall_clock_window: As in `SourceRequest`.
        mode: As in `RowWrite`.
        on: As in `RowWrite`.
        predicate: Predicate of the replaced rows, or rules that build it from the schema.
        options: More arguments of `write_dataset`.
    """
    rules = None if predicate is None or isinstance(predicate, str) else [_packed(rule) for rule in predicate]
    return {
        "source": source,
        "partition_key": partition_key,
        "window": _texts(window),
        "wall_clock_window": _texts(wall_clock_window),
        "mode": mode,
        "on": list(on),
        "predicate": predicate if isinstance(predicate, str) else None,
        "rules": rules,
        "options": dict(options),
    }


def ingest(
    request: Request,
    session: "SparkSession",
    *,
    runner: Runner,
    progress: Progress,
    storage_options: Mapping[str, str],
) -> AppendResult:
    """Run a request with `ingest_arguments`."""
    given = request.arguments
    source = import_named(given["source"], field="source")
    window, wall = _moments(given["window"]), _moments(given["wall_clock_window"])
    rules = given["rules"]
    write = RowWrite(
        uri=request.uri,
        storage_options=storage_options,
        mode=given["mode"],
        job_key=request.job_key or "",
        properties=request.properties,
        on=tuple(given["on"]),
        predicate=given["predicate"]
        if rules is None
        else partial(rows_of_partition, [_unpacked(rule) for rule in rules]),
        options=given["options"],
    )
    rows = source(
        SourceRequest(
            given["partition_key"],
            None if window is None else TimeWindow(*window),
            wall,
            SessionOfProgram(session),
        )
    )
    return write_rows(write, rows, lambda: runner, progress=progress)


def _packed(rule: PartitionRule) -> dict[str, Any]:
    bounds = {"start": rule.start, "end": rule.end}
    packed = {
        name: None if bound is None else {key: value.isoformat() for key, value in asdict(bound).items()}
        for name, bound in bounds.items()
    }
    return {"column": rule.column, "key": rule.key, **packed}


def _unpacked(values: Mapping[str, Any]) -> PartitionRule:
    bounds = {
        name: None
        if values[name] is None
        else Bound(**{key: datetime.fromisoformat(value) for key, value in values[name].items()})
        for name in ("start", "end")
    }
    return PartitionRule(values["column"], values["key"], **bounds)


def _texts(window: tuple[datetime, datetime] | None) -> list[str] | None:
    return None if window is None else [moment.isoformat() for moment in window]


def _moments(window: Sequence[str] | None) -> tuple[datetime, datetime] | None:
    return None if window is None else (datetime.fromisoformat(window[0]), datetime.fromisoformat(window[1]))
