"""Commands on a policy file: its option, and messages for its problems."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from lance_ops.cli.output import fail
from lance_ops.errors import LanceOpsError

if TYPE_CHECKING:
    from lance_ops.fleet.policy.model import FleetPolicy

DEFAULT_POLICY = "lance_fleet.yaml"


def policy_command(command: Callable[..., None]) -> Callable[..., None]:
    """Declare a command on a policy file; typed errors become a message and exit code 1."""

    @functools.wraps(command)
    def run(policy: str, as_json: bool, **values: Any) -> None:
        from lance_ops.fleet.policy.load import load_policy

        try:
            command(load_policy(policy), as_json=as_json, **values)
        except LanceOpsError as error:
            fail(error, as_json=as_json)

    run = click.option("--json", "as_json", is_flag=True, help="Print one JSON object for machines.")(run)
    return click.option(
        "--policy", default=DEFAULT_POLICY, show_default=True, metavar="FILE", help="The policy file."
    )(run)


def tell(policy: "FleetPolicy", *, as_json: bool) -> None:
    """Send the alerts of a policy, and report failures on standard error."""
    from lance_ops.fleet.alerts.operation import tell_alerts

    if not policy.alerts:
        return
    told = tell_alerts(policy)
    if told.alerts and not as_json:
        click.echo(f"alerts: {told}", err=True)
    for error in told.errors:
        click.echo(f"alerts not sent, will be retried: {error}", err=True)
    for remark in told.refused:
        click.echo(f"some recipients refused a message: {remark}", err=True)


alerts_option = click.option("--no-alerts", is_flag=True, help="Send no alerts.")
