"""Overview of a dataset for its asset page: verdict, maintenance, state, newest versions, indices.

In a window of 1,280 pixels, Dagster shows the metadata of the newest event in a column of about 280 pixels,
in a monospace font. Tables there have three narrow columns. Wider ones are Markdown of 1,000 characters or
more, which Dagster shows in a dialog.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from textwrap import shorten

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.links import plain, run_path
from lance_ops.fleet.report.tables import HistoryLine, index_lines, lines_of
from lance_ops.maintenance.health.forecast import foresee, growth_rate
from lance_ops.maintenance.health.measure import DatasetHealth
from lance_ops.maintenance.health.policy import MaintenancePolicy, Verdict
from lance_ops.maintenance.health.verdicts import judge_dataset
from lance_ops.maintenance.text import bytes_text, seconds_text, share_text
from lance_ops.table.dataset import Dataset
from lance_ops.table.history.history import HistoryEntry

VERDICT = "lance/verdict"
NEXT = "lance/next_maintenance"
LAST = "lance/last_maintenance"
STATE = "lance/state"
HISTORY = "lance/history"
INDICES = "lance/index_table"

_VERSIONS = 10
_IN_A_DIALOG = 1000
_WRITER_WIDTH = 28
_MOST_EXACT = 10_000_000
_DAY = 86400.0
_MINUTE = 60.0
_YEAR = 365.0


@dataclass(frozen=True, slots=True)
class Overview:
    """Overview of a dataset.

    Attributes:
        values: Metadata, most important first.
        badges: Verdict and last maintenance in at most 30 characters each. The page shows them above the
            columns, which come before all metadata.
    """

    values: dict[str, object] = field(default_factory=dict)
    badges: tuple[str, ...] = ()


def overview(dataset: Dataset, policy: MaintenancePolicy, health: DatasetHealth) -> Overview:
    """Build the overview of a dataset.

    Args:
        dataset: The newest version.
        policy: Thresholds of the verdict.
        health: Its measures.
    """
    entries = dataset.history(_VERSIONS)
    lines = lines_of(entries)
    verdicts = judge_dataset(dataset, policy, health)
    due = [item for item in verdicts if item.due]
    blocked = [item for item in verdicts if item.blocked]
    coming = "" if due else _coming(entries, policy, health)
    last = _last(lines)
    done = [f"{what} on {_moment(line.at)} (version {line.version})" for what, line in last.items()]
    values: dict[str, object] = {
        VERDICT: _verdict(due, blocked),
        NEXT: f"{_named(due)}: now" if due else coming or "nothing is due",
        LAST: "; ".join(done) or f"none within the newest {len(lines)} versions",
        STATE: dg.MetadataValue.md(_rows(("measure", "now", "limit"), state_rows(health, policy), right=1)),
        HISTORY: _dialog(_history(lines)),
    }
    indices = _indices(dataset)
    if indices:
        values[INDICES] = _dialog(indices)
    return Overview(values, tuple(_badges(due, blocked, coming, last)))


def _named(verdicts: Sequence[Verdict]) -> str:
    return ", ".join(item.operation for item in verdicts)


def policy_table(values: Mapping[str, object]) -> dg.MarkdownMetadataValue:
    """Return thresholds by name as a table."""
    return _dialog(_rows(("threshold", "value"), [(plain(name), plain(of)) for name, of in values.items()]))


def _verdict(due: Sequence[Verdict], blocked: Sequence[Verdict]) -> str:
    state = "due" if due else "blocked" if blocked else "healthy"
    reasons = "; ".join(f"{item.operation}: {_reason(item)}" for item in due or blocked)
    return f"{state}: {reasons or 'all measures are within the limits'}"


def _reason(verdict: Verdict) -> str:
    return verdict.reason.replace("; blocked: ", "; ") if verdict.blocked else verdict.reason


def _badges(
    due: Sequence[Verdict], blocked: Sequence[Verdict], coming: str, last: Mapping[str, HistoryLine]
) -> Iterator[str]:
    if due or blocked:
        yield f"due: {_named(due)}" if due else f"blocked: {_named(blocked)}"
    else:
        yield "healthy"
    if coming:
        yield f"next: {coming}"
    if last:
        what, line = max(last.items(), key=lambda item: item[1].version)
        yield f"last: {what} {_moment(line.at)}"


def _coming(entries: Sequence[HistoryEntry], policy: MaintenancePolicy, health: DatasetHealth) -> str:
    """Return the limit that is passed first at the present rate; empty if none is within a year."""
    rate = growth_rate(entries)
    expected = () if rate is None else foresee(health, policy, rate)
    found = [(item.days, item.operation) for item in expected if item.days]
    days, operation = min(found, default=(_YEAR, ""))
    if days >= _YEAR:
        return ""
    seconds = days * _DAY
    return f"{operation} in {seconds_text(seconds)}" if seconds >= _MINUTE else f"{operation} within a minute"


def state_rows(health: DatasetHealth, policy: MaintenancePolicy) -> list[tuple[str, str, str]]:
    """Return measure, value and limit of the countable state, in readable units.

    Names have ten characters at most, as the column of the page requires.
    """
    rows = [
        ("rows", _number(health.rows), "", False),
        ("size", bytes_text(health.data_bytes), "", False),
        ("fragments", _number(health.fragments), "", False),
        _limited("small", health.small_fragments, policy.max_small_fragments),
    ]
    if health.deleted_rows:
        over = health.deleted_ratio > policy.max_deleted_ratio
        limit = share_text(policy.max_deleted_ratio)
        rows.append(("deleted", share_text(health.deleted_ratio), limit, over))
    if health.indices:
        under = health.index_coverage < policy.min_index_coverage
        limit = share_text(policy.min_index_coverage)
        rows.append(("coverage", share_text(health.index_coverage), limit, under))
        if health.index_segments > 1:
            rows.append(_limited("segments", health.index_segments, policy.max_index_segments))
    if health.deferred_compactions:
        rows.append(_limited("backlog", health.deferred_compactions, policy.max_deferred_compactions))
    rows.append(_limited("versions", health.live_versions, policy.max_versions))
    return [(name, f"**{now}**" if passed else now, limit) for name, now, limit, passed in rows]


def _limited(name: str, value: int, limit: int) -> tuple[str, str, str, bool]:
    return name, _number(value), _number(limit), value > limit


def _last(lines: Iterable[HistoryLine]) -> dict[str, HistoryLine]:
    """Return the newest version of each maintenance operation; a cleanup makes none."""
    found: dict[str, HistoryLine] = {}
    for line in lines:
        if line.upkeep:
            found.setdefault(line.upkeep, line)
    return found


def _history(lines: Sequence[HistoryLine]) -> str:
    header = ("version", "time (UTC)", "what", "by", "rows", "fragments", "size", "took", "run")
    rows = [
        (
            str(line.version),
            _moment(line.at),
            plain(line.operation),
            plain(shorten(line.writer.partition(" (")[0], _WRITER_WIDTH, placeholder="…")),
            "?" if line.rows is None else f"{line.rows:,}",
            f"{line.fragments:,}",
            bytes_text(line.bytes),
            "" if line.seconds is None else seconds_text(line.seconds),
            f"[{line.run[:8]}]({run_path(line.dagster_run)})" if line.dagster_run else plain(line.run[:8]),
        )
        for line in lines
    ]
    return _rows(header, [tuple(_unbroken(cell) for cell in row) for row in rows])


def _indices(dataset: Dataset) -> str:
    header = ("index", "kind", "columns", "covers", "segments", "size", "built (UTC)")
    rows = [
        (
            plain(item.name),
            item.kind,
            plain(item.columns),
            share_text(item.coverage),
            str(item.segments),
            "" if item.bytes is None else bytes_text(item.bytes),
            "" if item.at is None else _moment(item.at),
        )
        for item in index_lines(dataset)
    ]
    return _rows(header, [tuple(_unbroken(cell) for cell in row) for row in rows]) if rows else ""


def _rows(header: Sequence[str], rows: Iterable[Sequence[str]], *, right: int | None = None) -> str:
    """Return a table in Markdown; columns from number `right` on are aligned to the right."""
    marks = ["-" if right is None or column < right else "-:" for column in range(len(header))]
    return "\n".join(f"|{'|'.join(cells)}|" for cells in (header, marks, *rows))


def _dialog(text: str) -> dg.MarkdownMetadataValue:
    """Return Markdown that is too long for Dagster to show in place."""
    return dg.MetadataValue.md(text.ljust(_IN_A_DIALOG))


def _unbroken(text: str) -> str:
    """Return a cell that is not wrapped."""
    return text if text.startswith("[") else text.replace(" ", "\N{NO-BREAK SPACE}")


def _number(value: int) -> str:
    return f"{value:,}" if value < _MOST_EXACT else f"{value / 1e6:,.1f}\N{NO-BREAK SPACE}M"


def _moment(at: datetime) -> str:
    """Format a timestamp without the present year."""
    return f"{at:%b %d %H:%M}" if at.year == datetime.now(UTC).year else f"{at:%b %d %Y}"


# Plotted numbers: those that change, each beside its limit.
_LIMITS = {
    "lance/small_fragments": (keys.SMALL_LIMIT, "max_small_fragments"),
    "lance/deleted_ratio": (keys.DELETED_LIMIT, "max_deleted_ratio"),
    "lance/index_coverage": (keys.INDEX_LIMIT, "min_index_coverage"),
    "lance/live_versions": (keys.VERSION_LIMIT, "max_versions"),
}


def plotted(
    health: DatasetHealth, policy: MaintenancePolicy | None, *, had_deletions: bool = False
) -> dict[str, int | float]:
    """Return the changing numbers of a version, in the order of the page.

    Args:
        health: Its measures.
        policy: Its thresholds; no limits without it.
        had_deletions: The version before had deleted rows: then zero is reported, too.
    """
    numbers: dict[str, int | float] = {
        keys.ROW_COUNT: health.rows,
        keys.SIZE_BYTES: health.data_bytes,
        "lance/fragments": health.fragments,
        "lance/small_fragments": health.small_fragments,
        "lance/live_versions": health.live_versions,
    }
    if health.deleted_rows or had_deletions:
        numbers |= {"lance/deleted_rows": health.deleted_rows, "lance/deleted_ratio": health.deleted_ratio}
    if health.indices:
        numbers["lance/index_coverage"] = health.index_coverage
        numbers["lance/unindexed_rows"] = health.unindexed_rows
    found: dict[str, int | float] = {}
    for name, value in numbers.items():
        found[name] = round(value, 4)
        if policy is not None and name in _LIMITS:
            key, rule = _LIMITS[name]
            found[key] = getattr(policy, rule)
    return found
