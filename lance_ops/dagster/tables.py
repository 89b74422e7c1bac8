"""Tables of plans and of changes. Long ones are truncated with a note."""

from collections.abc import Iterable, Sequence

import dagster as dg

from lance_ops.fleet.plan.model import FleetPlan
from lance_ops.maintenance.cleanup.plan import CleanupPlan
from lance_ops.maintenance.compact.plan import CompactionPlan
from lance_ops.maintenance.delete.plan import DeletePlan
from lance_ops.maintenance.health.measure import DatasetHealth
from lance_ops.maintenance.text import bytes_text, ids_text, seconds_text, share_text

MOST_ROWS = 100
"""Maximum rows of a table: Dagster keeps all events."""

Row = tuple[str | int, ...]

_COUNTS = (
    ("rows", "rows"),
    ("deleted rows", "deleted_rows"),
    ("fragments", "fragments"),
    ("small fragments", "small_fragments"),
    ("data files", "data_files"),
    ("index segments", "index_segments"),
    ("rows without an index", "unindexed_rows"),
    ("versions", "live_versions"),
)


def table(columns: Sequence[tuple[str, str]], rows: Iterable[Row]) -> dg.TableMetadataValue:
    """Return a table of Dagster.

    Args:
        columns: Name and type of each: "string", "int" or "float".
        rows: Their values.
    """
    names = [name for name, _ in columns]
    return dg.MetadataValue.table(
        records=[dg.TableRecord(dict(zip(names, row, strict=True))) for row in rows],
        schema=dg.TableSchema(columns=[dg.TableColumn(*column) for column in columns]),
    )


def plan_table(plan: object) -> dg.TableMetadataValue | None:
    """Return a plan as a table, a row for each item; None for plans that are better read as text."""
    rows: list[Row]
    if isinstance(plan, CompactionPlan):
        columns = ["fragments", "become", "rows", "deleted rows", "size", "how"]
        rows = [
            (
                ids_text(group.fragment_ids[:MOST_ROWS]),
                group.files,
                group.live_rows,
                group.deleted_rows,
                bytes_text(group.data_bytes),
                str(group.method),
            )
            for group in plan.groups
        ]
    elif isinstance(plan, CleanupPlan):
        columns = ["file", "kind", "size", "reason"]
        rows = [
            (item.path, item.kind, bytes_text(item.size), item.reason)
            for item in sorted(plan.victims, key=lambda item: -item.size)
        ]
    elif isinstance(plan, DeletePlan) and plan.matches is not None:
        columns = ["fragment", "rows that match"]
        rows = [(match.fragment.id, len(match.matched)) for match in plan.matches]
    elif isinstance(plan, FleetPlan):
        columns = ["dataset", "verdict", "operations", "work", "reads and writes", "because"]
        rows = [
            (
                item.dataset,
                item.verdict,
                ", ".join(item.operations),
                seconds_text(item.seconds),
                bytes_text(item.bytes),
                item.why,
            )
            for item in plan.items
        ]
        rows += [(item.dataset, item.verdict, "", "", "", f"left: {item.reason}") for item in plan.left]
    else:
        return None
    return _cut(columns, rows) if rows else None


def change_table(before: DatasetHealth, after: DatasetHealth) -> dg.TableMetadataValue:
    """Return the changes of an operation: measures that differ, before and after, in readable units."""
    rows: list[Row] = []
    for name, field in _COUNTS:
        then, now = getattr(before, field), getattr(after, field)
        if then != now and then is not None and now is not None:
            rows.append((name, f"{then:,}", f"{now:,}", f"{now - then:+,}"))
    if before.data_bytes != after.data_bytes:
        change = after.data_bytes - before.data_bytes
        sign = "-" if change < 0 else "+"
        rows.append(
            (
                "data",
                bytes_text(before.data_bytes),
                bytes_text(after.data_bytes),
                f"{sign}{bytes_text(abs(change))}",
            )
        )
    for name, field in (("deleted share", "deleted_ratio"), ("index coverage", "index_coverage")):
        then, now = getattr(before, field), getattr(after, field)
        if then != now:
            rows.append((name, share_text(then), share_text(now), f"{(now - then) * 100:+.1f} points"))
    if before.debt_seconds != after.debt_seconds and None not in (before.debt_seconds, after.debt_seconds):
        rows.append(
            (
                "extra time per scan",
                seconds_text(before.debt_seconds or 0.0),
                seconds_text(after.debt_seconds or 0.0),
                "",
            )
        )
    return table([(name, "string") for name in ("measure", "before", "after", "change")], rows)


def _cut(columns: Sequence[str], rows: Sequence[Row]) -> dg.TableMetadataValue:
    kinds = ["int" if isinstance(value, int) else "string" for value in rows[0]]
    shown = list(rows[:MOST_ROWS])
    left = len(rows) - len(shown)
    if left:
        last: list[str | int] = [0 if kind == "int" else "" for kind in kinds]
        texts = [index for index, kind in enumerate(kinds) if kind == "string"]
        if texts:
            last[texts[0]] = f"... and {left:,} more"
            shown.append(tuple(last))
    return table(list(zip(columns, kinds, strict=True)), shown)
