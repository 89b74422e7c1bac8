"""Calibration: the coefficients of the cost model, measured on this machine and its store.

Small tables of several shapes are written below the given place; their groups are rewritten, copied and
scanned, and all of it is removed. A fit gives each unit of work its seconds. What the compactions of a
dataset noted in their commits can be learned instead, without any work.
"""

import os
import shutil
import statistics
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal, TypeVar

from lance_ops.errors import InvalidArgumentError
from lance_ops.maintenance.calibrate.fit import fit
from lance_ops.maintenance.calibrate.probes import PROBES, Probe
from lance_ops.maintenance.compact.accuracy import learn_costs
from lance_ops.maintenance.compact.cost_store import (
    CONFIG_KEY,
    costs_of,
    default_costs,
    keep_costs,
    store_key,
)
from lance_ops.maintenance.compact.costs import CostModel, TaskCosts
from lance_ops.maintenance.compact.estimate import RowShape, task_units
from lance_ops.maintenance.compact.groups import CompactionGroup, make_group
from lance_ops.maintenance.compact.method import GroupMethod, Method
from lance_ops.maintenance.compact.operation import compact
from lance_ops.maintenance.compact.options import CompactionOptions
from lance_ops.maintenance.compact.rewrite import RewriteTask, discard_rewrites, rewrite_group
from lance_ops.maintenance.compact.round import rewrite_tasks
from lance_ops.maintenance.delete.operation import delete
from lance_ops.maintenance.index.operation import create_index
from lance_ops.maintenance.ingest.operation import write_dataset
from lance_ops.maintenance.metadata.actions import update_config
from lance_ops.maintenance.progress import Progress, Reporter
from lance_ops.maintenance.results import Result
from lance_ops.maintenance.runner import LocalRunner
from lance_ops.maintenance.tasks import remove_files
from lance_ops.storage.resolve import open_store
from lance_ops.table.dataset import Dataset

FOLDER = "_lance_ops_calibration"
"""How the folder begins that a calibration has below its place."""

T = TypeVar("T")
Save = Literal["cache", "table", "none"]
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTask:
    """A task of a calibration.

    Attributes:
        probe: Name of its table.
        method: What was done.
        measured: Seconds that it took.
        fitted: Seconds that the model gives it.
    """

    probe: str
    method: str
    measured: float
    fitted: float

    @property
    def error(self) -> float:
        """How far the model is off, as a share of what was measured."""
        return abs(self.fitted / self.measured - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration(Result):
    """Result of `calibrate`.

    Attributes:
        costs: The model.
        tasks: What was measured; nothing when the model was learned from the history.
        learned_from: Commits that each method was learned from.
        saved: Where the model was kept; empty when it was not.
    """

    operation: ClassVar[str] = "calibrate"

    costs: CostModel
    tasks: tuple[MeasuredTask, ...] = ()
    learned_from: Mapping[str, int]
    saved: str = ""

    @property
    def median_error(self) -> float | None:
        """Of the tasks that were measured."""
        return statistics.median(task.error for task in self.tasks) if self.tasks else None

    def to_dict(self) -> dict[str, object]:
        """See `Result.to_dict`."""
        values = Result.to_dict(self)
        return {
            **values,
            "costs": self.costs.to_dict(),
            "tasks": [asdict(task) for task in self.tasks],
            "learned_from": dict(self.learned_from),
            "median_error": self.median_error,
        }

    def __str__(self) -> str:
        return f"{self.operation}: {self.summary()}"

    def summary(self) -> str:
        """See `Result.summary`."""
        kept = f", kept in {self.saved}" if self.saved else ", not kept"
        if self.median_error is None:
            if not self.learned_from:
                return "nothing to learn from: too few compactions have noted what they took"
            told = ", ".join(f"{name} from {count} commits" for name, count in self.learned_from.items())
            return f"learned {told}{kept}"
        return f"{len(self.tasks)} tasks measured, the model is off by {self.median_error:.0%} (median){kept}"


def calibrate(
    uri: str | os.PathLike[str],
    *,
    from_history: bool = False,
    save: Save = "cache",
    limit: int = 200,
    repeats: int = 3,
    storage_options: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    probes: Sequence[Probe] = PROBES,
    clock: Clock = time.perf_counter,
) -> Calibration:
    """Measure what compactions take here, or learn it from those of a dataset.

    Args:
        uri: A dataset, or any place of the store where some 40 MB may be written and removed again.
        from_history: Learn from the notes in the commits of the dataset there, and write nothing.
        save: Keep the model in the user's cache for all datasets of the store, in the config of the table
            alone ("table"; `uri` is a dataset then), or not.
        limit: Newest commits to learn from.
        repeats: How often each task is measured, after a first time; the median counts.
        storage_options: For the store.
        progress: Receives events.
        probes: Tables to measure.
        clock: What tells seconds.

    Raises:
        InvalidArgumentError: There is no such way to keep a model.
        DatasetNotFoundError: There is no dataset where one is needed.
        StorageError: The store fails, or the model cannot be kept.
    """
    started = time.monotonic()
    if save not in ("cache", "table", "none"):
        raise InvalidArgumentError(f"{save!r} is no way to keep a model", field="save")
    report = Reporter("calibrate", progress)
    version, learned, tasks = 0, dict[str, int](), tuple[MeasuredTask, ...]()
    if from_history:
        dataset = Dataset.open(uri, storage_options=storage_options)
        version = dataset.version
        base, _ = costs_of(dataset)
        costs, learned = learn_costs(base, (entry.properties for entry in dataset.history(limit=limit)))
    else:
        costs, tasks = _measure(os.fspath(uri), storage_options, probes, repeats, clock, report)
    saved = ""
    if save == "cache" and (tasks or learned):
        saved = str(keep_costs(os.fspath(uri), costs))
    elif save == "table" and (tasks or learned):
        done = update_config(uri, {CONFIG_KEY: costs.to_json()}, storage_options=storage_options)
        saved, version = f"the config of the table ({CONFIG_KEY})", done.version
    return Calibration(
        uri=os.fspath(uri),
        version=version,
        seconds=time.monotonic() - started,
        costs=costs,
        tasks=tasks,
        learned_from=learned,
        saved=saved,
    )


def _measure(
    uri: str,
    storage_options: Mapping[str, str] | None,
    probes: Sequence[Probe],
    repeats: int,
    clock: Clock,
    report: Reporter,
) -> tuple[CostModel, tuple[MeasuredTask, ...]]:
    folder = f"{FOLDER}_{uuid.uuid4().hex}"
    bench = _Bench(f"{uri.rstrip('/')}/{folder}", storage_options, repeats, clock)
    try:
        for number, probe in enumerate(probes):
            report(f"measuring {probe.name}", number, len(probes))
            bench.measure(probe)
        report("fitting", len(probes), len(probes))
        return bench.costs()
    finally:
        _remove(uri, folder, storage_options)


def _remove(uri: str, folder: str, storage_options: Mapping[str, str] | None) -> None:
    """Remove a folder below a place."""
    if store_key(uri) == "file":
        # A store leaves the folders directly below its root.
        shutil.rmtree(Path(uri.removeprefix("file://")) / folder, ignore_errors=True)
    else:
        remove_files(open_store(uri, storage_options), [f"{folder}/"])


@dataclass(frozen=True, slots=True)
class _Task:
    probe: str
    units: Mapping[str, float]
    seconds: float


class _Bench:
    """Measures probes below one folder."""

    def __init__(
        self, folder: str, storage_options: Mapping[str, str] | None, repeats: int, clock: Clock
    ) -> None:
        self.folder, self.options, self.repeats, self.clock = folder, storage_options, repeats, clock
        self.tasks: dict[Method, list[_Task]] = {method: [] for method in Method}
        self.scans: list[_Task] = []
        self.around: list[tuple[int, float]] = []
        self.index_share: float | None = None
        self.overlaps: list[float] = []

    def measure(self, probe: Probe) -> None:
        """Write a table, do everything with it."""
        uri = f"{self.folder}/{probe.name.replace(' ', '-').replace(',', '')}"
        write_dataset(probe.table(), uri, max_rows_per_file=probe.rows, storage_options=self.options)
        if probe.deleted:
            delete(uri, f"n % {probe.deleted} = 0", storage_options=self.options)
        dataset = Dataset.open(uri, storage_options=self.options)
        shape = RowShape.of(dataset.lance_schema)
        whole = CompactionOptions(target_rows_per_fragment=1 << 40)
        group = make_group(dataset, tuple(dataset.fragments), whole)
        for method in Method:
            chosen = replace(group, method=GroupMethod(method, "calibrated"))

            def fresh(chosen: CompactionGroup = chosen) -> RewriteTask:
                # A compaction finds no file open.
                return rewrite_tasks(Dataset.open(uri, storage_options=self.options), [chosen], whole)[0]

            seconds = self._typical(fresh, _run)
            if seconds is not None:
                self.tasks[method].append(_Task(probe.name, task_units(chosen, shape), seconds))
                if probe.name == "numbers":
                    self._overlap(fresh, seconds)
        self._scan(probe, dataset, shape)
        if probe.name in ("one task", "files"):
            taken, _ = self._whole(probe, whole)
            task_seconds = sum(
                item.seconds for item in self.tasks[Method.REWRITE] if item.probe == probe.name
            )
            self.around.append((probe.files, max(0.0, taken - task_seconds)))
        if probe.name == "numbers":
            self._index(probe, whole)

    def _index(self, probe: Probe, whole: CompactionOptions) -> None:
        """What it takes to move an index along, as a share of what its own model says."""
        without, _ = self._whole(probe, whole)
        taken, foreseen = self._whole(probe, whole, index="BTREE")
        if taken > without and foreseen > 0:
            self.index_share = (taken - without) / foreseen

    def _whole(self, probe: Probe, whole: CompactionOptions, index: str | None = None) -> tuple[float, float]:
        """Seconds of a whole compaction, of a fresh table each time; and those of the index's own model."""
        name = "whole"
        place = f"{self.folder}/{name}"
        foreseen = 0.0
        options = replace(whole, method="rewrite")
        runner, storage_options = LocalRunner(1), self.options

        def fresh() -> str:
            nonlocal foreseen
            _remove(self.folder, name, self.options)
            write_dataset(probe.table(), place, max_rows_per_file=probe.rows, storage_options=self.options)
            if index is not None:
                create_index(place, "n", index, storage_options=self.options)
                plan = compact(
                    place, options=options, costs=CostModel(), dry_run=True, storage_options=storage_options
                )
                foreseen = plan.estimate.index_seconds / CostModel().index
            return place

        def run(uri: str) -> bool:
            compact(uri, options=options, runner=runner, storage_options=storage_options)
            return True

        taken = self._typical(fresh, run) or 0.0
        _remove(self.folder, name, self.options)
        return taken, foreseen

    def costs(self) -> tuple[CostModel, tuple[MeasuredTask, ...]]:
        """The model, and how well it says what was measured."""
        # Requests are in what was measured: a file that is far away takes longer.
        before = replace(default_costs(self.folder), request=0.0)
        model, measured = before, list[MeasuredTask]()
        for method, tasks in self.tasks.items():
            if not tasks:
                continue
            known = before.of(method)
            found = fit(
                [task.units for task in tasks],
                [task.seconds for task in tasks],
                {name: float(getattr(known, name)) for name in TaskCosts.names()},
            )
            costs = TaskCosts(**found)
            model = replace(model, copy=costs) if method is Method.COPY else replace(model, rewrite=costs)
            measured += [
                MeasuredTask(
                    probe=task.probe,
                    method=method.value,
                    measured=task.seconds,
                    fitted=costs.seconds(task.units),
                )
                for task in tasks
            ]
        scan = fit(
            [task.units for task in self.scans],
            [task.seconds for task in self.scans],
            {"scan_file": before.scan_file, "scan_page": before.scan_page, "scan_byte": before.scan_byte},
        )
        model = replace(model, **scan)  # type: ignore[arg-type]
        if self.around:
            few, many = min(self.around), max(self.around)
            more = max(1, many[0] - few[0])
            fragment = max(0.0, many[1] - few[1]) / more if many != few else before.fragment
            model = replace(model, fragment=fragment, run=max(0.0, few[1] - fragment * few[0]))
        if self.index_share is not None:
            model = replace(model, index=self.index_share)
        if self.overlaps:
            model = replace(model, overlap=statistics.median(self.overlaps))
        return replace(model, source="a calibration"), tuple(measured)

    def _typical(self, prepare: Callable[[], T], work: Callable[[T], bool]) -> float | None:
        """The median seconds of some runs after a first one; None when one does not do what it should."""
        taken = []
        for _ in range(1 + self.repeats):
            ready = prepare()
            started = self.clock()
            if not work(ready):
                return None
            taken.append(self.clock() - started)
        return max(statistics.median(taken[1:]), 1e-6)

    def _scan(self, probe: Probe, dataset: Dataset, shape: RowShape) -> None:
        def read(fresh: Dataset) -> bool:
            for _ in fresh.to_batches():
                pass
            return True

        seconds = self._typical(lambda: Dataset.open(dataset.uri, storage_options=self.options), read)
        size = sum(fragment.data_bytes for fragment in dataset.fragments)
        units = {
            "scan_file": float(probe.files),
            "scan_page": float(probe.files * shape.columns),
            "scan_byte": float(size),
        }
        self.scans.append(_Task(probe.name, units, seconds or 1e-6))

    def _overlap(self, fresh: Callable[[], RewriteTask], alone: float) -> None:
        """How much a second slot of this machine adds."""
        both = LocalRunner(2)
        seconds = self._typical(lambda: [fresh(), fresh()], lambda tasks: all(both.map(_run, tasks)))
        if seconds is not None:
            self.overlaps.append(min(1.0, max(0.0, 2 * alone / seconds - 1)))


def _run(task: RewriteTask) -> bool:
    """Carry a task out and remove what it wrote; whether it was done by its method."""
    result = rewrite_group(task)
    discard_rewrites(task.snapshot.store, [result])
    return result.copied == (task.group.method.method is Method.COPY)
