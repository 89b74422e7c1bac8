"""Fleet run in a submitted program: request and answer as JSON values.

The driver of the program plans, leases, commits and writes the ledger like any run of a fleet; if it is
killed, the next run takes over as usual.
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
    """Return the request to a program.

    Args:
        policy: Policy of the fleet. The program reads secrets from its own environment.
        options: Options of the run, which has no approved plan and no survey.
    """
    # Derived values are computed again there.
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
    """Run a request of `run_arguments`, and answer with `answer_of`.

    Args:
        uri: URI of the fleet, for messages.
        arguments: Result of `run_arguments`.
        options: Runner and progress listener.

    Raises:
        InvalidArgumentError: The request is from another release.
        LanceOpsError: As `run_fleet`.
    """
    if arguments.get("release") != __version__:
        raise InvalidArgumentError(
            f"the request is from release {arguments.get('release')}, and this is {__version__}",
            path=uri,
            field="release",
            hint="install the same release of lance-ops with the scheduler and on the cluster",
        )
    # It comes from the submitter of this program, and has the same rights.
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
    """Return the answer of a run, with limits on the number of texts."""
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
