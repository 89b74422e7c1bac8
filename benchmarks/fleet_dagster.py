"""What Dagster's processes do for 1,000 and 10,000 datasets: definitions, ticks of sensors, size of a cursor.

Ticks are evaluated in this process, and what they return is stored as Dagster's daemon stores it, in SQLite.
Parts of `python -m benchmarks.fleet`, each in a process of its own.
"""

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import psutil

import lance_ops as lo
from benchmarks.fleet_data import rows
from lance_ops.dagster import LanceDatasetRef, LanceStoreResource, build_lance_definitions
from lance_ops.dagster.alerts.check_sensor import build_check_alert_sensor
from lance_ops.dagster.sensor.manifest_sensor import build_manifest_sensor

MANY = 10_000
_CHANGED = 100
_QUICK = {"fsync": "false"}


@dataclass(slots=True)
class Daemon:
    """Evaluates a sensor, and stores what it returns."""

    sensor: dg.SensorDefinition
    instance: dg.DagsterInstance
    cursor: str | None = None
    longest: int = 0
    told: int = 0
    evaluated: list[float] = field(default_factory=list)
    lasted: list[float] = field(default_factory=list)

    def tick(self) -> int:
        """One tick; returns its events. Its time by the clock is kept, with storing these."""
        started = time.perf_counter()
        store = LanceStoreResource(storage_options=_QUICK)
        began = time.process_time()
        with dg.build_sensor_context(
            instance=self.instance, cursor=self.cursor, resources={"lance_store": store}
        ) as context:
            result = self.sensor(context)
        assert isinstance(result, dg.SensorResult)
        self.evaluated.append(time.process_time() - began)
        for event in result.asset_events:
            self.instance.report_runless_asset_event(event)
        self.cursor = result.cursor
        self.longest = max(self.longest, len(self.cursor or ""))
        self.lasted.append(time.perf_counter() - started)
        self.told += len(result.asset_events)
        return len(result.asset_events)

    def until_idle(self) -> int:
        """Ticks until one has nothing to tell; returns how many had."""
        ticks = 0
        while self.tick():
            ticks += 1
        return ticks

    def waited(self, ticks: int) -> float:
        """Seconds from the first of some ticks to the end of the last, at the sensor's interval."""
        interval = float(self.sensor.minimum_interval_seconds or 0)
        *before, last = self.lasted[:ticks] or [0.0]
        return sum(max(interval, seconds) for seconds in before) + last


def refs_of(root: Path) -> list[LanceDatasetRef]:
    """The datasets of a fleet."""
    paths = sorted(root.glob("*/*.lance"))
    return [
        LanceDatasetRef(
            f"{path.parent.name}/{path.stem}", str(path), group=path.parent.name.replace("-", "_")
        )
        for path in paths
    ]


def definitions(root: Path) -> dict[str, Any]:
    """Definitions of 1,000 datasets, over the import."""
    refs = refs_of(root)
    began = time.process_time()
    made = build_lance_definitions(refs)
    dg.Definitions.validate_loadable(made)
    made.get_repository_def().load_all_definitions()
    return {"datasets": len(refs), "work": time.process_time() - began}


def sensors(root: Path) -> dict[str, Any]:
    """Ticks of the sensors: first contact, nothing new, 100 changed, nothing new; and of the check alerts."""
    refs = refs_of(root)
    with _instance() as instance:
        daemon = Daemon(build_manifest_sensor(refs), instance)
        began, work = time.perf_counter(), time.process_time()
        ticks = daemon.until_idle()
        found: dict[str, Any] = {
            "datasets": len(refs),
            "contact_ticks": ticks,
            "contact_seconds": time.perf_counter() - began,
            "contact_work": time.process_time() - work,
            "contact_with_intervals": daemon.waited(ticks),
            "contact_events": daemon.told,
        }
        daemon.tick()
        found["idle_work"] = daemon.evaluated[-1]
        for ref in refs[:_CHANGED]:
            lo.append(ref.uri, rows(1), storage_options=_QUICK)
        began, work = time.perf_counter(), time.process_time()
        ticks = daemon.until_idle()
        found |= {
            "changed_ticks": ticks,
            "changed_seconds": time.perf_counter() - began,
            "changed_work": time.process_time() - work,
            "cursor_most": daemon.longest,
            "cursor": len(daemon.cursor or ""),
        }
        checks = Daemon(build_check_alert_sensor(refs), instance)
        # The first two read everything, as after a start; from then on a tick reads what is new.
        for _ in range(3):
            checks.tick()
        return found | {"checks_first_work": checks.evaluated[0], "checks_work": checks.evaluated[-1]}


def many_ticks(root: Path) -> dict[str, Any]:
    """10,000 datasets that a sensor of an earlier release knows: its cursor is taken over, nothing is new."""
    one = root / "one.lance"
    lo.append(str(one), rows(0), storage_options=_QUICK)
    for number in range(MANY):
        shutil.copytree(one, root / f"{number % 100:02d}" / f"{number:05d}.lance")
    refs, this = refs_of(root), psutil.Process()
    tags = {"lance/version": "1", "dagster/data_version": lo.dataset(str(one)).data_version}
    with _instance() as instance:
        for ref in refs:
            instance.report_runless_asset_event(dg.AssetMaterialization(ref.key, tags=tags))
        entry = {"version": 1, "data": tags["dagster/data_version"], "checked": int(time.time())}
        old = json.dumps({"schema": 1, "offset": 0, "datasets": {ref.name: entry for ref in refs}})
        daemon = Daemon(build_manifest_sensor(refs), instance, old)
        daemon.tick()
        daemon.longest = 0
        daemon.tick()
        before = this.memory_info().rss
        for _ in range(3):
            daemon.tick()
        return {
            "datasets": len(refs),
            "cursor_before": len(old),
            "idle_work": daemon.evaluated[-1],
            "cursor_most": daemon.longest,
            "cursor": len(daemon.cursor or ""),
            "memory_first": before,
            "memory_last": this.memory_info().rss,
        }


@contextmanager
def _instance() -> Iterator[dg.DagsterInstance]:
    with (
        tempfile.TemporaryDirectory(prefix="lance-ops-dagster-") as home,
        dg.DagsterInstance.local_temp(home) as instance,
    ):
        yield instance


PARTS: Mapping[str, Callable[[Path], dict[str, Any]]] = {
    "definitions": definitions,
    "sensors": sensors,
    "many_ticks": many_ticks,
}
