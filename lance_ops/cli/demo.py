"""`lance-ops demo` and `lance-ops ui`."""

import os
import sys
from pathlib import Path

import click

from lance_ops.cli.output import fail
from lance_ops.errors import LanceOpsError, MissingExtraError
from lance_ops.extras import require_extra


@click.command("demo", short_help="Run every operation on real flight data.")
@click.option(
    "--path",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".demo"),
    show_default=True,
    help="Folder of the demo; emptied at the start.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object.")
def demo_command(path: Path, as_json: bool) -> None:
    """Run the whole maintenance loop on the flights of New York 2013, through Dagster on local Spark."""
    try:
        from examples.demo.run import run_demo
    except ModuleNotFoundError as error:
        if error.name not in ("examples", "examples.demo"):
            raise
        raise click.UsageError("the demo is not part of an installation: run it in a checkout") from None
    try:
        run_demo(path, as_json=as_json)
    except LanceOpsError as error:
        fail(error, as_json=as_json)


@click.command("ui", short_help="Open the Dagster UI on the demo.")
@click.option(
    "--port", type=click.IntRange(1, 65535), default=3000, show_default=True, help="Port on loopback."
)
def ui_command(port: int) -> None:
    """Open the Dagster UI on the demo's code location, on loopback, until interrupted."""
    try:
        require_extra("dagster")
    except MissingExtraError as error:
        raise click.UsageError(str(error)) from None
    home = Path("dagster_home").resolve()
    if not Path("definitions.py").is_file() or not home.is_dir():
        raise click.UsageError(
            "run this in the project folder, which contains definitions.py and dagster_home/"
        )
    # A backfill that Dagster evaluates while the code location reloads would fail for good.
    patient = {"DAGSTER_BACKFILL_RETRY_DEFINITION_CHANGED_ERROR": "1"}
    environment = {**patient, **os.environ, "DAGSTER_HOME": str(home)}
    command = [
        sys.executable,
        "-m",
        "dagster",
        "dev",
        "-f",
        "definitions.py",
        "-h",
        "127.0.0.1",
        "-p",
        str(port),
    ]
    click.echo(f"Dagster UI: http://127.0.0.1:{port} (stop with Ctrl-C)", err=True)
    os.execve(sys.executable, command, environment)  # noqa: S606 - our own interpreter, fixed arguments
