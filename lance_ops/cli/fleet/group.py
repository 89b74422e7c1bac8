"""The group of the `fleet` commands, in the order of their use."""

import click

from lance_ops.cli.fleet.look import forecast_command, report_command, status_command
from lance_ops.cli.fleet.setup import adopt_command, lint_command
from lance_ops.cli.fleet.work import plan_command, run_command


class _InOrder(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(self.commands)


@click.group("fleet", cls=_InOrder, short_help="Many datasets: adopt, survey, plan, run, report.")
def fleet_command() -> None:
    """Maintain many datasets under one policy file; `adopt` writes the first one."""


for _command in (
    adopt_command,
    lint_command,
    status_command,
    plan_command,
    run_command,
    report_command,
    forecast_command,
):
    fleet_command.add_command(_command)
