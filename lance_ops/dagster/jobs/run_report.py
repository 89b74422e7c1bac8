"""Report of an operation to Dagster: progress, notes in the commit, versions, checks, numbers."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.checks.evaluate import evaluate_checks
from lance_ops.dagster.dataset_ref import LanceDatasetRef
from lance_ops.dagster.links import code_block, plain
from lance_ops.dagster.publication import (
    build_version_events,
    existing_versions,
    last_published,
    own_versions,
    plan_publication,
    resume_after,
)
from lance_ops.dagster.resource import LanceStoreResource
from lance_ops.dagster.tables import change_table, plan_table
from lance_ops.dagster.version_event import Metadata, as_metadata
from lance_ops.errors import LanceOpsError
from lance_ops.fleet.run.noted import began_now
from lance_ops.maintenance.health.verdicts import measure_by_policy
from lance_ops.maintenance.progress import Progress, ProgressEvent
from lance_ops.maintenance.results import OperationResult
from lance_ops.maintenance.text import bytes_text, seconds_text
from lance_ops.table.dataset import Dataset

Context = dg.OpExecutionContext | dg.AssetExecutionContext

SECONDS_BETWEEN_MESSAGES = 5.0

SECONDS_BETWEEN_OBSERVATIONS = 30.0
"""Seconds between observations of a dataset during an operation."""

_MOST_LINES = 200
_OF_VERSION = frozenset(
    {keys.SUMMARY, "lance/seconds", keys.CONFLICTS, keys.CONFLICTS_MET, keys.REBASED_OVER}
)
_LEFT_OUT = frozenset({"operation", "uri", "version", "read_version", "conflicts"})


def root_of(run: dg.DagsterRun) -> str:
    """Return the id of the first run, if a run is a re-execution or a retry."""
    return run.tags.get(keys.RETRY_ROOT_TAG) or run.root_run_id or run.run_id


def parent_of(run: dg.DagsterRun) -> str | None:
    """Return the id of the run that a run re-executes or retries; or None."""
    return run.parent_run_id or run.tags.get(keys.RETRY_OF_TAG)


@dataclass(frozen=True, slots=True)
class RunNotes:
    """Notes of a run for its commits.

    Attributes:
        run_id: Id of the run.
        root_run_id: Id of the first run, if this one is a re-execution.
        parent_run_id: Id of the re-executed run, if any.
        job: Name of the job.
        step: Name of the op within its job.
        partition: Partition of the run, if it has one.
        retry_number: Number of earlier retries of the step.
    """

    run_id: str
    root_run_id: str
    job: str
    step: str
    partition: str | None
    retry_number: int
    parent_run_id: str | None = None

    @classmethod
    def of(cls, context: Context) -> "RunNotes":
        """Read them from the context of a step."""
        op = context.op_execution_context if isinstance(context, dg.AssetExecutionContext) else context
        return cls(
            run_id=op.run_id,
            root_run_id=root_of(op.run),
            job=op.run.job_name,
            step=str(op.op_handle),
            partition=op.partition_key if op.has_partition_key else None,
            retry_number=op.retry_number,
            parent_run_id=parent_of(op.run),
        )

    @property
    def properties(self) -> dict[str, str]:
        """Return transaction properties for work that starts now."""
        properties = {keys.RUN_ID: self.run_id, keys.JOB: self.job, keys.STEP: self.step, **began_now()}
        return properties if self.partition is None else {**properties, keys.PARTITION: self.partition}


def build_progress(context: Context | dg.OutputContext, ref: LanceDatasetRef) -> Progress:
    """Build a progress listener: lines in the log of the run, and occasional observations of the dataset.

    Observations have plotted numbers, and the expected end. Short operations have none.
    """
    last = ("", 0.0)
    observed = time.monotonic()

    def tell(event: ProgressEvent) -> None:
        nonlocal last, observed
        now = time.monotonic()
        finished = event.total is not None and event.done == event.total
        if event.message == last[0] and not finished and now - last[1] < SECONDS_BETWEEN_MESSAGES:
            return
        last = (event.message, now)
        line = _line(event)
        context.log.info(line)
        if event.seconds_left is not None and now - observed >= SECONDS_BETWEEN_OBSERVATIONS:
            observed = now
            context.log_event(
                dg.AssetObservation(ref.key, description=line, metadata=as_metadata(_numbers(event)))
            )

    return tell


def _line(event: ProgressEvent) -> str:
    counted = f" ({event.done:,} of {event.total:,})" if event.total else ""
    if event.bytes_done is not None and event.bytes_total:
        counted += f", {bytes_text(event.bytes_done)} of {bytes_text(event.bytes_total)}"
    if event.seconds_left is not None:
        counted += f", {seconds_text(event.seconds_left)} left"
    return f"{event.operation}: {event.message}{counted}"


def _numbers(event: ProgressEvent) -> dict[str, object]:
    left = event.seconds_left or 0.0
    return {
        keys.OPERATION: event.operation,
        keys.TASKS_DONE: event.done,
        keys.TASKS_TOTAL: event.total,
        keys.BYTES_DONE: event.bytes_done,
        keys.BYTES_TOTAL: event.bytes_total,
        keys.SECONDS_LEFT: left,
        keys.EXPECTED_END: dg.MetadataValue.timestamp(datetime.now(UTC) + timedelta(seconds=left)),
    }


def report_versions(
    context: Context, ref: LanceDatasetRef, store: LanceStoreResource, result: OperationResult
) -> None:
    """Publish the versions that this run committed, and their checks; nothing if it changed nothing.

    Versions of other writers are left to the manifest sensor, and so are those of this run after such a
    version: events stay in order. The commit is done already, so nothing is raised; the sensor publishes the
    rest.
    """
    try:
        _publish(context, ref, store, result)
    except Exception as error:  # noqa: BLE001 - see above
        context.log.warning(
            "version %d of %s is committed, but could not be reported: %s", result.version, ref.name, error
        )


def warn_of_nothing_written(
    context: Context, ref: LanceDatasetRef, store: LanceStoreResource, result: OperationResult
) -> None:
    """Warn that an operation changed nothing, and name the version with reserved fragment ids."""
    reserved = []
    try:
        opened = store.open_store(ref)
        newer = [version for version in existing_versions(opened) if version > (result.read_version or 0)]
        for version in newer[-_MOST_LINES:]:
            transaction = Dataset.open(opened, version).read_transaction()
            if transaction.properties.get(keys.RUN_ID) == RunNotes.of(context).run_id:
                reserved.append(version)
    except LanceOpsError as error:
        context.log.warning("the versions of %s could not be read: %s", ref.name, error)
    if not reserved:
        context.log.warning("nothing was written by this run")
        return
    context.log.warning(
        "no row was changed by this run; it reserved unused fragment ids in version %s",
        ", ".join(map(str, reserved)),
    )


def _publish(
    context: Context, ref: LanceDatasetRef, store: LanceStoreResource, result: OperationResult
) -> None:
    if not result.changed and not result.already_committed:
        return
    # In this order: a version in the event log is then in the listing, too.
    published = last_published(context.instance, ref.key)
    opened = store.open_store(ref)
    versions = existing_versions(opened)
    after = resume_after(published, versions[-1] if versions else 0)
    # A retried step finds the commit of the one before it: then there may be versions of this run, too.
    own, first_left = own_versions(opened, versions, after, RunNotes.of(context).run_id)
    if first_left is not None and first_left <= result.version and result.changed:
        context.log.info(
            "version %d of %s is left to the manifest sensor, which publishes version %d first",
            result.version,
            ref.name,
            first_left,
        )
    events = build_version_events(
        ref,
        opened,
        plan_publication(own, after),
        storage_options=store.options_of(ref),
        extra={result.version: _of_version(result)} if result.changed else None,
    )
    newest = None
    for newest in events:
        context.log_event(newest.materialization)
    if newest is not None:
        _log_checks(context, ref, newest.dataset)
    elif result.changed:
        _log_checks(context, ref, store.open(ref))


def report_checks(context: Context, ref: LanceDatasetRef, store: LanceStoreResource) -> None:
    """Evaluate the checks on the newest version, after an operation without a version; raises nothing."""
    try:
        _log_checks(context, ref, store.open(ref))
    except Exception as error:  # noqa: BLE001 - what was done stands
        context.log.warning("the checks on %s could not be evaluated: %s", ref.name, error)


def _log_checks(context: Context, ref: LanceDatasetRef, dataset: Dataset) -> None:
    """Report all checks on a version."""
    for outcome in evaluate_checks(ref, dataset):
        # Its annotation is narrower than what it accepts.
        context.log_event(outcome.to_evaluation(ref.key))  # type: ignore[arg-type]


def result_metadata(result: OperationResult) -> Metadata:
    """Return the numbers of a result, the costly conflicts, and the commits over which it was rebased."""
    # The page of a run truncates long values: the result comes first.
    values: dict[str, object] = {keys.SUMMARY: str(result)}
    values |= {
        f"{keys.NAMESPACE}{name}": value
        for name, value in result.to_dict().items()
        if name not in _LEFT_OUT and not isinstance(value, list)
    }
    values[keys.CONFLICTS] = len(result.lost_to)
    for key, lines in ((keys.CONFLICTS_MET, result.lost_to), (keys.REBASED_OVER, result.rebased_over)):
        if lines:
            values[key] = dg.MetadataValue.md("\n".join(f"- {plain(line)}" for line in lines))
    return as_metadata(values)


def _of_version(result: OperationResult) -> Metadata:
    """Return the part of a result for the event of a version; the page of the run has the rest."""
    return {name: value for name, value in result_metadata(result).items() if name in _OF_VERSION}


def change_metadata(ref: LanceDatasetRef, store: LanceStoreResource, result: OperationResult) -> Metadata:
    """Return the changes of an operation as a table; empty if one of the two versions cannot be read."""
    if not result.changed or result.read_version is None:
        return {}
    try:
        before, after = (
            measure_by_policy(store.open(ref, version), ref.policy, samples_indices=False)
            for version in (result.read_version, result.version)
        )
    except Exception:  # noqa: BLE001 - what was committed stands, however little can be said of it
        return {}
    return as_metadata({keys.CHANGES: change_table(before, after)})


def plan_metadata(plan: object) -> Metadata:
    """Return a dry-run plan: as a table if it has one, and as text."""
    words = dg.MetadataValue.md(code_block(shortened(str(plan))))
    return as_metadata({keys.DRY_RUN: True, keys.PLAN_TABLE: plan_table(plan), keys.PLAN: words})


def shortened(text: str) -> str:
    """Return the first lines of a text: the plan of a cleanup names every file, and Dagster keeps events."""
    lines = text.splitlines()
    if len(lines) <= _MOST_LINES:
        return text
    return "\n".join([*lines[:_MOST_LINES], f"... and {len(lines) - _MOST_LINES:,} more lines"])
