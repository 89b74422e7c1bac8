"""Commands that maintain a fleet: plan due operations, run them."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lance_ops.cli.command import running
from lance_ops.cli.fleet.look import WORST
from lance_ops.cli.fleet.policy_file import alerts_option, policy_command, tell
from lance_ops.cli.options import DurationType, spark_option
from lance_ops.cli.output import print_result, print_rows, progress_listener
from lance_ops.errors import InvalidArgumentError, LanceOpsError

if TYPE_CHECKING:
    from lance_ops.fleet.plan.model import FleetPlan
    from lance_ops.fleet.policy.model import FleetPolicy


@click.command("plan", short_help="Show the next operations, save the plan, or approve it.")
@click.option("--budget", metavar="SIZE", help="Maximum bytes to read and write, such as 500GB.")
@click.option("--only", multiple=True, metavar="NAME", help="Only this dataset. Repeatable.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Save the plan as JSON."
)
@click.option(
    "--approve",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Approve the plan in this file instead.",
)
@click.option("--by", metavar="WHO", help="Name of the approver; default: the user of this machine.")
@policy_command
def plan_command(
    policy: "FleetPolicy",
    *,
    as_json: bool,
    budget: str | None,
    only: tuple[str, ...],
    output: Path | None,
    approve: Path | None,
    by: str | None,
) -> None:
    """Rank the operations that are due by the last survey, in any mode, and print the plan. Changes nothing.

    With -o, the plan is saved; `--approve FILE` approves it, and `fleet run --plan FILE` runs it.
    """
    import getpass

    from lance_ops.fleet.ledger.ledger import FleetLedger
    from lance_ops.fleet.plan.names import check_names, check_names_first
    from lance_ops.fleet.plan.operation import PlanOptions, plan_fleet
    from lance_ops.fleet.run.operation import approved
    from lance_ops.fleet.stores.opened import FleetStores
    from lance_ops.fleet.survey.operation import survey_fleet

    if approve is not None:
        plan = approved(_read_plan(approve), by or getpass.getuser())
        _write_plan(approve, plan)
        if as_json:
            print_result(plan, as_json=True)
        else:
            click.echo(f"{plan.summary()}\napproved by {plan.approved_by}")
            click.echo(f"Next: lance-ops fleet run --plan {approve}")
        return
    ledger, stores, now = FleetLedger.of(policy), FleetStores(policy), datetime.now(UTC)
    check_names_first(only, ledger, stores)
    with progress_listener() as progress:
        looks = survey_fleet(policy, ledger=ledger, stores=stores, progress=progress).known
    check_names(only, looks)
    plan = plan_fleet(
        policy,
        looks.values(),
        ledger.operations(since=now - timedelta(days=14)),
        now=now,
        options=PlanOptions(
            bytes=_bytes(budget),
            modes=frozenset({"observe", "propose", "auto"}),
            only=frozenset(only) or None,
            any_time=True,
        ),
    )
    if output is not None:
        _write_plan(output, plan)
    if as_json:
        print_result(plan, as_json=True)
        return
    from lance_ops.fleet.plan.model import PLAN_HEADER, plan_row

    click.echo(plan.summary())
    if plan.items:
        print_rows(PLAN_HEADER, [plan_row(item) for item in plan.items[:WORST]])
    if plan.left:
        click.echo()
        rows = [(item.dataset, item.verdict, item.reason) for item in plan.left[:WORST]]
        print_rows(("left", "verdict", "because"), rows)
    if output is not None:
        click.echo(f"\nNext: lance-ops fleet plan --approve {output}")


@click.command("run", short_help="Run due maintenance in order of priority.")
@click.option("--budget", metavar="SIZE", help="Maximum bytes to read and write, such as 500GB.")
@click.option(
    "--until",
    metavar="WHEN",
    help="Start nothing after this time, such as 06:00, a timestamp, or 2h (from now).",
)
@click.option(
    "--plan", "plan_file", type=click.Path(path_type=Path), metavar="FILE", help="An approved plan."
)
@click.option("--only", multiple=True, metavar="NAME", help="Only this dataset. Repeatable.")
@click.option("--most", type=int, metavar="N", help="Maximum datasets to maintain.")
@click.option("--cached", is_flag=True, help="Use the last survey, without a new one.")
@alerts_option
@spark_option
@policy_command
def run_command(
    policy: "FleetPolicy",
    *,
    as_json: bool,
    budget: str | None,
    until: str | None,
    plan_file: Path | None,
    only: tuple[str, ...],
    most: int | None,
    cached: bool,
    no_alerts: bool,
    spark: str | None,
) -> None:
    """Survey the datasets of the policy, and run due maintenance of those in mode auto, in order of priority.

    Datasets in mode propose are maintained by `--plan` with an approved plan. Prints each operation with
    the state before and after, and damaged datasets. Exit code 1 when one failed or is damaged.
    """
    from lance_ops.fleet.run.operation import RunOptions, run_fleet
    from lance_ops.fleet.survey.operation import SurveyOptions

    options = RunOptions(
        bytes=_bytes(budget),
        until=None if until is None else _moment(until, datetime.now().astimezone()),
        datasets=most,
        only=frozenset(only) or None,
        plan=None if plan_file is None else _read_plan(plan_file),
        survey=None if cached else SurveyOptions(),
    )
    with running(spark) as how:
        done = run_fleet(policy, options, runner=how["runner"], progress=how["progress"])
    print_result(done, as_json=as_json)
    if not no_alerts:
        tell(policy, as_json=as_json)
    if done.row.failed or done.damaged:
        raise click.exceptions.Exit(1)


def _bytes(text: str | None) -> int | None:
    from lance_ops.fleet.policy.quantities import parse_bytes

    try:
        return None if text is None else parse_bytes(int(text) if text.isdecimal() else text)
    except ValueError as error:
        raise InvalidArgumentError(str(error), field="budget") from error


def _moment(text: str, now: datetime) -> datetime:
    """Parse a time: `06:00` is its next occurrence, `2h` is from now on; else ISO 8601."""
    try:
        return now + DurationType().convert(text, None, None)
    except click.BadParameter:
        pass
    try:
        if len(text) <= 5 and ":" in text:
            hours, minutes = (int(part) for part in text.split(":"))
            found = now.replace(hour=hours, minute=minutes, second=0, microsecond=0)
            return found if found > now else found + timedelta(days=1)
        found = datetime.fromisoformat(text)
        return found if found.tzinfo is not None else found.astimezone()
    except ValueError as error:
        raise InvalidArgumentError(
            f"{text!r} is not a time; write for example 06:00, 2h or 2026-12-01T06:00", field="until"
        ) from error


def _read_plan(file: Path) -> "FleetPlan":
    from lance_ops.fleet.plan.model import FleetPlan

    try:
        return FleetPlan.from_dict(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        if isinstance(error, LanceOpsError):
            raise
        raise InvalidArgumentError(f"cannot read the plan: {error}", path=str(file)) from error


def _write_plan(file: Path, plan: "FleetPlan") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(plan.to_dict(), indent=1), encoding="utf-8")
