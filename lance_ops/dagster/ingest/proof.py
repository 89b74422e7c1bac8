"""Whether a partition that was appended is in the dataset: green must mean that its rows are there.

A commit in the lineage of the newest version proves that the partition was appended to this dataset and that
no restore undid it. It does not prove that nobody deleted the rows; and no record goes back for ever.
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
    """Id of the run that began this piece of work: the first one after the last of its chain that succeeded.

    Who executes a run again that failed or died wants its work done; who executes one again that succeeded
    wants what the source gives by now.

    Args:
        instance: With the runs.
        notes: Of this run.
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
    """Refuse to call a partition loaded whose rows were deleted after they were appended.

    Args:
        head: The newest version.
        done: The commit that appended it.
        partition: Its key.

    Raises:
        RowsLostError: Names the commits that took rows.
    """
    losses = losses_since(head, done.version)
    if losses.commits:
        raise RowsLostError(
            f"partition {partition} was appended by version {done.version}, and rows of it were deleted "
            f"since, or may have been, by {'; '.join(losses.commits)}",
            path=head.uri,
            hint=_AGAIN,
        )


def doubt_about(head: Dataset, version: int) -> str:
    """What to add about a commit that was found: nothing, unless its rows may be gone without a trace."""
    if not losses_since(head, version).unknown:
        return ""
    return "; cleaned-up versions came after it, so whether rows of it were deleted since cannot be told"


def refuse_forgotten(
    instance: dg.DagsterInstance, key: dg.AssetKey, partition: str, head: Dataset, data_version: str
) -> None:
    """Refuse to append a partition of which Dagster knows more than the dataset can tell.

    Args:
        instance: With the event log.
        key: Asset of the ingest.
        partition: The partition.
        head: The newest version, which has no commit of the job in its lineage as far as is recorded.
        data_version: Of the partition's event, which names the job.

    Raises:
        JobUnprovenError: The partition was appended by a version that is gone, longer ago than job keys are
            kept for certain.
    """
    found = instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition]), limit=1
    ).records
    event = found[0].asset_materialization if found else None
    tags = dict(event.tags or {}) if event is not None else {}
    noted = plain_metadata(event.metadata) if event is not None else {}
    if keys.JOB_DIGEST in noted:
        # A run of several partitions, whose events share their tags.
        tags = {
            keys.DATA_VERSION_TAG: str(noted[keys.JOB_DIGEST]),
            **{name: str(noted[name]) for name in (keys.VERSION, keys.TRANSACTION_UUID) if noted.get(name)},
        }
    if tags.get(keys.DATA_VERSION_TAG) != data_version or keys.VERSION not in tags:
        return
    version = int(tags[keys.VERSION])
    age = datetime.now(UTC) - datetime.fromtimestamp(found[0].timestamp, UTC)
    if version > head.version or (age < KEEP_JOB_KEYS and keys.TRANSACTION_UUID in tags):
        # Another dataset at the same place, or one that would know.
        return
    try:
        read_summary(head.store, locate(head.store, version))
    except NotFoundError:
        raise JobUnprovenError(
            f"partition {partition} was appended by version {version}, which is gone, and the record of job "
            f"keys does not go back so far: nobody can tell whether its rows are there",
            path=head.uri,
            hint=_AGAIN,
        ) from None


def is_of_run(head: Dataset, version: int, run_id: str) -> bool:
    """Whether a run made a version; False when the version is gone."""
    try:
        return head.checkout_version(version).read_transaction().properties.get(keys.RUN_ID) == run_id
    except NotFoundError:
        return False
