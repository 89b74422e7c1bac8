"""A long backlog and a first contact with many datasets: ticks are bounded, and leave no gap.

python -m tests.dagster.sensor.backlog [--versions 100000] [--datasets 1000]

Manifests are made, not committed. The suite has 300 versions and 12 datasets (`test_handled.py`).
"""

import argparse
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import dagster as dg

import lance_ops as lo
from lance_ops.dagster import LanceDatasetRef, SensorOptions, build_manifest_sensor
from lance_ops.storage import open_store
from lance_ops.table.manifest.file.read import read_manifest
from lance_ops.table.manifest.file.write import encode_manifest
from lance_ops.table.manifest.listing import latest, manifest_path
from tests.support.dagster import Daemon, write

MOST_TICKS = 500


@dataclass
class Ticks:
    """What some ticks cost and returned.

    Attributes:
        seconds: Of each, by the clock, without storing events.
        cpu: Of each, of the process.
        events: Of each.
        told: Versions by dataset: each, or the first and last of those that share an event.
    """

    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    events: list[int] = field(default_factory=list)
    told: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def __str__(self) -> str:
        return (
            f"{len(self.events)} ticks, {sum(self.events):,} events, at most {max(self.events)} in a tick; "
            f"a tick took {max(self.seconds):.2f} s at most, {max(self.cpu):.2f} s of CPU; "
            f"all {sum(self.cpu):.1f} s of CPU"
        )

    def gaps(self, heads: dict[str, int]) -> list[str]:
        """What was published twice, or not at all."""
        wrong = []
        for name, head in heads.items():
            before = 0
            for first, last in self.told.get(name, []):
                if first != before + 1:
                    wrong.append(f"{name}: version {first} came after version {before}")
                before = last
            if before != head:
                wrong.append(f"{name}: the last version that was published is {before}, the head is {head}")
        return wrong


def extend(uri: str, versions: int) -> None:
    """Add versions to a dataset that differ in nothing but their numbers and times, of yesterday."""
    store = open_store(uri)
    head = read_manifest(store, latest(store))
    scheme = latest(store).scheme
    begun = head.timestamp - timedelta(days=1)
    for version in range(head.version + 1, head.version + versions + 1):
        made = replace(head, version=version, timestamp=begun + timedelta(milliseconds=version))
        (Path(uri) / manifest_path(version, scheme)).write_bytes(encode_manifest(made))


def tick_until_idle(daemon: Daemon, ticks: Ticks) -> Ticks:
    """Evaluate until a tick has nothing to publish."""
    for _ in range(MOST_TICKS):
        began, cpu = time.perf_counter(), time.process_time()
        with dg.build_sensor_context(
            instance=daemon.instance, cursor=daemon.cursor, resources=dict(daemon.resources)
        ) as context:
            result = daemon.sensor(context)
        ticks.seconds.append(time.perf_counter() - began)
        ticks.cpu.append(time.process_time() - cpu)
        assert isinstance(result, dg.SensorResult)
        ticks.events.append(len(result.asset_events))
        for event in result.asset_events:
            daemon.instance.report_runless_asset_event(event)
            if isinstance(event, dg.AssetMaterialization):
                last = int(event.tags["lance/version"])
                first = int(event.tags.get("lance/summarised_from", last))
                ticks.told.setdefault(event.asset_key.path[-1], []).append((first, last))
        daemon.cursor = result.cursor
        if not result.asset_events:
            return ticks
    raise AssertionError(f"{MOST_TICKS} ticks, and no end")


def long_backlog(root: Path, instance: dg.DagsterInstance, versions: int) -> tuple[Ticks, list[str]]:
    """A dataset that is known, and gets many versions while no tick is evaluated."""
    ref = LanceDatasetRef("backlog", str(root / "backlog.lance"))
    write(ref.uri, 0, 1)
    daemon = Daemon(build_manifest_sensor([ref]), instance)
    ticks = tick_until_idle(daemon, Ticks())
    extend(ref.uri, versions)
    later = tick_until_idle(daemon, Ticks(told=ticks.told))
    return later, later.gaps({ref.name: lo.dataset(ref.uri).version})


def first_contact(root: Path, instance: dg.DagsterInstance, datasets: int) -> tuple[Ticks, list[str]]:
    """Datasets with a past of ten versions each that nobody has looked at."""
    first = root / "d0000.lance"
    write(first, 0, 1)
    extend(str(first), 9)
    for number in range(1, datasets):
        shutil.copytree(first, root / f"d{number:04}.lance")
    refs = [LanceDatasetRef(f"d{number:04}", str(root / f"d{number:04}.lance")) for number in range(datasets)]
    daemon = Daemon(build_manifest_sensor(refs, options=SensorOptions()), instance)
    ticks = tick_until_idle(daemon, Ticks())
    return ticks, ticks.gaps({ref.name: 10 for ref in refs})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--versions", type=int, default=100_000)
    parser.add_argument("--datasets", type=int, default=1_000)
    given = parser.parse_args()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as folder, dg.DagsterInstance.local_temp(folder) as instance:
        for title, cost in (
            (
                f"backlog of {given.versions:,} versions",
                long_backlog(Path(folder) / "a", instance, given.versions),
            ),
            (
                f"first contact with {given.datasets:,} datasets",
                first_contact(Path(folder) / "b", instance, given.datasets),
            ),
        ):
            ticks, gaps = cost
            wrong += gaps
            sys.stdout.write(f"{title}: {ticks}; {len(gaps)} gaps\n")
    sys.stdout.writelines(f"WRONG: {line}\n" for line in wrong[:20])
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
