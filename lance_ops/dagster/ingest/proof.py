"""Proof that an appended partition is in the dataset: a loaded partition must have its rows.

A commit in the lineage of the newest version proves that the partition was appended to this dataset and that
no restore undid it. It does not prove that the rows were not deleted; and job keys are recorded for a limited
time.
"""

from datetime import UTC, datetime

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.jobs.run_report import RunNotes, parent_of
from lance_ops.dagster.version_event import plain_metadata
from lance_ops.errors import JobUnprovenError, NotFoundError, RowsLostError
from lance_ops.maintenance.ingest.lost_rows import losses_since
from lance_ops.table.commit.jobs.job_keys import CommittedJob
from lance_ops.table.commit.jobs.job_record import KEEP_JOB_KEYS
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.file.summary import read_summary
from lance_ops.table.manifest.listing import locate

_AGAIN = "declare a partition column, so that it is replaced, or append all of it again with a rerun token"


def first_attempt(instance: dg.DagsterInstance, notes: RunNotes) -> str:
    """Return the id of the first run of this work: the first after the last success of its chain.

    Re-execution of a failed run reuses its job key; re-execution of a successful run loads the present rows
    of the source under a new key.

    Args:
        instance: Has the runs.
        notes: Notes of this run.
    """
    first, parent = notes.run_id, notes.parent_run_id
    while parent is not None:
        run = instance.get_run_by_id(parent)
        if run is None:
            return notes.root_run_id
        if run.status is dg.DagsterRunStatus.SUCCESS:
            break
        first, parent = parent, parent_of(run)
    return first


def refuse_lost(head: Dataset, done: CommittedJob, partition: str) -> None:
    """Fail if rows of a loaded partition were deleted after it was appended.

    Args:
        head: The newest version.
        done: The commit that appended it.
        partition: Its key.

    Raises:
        RowsLostError: Names the commits that deleted rows.
    """
    losses = losses_since(head, done.version)
    if losses.commits:
        raise RowsLostError(
            f"partition {partition} was appended by version {done.version}, and rows of it were or may have "
            f"been deleted since, by {'; '.join(losses.commits)}",
            path=head.uri,
            hint=_AGAIN,
        )


def doubt_about(head: Dataset, version: int) -> str:
    """Return a note about a commit if its rows may have been deleted without a record; else empty."""
    if not losses_since(head, version).unknown:
        return ""
    return "; later versions were cleaned up, so it is unknown whether rows of it were deleted since"


def refuse_forgotten(
    instance: dg.DagsterInstance, key: dg.AssetKey, partition: str, head: Dataset, data_version: str
) -> None:
    """Fail if Dagster has a record of a partition that the dataset can no longer prove.

    Args:
        instance: Has the event log.
        key: Asset of the ingest.
        partition: The partition.
        head: The newest version, which has no commit of the job in its lineage as far as is recorded.
        data_version: Data version of the partition's event, which identifies the job.

    Raises:
        JobUnprovenError: The partition was appended by a removed version, before the oldest recorded job key.
    """
    found = instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition]), limit=1
    ).records
    event = found[0].asset_materialization if found else None
    tags = dict(event.tags or {}) if event is not None else {}
    noted = plain_metadata(event.metadata) if event is not None else {}
    if keys.JOB_DIGEST in noted:
        # The events of a run of several partitions share their tags.
        tags = {
            keys.DATA_VERSION_TAG: str(noted[keys.JOB_DIGEST]),
            **{name: str(noted[name]) for name in (keys.VERSION, keys.TRANSACTION_UUID) if noted.get(name)},
        }
    if tags.get(keys.DATA_VERSION_TAG) != data_version or keys.VERSION not in tags:
        return
    version = int(tags[keys.VERSION])
    age = datetime.now(UTC) - datetime.fromtimestamp(found[0].timestamp, UTC)
    if version > head.version or (age < KEEP_JOB_KEYS and keys.TRANSACTION_UUID in tags):
        # Another dataset at the same place, or one with a complete record.
        return
    try:
        read_summary(head.store, locate(head.store, version))
    except NotFoundError:
        raise JobUnprovenError(
            f"partition {partition} was appended by version {version}, which was removed, and the record of "
            "job keys does not go back so far: it is unknown whether its rows exist",
            path=head.uri,
            hint=_AGAIN,
        ) from None


def is_of_run(head: Dataset, version: int, run_id: str) -> bool:
    """Return whether a run made a version; False if the version was removed."""
    try:
        return head.checkout_version(version).read_transaction().properties.get(keys.RUN_ID) == run_id
    except NotFoundError:
        return False
