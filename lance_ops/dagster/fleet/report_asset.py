"""Fleet report as an asset: a table of the datasets, worst first, totals as plots, and one HTML file."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
from pydantic import Field

from lance_ops.dagster import keys
from lance_ops.dagster.links import asset_path, code, plain
from lance_ops.dagster.version_event import Metadata, as_metadata
from lance_ops.fleet.ledger.ledger import FleetLedger
from lance_ops.fleet.ledger.rows import Look
from lance_ops.fleet.policy.model import FleetPolicy
from lance_ops.fleet.report.model import Page, Report
from lance_ops.fleet.report.operation import shortened_middle, write_report
from lance_ops.fleet.survey.operation import SurveyOptions, survey_fleet
from lance_ops.maintenance.text import bytes_text, seconds_text

REPORT_JOB = "lance_fleet_report"
"""Name of the job that refreshes it, after a prefix."""

_DETAILED = 50
_ROWS, _NAME = 20, 34
"""Rows and name length of the table, which a dialog shows without scrolling."""
_SHORT_ROWS, _SHORT_NAME = 8, 22
_INLINE_CHARACTERS = 1000
"""Longer Markdown is behind a link on Dagster's pages."""


class FleetReportConfig(dg.Config):
    """Options of a report."""

    survey: bool = Field(
        default=True, description="Survey the datasets first; else use the newest survey of the ledger."
    )
    html: str = Field(
        default="",
        description="Path of the HTML file; default: a file in the storage folder of the instance.",
    )


def build_fleet_report(
    policy: FleetPolicy,
    *,
    assets: Mapping[str, dg.AssetKey] | None = None,
    stale_after: timedelta,
    prefix: str = "",
) -> dg.AssetsDefinition:
    """Build the asset `lance_fleet/report`.

    Args:
        policy: Of the fleet.
        assets: Keys of datasets that are assets, by their names in the fleet: the table links to them.
        stale_after: Age from which the report fails its freshness policy, and a dataset without a newer
            survey is not shown as healthy.
        prefix: Prefix of its first part: `eu_lance_fleet/report`.
    """
    folder = keys.prefixed(prefix, "lance_fleet")

    @dg.asset(
        key=dg.AssetKey([folder, "report"]),
        group_name=folder,
        kinds={"lance"},
        freshness_policy=dg.FreshnessPolicy.time_window(fail_window=stale_after),
        description=f"State of the fleet of `{policy.source or policy.stores[0].root}`, worst first.",
    )
    def fleet_report(context: dg.AssetExecutionContext, config: FleetReportConfig) -> dg.MaterializeResult:  # type: ignore[type-arg]  # Dagster knows the bare name only
        ledger, now = FleetLedger.of(policy), datetime.now(UTC)
        if config.survey:
            survey = survey_fleet(policy, SurveyOptions(), ledger=ledger, now=now)
            for error in survey.discovery.errors:
                context.log.warning(error)
            context.log.info(
                "surveyed %d datasets with %d requests in %s",
                len(survey.looks),
                survey.requests,
                seconds_text(survey.seconds),
            )
        stored, link = _served_file(context.instance, f"{folder}_report")
        file = Path(config.html) if config.html else stored
        report = write_report(
            policy, file, ledger=ledger, now=now, details=_DETAILED, stale_after=stale_after
        )
        return dg.MaterializeResult(
            metadata=report_metadata(report, file, link if file == stored else "", assets or {})
        )

    return fleet_report


def _served_file(instance: dg.DagsterInstance, name: str) -> tuple[Path, str]:
    """Return the location of the HTML file, and its path on the webserver; empty for none.

    The webserver serves local files beside captured logs.
    """
    local = getattr(instance.compute_log_manager, "get_captured_local_path", None)
    if callable(local):
        return Path(local([name], "html")), f"/logs/{name}/html"
    return Path(instance.storage_directory()) / f"{name}.html", ""


def report_metadata(
    report: Report, file: Path, link: str = "", assets: Mapping[str, dg.AssetKey] | None = None
) -> Metadata:
    """Return the worst datasets, the file, all unhealthy datasets as a table, and totals as plots.

    Args:
        report: The written report.
        file: Its file.
        link: Path of the file on the webserver; empty for none.
        assets: Keys of datasets that are assets: their names link to their pages.
    """
    looks, links = report.looks, assets or {}
    failed = sum(row.outcome == "failed" for page in report.pages for row in page.operations)
    # Short keys leave more width for the column of values.
    values: dict[str, object] = {
        "lance/worst": dg.MetadataValue.md(worst_datasets(report, links)),
        "lance/fleet": dg.MetadataValue.md(fleet_table(report, links)),
        "lance/report": dg.MetadataValue.md(f"[Open the report]({link})" if link else code(file)),
        "lance/datasets": len(looks),
        **{f"{keys.NAMESPACE}{verdict}": count for verdict, count in report.counts.items()},
        "lance/debt_seconds": round(report.debt_by_day[-1], 3),
        "lance/due_seconds": round(sum(look.cost_seconds for look in looks if look.is_due), 3),
        "lance/due_bytes": sum(look.cost_bytes for look in looks if look.is_due),
        "lance/free_bytes": sum(look.reclaimable_bytes for look in looks),
        "lance/30d_spent": round(sum(report.spent_by_day), 3),
        "lance/30d_saved": round(sum(report.saved_by_day), 3),
        "lance/30d_moved": sum(report.moved_by_day),
        "lance/30d_freed": sum(report.freed_by_day),
        "lance/30d_failed": failed,
        "lance/file": dg.MetadataValue.path(str(file)),
    }
    return as_metadata(values)


def worst_datasets(report: Report, assets: Mapping[str, dg.AssetKey]) -> str:
    """Return the verdicts, and as many of the worst datasets as Dagster shows without a click.

    Args:
        report: Of the fleet.
        assets: Keys of datasets that are assets.
    """
    counts = [f"{count:,} {verdict}" for verdict, count in report.counts.items() if count]
    head = f"**{', '.join(counts[:3]) or 'no dataset'}**"
    if counts[3:]:
        head += f"\n\n{', '.join(counts[3:])}"
    rows = [(_name(page, assets, _SHORT_NAME), page.verdict) for page in _unhealthy(report)[:_SHORT_ROWS]]
    while rows:
        text = f"{head}\n\n{_markdown(('dataset', 'verdict'), rows)}"
        if len(text) < _INLINE_CHARACTERS:
            return text
        rows.pop()
    return head


def fleet_table(report: Report, assets: Mapping[str, dg.AssetKey]) -> str:
    """Return the unhealthy datasets as a table, worst first.

    Args:
        report: Of the fleet.
        assets: Keys of datasets that are assets.
    """
    unhealthy = _unhealthy(report)
    rows = [
        (
            _name(page, assets, _NAME),
            page.verdict,
            ", ".join(page.look.due),
            _cost(page.look),
            _since(report, page),
        )
        for page in unhealthy[:_ROWS]
    ]
    rest = [
        f"{count:,} {what}"
        for count, what in (
            (len(unhealthy) - len(rows), "more of them in the report"),
            (len(report.pages) - len(unhealthy), "healthy"),
        )
        if count
    ]
    table = _markdown(("dataset", "verdict", "due", "cost", "since"), rows) if rows else ""
    text = "\n\n".join(part for part in (table, "; ".join(rest)) if part) or "no dataset"
    # The column of values is too narrow: a dialog has more space.
    return text.ljust(_INLINE_CHARACTERS)


def _unhealthy(report: Report) -> list[Page]:
    return [page for page in report.pages if page.verdict != "healthy"]


def _name(page: Page, assets: Mapping[str, dg.AssetKey], most: int) -> str:
    name, key = page.look.dataset, assets.get(page.look.dataset)
    shown = plain(shortened_middle(name.removesuffix(".lance"), most))
    return shown if key is None else f"[{shown}]({asset_path(key)})"


def _cost(look: Look) -> str:
    return f"{seconds_text(look.cost_seconds)}, {bytes_text(look.cost_bytes)}" if look.due else ""


def _since(report: Report, page: Page) -> str:
    since = page.look.due_since
    return "" if since is None else seconds_text((report.at - since).total_seconds())


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))
