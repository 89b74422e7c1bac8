"""Fleet run by a program that is submitted: what it is asked for and what it answers, as values of JSON.

The driver of the program plans, leases, commits and writes the ledger, as whoever runs a fleet does; so one
that is killed leaves what every run leaves that dies, and the next one takes it over.
"""

import base64
import pickle
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from lance_ops._version import __version__
from lance_ops.errors import InvalidArgumentError
from lance_ops.fleet.policy.model import FleetPolicy
from lance_ops.fleet.run.operation import RunOptions, run_fleet
from lance_ops.fleet.run.result import FleetRun

OPERATION = "fleet_run"
"""Its name in requests."""

_MOST_TOLD = 1_000
_MOST_TEXT = 20_000


def run_arguments(policy: FleetPolicy, options: RunOptions) -> dict[str, Any]:
    """What a program is asked for.

    Args:
        policy: Of the fleet. Secrets that it takes from the environment are looked up by the program.
        options: Of the run, which follows no approved plan and does not look at the fleet first.
    """
    # What was worked out from it is worked out again there.
    packed = pickle.dumps(replace(policy))
    return {
        "release": __version__,
        "policy": base64.b64encode(packed).decode(),
        "bytes": options.bytes,
        "until": None if options.until is None else options.until.isoformat(),
        "datasets": options.datasets,
        "only": None if options.only is None else sorted(options.only),
    }


def run_submitted(uri: str, arguments: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Do what `run_arguments` asks for, and answer with `answer_of`.

    Args:
        uri: Of the fleet, for messages.
        arguments: From `run_arguments`.
        options: With the runner and who is told of the progress.

    Raises:
        InvalidArgumentError: It was asked for by another release.
        LanceOpsError: As `run_fleet`.
    """
    if arguments.get("release") != __version__:
        raise InvalidArgumentError(
            f"the run was asked for by release {arguments.get('release')}, and this is {__version__}",
            path=uri,
            field="release",
            hint="install the same release of lance-ops with the scheduler and on the cluster",
        )
    # It comes from whoever submitted this program, and may do what that one may.
    policy = pickle.loads(base64.b64decode(arguments["policy"]))  # noqa: S301
    until, only = arguments["until"], arguments["only"]
    chosen = RunOptions(
        bytes=arguments["bytes"],
        until=None if until is None else datetime.fromisoformat(until),
        datasets=arguments["datasets"],
        only=None if only is None else frozenset(only),
        survey=None,
    )
    return answer_of(run_fleet(policy, chosen, runner=options["runner"], progress=options["progress"]))


def answer_of(done: FleetRun) -> dict[str, Any]:
    """What a run says of itself to whoever had it run, with bounds on words."""
    states = {item.dataset: item.state for item in done.outcomes.values()}
    why = [(item.dataset, item.state, item.why) for item in done.outcomes.values() if item.why]
    return {
        "run": done.row.key,
        "datasets": sum(state == "done" for state in states.values()),
        "operations": done.row.operations,
        "bytes_moved": done.row.bytes_read + done.row.bytes_written,
        "bytes_freed": done.row.bytes_freed,
        "scan_seconds_saved": sum(row.scan_seconds_saved for row in done.rows),
        "conflicts": sum(row.conflicts for row in done.rows),
        "seconds": done.row.seconds,
        "broken_off": done.broken_off,
        "failed": sorted(name for name, state in states.items() if state == "failed"),
        "why": why[:_MOST_TOLD],
        "summary": done.summary(),
        "text": str(done)[:_MOST_TEXT],
    }
