"""Runs whose process ended together with its code server: a local deployment has no other detection.

After a power failure they stay "started" for ever, and occupy the queue and pools. A run that was seen alive
on this machine is tagged with the machine: by a sensor, or by its first step on a dataset. When its process
no longer exists, it is dead; no time limit is needed, so a run of ten hours is safe. A run that died unseen
is identified by its code server: that of the sensor's own code location, under an address of this machine.
Runs elsewhere (Kubernetes, another host) are left to their launcher and to `max_runtime_seconds`.
"""

import contextlib
import json
import os
import platform
import re
from hashlib import blake2b
from pathlib import Path

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.place import CodePlace

_MACHINE = Path("/etc/machine-id")
_PROCESSES = Path("/proc")
_STARTED = re.compile(r"Started process for run \(pid: (\d+)\)")
_AT_WORK = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]
_CODE_SERVER = ".dagster/grpc_info"
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_MOST_RUNS = 500
_FIRST_EVENTS = 20
_TOLERANCE = 60.0
"""Tolerance in seconds between the start of a run and of its process, by their clocks."""


def end_dead_runs(instance: dg.DagsterInstance, place: CodePlace | None = None) -> list[str]:
    """Report runs as failed whose process on this machine has ended; return their ids.

    Args:
        instance: Has the runs.
        place: Code location of the sensor, which identifies runs of its code server.
    """
    ended: list[str] = []
    for record in instance.get_run_records(dg.RunsFilter(statuses=_AT_WORK), limit=_MOST_RUNS):
        run = record.dagster_run
        pid = _process_of(instance, run.run_id)
        if pid is None:
            continue
        if is_alive(pid, record.start_time):
            tag_machine(instance, run)
        elif _was_on_this_machine(run, place) and _is_unfinished(instance, run.run_id):
            message = f"The process of the run (pid {pid}) has ended without reporting it."
            if run.status is dg.DagsterRunStatus.CANCELING:
                instance.report_run_canceled(run, message)
            else:
                instance.report_run_failed(run, message)
            ended.append(run.run_id)
    return ended


def _was_on_this_machine(run: dg.DagsterRun, place: CodePlace | None) -> bool:
    """Return whether the process of a run was on this machine."""
    tag = run.tags.get(keys.MACHINE_TAG)
    if tag == seen_here(run.run_id):
        return True
    copied = {seen_here(other) for other in (run.parent_run_id, run.root_run_id) if other is not None}
    if place is None or not (tag is None or tag in copied):
        return False
    origin = CodePlace.of_run(run)
    return origin is not None and origin.location == place.location and _served_from(run) in _LOOPBACK


def _served_from(run: dg.DagsterRun) -> str:
    """Return the host of the code server that started the process of a run; "" for other launchers."""
    with contextlib.suppress(ValueError, AttributeError):
        return str(json.loads(run.tags.get(_CODE_SERVER, "{}")).get("host", ""))
    return ""


def tag_machine(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    """Tag a run whose process is on this machine, so that its death can be detected."""
    if run.tags.get(keys.MACHINE_TAG) != seen_here(run.run_id):
        instance.add_run_tags(run.run_id, {keys.MACHINE_TAG: seen_here(run.run_id)})


def seen_here(run_id: str) -> str:
    """Return the tag of a run that was seen on this machine; it outlives a reboot.

    Re-executions copy the tags of a run, so the tag contains the run id. Containers of one image may share a
    host name without sharing processes: the tag contains the process namespace, whose number is constant for
    the machine itself.
    """
    known = _MACHINE.read_text(encoding="ascii", errors="replace") if _MACHINE.exists() else ""
    place = f"{platform.node()}\n{known}\n{_namespace()}\n{run_id}"
    return blake2b(place.encode(), digest_size=8).hexdigest()


def _namespace() -> int:
    """Return the number of the process namespace of this machine or container."""
    with contextlib.suppress(OSError):
        return (_PROCESSES / "self" / "ns" / "pid").stat().st_ino
    return 0


def is_alive(pid: int, began: float | None) -> bool:
    """Return whether the process of a run may still exist.

    Args:
        pid: Process id.
        began: Start of the run, in seconds since 1970: a process that started later reuses the process id.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # It exists, and belongs to another user.
    if _state_of(pid) == "Z":
        return False
    started = _started_at(pid)
    return started is None or began is None or started <= began + _TOLERANCE


def _process_of(instance: dg.DagsterInstance, run_id: str) -> int | None:
    """Return the process that a code server started for a run; None for other launchers."""
    records = instance.get_records_for_run(
        run_id, of_type=dg.DagsterEventType.ENGINE_EVENT, limit=_FIRST_EVENTS, ascending=True
    ).records
    for record in records:
        event = record.event_log_entry.dagster_event
        found = _STARTED.match((event.message if event is not None else None) or "")
        if found is not None:
            return int(found[1])
    return None


def _is_unfinished(instance: dg.DagsterInstance, run_id: str) -> bool:
    """Return whether a run is still unfinished: it may have ended meanwhile."""
    run = instance.get_run_by_id(run_id)
    return run is not None and run.status in _AT_WORK


def _fields_of(pid: int) -> list[str]:
    """Return the fields of `/proc/PID/stat` after the name; empty without such a process."""
    with contextlib.suppress(OSError):
        text = (_PROCESSES / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        return text.rpartition(")")[2].split()
    return []


def _state_of(pid: int) -> str:
    return (_fields_of(pid) or [""])[0]


def _started_at(pid: int) -> float | None:
    """Return the start of a process, in seconds since 1970; None if unknown."""
    fields = _fields_of(pid)
    with contextlib.suppress(OSError, ValueError, IndexError, StopIteration):
        lines = (_PROCESSES / "stat").read_text(encoding="ascii").splitlines()
        booted = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
        return booted + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return None
