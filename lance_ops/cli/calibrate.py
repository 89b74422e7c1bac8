"""`lance-ops calibrate`: measures what compactions take here, for estimates and budgets."""

from typing import Literal

import click

from lance_ops.cli.command import Call, dataset_command
from lance_ops.cli.output import print_rows, progress_listener


@click.command("calibrate", short_help="Measure what compactions take here, for their estimates.")
@click.argument("uri")
@click.option(
    "--from-history", is_flag=True, help="Learn from what compactions of URI noted, and write no tables."
)
@click.option(
    "--save",
    type=click.Choice(["cache", "table", "none"]),
    default="cache",
    show_default=True,
    help="Keep it for all datasets of the store on this machine, in the config of URI, or not.",
)
@click.option(
    "--repeats",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="Runs of each task after a first one; the median counts.",
)
@dataset_command
def calibrate_command(
    call: Call, *, from_history: bool, save: Literal["cache", "table", "none"], repeats: int
) -> None:
    """Measure what the parts of a compaction take below URI, a dataset or any folder of the store.

    Some 40 MB of small tables are written there and removed again, within a minute or two.
    """
    from lance_ops.maintenance.calibrate.operation import calibrate
    from lance_ops.maintenance.text import seconds_text

    with progress_listener() as progress:
        result = calibrate(
            call.uri,
            from_history=from_history,
            save=save,
            repeats=repeats,
            storage_options=call.storage_options,
            progress=progress,
        )
    call.show(result)
    if result.tasks and not call.as_json:
        print_rows(
            ("table", "method", "took", "the model says"),
            [
                (task.probe, task.method, seconds_text(task.measured), seconds_text(task.fitted))
                for task in result.tasks
            ],
        )
