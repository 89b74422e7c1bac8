"""One history: its plan, its run, and the proof that the final table is explained by a serial history."""

import contextlib
import random
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from typing import Any

import lance_ops as lo
from lance_ops.errors import CommitOutcomeUnknownError, LanceOpsError
from lance_ops.table.manifest.file.read import read_manifest
from lance_ops.table.manifest.listing import (
    ManifestLocation,
    NamingScheme,
    manifest_path,
    parse_manifest_name,
)
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.transaction.operations import Overwrite as OverwriteOperation
from lance_ops.table.transaction.operations import Restore as RestoreOperation
from lance_ops.table.transaction.operations import files_of
from lance_ops.table.transaction.transaction import Transaction, read_transaction
from tests.simulator.store import SimulatedStore
from tests.simulator.virtual import inside
from tests.simulator.work import (
    INLINE,
    WORK,
    Append,
    Cleanup,
    Compact,
    Configure,
    Delete,
    Finish,
    Menu,
    Restore,
    Rows,
    Tag,
    Update,
    Upsert,
    Work,
    new_rows,
    table_of,
)
from tests.simulator.world import START, Choices, Event, Process, Weather, World

UseWorld = Callable[[World | None], None]


class Violation(AssertionError):  # noqa: N818 - it is what the campaigns look for
    """A history that breaks a promise; the first word names which one."""

    def __init__(self, kind: str, what: str) -> None:
        super().__init__(f"{kind}: {what}")
        self.kind = kind


@dataclass(frozen=True)
class Script:
    """Work of one process, in order.

    Attributes:
        works: The work.
        offset: Seconds that its clock is ahead of that of the store.
        revives: After its death, another process goes on with the work under a job key that it was at.
    """

    works: tuple[Work, ...]
    offset: float = 0.0
    revives: bool = False


@dataclass(frozen=True)
class Plan:
    """What a seed stands for.

    Attributes:
        seed: Of names, pauses and decisions.
        scripts: Of each process.
        start: Which table there is at the beginning.
        remote: The store has latency, so that commits overlap their requests.
        weather: Probabilities of the decisions.
    """

    seed: int
    scripts: tuple[Script, ...]
    start: int
    remote: bool
    weather: Weather


SKEWS = (0.0, 0.0, 0.0, 300.0, -300.0, 20 * 86400.0, -20 * 86400.0)

SKIES = (
    (),
    (),
    ("die before", "die after"),
    ("lost", "refused"),
    ("lost", "twice", "late", "severed"),
    ("late", "severed"),
    ("stale",),
    ("pause",),
    ("lost", "refused", "twice", "die before", "die after", "pause", "stale"),
)


def plan_of(seed: int) -> Plan:
    """Return the plan of a seed."""
    if seed % THEME_EVERY == THEME_EVERY - 1:
        return _themed(seed)
    chance = random.Random(f"plan {seed}")
    menu = Menu(chance)
    kinds = chance.choice(SKIES)
    fault = chance.choice((0.01, 0.03)) if kinds else 0.0
    if chance.random() < 0.65:
        # Few switches: whole operations of others happen between two calls of one.
        weather = Weather(chance.choice((0.04, 0.1)), chance.choice((1, 1, 2, 3)), fault, kinds)
    else:
        weather = Weather(chance.choice((0.02, 0.15, 0.4)), fault=fault, kinds=kinds)
    scripts = []
    for number in range(chance.choice((2, 2, 2, 3))):
        works = tuple(menu.draw() for _ in range(chance.choice((1, 1, 2, 2) if number else (1, 1, 2))))
        if number and chance.random() < 0.4:
            works = (*works[:2], menu.cleanup())
        if not number and chance.random() < 0.15:
            works = (menu.reference(), *works[:1])
        scripts.append(Script(works, chance.choice(SKEWS), chance.random() < 0.7))
    if chance.random() < 0.1:
        # Two runs of one job at once.
        work = replace(scripts[0].works[0], keyed=True)
        if work.changes_rows and not isinstance(work, Finish):
            for place in (0, 1):
                scripts[place] = replace(scripts[place], works=(work, *scripts[place].works[1:]))
    return Plan(seed, tuple(scripts), chance.randrange(STARTS), chance.random() < 0.4, weather)


THEME_EVERY = 16
"""One seed in so many is about a rare meeting."""


def _themed(seed: int) -> Plan:
    """Return a plan in which two processes are about to meet where few do by chance."""
    chance = random.Random(f"theme {seed}")
    low = chance.randint(0, 4)
    scripts: tuple[Script, ...]
    kinds: tuple[str, ...] = ()
    theme = chance.randrange(4)
    if theme == 0:
        # Both insert the same keys, and a cleanup removes the record of one.
        first = Upsert(1, False, 40, 2, 1001)
        other = Upsert(2, False, chance.choice((40, 41)), 2, 1002)
        rest = chance.choice(
            ((Configure(3), Cleanup(4)), (Configure(3), Cleanup(4)), (Append(3, False, 110, 2),))
        )
        scripts = (Script((first,)), Script((other, *rest)))
    elif theme == 1:
        # An old version is named while it is removed.
        named = chance.choice((Restore(1, False, 1), Restore(1, False, 2), Tag(1, False, 1)))
        scripts = (
            Script((named,)),
            Script((Delete(2, False, low, low + 3), Cleanup(3), Append(4, False, 110))),
        )
    elif theme == 2:
        # Puts are not answered, and arrive later.
        kinds = ("late", "severed")
        scripts = (
            Script((Update(1, False, low, low + 3, 10), Append(2, False, 110))),
            Script((Append(3, False, 120), Delete(4, False, low, low + 2))),
        )
    else:
        # Files wait for their commit while a cleanup with a wrong clock looks at them.
        skew = chance.choice((30.0, -30.0, 0.0)) * 86400
        compact = Compact(1, False, 1 << 20)
        scripts = (
            Script((compact, Append(2, False, 110))),
            Script((Delete(3, False, low, low + 2), Cleanup(4)), skew),
        )
    weather = Weather(chance.choice((0.06, 0.12)), chance.choice((1, 2)), 0.1 if kinds else 0.0, kinds)
    return Plan(seed, scripts, chance.randrange(STARTS), chance.random() < 0.3, weather)


STARTS = 8
AHEAD = START + 530 * 86400.0


@cache
def start_of(number: int) -> dict[str, tuple[bytes, float]]:
    """Return the objects of a table, with or without stable row ids, an index, and deleted rows."""
    world = World(number, None)
    # By a clock that was wrong: the timestamps of the first versions are in the future of all processes.
    world.now = AHEAD
    store = SimulatedStore(world, None, f"memory://start-{uuid.uuid4().hex}/t.lance")
    with inside(world):
        lo.write_dataset(
            table_of(new_rows(0, 6)), store, max_rows_per_file=3, enable_stable_row_ids=bool(number & 1)
        )
        if number & 2:
            lo.create_index(store, "k", runner=INLINE)
        if number & 4:
            lo.append(store, table_of(new_rows(6, 3)))
            lo.delete(store, "id = 4", runner=INLINE)
    return {path: (data, START - 60) for path, (data, _) in world.objects.items()}


EFFECTS = ("rows_added", "rows_deleted", "rows_updated", "rows_inserted", "rows_appended")
"""Fields of results that count the rows that an operation changed."""


@dataclass
class Run:
    """How one call of a work ended.

    Attributes:
        work: The work.
        process: Who did it.
        outcome: "done", "failed", "unknown" or "died".
        version: The version that it returned.
        effective: It returned that it changed rows.
        error: What it raised.
    """

    work: Work
    process: int
    outcome: str = "died"
    version: int | None = None
    effective: bool = False
    error: str = ""


@dataclass
class History:
    """A run of a plan.

    Attributes:
        plan: The plan.
        choices: The decisions, recorded or given.
        runs: How each work ended.
        world: The world afterwards.
        shared: What processes gave each other.
    """

    plan: Plan
    choices: Choices
    world: World
    runs: list[Run] = field(default_factory=list)
    shared: dict[Any, Any] = field(default_factory=dict)

    @property
    def story(self) -> list[Event]:
        return self.world.story

    @property
    def fingerprint(self) -> int:
        """Equal for equal interleavings."""
        return hash(tuple(self.world.trace))


def run_plan(
    plan: Plan,
    use: UseWorld,
    choices: Choices | None = None,
    *,
    keep: Callable[["History"], object] = lambda _: None,
) -> History:
    """Run a plan; with decisions given, exactly these are made.

    Args:
        plan: The plan.
        use: See `virtual`.
        choices: Decisions of an earlier run.
        keep: Receives the history before it runs, so that it is known when it fails.

    Raises:
        Violation: A promise is broken.
    """
    world = World(plan.seed, plan.weather if choices is None else None, choices)
    history = History(plan, world.choices, world)
    keep(history)
    world.objects = dict(start_of(plan.start))
    world.born = dict(world.objects)
    scheme = "sim" if plan.remote else "memory"
    name = uuid.uuid4().hex
    use(world)
    try:
        for script in plan.scripts:
            _start(history, scheme, name, script)
        world.run()
        check(history)
    finally:
        use(None)
    return history


def _start(history: History, scheme: str, name: str, script: Script) -> None:
    world = history.world

    def body(process: Process) -> None:
        store = SimulatedStore(world, process, f"{scheme}://{name}-{process.number}/t.lance")
        for place, work in enumerate(script.works):
            run = Run(work, process.number)
            history.runs.append(run)
            world.note(process, "begins", note=work.describe())
            try:
                result = work.run(store, history.shared)
            except CommitOutcomeUnknownError as error:
                run.outcome, run.error = "unknown", str(error)
            except LanceOpsError as error:
                run.outcome, run.error = "failed", f"{type(error).__name__}: {error}"
            else:
                run.outcome = "done"
                # A handle opens the version when it is asked for it.
                with contextlib.suppress(LanceOpsError):
                    run.version = getattr(result, "version", None)
                    run.effective = any(getattr(result, name, 0) for name in EFFECTS)
            finally:
                world.note(process, run.outcome, note=run.error[:70])
                if run.outcome == "died" and script.revives and process.dead:
                    left = script.works[place if work.keyed else place + 1 :]
                    if left:
                        _start(history, scheme, name, Script(left, script.offset))

    world.start(body, script.offset)


# -- checks


@dataclass(frozen=True)
class Step:
    """A committed version: its number, its transaction, and the work that made it."""

    version: int
    manifest: Manifest
    transaction: Transaction | None
    work: Work | None

    @property
    def read(self) -> int:
        return self.version - 1 if self.transaction is None else self.transaction.read_version


def check(history: History) -> None:
    """Check all promises.

    Raises:
        Violation: One is broken.
    """
    world = history.world
    shadow = World(0, None)
    shadow.objects = dict(world.born)
    past = SimulatedStore(shadow, None, f"memory://past-{uuid.uuid4().hex}/t.lance")
    store = SimulatedStore(world, None, f"memory://end-{uuid.uuid4().hex}/t.lance")
    works = {run.work.number: run.work for run in history.runs}
    steps = _chain(past, shadow, works)
    head = lo.Dataset.open(store)
    if head.version != steps[-1].version:
        raise Violation(
            "lost", f"the newest version is {head.version}, and {steps[-1].version} was committed"
        )
    _check_outcomes(history, steps, past)
    rows = _rows(head)
    _check_serial(history, steps, rows, past)
    _check_files(world, steps, store)
    found = lo.fsck(head, deep=True)
    if not found.ok:
        raise Violation("fsck", str(found))
    _check_indices(head, rows)
    _check_tags(history, store)


def _chain(past: SimulatedStore, shadow: World, works: dict[int, Work]) -> list[Step]:
    """Return all versions that ever were the newest one."""
    steps = []
    for version in range(1, 10_000):
        path = manifest_path(version, NamingScheme.V2)
        if path not in shadow.objects:
            break
        manifest = read_manifest(past, ManifestLocation(version, path, scheme=NamingScheme.V2))
        transaction = read_transaction(past, manifest)
        number = None if transaction is None else transaction.properties.get(WORK)
        steps.append(Step(version, manifest, transaction, works.get(int(number)) if number else None))
    return steps


def _check_outcomes(history: History, steps: Sequence[Step], past: SimulatedStore) -> None:
    made: dict[int, list[int]] = {}
    restored = [
        step.version
        for step in steps
        if step.transaction is not None and isinstance(step.transaction.operation, RestoreOperation)
    ]
    for before, step in pairwise(steps):
        if _highest_id(step.manifest) < _highest_id(before.manifest):
            raise Violation("ids", f"version {step.version} may give fragment ids that were given before")
        if step.manifest.next_row_id < before.manifest.next_row_id:
            raise Violation("ids", f"version {step.version} may give row ids that were given before")
    for step in steps:
        if step.work is not None:
            made.setdefault(_job(step.work), []).append(step.version)
    changing = {_job(run.work) for run in history.runs if run.work.changes_rows}
    for job, versions in made.items():
        if (
            job in changing
            and len(versions) > 1
            and not any(versions[0] < number <= versions[-1] for number in restored)
        ):
            raise Violation("twice", f"work {job} was committed as versions {versions}")
    by_job: dict[int, list[Run]] = {}
    for run in history.runs:
        by_job.setdefault(_job(run.work), []).append(run)
    for job, runs in by_job.items():
        outcomes = {run.outcome for run in runs}
        if runs[0].work.changes_rows and outcomes == {"failed"} and job in made:
            raise Violation(
                "denied", f"{runs[0].work.describe()} failed ({runs[0].error}), and is version {made[job]}"
            )
        for run in runs:
            if run.outcome == "done" and run.version is not None and run.version > steps[-1].version:
                raise Violation("lost", f"{run.work.describe()} returned version {run.version}")
            always = isinstance(run.work, Append | Upsert | Configure) or (
                isinstance(run.work, Restore) and run.version is not None
            )
            gone = job not in made and not _is_hidden(run, steps, past)
            if run.outcome == "done" and (always or run.effective) and gone:
                raise Violation("lost", f"{run.work.describe()} was acknowledged, and is not in the history")
            if run.outcome == "failed" and not _may_fail(history, run):
                raise Violation("error", f"{run.work.describe()} failed: {run.error}")


def _is_hidden(run: Run, steps: Sequence[Step], past: SimulatedStore) -> bool:
    """Return whether the version of a work took a free name below one that replaced everything.

    A serial history has it before that one, as it has a delete below a delete of the same rows. The settings
    of a table and its record of jobs are not replaced.
    """
    if run.version is None or not run.version < len(steps):
        return False
    own = steps[run.version - 1].transaction
    if isinstance(run.work, Restore) and own is not None and isinstance(own.operation, RestoreOperation):
        # Another restore took the number first; where the next version fits both, they gave the same rows.
        return True
    transaction = steps[run.version].transaction
    operation = None if transaction is None else transaction.operation
    replaced = isinstance(operation, OverwriteOperation) and not run.work.keyed and run.work.changes_rows
    if type(run.work) is Delete and not run.work.keyed:
        # The next version deleted the same rows.
        rows = _rows(lo.Dataset.open(past, run.version + 1))
        return run.work.after(rows, {}) == rows
    return replaced or isinstance(operation, RestoreOperation)


def _highest_id(manifest: Manifest) -> int:
    return -1 if manifest.max_fragment_id is None else manifest.max_fragment_id


_CONFLICTS = {"CommitConflictError", "RetryableCommitConflictError", "IncompatibleCommitConflictError"}
_MISSING = {"VersionNotFoundError", "FileMissingError", "TaskFailedError", "RefNotFoundError"}
_FAULTS = {"StorageError", "TaskFailedError", "JobUnprovenError", "InconsistentStoreError"}


def _may_fail(history: History, run: Run) -> bool:
    """Return whether a work may end with this error: a conflict, a fault of the store, a removed version."""
    kind = run.error.partition(":")[0]
    cleans = any(isinstance(other.work, Cleanup) for other in history.runs)
    faulty = bool(history.choices.faults)
    return kind in _CONFLICTS or (cleans and kind in _MISSING) or (faulty and kind in _FAULTS)


def _job(work: Work) -> int:
    return getattr(work, "writer", work.number)


def _rows(dataset: lo.Dataset) -> dict[int, int]:
    names = dataset.schema.names
    table = dataset.to_table(["id", "k", *(["w"] if "w" in names else [])])
    ids, values = table["id"].to_pylist(), table["k"].to_pylist()
    if len(set(ids)) != len(ids):
        doubled = sorted({number for number in ids if ids.count(number) > 1})
        raise Violation("doubled", f"ids {doubled} are there more than once in version {dataset.version}")
    if dataset.count_rows() != len(ids):
        raise Violation("count", f"{dataset.count_rows()} rows are counted, {len(ids)} are there")
    if "w" in names:
        wrong = [n for n, w in zip(ids, table["w"].to_pylist(), strict=True) if w not in (None, 2 * n)]
        if wrong:
            raise Violation("column", f"rows {wrong} have the value of another row")
    return dict(zip(ids, values, strict=True))


def _check_serial(history: History, steps: Sequence[Step], rows: Rows, past: SimulatedStore) -> None:
    base = _first_version(history)
    first = _first_rows(history.plan.start)
    changing = [
        step for step in steps if step.version > base and step.work is not None and step.work.changes_rows
    ]
    restores = [
        step.transaction.operation.version
        for step in changing
        if step.transaction is not None and isinstance(step.transaction.operation, RestoreOperation)
    ]
    states: dict[int, Rows] = {}
    for version in sorted(set(restores)):
        states[version] = _rows(lo.Dataset.open(past, version))
        if version > base:
            _explain(
                [step for step in changing if step.version <= version],
                first,
                states,
                states[version],
                version,
            )
    _explain(changing, first, states, rows, steps[-1].version)


@cache
def _first_rows(start: int) -> Rows:
    world = World(0, None)
    world.objects = dict(start_of(start))
    return _rows(lo.Dataset.open(SimulatedStore(world, None, f"memory://first-{start}/t.lance")))


def _first_version(history: History) -> int:
    return sum(
        1 for path in start_of(history.plan.start) if parse_manifest_name(path.removeprefix("_versions/"))
    )


def _explain(steps: Sequence[Step], first: Rows, states: dict[int, Rows], rows: Rows, version: int) -> None:
    """Find an order of the commits that gives these rows, and that agrees with what each of them had read."""
    wanted = dict(rows)
    seen: set[tuple[frozenset[int], tuple[tuple[int, int], ...]]] = set()

    def search(left: frozenset[int], now: Rows) -> bool:
        if not left:
            return dict(now) == wanted
        key = (left, tuple(sorted(now.items())))
        if key in seen:
            return False
        seen.add(key)
        for place in sorted(left):
            step = steps[place]
            # What it had read comes before it.
            if any(steps[other].version <= step.read for other in left if other != place):
                continue
            if search(left - {place}, _apply(step, now, states)):
                return True
        return False

    if not search(frozenset(range(len(steps))), first):
        serial: Rows = first
        for step in steps:
            serial = _apply(step, serial, states)
        differing = sorted({*dict(serial).items()} ^ {*wanted.items()})
        done = "; ".join(f"{step.version} {step.work.describe()}" for step in steps if step.work)
        raise Violation(
            "rows", f"no serial history explains version {version}: (id, k) {differing} differ after {done}"
        )


def _apply(step: Step, rows: Rows, states: dict[int, Rows]) -> Rows:
    assert step.work is not None
    if step.transaction is not None and isinstance(step.transaction.operation, RestoreOperation):
        return states[step.transaction.operation.version]
    return step.work.after(rows, states)


def _check_files(world: World, steps: Sequence[Step], store: SimulatedStore) -> None:
    for step in steps:
        path = manifest_path(step.version, NamingScheme.V2)
        there = world.objects.get(path)
        if there is None or there[0] != world.born[path][0]:
            continue
        for needed in _needed(step.manifest):
            if needed not in world.objects:
                raise Violation("missing", f"version {step.version} needs {needed}, which is gone")
        for index in step.manifest.indices:
            lead = f"{index.directory}/"
            if not index.is_system and not any(path.startswith(lead) for path in world.objects):
                raise Violation("missing", f"version {step.version} needs {lead}, which is gone")


def _needed(manifest: Manifest) -> Iterator[str]:
    for fragment in manifest.fragments:
        yield from files_of(fragment)


def _check_indices(head: lo.Dataset, rows: Rows) -> None:
    for place, index in enumerate(head.indices):
        if index.is_system:
            continue
        column = head.lance_schema.path(index.fields[0])
        values = rows.values() if column == "k" else rows
        middle = sorted(values)[len(rows) // 2] if rows else 0
        sign, test = (("=", int.__eq__), (">", int.__gt__))[(head.version + place) % 2]
        expected = sorted(n for n, k in rows.items() if test(k if column == "k" else n, middle))
        table = head.to_table(["id"], filter=f"{column} {sign} {middle}")
        found = sorted(table["id"].to_pylist())
        if found != expected:
            raise Violation("index", f"{index.name}: {column} {sign} {middle} is {found}, not {expected}")


def _check_tags(history: History, store: SimulatedStore) -> None:
    for name, version in history.shared.get("tags", {}).items():
        try:
            found = lo.Dataset.open(store, name)
            if found.version != version:
                raise Violation("tag", f"{name} is version {found.version}, not {version}")
            _rows(found)
        except LanceOpsError as error:
            raise Violation("tag", f"{name} of version {version}: {error}") from error
