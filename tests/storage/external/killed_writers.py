"""Kills a writer at one request of its commit; python -m tests.storage.external.killed_writers at each one.

Both libraries commit to one dataset whose versions DynamoDB decides. All requests of the writer pass a proxy,
which kills the process at one of them: before the server sees it, or after the server was sent it.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

import lance_ops as lo
from lance_ops.storage.manifest_names import staged_version
from tests.support.fault_proxy import FaultProxy, Rule
from tests.support.manifest_stores import DynamoPlace

ROOT = Path(__file__).resolve().parents[3]
_WRITER = """
import json, sys
import pyarrow as pa
side, uri, options = json.loads(sys.argv[1])
data = pa.table({"id": [99]})
if side == "pylance":
    import lance
    dataset = lance.dataset(uri, storage_options=options)
    commit = lambda: lance.write_dataset(data, dataset, mode="append", storage_options=options)
else:
    import lance_ops as lo
    lo.append  # imported before the commit
    dataset = lo.dataset(uri, storage_options=options)
    commit = lambda: lo.append(dataset, data)
print("ready", flush=True)
sys.stdin.readline()
commit()
print("done", flush=True)
"""

STEPS = {
    "staged": r"PUT /.*\.manifest-",
    "reserved": r"POST /$",
    "copied": r"PUT /.*\.manifest$",
    "cleared": r"DELETE /.*\.manifest-|POST /.*delete",
}
"""Requests that change something, as both libraries send them."""


@dataclass
class Outcome:
    """What a killed writer left.

    Attributes:
        requests: Of its commit, up to the one at which it was killed.
        committed: Whether its version has a row.
        staged: Whether its row, or no row at all, points to a staged manifest.
    """

    requests: list[str]
    committed: bool
    staged: bool


def append(side: str, uri: str, options: dict[str, str], number: int) -> None:
    """Commit a row by one of the libraries."""
    data = pa.table({"id": [number]})
    if side == "pylance":
        lance.write_dataset(data, uri, mode="append", storage_options=options)
    else:
        lo.append(uri, data, storage_options=options)


def rows(side: str, uri: str, options: dict[str, str]) -> list[int]:
    """Read all rows by one of the libraries."""
    opened: Any = (
        lance.dataset(uri, storage_options=options)
        if side == "pylance"
        else lo.dataset(uri, storage_options=options)
    )
    return sorted(opened.to_table()["id"].to_pylist())


def run_writer(
    place: DynamoPlace, uri: str, side: str, is_last: Callable[[str], bool], *, sent: bool
) -> list[str]:
    """Let a process commit, and kill it at a request.

    Args:
        place: The server.
        uri: The dataset.
        side: The library.
        is_last: Whether to kill it at a request ("METHOD /path?query").
        sent: Whether the server gets that request.

    Returns:
        The requests of its commit.
    """
    with FaultProxy(place.server.port) as proxy:
        options = {**place.options, "aws_endpoint": proxy.endpoint, "dynamodb_endpoint": proxy.endpoint}
        # The answers to a process that was killed are not waited for.
        options["client_max_retries"] = "0"
        with subprocess.Popen(
            [sys.executable, "-c", _WRITER, json.dumps([side, uri, options])],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "AWS_EC2_METADATA_DISABLED": "true"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                assert process.stdout is not None
                assert process.stdin is not None
                assert process.stdout.readline() == "ready\n"
                proxy.requests.clear()

                def judge(line: str) -> Rule | None:
                    if process.returncode is not None or not is_last(line):
                        return None
                    os.kill(process.pid, signal.SIGKILL)
                    return None if sent else Rule("", "reset")

                proxy.choose = judge
                process.stdin.write("\n")
                process.stdin.flush()
                process.wait(60)
            finally:
                process.kill()
        return list(proxy.requests)


def kill_writer(place: DynamoPlace, side: str, is_last: Callable[[str], bool], *, sent: bool) -> Outcome:
    """Kill a writer at a request, and check that both libraries go on from there without losing anything."""
    other = "pylance" if side == "lance_ops" else "lance_ops"
    uri, options = place.new_uri(), place.options
    append(other, uri, options, 0)
    append(side, uri, options, 1)
    requests = run_writer(place, uri, side, is_last, sent=sent)
    left = place.rows(uri)
    committed = 3 in left
    staged = committed and staged_version(left[3].rpartition("/")[2]) is not None
    expected = [0, 1, 99] if committed else [0, 1]
    assert rows(other, uri, options) == expected, (requests, left)
    assert rows(side, uri, options) == expected
    append(other, uri, options, 2)
    append(side, uri, options, 3)
    expected = sorted([*expected, 2, 3])
    assert rows(other, uri, options) == rows(side, uri, options) == expected
    assert all(path.endswith(".manifest") for path in place.rows(uri).values())
    # Without DynamoDB, everything is there, too.
    plain = uri.replace("s3+ddb://", "s3://").partition("?")[0]
    bytes_only = {name: value for name, value in options.items() if name != "dynamodb_endpoint"}
    assert sorted(lance.dataset(plain, storage_options=bytes_only).to_table()["id"].to_pylist()) == expected
    assert lo.fsck(uri, storage_options=options).findings == ()
    return Outcome(requests, committed, staged)


def at_step(step: str) -> Callable[[str], bool]:
    """The first request of one of `STEPS` after the manifest was staged; or that of the staging."""
    seen_staged = False

    def is_last(line: str) -> bool:
        nonlocal seen_staged
        if re.match(STEPS["staged"], line):
            seen_staged = True
            return step == "staged"
        return seen_staged and re.match(STEPS[step], line) is not None

    return is_last


def at_number(number: int) -> Callable[[str], bool]:
    """The request of this number, from 1."""
    count = 0

    def is_last(_: str) -> bool:
        nonlocal count
        count += 1
        return count == number

    return is_last


def main() -> None:
    """Kill both libraries at every request of a commit."""
    from tests.support.object_servers import Moto, running

    with running(Moto) as server:
        place = DynamoPlace(server)
        for side in ("lance_ops", "pylance"):
            whole = run_writer(place, _prepared(place, side), side, lambda _: False, sent=True)
            for number in range(1, len(whole) + 1):
                for sent in (False, True):
                    found = kill_writer(place, side, at_number(number), sent=sent)
                    line = found.requests[number - 1] if len(found.requests) >= number else "-"
                    sys.stdout.write(
                        f"{side} {number}/{len(whole)} {'after' if sent else 'before'} {line[:100]}: "
                        f"{'committed' if found.committed else 'nothing'}"
                        f"{', staged' if found.staged else ''}\n"
                    )
                    sys.stdout.flush()


def _prepared(place: DynamoPlace, side: str) -> str:
    uri = place.new_uri()
    append(side, uri, place.options, 0)
    return uri


if __name__ == "__main__":
    main()
