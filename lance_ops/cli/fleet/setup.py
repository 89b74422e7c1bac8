"""Commands that set a fleet up: adopt the datasets of a folder, check the policy file."""

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lance_ops.cli.fleet.look import WORST, print_looks, verdicts_text
from lance_ops.cli.fleet.policy_file import DEFAULT_POLICY
from lance_ops.cli.options import common_options
from lance_ops.cli.output import fail, print_result, print_rows, progress_listener
from lance_ops.errors import LanceOpsError, PolicyError, PolicyProblem

if TYPE_CHECKING:
    from lance_ops.fleet.policy.model import FleetPolicy


@click.command("adopt", short_help="Find and measure the datasets below ROOT, and write a policy.")
@click.argument("root")
@click.option("--policy", default=DEFAULT_POLICY, show_default=True, metavar="FILE", help="File to write.")
@click.option("--replace", is_flag=True, help="Overwrite the file.")
@click.option(
    "--ledger",
    metavar="URI",
    help="Folder or URI of the ledger; default: below ROOT, or beside the policy if ROOT cannot be written.",
)
@click.option(
    "--kind",
    type=click.Choice(["folder", "lancedb", "namespace", "glob"]),
    help="How to find datasets; default: a namespace where there is one, else all folders. `glob` requires "
    "--glob.",
)
@click.option(
    "--glob", metavar="PATTERN", help="Pattern of dataset paths: `*` within a name, `**` any folders."
)
@click.option("--time", "seconds", type=float, metavar="SECONDS", help="Time limit of the survey.")
@common_options
def adopt_command(
    root: str,
    policy: str,
    replace: bool,
    ledger: str | None,
    kind: str | None,
    glob: str | None,
    seconds: float | None,
    storage_options: tuple[tuple[str, str], ...],
    as_json: bool,
) -> None:
    """Find and measure the datasets below ROOT, and write a policy in mode observe, which changes nothing.

    Prints the datasets that need maintenance most, and the estimated benefit of maintenance.
    """
    from lance_ops.fleet.adopt.operation import adopt_fleet
    from lance_ops.fleet.ledger.rows import to_json
    from lance_ops.maintenance.text import bytes_text, count_text, seconds_text

    try:
        with progress_listener() as progress:
            found = adopt_fleet(
                root,
                Path(policy),
                options=dict(storage_options) or None,
                ledger=ledger,
                kind=kind,
                glob=glob,
                replace=replace,
                seconds=seconds,
                progress=progress,
            )
    except LanceOpsError as error:
        fail(error, as_json=as_json, uri=root)
    looks = list(found.survey.known.values())
    if as_json:
        print_result(
            {
                "operation": "fleet adopt",
                "policy": policy,
                "datasets": len(looks),
                "verdicts": found.survey.counts,
                "requests": found.survey.requests,
                "seconds": found.survey.seconds,
                "left": list(found.survey.left),
                "errors": list(found.survey.discovery.errors),
                "variables": list(found.variables),
                "note": found.note,
                "worst": [to_json(look) for look in found.worst(WORST)],
            },
            as_json=True,
        )
        return
    survey = found.survey
    click.echo(
        f"{count_text(len(looks), 'dataset')} in {seconds_text(survey.seconds)}, "
        f"{survey.requests / max(1, len(survey.looks)):.1f} requests each: {verdicts_text(survey.counts)}"
    )
    print_looks([look for look in found.worst(WORST) if look.verdict != "healthy"])
    scans = sum(look.debt_seconds for look in looks)
    freed = sum(look.reclaimable_bytes for look in looks)
    work = sum(look.cost_seconds for look in looks)
    click.echo(
        f"\nMaintenance takes about {seconds_text(work)}, frees {bytes_text(freed)}, and makes one full "
        f"scan of each dataset {seconds_text(scans)} faster in total."
    )
    for said in survey.discovery.errors:
        click.echo(f"not surveyed: {said}", err=True)
    if survey.left:
        click.echo(f"{count_text(len(survey.left), 'dataset')} not surveyed before the time limit", err=True)
    click.echo(f"\nWrote {policy}, in mode observe: nothing is changed.")
    if found.note:
        click.echo(f"note: {found.note}")
    for variable in found.variables:
        click.echo(f"The policy reads a secret from the environment: export {variable}=...")
    click.echo(f"Next: lance-ops fleet report --policy {policy} -o fleet.html")


@click.command("lint", short_help="Check the policy file, or show the resulting values for a dataset.")
@click.option("--dataset", metavar="NAME", help="Show the values for this dataset, and the origin of each.")
@click.option(
    "--notifier",
    "notifiers",
    multiple=True,
    metavar="NAME",
    help="Name of an alert target that the scheduler provides.",
)
@click.option("--policy", default=DEFAULT_POLICY, show_default=True, metavar="FILE", help="The policy file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for machines.")
def lint_command(dataset: str | None, notifiers: tuple[str, ...], policy: str, as_json: bool) -> None:
    """Check the policy file; every problem is reported with its line. Exit code 1 when there is one."""
    from lance_ops.fleet.policy.load import load_policy
    from lance_ops.fleet.policy.secrets import HIDDEN
    from lance_ops.maintenance.text import count_text
    from lance_ops.storage.variables import variables

    try:
        found = load_policy(policy)
        _check_alerts(found, notifiers)
        if dataset is not None:
            _check_name(found, dataset)
    except PolicyError as error:
        problems = [
            {"line": item.line, "where": item.where, "message": item.message} for item in error.problems
        ]
        if as_json:
            print_result({"operation": "fleet lint", "ok": False, "problems": problems}, as_json=True)
        else:
            for item in error.problems:
                place = policy if item.line is None else f"{policy}:{item.line}"
                where = f"{item.where}: " if item.where else ""
                click.echo(f"{place}: {where}{item.message}", err=True)
        raise click.exceptions.Exit(1) from error
    except LanceOpsError as error:
        fail(error, as_json=as_json)
    warnings = [
        f"store {store.name}: {name} is in plain text; keep secrets in the environment, as ${{VARIABLE}}"
        for store in found.stores
        for name, shown in store.options.shown().items()
        if shown == HIDDEN
    ]
    needed = sorted(
        {name for store in found.stores for text in store.options.values() for name in variables(text)}
    )
    if as_json:
        values: dict[str, object] = {
            "operation": "fleet lint",
            "ok": True,
            "warnings": warnings,
            "variables": needed,
        }
        if dataset is not None:
            rules = found.of_dataset(dataset)
            values["dataset"] = {
                name: {"value": value, "origin": origin} for name, value, origin in rules.rows()
            }
        print_result(values, as_json=True)
        return
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    if dataset is not None:
        rules = found.of_dataset(dataset)
        click.echo(f"{dataset}: class {rules.class_name}")
        print_rows(("setting", "value", "comes from"), rules.rows())
        return
    click.echo(
        f"{policy} is valid: {count_text(len(found.stores), 'store')}, "
        f"{count_text(len(found.classes), 'class', 'classes')}, mode {found.mode}"
        + (f"; it needs {', '.join(needed)}" if needed else "")
    )


def _check_alerts(policy: "FleetPolicy", notifiers: tuple[str, ...]) -> None:
    """Check that every recipient of the rules can be reached."""
    from lance_ops.alerts.rule import unreachable

    wrong = [
        PolicyProblem(policy.line(path), path, message)
        for path, message in unreachable(policy.alerts, notifiers)
    ]
    if wrong:
        raise PolicyError(wrong, path=policy.source)


def _check_name(policy: "FleetPolicy", dataset: str) -> None:
    """Check that a dataset is in the fleet, if the ledger knows."""
    from lance_ops.fleet.ledger.ledger import FleetLedger
    from lance_ops.fleet.plan.names import check_names

    known: list[str] = []
    with contextlib.suppress(LanceOpsError):
        known = list(FleetLedger.of(policy).latest())
    if known:
        check_names([dataset], known)
