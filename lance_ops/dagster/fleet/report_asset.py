"""Fleet report as an asset: a look at all datasets, totals that plot, the worst fifty, and one HTML file."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from lance_ops.dagster import keys
from lance_ops.dagster.fleet.refs import asset_name
from lance_ops.dagster.links import code, plain
from lance_ops.dagster.version_event import Metadata, as_metadata
from lance_ops.fleet.adopt.operation import worst
from lance_ops.fleet.ledger.ledger import FleetLedger
from lance_ops.fleet.ledger.rows import Look
from lance_ops.fleet.policy.model import FleetPolicy
from lance_ops.fleet.report.model import Report
from lance_ops.fleet.report.operation import write_report
from lance_ops.fleet.survey.operation import SurveyOptions, survey_fleet
from lance_ops.maintenance.text import bytes_text, seconds_text

_WORST = 50


class FleetReportConfig(dg.Config):
    """How the report is made."""

    survey: bool = Field(
        default=True, description="Look at the datasets first; else the ledger's newest looks count."
    )
    html: str = Field(
        default="",
        description="Where the HTML file is written; the storage folder of the instance without it.",
    )


def build_fleet_report(policy: FleetPolicy, *, prefix: str = "") -> dg.AssetsDefinition:
    """The asset `lance_fleet/report`.

    Args:
        policy: Of the fleet.
        prefix: Before its first part: `eu_lance_fleet/report`.
    """
    folder = keys.prefixed(prefix, "lance_fleet")

    @dg.asset(
        key=dg.AssetKey([folder, "report"]),
        group_name=folder,
        kinds={"lance"},
        description=f"The fleet of `{policy.source or policy.stores[0].root}`: what needs maintenance most, "
        "what was spent, what it brought.",
    )
    def fleet_report(context: dg.AssetExecutionContext, config: FleetReportConfig) -> dg.MaterializeResult:  # type: ignore[type-arg]  # Dagster knows the bare name only
        ledger, now = FleetLedger.of(policy), datetime.now(UTC)
        if config.survey:
            survey = survey_fleet(policy, SurveyOptions(), ledger=ledger, now=now)
            for error in survey.discovery.errors:
                context.log.warning(error)
            context.log.info(
                "looked at %d datasets with %d requests in %s",
                len(survey.looks),
                survey.requests,
                seconds_text(survey.seconds),
            )
        stored = Path(context.instance.storage_directory()) / f"{folder}_report.html"
        file = Path(config.html) if config.html else stored
        return dg.MaterializeResult(
            metadata=report_metadata(write_report(policy, file, ledger=ledger, now=now, details=_WORST), file)
        )

    return fleet_report


def report_metadata(report: Report, file: Path) -> Metadata:
    """Totals as numbers, so that they plot, and the worst as a table."""
    looks = report.looks
    operations = [row for page in report.pages for row in page.operations]
    values: dict[str, object] = {
        "lance/datasets": len(looks),
        **{f"{keys.NAMESPACE}{verdict}": count for verdict, count in report.counts.items()},
        "lance/reclaimable_bytes": sum(look.reclaimable_bytes or 0 for look in looks),
        "lance/debt_seconds": sum(look.debt_seconds or 0.0 for look in looks),
        "lance/due_seconds": sum(look.cost_seconds or 0.0 for look in looks if look.is_due),
        "lance/moved_bytes_30d": sum(report.moved_by_day),
        "lance/freed_bytes_30d": sum(report.freed_by_day),
        "lance/scan_seconds_saved_30d": float(sum(report.saved_by_day)),
        "lance/failed_operations": sum(row.outcome == "failed" for row in operations),
        "lance/worst": dg.MetadataValue.md(worst_table(looks)),
        "lance/report": dg.MetadataValue.path(str(file)),
    }
    return as_metadata(values)


def worst_table(looks: Sequence[Look]) -> str:
    """The datasets that need maintenance most, in Markdown."""
    rows: list[Any] = [
        (
            code(asset_name(look.dataset)),
            look.verdict,
            ", ".join(look.due),
            seconds_text(look.cost_seconds or 0.0),
            bytes_text(look.reclaimable_bytes or 0),
            plain(look.why),
        )
        for look in worst(looks, _WORST)
    ]
    head = ("dataset", "verdict", "due", "work", "frees", "because")
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)
