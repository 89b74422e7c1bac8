"""Commands that read a fleet: status, report, forecast."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lance_ops.cli.fleet.policy_file import alerts_option, policy_command, tell
from lance_ops.cli.output import print_result, print_rows, progress_listener
from lance_ops.errors import InvalidArgumentError

if TYPE_CHECKING:
    from lance_ops.fleet.ledger.rows import Look
    from lance_ops.fleet.policy.model import FleetPolicy

WORST = 20


@click.command("status", short_help="Survey the datasets and list those that need maintenance most.")
@click.option("--cached", is_flag=True, help="Show the last survey from the ledger, without a new one.")
@click.option("--time", "seconds", type=float, metavar="SECONDS", help="Time limit of the survey.")
@click.option("--shard", metavar="I/N", help="Survey one shard only, such as 0/8.")
@click.option("--check-files", is_flag=True, help="Also check that all files exist.")
@click.option("--limit", default=WORST, show_default=True, help="Maximum datasets to list.")
@click.option("--all", "everything", is_flag=True, help="Also list the healthy ones.")
@alerts_option
@policy_command
def status_command(
    policy: "FleetPolicy",
    *,
    as_json: bool,
    cached: bool,
    seconds: float | None,
    shard: str | None,
    check_files: bool,
    limit: int,
    everything: bool,
    no_alerts: bool,
) -> None:
    """Survey the datasets of the policy, oldest survey first, and list those that need maintenance most."""
    from lance_ops.fleet.adopt.operation import worst
    from lance_ops.fleet.ledger.ledger import FleetLedger
    from lance_ops.fleet.ledger.rows import to_json
    from lance_ops.fleet.survey.operation import SurveyOptions, survey_fleet

    errors: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    if cached:
        looks = list(FleetLedger.of(policy).latest().values())
    else:
        options = SurveyOptions(
            seconds=seconds, shard=_shard(shard), check_every=timedelta(0) if check_files else None
        )
        with progress_listener() as progress:
            survey = survey_fleet(policy, options, progress=progress)
        looks, errors, left = list(survey.known.values()), survey.discovery.errors, survey.left
        empty = survey.discovery.empty
    if not no_alerts:
        tell(policy, as_json=as_json)
    counts: dict[str, int] = {}
    for look in looks:
        counts[look.verdict] = counts.get(look.verdict, 0) + 1
    shown = [look for look in worst(looks, len(looks)) if everything or look.verdict != "healthy"][:limit]
    if as_json:
        print_result(
            {
                "operation": "fleet status",
                "datasets": len(looks),
                "verdicts": counts,
                "left": list(left),
                "errors": list(errors),
                "empty": list(empty),
                "worst": [to_json(look) for look in shown],
            },
            as_json=True,
        )
        return
    click.echo(f"{len(looks):,} datasets: {verdicts_text(counts)}")
    print_looks(shown)
    for error in errors:
        click.echo(f"not surveyed: {error}", err=True)
    for rule in empty:
        click.echo(f"warning: {rule}; check root and pattern in the policy", err=True)
    if left:
        click.echo(f"{len(left):,} datasets not surveyed before the time limit", err=True)


@click.command("report", short_help="Write one HTML file about the fleet.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("fleet.html"),
    show_default=True,
    metavar="FILE",
    help="File to write.",
)
@click.option("--pages", default=1000, show_default=True, help="Maximum datasets with a page of their own.")
@click.option(
    "--details",
    default=50,
    show_default=True,
    help="Number of the worst datasets of which versions and indices are read.",
)
@policy_command
def report_command(policy: "FleetPolicy", *, as_json: bool, output: Path, pages: int, details: int) -> None:
    """Write the contents of the ledger as one HTML file, which needs no network.

    For the worst datasets, the newest versions and indices are read as well, and folders that cannot be read
    are listed; with `--details 0` no store is read.
    """
    from lance_ops.fleet.report.operation import write_report
    from lance_ops.maintenance.text import count_text

    made = write_report(policy, output, bound=pages, details=details)
    if as_json:
        values = {"operation": "fleet report", "file": str(output), "datasets": len(made.pages)}
        print_result({**values, "verdicts": dict(made.counts)}, as_json=True)
        return
    click.echo(f"wrote {output}: {count_text(len(made.pages), 'dataset')}, {verdicts_text(made.counts)}")


@click.command("forecast", short_help="Forecast due operations and the use of the budget.")
@click.option("--days", type=click.IntRange(min=1), default=14, show_default=True, help="Days to forecast.")
@click.option("--limit", default=WORST, show_default=True, help="Maximum datasets to list.")
@policy_command
def forecast_command(policy: "FleetPolicy", *, as_json: bool, days: int, limit: int) -> None:
    """Forecast from the ledger when thresholds are passed, and whether the budget suffices."""
    from lance_ops.fleet.forecast.operation import forecast_fleet
    from lance_ops.fleet.ledger.ledger import FleetLedger
    from lance_ops.maintenance.text import bytes_text, seconds_text

    ledger, now = FleetLedger.of(policy), datetime.now(UTC)
    since = now - timedelta(days=30)
    found = forecast_fleet(
        policy, ledger.latest(), ledger.looks(since=since), ledger.operations(since=since), now=now, days=days
    )
    if as_json:
        print_result(found, as_json=True)
        return
    click.echo(str(found))
    rows = [
        (
            item.dataset,
            item.first,
            "now" if not item.days else f"in {seconds_text(item.days * 86400)}",
            f"{bytes_text(round(item.bytes_per_day))} a day",
            bytes_text(item.reclaimable_bytes),
        )
        for item in found.datasets[:limit]
    ]
    if rows:
        click.echo()
        print_rows(("dataset", "due", "when", "grows", "cleanup frees"), rows)


def print_looks(looks: "list[Look]") -> None:
    """Print observations of datasets, a line each."""
    from lance_ops.maintenance.text import bytes_text, seconds_text

    if not looks:
        return
    print_rows(
        ("dataset", "verdict", "do", "size", "work", "frees", "scan gains", "because"),
        [
            (
                look.dataset,
                look.verdict,
                ", ".join(look.due) or "-",
                bytes_text(look.data_bytes),
                seconds_text(look.cost_seconds),
                bytes_text(look.reclaimable_bytes),
                seconds_text(look.debt_seconds),
                look.why,
            )
            for look in looks
        ],
    )


def verdicts_text(counts: Any) -> str:
    """Return the number of datasets by verdict, as text."""
    from lance_ops.fleet.ledger.rows import VERDICTS

    return ", ".join(f"{counts[name]:,} {name}" for name in VERDICTS if counts.get(name)) or "none"


def _shard(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    part, slash, of = text.partition("/")
    if not (slash and part.isdecimal() and of.isdecimal()):
        raise InvalidArgumentError(f"{text!r} is not a shard; write for example 0/8", field="shard")
    return int(part), int(of)
