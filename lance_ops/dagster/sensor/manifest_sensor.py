"""Manifest sensor: publishes the commits of all writers, and starts downstream jobs when data changed.

A tick reads all datasets in threads, publishes each new version once and in order, and leaves a version that
a run is about to report to that run. Dagster stores the events of a tick before its cursor, so a tick may be
repeated: the event log is read before anything is published, and the run keys are the same again.
"""

import os
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, cast

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.checks.evaluate import not_evaluated
from lance_ops.dagster.checks.records import latest_records, says_otherwise
from lance_ops.dagster.dataset_ref import LanceDatasetRef, index_refs
from lance_ops.dagster.downstream import LanceDownstream
from lance_ops.dagster.jobs.operations import NamedJob
from lance_ops.dagster.place import CodePlace
from lance_ops.dagster.publication import (
    NEWEST,
    VersionEvent,
    last_published,
    last_published_of_all,
    now_utc,
    resume_after,
)
from lance_ops.dagster.resource import LanceStoreResource
from lance_ops.dagster.run_map import RunMap
from lance_ops.dagster.sensor.cursor import DatasetCursor, SensorCursor, parse_cursor
from lance_ops.dagster.sensor.ingested import ingests_into, partition_verdicts, takes_partitions
from lance_ops.dagster.sensor.memory import SensorMemory
from lance_ops.dagster.sensor.queue_tags import tag_waiting_runs
from lance_ops.dagster.sensor.started import Downstream, start_downstream, state_of_data, with_state
from lance_ops.dagster.sensor.survey import Room, Survey, asked_in_turn, find_at_rest, survey_datasets
from lance_ops.dagster.sensor.tick import MOST_CARRIED, Tick
from lance_ops.maintenance.text import count_text

_TIMEOUT_VARIABLE = "DAGSTER_SENSOR_GRPC_TIMEOUT_SECONDS"
_DEFAULT_TIMEOUT = 60.0
_RESERVED = 20.0
_SHORTEST_BUDGET = 5.0
_SHARE_OF_REST = 0.3
"""Share of a tick's time to find unchanged datasets."""


@dataclass(frozen=True, slots=True)
class SensorOptions:
    """Limits of a tick.

    Attributes:
        newest: Versions of a burst with their own events; older ones share one. At the first tick of a
            dataset all versions older than `grace` share one.
        max_events: Maximum events of a tick; the rest is left to the next one. Dagster stores them one by
            one, in 50 ms each on SQLite.
        budget_seconds: Time limit of a tick; default Dagster's own limit less 20 s.
        grace: Time for which a version is left to the run that committed it. Then the sensor publishes it;
            below `RUN_PUBLISHES_WITHIN` both may do so.
        full_check_every: How often each dataset is checked in full, files included, though no version is new:
            files get lost without a commit.
        full_checks: Datasets that a tick checks for that reason at most.
        failed_check_every: How often failed checks are evaluated again, though no version is new: a cleanup
            commits none. `full_checks` bounds these, too.
    """

    newest: int = NEWEST
    max_events: int = 500
    budget_seconds: float | None = None
    grace: timedelta = timedelta(minutes=2)
    full_check_every: timedelta = timedelta(hours=6)
    full_checks: int = 10
    failed_check_every: timedelta = timedelta(minutes=10)

    @property
    def budget(self) -> float:
        """The time limit of a tick in seconds."""
        if self.budget_seconds is not None:
            return self.budget_seconds
        limit = float(os.environ.get(_TIMEOUT_VARIABLE) or _DEFAULT_TIMEOUT)
        return max(_SHORTEST_BUDGET, limit - _RESERVED)


def build_manifest_sensor(
    refs: Sequence[LanceDatasetRef],
    *,
    downstream: Sequence[LanceDownstream] = (),
    name: str = "lance_manifest_sensor",
    prefix: str = "",
    options: SensorOptions | None = None,
    minimum_interval_seconds: int = 30,
    default_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED,
) -> dg.SensorDefinition:
    """Build one sensor for many datasets; it requires the resource `lance_store`.

    Args:
        refs: The datasets.
        downstream: Jobs to start when the data of a dataset change. A compaction or a new index starts none.
        name: Name of the sensor.
        prefix: Prefix of the required resource: `<prefix>_lance_store`.
        options: Limits of a tick.
        minimum_interval_seconds: Seconds between ticks.
        default_status: Initial status.

    Raises:
        InvalidArgumentError: Ambiguous datasets.
    """
    by_name = index_refs(refs)
    limits = options or SensorOptions()
    store_key = keys.prefixed(prefix, keys.STORE_RESOURCE)

    @dg.sensor(
        name=name,
        description="Publishes new versions of Lance datasets and starts downstream jobs when data changed.",
        jobs=cast("list[Any]", _distinct(item.job for item in downstream)) or None,
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=default_status,
        required_resource_keys={store_key},
    )
    def manifest_sensor(context: dg.SensorEvaluationContext, **_resources: object) -> dg.SensorResult:
        # Dagster passes the resource twice when a test calls the sensor like a function.
        store: LanceStoreResource = getattr(context.resources, store_key)
        location = context.code_location_origin
        owner = f"{name}\n{location.location_name if location else ''}"
        return _evaluate(context, owner, list(by_name.values()), store, downstream, limits)

    return manifest_sensor


def _distinct(jobs: Iterable[NamedJob]) -> list[NamedJob]:
    return list({job.name: job for job in jobs}.values())


def _evaluate(
    context: dg.SensorEvaluationContext,
    owner: str,
    refs: list[LanceDatasetRef],
    store: LanceStoreResource,
    downstream: Sequence[LanceDownstream],
    options: SensorOptions,
) -> dg.SensorResult:
    cursor = parse_cursor(context.cursor)
    names = {ref.name for ref in refs}
    memory = SensorMemory.recall(context.instance, owner, cursor, names)
    start = cursor.offset % len(refs)
    turn = refs[start:] + refs[:start]
    looked_at = time.time()
    deadline = time.monotonic() + options.budget
    full = _due_for_full_check(memory, turn, options)
    again = _due_for_another_check(memory, turn, options)
    asked, next_asked = asked_in_turn(refs, cursor.asked)
    unasked = names.difference(full, again, (ref.name for ref in asked))
    resting = find_at_rest(
        [ref for ref in turn if ref.name in unasked],
        memory.datasets,
        store,
        # Stores that hang must not use up the time of the others.
        deadline=time.monotonic() + options.budget * _SHARE_OF_REST,
    )
    others = [ref for ref in turn if ref.name not in resting]
    surveys = resting | survey_datasets(
        others,
        memory.datasets,
        store,
        newest=options.newest,
        grace=options.grace,
        deadline=deadline,
        published=last_published_of_all(context.instance, others),
        full=full,
        again=again,
        room=Room(options.max_events, MOST_CARRIED),
    )
    examined = [ref for ref in turn if ref.name in surveys and surveys[ref.name].outcomes]
    shown = latest_records(context.instance, examined)
    tick = Tick(memory, options.max_events)
    started = Downstream(downstream, context.instance, CodePlace.of_sensor(context))
    postponed: list[LanceDatasetRef] = []
    for ref in turn:
        survey = surveys.get(ref.name)
        if survey is None or tick.is_full:
            postponed.append(ref)
            continue
        stale = says_otherwise(shown.get(ref.name, {}), survey.outcomes, looked_at)
        _take_in(tick, ref, survey, started, store, options, stale=stale)
    if postponed:
        tick.notes.append(f"{count_text(len(postponed), 'dataset')} left to the next tick")
    summary = tick.summary(len(refs) - len(postponed))
    context.log.info(summary)
    tag_waiting_runs(context.instance, RunMap(refs, ingests=ingests_into(names)))
    memory.put(tick.settled, names)
    next_cursor = SensorCursor(
        memory.name,
        # The first tick, or one of an earlier release: all datasets, until the name of the state is stored.
        {**memory.datasets, **tick.carried} if memory.is_new else tick.carried,
        refs.index(postponed[0]) if postponed else 0,
        next_asked,
    )
    return dg.SensorResult(
        run_requests=tick.requests,
        # Dagster accepts a skip reason only from a tick that starts nothing.
        skip_reason=None if tick.requests else summary,
        asset_events=tick.events,
        cursor=next_cursor.serialize(),
    )


def _due_for_full_check(
    memory: SensorMemory, refs: Iterable[LanceDatasetRef], options: SensorOptions
) -> list[str]:
    """Return the datasets whose last full check is too long ago, oldest first.

    Damaged or missing datasets may never be fully checked, and stay the oldest: if they would take more than
    half of the slots while others are due, they get half of the slots, at random.
    """
    limit = time.time() - options.full_check_every.total_seconds()
    checked = {ref.name: memory.of(ref.name).checked or 0 for ref in refs}
    due = [name for _, name in sorted((at, name) for name, at in checked.items() if at <= limit)]
    sound = [name for name in due if memory.of(name).problem is None]
    others = [name for name in due if memory.of(name).problem is not None]
    turns = max(options.full_checks // 2, options.full_checks - len(sound))
    oldest = due[: options.full_checks]
    if len(set(oldest).intersection(others)) <= turns:
        return oldest
    drawn = random.sample(others, min(len(others), turns))
    return [*drawn, *sound[: options.full_checks - len(drawn)]]


def _due_for_another_check(
    memory: SensorMemory, refs: Iterable[LanceDatasetRef], options: SensorOptions
) -> list[str]:
    """Return the names of the datasets whose failed checks are due for another evaluation, oldest first."""
    limit = time.time() - options.failed_check_every.total_seconds()
    failed = [(at, ref.name) for ref in refs if (at := memory.of(ref.name).failed) is not None]
    return [name for at, name in sorted(failed) if at <= limit][: options.full_checks]


def _take_in(
    tick: Tick,
    ref: LanceDatasetRef,
    survey: Survey,
    downstream: Downstream,
    store: LanceStoreResource,
    options: SensorOptions,
    *,
    stale: bool,
) -> None:
    """Add the events, checks and runs for one survey result, and the next cursor entry.

    Args:
        tick: The tick under construction.
        ref: The dataset.
        survey: Result for the dataset.
        downstream: Jobs that read datasets.
        store: Opens datasets.
        options: Limits.
        stale: Dagster shows another result for some check.
    """
    instance = downstream.instance
    before = tick.memory.of(ref.name)
    owed = tick.owed
    now = before
    dealt: list[VersionEvent] = []
    waiting: _Waiting | None = None
    published = 0
    if survey.events and survey.head is not None:
        # In this order: a finished run has stored its events.
        unfinished = _left_to_runs(survey.events, instance, options.grace)
        told = last_published(instance, ref.key)
        after = resume_after(told, survey.head, seen=before.version)
        if survey.of_another is not None and survey.of_another == told:
            after = 0
        dealt, waiting = _until_unreported(survey.events, after, unfinished)
        new = [event.materialization for event in dealt if event.facts.version > after]
        published = len(new)
        tick.events += new
        tick.versions += published
        tick.datasets += bool(published)
    if waiting is not None:
        tick.notes.append(f"{ref.name}: version {waiting.version} is left to run {waiting.run_id}")
    if dealt:
        version = dealt[-1].facts.version
        now = replace(now, version=version, mark=before.mark if version == before.version else None)
    if waiting is None and survey.error is None:
        # Even if the versions above the cursor were cleaned up before they were read.
        now = replace(now, version=survey.head, mark=survey.mark or before.mark)
    now = replace(now, problem=survey.damage_since(before.problem), checked=survey.checked_at or now.checked)
    # Dagster drops check results with each event, and a run that writes through the IO manager reports none.
    unchecked = any(keys.IO_MANAGER in event.facts.properties for event in dealt)
    # A result under another policy does not count; entries of earlier releases do not record the policy.
    outdated = bool(survey.outcomes) and before.policy not in (None, ref.policy_hash)
    if waiting is None:
        due = published > 0 or stale or unchecked or outdated
        _report_checks(tick, ref, survey, before, instance, due=due)
        if survey.outcomes or before.policy is None:
            now = replace(now, policy=ref.policy_hash)
    if survey.outcomes:
        now = replace(now, failed=_failed_at(survey, before, options))
    if now.problem is None:
        state = state_of_data(ref, dealt, before, instance)
        recreated = survey.of_another is not None
        entry = with_state(now, state, downstream.of(ref), recreated=recreated)
        now = start_downstream(tick, ref, entry, downstream, renewed=bool(dealt))
    if takes_partitions(survey, dealt, before):
        tick.events += partition_verdicts(ref, instance, store, downstream.place)
    elif dealt:
        tick.events += partition_verdicts(ref, instance, store, downstream.place, only_failed=True)
    tick.keep(ref.name, now, owes=tick.owed > owed)


def _failed_at(survey: Survey, before: DatasetCursor, options: SensorOptions) -> int | None:
    """Return when checks failed; of a damaged dataset, which each tick checks, the time seldom changes."""
    if all(outcome.passed for outcome in survey.outcomes):
        return None
    now = int(time.time())
    is_recent = before.failed is not None and now - before.failed < options.failed_check_every.total_seconds()
    return before.failed if is_recent else now


def _report_checks(
    tick: Tick,
    ref: LanceDatasetRef,
    survey: Survey,
    before: DatasetCursor,
    instance: dg.DagsterInstance,
    *,
    due: bool,
) -> None:
    """Report checks after a new event, which makes Dagster drop them, and when damage appears or disappears.

    Also if Dagster shows another result: the cursor may have been lost before a repair, the policy may have
    changed, or versions were cleaned up elsewhere. A run that published the version reported them itself.
    """
    damage = survey.damage_since(before.problem)
    if damage is not None:
        tick.notes.append(f"{ref.name}: {damage}")
    if not due and damage == before.problem:
        return
    outcomes = survey.outcomes
    if survey.error is not None:
        # A dataset that was never seen may not exist yet; one that vanished is damage.
        known = before.version is not None or survey.head is not None
        severe = known or last_published(instance, ref.key) is not None
        outcomes = tuple(not_evaluated(ref, survey.error, severe=severe))
    tick.events += [outcome.to_evaluation(ref.key) for outcome in outcomes]


@dataclass(frozen=True, slots=True)
class _Waiting:
    version: int
    run_id: str


def _left_to_runs(
    events: Sequence[VersionEvent], instance: dg.DagsterInstance, grace: timedelta
) -> Mapping[int, str]:
    """Return the versions that an unfinished run has committed and may still report itself, with its id."""
    left: dict[int, str] = {}
    finished: dict[str, bool] = {}
    for event in events:
        run_id = event.facts.run_id
        if run_id is None or now_utc() - event.facts.committed_at >= grace:
            continue
        if run_id not in finished:
            run = instance.get_run_by_id(run_id)
            finished[run_id] = run is None or run.is_finished
        if not finished[run_id]:
            left[event.facts.version] = run_id
    return left


def _until_unreported(
    events: Sequence[VersionEvent], after: int, left: Mapping[int, str]
) -> tuple[list[VersionEvent], _Waiting | None]:
    """Return the events up to the first unpublished version that is left to its run."""
    dealt: list[VersionEvent] = []
    for event in events:
        version = event.facts.version
        if version > after and version in left:
            return dealt, _Waiting(version, left[version])
        dealt.append(event)
    return dealt, None
