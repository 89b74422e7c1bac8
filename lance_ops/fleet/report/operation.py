"""Report on a fleet as one HTML file: newest versions and indices of the worst datasets, and the template."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from lance_ops.errors import LanceOpsError
from lance_ops.fleet.discover.operation import discover_datasets
from lance_ops.fleet.forecast.operation import DatasetForecast
from lance_ops.fleet.ledger.ledger import FleetLedger
from lance_ops.fleet.ledger.rows import OperationRow
from lance_ops.fleet.plan.operation import path_of
from lance_ops.fleet.policy.model import FleetPolicy
from lance_ops.fleet.report.charts import bars, sparkline
from lance_ops.fleet.report.model import STALE_AFTER, Page, Report, make_report
from lance_ops.fleet.report.tables import history_lines, index_lines
from lance_ops.fleet.stores.opened import FleetDataset, FleetStores
from lance_ops.maintenance.text import bytes_text, count_text, seconds_text, share_text
from lance_ops.table.dataset import Dataset

_TEMPLATE = "fleet.html.jinja"
_VERSIONS = 10
_DETAIL_SECONDS = 30.0


def write_report(
    policy: FleetPolicy,
    file: Path,
    *,
    ledger: FleetLedger | None = None,
    now: datetime | None = None,
    bound: int = 1000,
    details: int = 0,
    stale_after: timedelta = STALE_AFTER,
) -> Report:
    """Write the report on a fleet: one HTML file, from the ledger alone but for `details`.

    Args:
        policy: Policy of the fleet.
        file: Where to write it.
        ledger: Ledger; that of the policy if None.
        now: The time, aware; that of this machine if None.
        bound: Maximum datasets with a page of their own; the others are in the table.
        details: Number of the worst datasets whose newest versions and indices are read for their pages, for
            at most half a minute in total; this also lists all stores, to report unreadable folders.
        stale_after: Age from which an observation is stale: its dataset is not shown as healthy.

    Raises:
        LanceOpsError: The ledger cannot be read.
    """
    report = make_report(
        policy,
        ledger or FleetLedger.of(policy),
        now=now or datetime.now(UTC),
        bound=bound,
        stale_after=stale_after,
    )
    report = with_details(report, FleetStores(policy), min(details, bound))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(render(report), encoding="utf-8")
    return report


def with_details(
    report: Report, stores: FleetStores, count: int, *, seconds: float = _DETAIL_SECONDS
) -> Report:
    """Add newest versions and indices to the first pages of a report, and unreadable folders.

    Args:
        report: Report from the ledger.
        stores: Stores of its policy.
        count: Number of pages.
        seconds: Time limit; the remaining pages have a note.
    """
    if count <= 0:
        return report
    end = time.monotonic() + seconds

    def detailed(page: Page) -> Page:
        if time.monotonic() >= end:
            return replace(page, unread="the time limit was reached")
        look = page.look
        found = FleetDataset(look.dataset, look.store, path_of(report.policy, look), look.uri)
        try:
            dataset = Dataset.open(stores.open(found))
            return replace(
                page,
                versions=history_lines(dataset, _VERSIONS, page.operations),
                indices=index_lines(dataset),
            )
        except StopIteration:
            return replace(page, unread=f"the policy no longer has the store {look.store!r}")
        except LanceOpsError as error:
            return replace(page, unread=error.message)

    with ThreadPoolExecutor(stores.threads, thread_name_prefix="lance-report") as pool:
        pages = tuple(pool.map(detailed, report.pages[:count]))
    unseen = discover_datasets(stores, deadline=end).errors
    return replace(report, unseen=unseen, pages=(*pages, *report.pages[count:]))


def render(report: Report) -> str:
    """Render a report as HTML."""
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
        "ago": lambda moment: _age_text(report.at, moment),
        "age": lambda moment: "" if moment is None else seconds_text((report.at - moment).total_seconds()),
        "moment": lambda moment: "" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}",
        "error": lambda value: "" if value is None else f"{value:+.0%}",
        "delta": _delta,
        "next": _next,
        "middle": shortened_middle,
    }
    environment.globals |= {"sparkline": sparkline, "bars": bars, "count_text": count_text}
    return environment.get_template(_TEMPLATE).render(r=report)


def shortened_middle(text: str, most: int) -> str:
    """Shorten a name in the middle; its end is more specific."""
    if len(text) <= most:
        return text
    head = (most - 1) // 3
    return f"{text[:head]}…{text[len(text) - (most - 1 - head) :]}"


def _age_text(now: datetime, moment: datetime | None) -> str:
    if moment is None:
        return "never"
    age = now - moment
    return "just now" if age < timedelta(minutes=1) else f"{seconds_text(age.total_seconds())} ago"


def _delta(row: OperationRow) -> str:
    """Return the change of an operation, in its own measure."""
    if row.operation == "cleanup":
        return f"{bytes_text(row.bytes_freed)} freed"
    if row.operation == "ttl":
        return f"{count_text(row.rows_deleted, 'row')} deleted"
    if row.operation == "compact" and row.fragments_after is not None:
        return f"{row.fragments_before:,} → {row.fragments_after:,} fragments"
    return row.summary


def _next(item: DatasetForecast | None) -> str:
    """Return the next due operation, and its time."""
    if item is None or item.days is None:
        return "nothing at the present rate"
    return f"{item.first} now" if not item.days else f"{item.first} in {seconds_text(item.days * 86400)}"
