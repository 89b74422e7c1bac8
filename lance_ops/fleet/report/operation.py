"""Writing a report: the template and what it needs to speak to people."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from lance_ops.fleet.forecast.operation import DatasetForecast
from lance_ops.fleet.ledger.ledger import FleetLedger
from lance_ops.fleet.ledger.rows import OperationRow
from lance_ops.fleet.policy.model import FleetPolicy
from lance_ops.fleet.report.details import with_details
from lance_ops.fleet.report.model import Report, make_report
from lance_ops.fleet.report.sparkline import sparkline
from lance_ops.fleet.stores.opened import FleetStores
from lance_ops.maintenance.text import bytes_text, count_text, seconds_text, share_text

_TEMPLATE = "fleet.html.jinja"


def write_report(
    policy: FleetPolicy,
    file: Path,
    *,
    ledger: FleetLedger | None = None,
    now: datetime | None = None,
    bound: int = 1000,
    details: int = 0,
) -> Report:
    """Write the report on a fleet: one HTML file, from the ledger alone but for `details`.

    Args:
        policy: Of the fleet.
        file: Where to write it.
        ledger: That of the policy when None.
        now: The time, aware; that of this machine when None.
        bound: Datasets with a page of their own; the others are in the table.
        details: Of so many of the worst, newest versions and indices are read for their pages, for at most
            half a minute in all, and all are listed to name folders that could not be looked into.

    Raises:
        LanceOpsError: The ledger cannot be read.
    """
    report = make_report(policy, ledger or FleetLedger.of(policy), now=now or datetime.now(UTC), bound=bound)
    report = with_details(report, FleetStores(policy), min(details, bound))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(render(report), encoding="utf-8")
    return report


def render(report: Report) -> str:
    """The report as HTML."""
    environment = Environment(
        loader=PackageLoader("lance_ops.fleet.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "bytes": lambda value: bytes_text(round(value or 0)),
        "seconds": lambda value: seconds_text(value or 0.0),
        "share": share_text,
        "count": lambda value: f"{value or 0:,}",
        "ago": lambda moment: _ago(report.at, moment),
        "moment": lambda moment: "" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}",
        "error": _error,
        "delta": _delta,
        "next": _next,
    }
    environment.globals |= {"sparkline": sparkline, "count_text": count_text}
    return environment.get_template(_TEMPLATE).render(r=report)


def _ago(now: datetime, moment: datetime | None) -> str:
    if moment is None:
        return "never"
    age = now - moment
    return "just now" if age < timedelta(minutes=1) else f"{seconds_text(age.total_seconds())} ago"


def _error(value: float | None) -> str:
    return "" if value is None else f"{value:+.0%}"


def _delta(row: OperationRow) -> str:
    """What an operation changed, in the measure that it is about."""
    if row.operation == "cleanup":
        return f"{bytes_text(row.bytes_freed)} freed"
    if row.operation == "ttl":
        return f"{count_text(row.rows_deleted, 'row')} deleted"
    if row.operation == "compact" and row.fragments_after is not None:
        return f"{row.fragments_before:,} → {row.fragments_after:,} fragments"
    return row.summary


def _next(item: DatasetForecast | None) -> str:
    """When something is due."""
    if item is None or item.days is None:
        return "not in sight"
    return f"{item.first} now" if not item.days else f"{item.first} in {seconds_text(item.days * 86400)}"
