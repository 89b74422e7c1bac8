"""Check `downstream_computed`: the downstream jobs of a dataset have read its newest data.

The manifest sensor, which knows its requests, reports it. It fails when a job was given up, so that one alert
stays open until the job has succeeded, and it does not pass while a job still has to read a change: Dagster
drops the result with each new version.
"""

from collections.abc import Mapping

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.attempts import Outlook
from lance_ops.dagster.checks.records import latest_records
from lance_ops.dagster.dataset_ref import LanceDatasetRef
from lance_ops.dagster.place import CodePlace, job_command
from lance_ops.dagster.version_event import as_metadata
from lance_ops.maintenance.text import count_text


def downstream_spec(ref: LanceDatasetRef) -> dg.AssetCheckSpec:
    """Return the check spec for Dagster."""
    return dg.AssetCheckSpec(
        name=keys.DOWNSTREAM_COMPUTED,
        asset=ref.key,
        description="Every downstream job has read the newest data. Reported by the manifest sensor.",
    )


def downstream_verdict(
    ref: LanceDatasetRef, since: int, given_up: Mapping[str, Outlook], place: CodePlace | None
) -> dg.AssetCheckEvaluation:
    """Return the result for a version of the data.

    Args:
        ref: The dataset.
        since: First version with the data.
        given_up: Jobs whose runs failed too often, with what is known of these.
        place: Where the jobs are defined, as far as that is known.
    """
    metadata: dict[str, object] = {keys.VERSION: since}
    text = f"the downstream jobs have read version {since} or a newer one"
    if given_up:
        failed = "; ".join(
            f"{name} has not read version {since}: {count_text(item.failed, 'run')} failed, the last one is "
            f"{item.last}"
            for name, item in given_up.items()
        )
        commands = "; ".join(job_command(place, name) for name in given_up)
        text = f"{failed}. No more runs are started for it"
        metadata[keys.ERROR_HINT] = f"fix the cause, then start it again: {commands}"
    return dg.AssetCheckEvaluation(
        asset_key=ref.key,
        check_name=keys.DOWNSTREAM_COMPUTED,
        passed=not given_up,
        severity=dg.AssetCheckSeverity.ERROR,
        description=text,
        metadata=as_metadata(metadata),
    )


def last_verdict(instance: dg.DagsterInstance, ref: LanceDatasetRef) -> dg.AssetCheckResult:
    """Return the newest result of the sensor, for a step that has to evaluate the check."""
    record = latest_records(instance, [ref])[ref.name].get(keys.DOWNSTREAM_COMPUTED)
    if record is None:
        return dg.AssetCheckResult(
            asset_key=ref.key,
            check_name=keys.DOWNSTREAM_COMPUTED,
            passed=False,
            severity=dg.AssetCheckSeverity.WARN,
            description="not evaluated yet: the manifest sensor reports it after the downstream jobs",
            metadata={keys.NOT_EVALUATED: True},
        )
    known = record.evaluation
    return dg.AssetCheckResult(
        asset_key=ref.key,
        check_name=keys.DOWNSTREAM_COMPUTED,
        passed=known.passed,
        severity=known.severity,
        description=known.description,
        metadata=known.metadata,
    )
