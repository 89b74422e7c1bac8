"""Keeping job keys: before versions are removed, the record learns which jobs they did."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import partial

from lance_ops.errors import InvalidArgumentError, NotFoundError
from lance_ops.storage import Store
from lance_ops.storage.prefetch import prefetch, requests_at_once
from lance_ops.table.commit.jobs import job_record, job_segments
from lance_ops.table.commit.jobs.ancestry import Ancestry, Step, step_of
from lance_ops.table.commit.jobs.job_files import files_of_jobs
from lance_ops.table.commit.jobs.job_gathering import Limits, begin_record, gather
from lance_ops.table.commit.jobs.job_record import is_of_job
from lance_ops.table.manifest.file.read import read_manifest
from lance_ops.table.manifest.file.summary import read_summary
from lance_ops.table.manifest.listing import ManifestLocation
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.manifest.naming import is_detached

KEEP_JOB_KEYS = timedelta(days=90)
"""How long a job key is known at least, counted from its commit."""

MAX_JOB_KEYS = 100_000
"""How many keys a dataset keeps for versions that are gone; the newest ones."""


def keep_job_keys(
    store: Store,
    versions: Iterable[ManifestLocation],
    transactions: Iterable[str] = (),
    *,
    keep: timedelta | None = None,
    limit: int = MAX_JOB_KEYS,
    now: datetime | None = None,
    in_use: bool = False,
    manifest: Manifest | None = None,
) -> int:
    """Record the job keys of versions before they are removed, and put what was noted into one file.

    Reads the versions that it did not read before; a listing and the newest version, and nothing else, where
    no job key is in use.

    Args:
        store: Root of the dataset.
        versions: All versions, those included that stay.
        transactions: Names or paths of transaction files: commits from before there was a record.
        keep: How long a key is kept at least, from its commit on; `KEEP_JOB_KEYS` when None.
        limit: How many keys are kept at most.
        now: Replaces the clock in tests; aware.
        in_use: Commits of jobs are known to be among the versions.
        manifest: Of the newest version, if it was read already.

    Returns:
        How many keys are recorded now.

    Raises:
        InvalidArgumentError: The time is negative.
        CorruptManifestError: A version cannot be read.
    """
    keep = KEEP_JOB_KEYS if keep is None else keep
    if keep < timedelta(0):
        raise InvalidArgumentError("an age cannot be negative", field="keep_job_keys")
    moment = now or datetime.now(UTC)
    names = (path.rpartition("/")[2] for path in transactions)
    in_use = in_use or any(is_of_job(name.partition("-")[2]) for name in names)
    history = {location.version: location for location in versions if not is_detached(location.version)}
    if not history:
        return 0
    head = history[max(history)]
    recorded = job_record.list_record(store)
    if not any(map(job_segments.is_segment, recorded)):
        manifest = manifest or read_manifest(store, head)
        if not in_use and not files_of_jobs(manifest) and not recorded:
            return 0
        # What is known of jobs whose versions were gone before there was a record.
        begin_record(store, manifest, Ancestry(store, head, manifest))
    lineage = job_segments.read_segments(store)[2]
    wanted = [
        location
        for version, location in sorted(history.items())
        if version in (head.version, lineage.anchor) or not lineage.knows(version)
    ]

    def read(location: ManifestLocation) -> Step | None:
        try:
            return step_of(store, read_summary(store, location))
        except NotFoundError:
            # Another cleanup was faster.
            return None

    threads = requests_at_once(store)
    found = prefetch((partial(read, location) for location in wanted), threads)
    steps = [step for step in found if step is not None]
    head_file = next((step.file_name for step in steps if step.version == head.version), "")
    return gather(store, head, head_file, steps, Limits(keep, limit, moment, frozenset(history)))
