"""Mapping of operation errors to Dagster: retry the step, or fail it with the reason.

| error | step |
|---|---|
| retryable conflict | again after a pause, from the new head; at last a failure that names both sides |
| any other conflict | failure that names both sides |
| the store, Spark or a task failed, or the outcome of a commit is unknown | again; at last a failure |
| a submitted program ended without a message | again under the same job key; at last a failure |
| a file or bucket is missing, a name is taken, a file is damaged, be it in a task | failure |
| the disk is full, access is refused, be it in a task | failure |
| any other error of ours: arguments, data, unsupported features | failure; trying again cannot help |
| an error of something else, such as the source of an ingest | again; at last that error |
| the run was terminated | the end: it is cancelled |

Steps have no retry policy of Dagster, which would also retry those that a user terminates: the policies of
`LanceIngest(retry_policy=)` and `build_jobs(op_retry_policy=)` are followed here.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.dataset_ref import LanceDatasetRef
from lance_ops.dagster.links import asset_link
from lance_ops.dagster.version_event import Metadata, as_metadata
from lance_ops.errors import (
    CommitConflictError,
    IncompatibleCommitConflictError,
    LanceOpsError,
    RetryableCommitConflictError,
)
from lance_ops.maintenance.fsck.remedy import hint_for
from lance_ops.maintenance.transient import may_pass, origin_of
from lance_ops.storage.retry import Backoff

TRANSIENT_RETRIES = dg.RetryPolicy(
    max_retries=2, delay=2, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS
)
"""Default retry policy of steps after transient errors."""

_LONGEST_PAUSE = 120.0


@contextmanager
def translated_errors(
    ref: LanceDatasetRef,
    *,
    retry_number: int,
    conflict_retries: int,
    pause: float,
    policy: dg.RetryPolicy | None = None,
) -> Iterator[None]:
    """Turn errors of an operation into a retry or failure of the step.

    Args:
        ref: The dataset.
        retry_number: Number of earlier retries of this step.
        conflict_retries: Maximum retries after retryable conflicts.
        pause: Seconds before the first retry, at most; it doubles with each.
        policy: For transient errors; `TRANSIENT_RETRIES` by default.
    """
    retries = policy or TRANSIENT_RETRIES
    try:
        yield
    except RetryableCommitConflictError as error:
        if retry_number < conflict_retries:
            seconds = Backoff(pause, longest=_LONGEST_PAUSE).pause(retry_number + 1)
            raise dg.RetryRequested(max_retries=conflict_retries, seconds_to_wait=seconds) from error
        raise conflict_failure(ref, error) from error
    except CommitConflictError as error:
        raise conflict_failure(ref, error) from error
    except LanceOpsError as error:
        if may_pass(error):
            _retry(error, retries, retry_number)
            raise failure(ref, error) from error
        raise failure(ref, origin_of(error)) from error
    except dg.Failure as error:
        if error.allow_retries:
            _retry(error, retries, retry_number)
        raise
    except (dg.DagsterError, dg.RetryRequested):
        raise
    except Exception as error:
        _retry(error, retries, retry_number)
        raise


def _retry(error: Exception, retries: dg.RetryPolicy, retry_number: int) -> None:
    """Request another attempt, unless it was the last one."""
    if retry_number < retries.max_retries:
        raise dg.RetryRequested(retries.max_retries, retries.calculate_delay(retry_number + 1)) from error


def conflict_failure(ref: LanceDatasetRef, error: CommitConflictError) -> dg.Failure:
    """Return the failure of a step with a commit conflict; the alert is made from its metadata."""
    metadata = {
        keys.CONFLICT_KIND: conflict_kind(error),
        keys.CONFLICT_OURS: error.ours,
        keys.CONFLICT_THEIRS: error.theirs,
        keys.CONFLICT_VERSION: error.version,
    }
    return dg.Failure(
        description=f"conflict with another writer of {ref.name}: {error}",
        metadata={**as_metadata(metadata), **_error_metadata(ref, error)},
        allow_retries=False,
    )


def failure(ref: LanceDatasetRef, error: LanceOpsError) -> dg.Failure:
    """Return the failure of a step that no retry would help."""
    return dg.Failure(
        description=f"{ref.name}: {error}", metadata=_error_metadata(ref, error), allow_retries=False
    )


def conflict_kind(error: CommitConflictError) -> str:
    """Return `retryable`, `incompatible`, or `conflict` for one that only the caller can resolve."""
    if isinstance(error, RetryableCommitConflictError):
        return "retryable"
    return "incompatible" if isinstance(error, IncompatibleCommitConflictError) else "conflict"


def _error_metadata(ref: LanceDatasetRef, error: LanceOpsError) -> Metadata:
    return as_metadata(
        {
            keys.DATASET: ref.name,
            keys.ERROR: f"{type(error).__name__}: {error.message}",
            keys.ERROR_PATH: error.path,
            keys.ERROR_FIELD: error.field,
            keys.ERROR_HINT: hint_for(error, ref.uri),
            keys.URI: ref.uri,
            keys.DATASET_PAGE: asset_link(ref.key),
        }
    )
