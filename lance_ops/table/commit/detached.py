"""Detached commits: versions outside of the history, opened by their numbers alone.

Such a version is never the newest one, conflicts with nothing, and is not removed by our cleanup. Source:
format, "Manifest Naming Schemes"; the versions that pylance commits.
"""

import random
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial

from lance_ops.errors import InvalidArgumentError, LanceOpsError
from lance_ops.table.commit.apply import build_manifest
from lance_ops.table.commit.committer import CommitFiles, Committer, committer_for, publish
from lance_ops.table.commit.head import check_head
from lance_ops.table.commit.request import CommitResult
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.file.write import encode_manifest
from lance_ops.table.manifest.fragment_reuse.read import with_moved_coverage
from lance_ops.table.manifest.listing import (
    DETACHED_BIT,
    ManifestLocation,
    NamingScheme,
    is_detached,
    manifest_path,
)
from lance_ops.table.transaction.operations import CommittedOperation, ManifestOptions, Operation, Restore
from lance_ops.table.transaction.transaction import new_transaction

_TRIES = 8


def commit_detached(
    base: Dataset,
    operation: Operation,
    *,
    properties: Mapping[str, str] | None = None,
    committer: Committer | None = None,
) -> CommitResult:
    """Commit an operation as a version outside of the history.

    Args:
        base: The version that the operation was planned on; it may be detached itself.
        operation: What to commit. Its files must be in the store.
        properties: Properties stored with the transaction.
        committer: See `commit`.

    Raises:
        InvalidArgumentError: The operation does not fit the version.
        CommitOutcomeUnknownError: It is unknown whether the version exists. Delete nothing.
    """
    if not isinstance(operation, CommittedOperation) or isinstance(operation, Restore):
        raise InvalidArgumentError(
            f"{operation.kind} cannot be committed as a detached version", field="operation"
        )
    check_head(base.store, base.manifest, base.location)
    operation.check(base.manifest)
    current = with_moved_coverage(base.bases, base.manifest)
    # A detached version does not continue the numbering of its base: its number is random.
    if is_detached(base.version):
        current = current.replace(version=current.version & ~DETACHED_BIT)
    transaction = new_transaction(operation, base.version, properties=properties)
    manifest = build_manifest(current, transaction, ManifestOptions(datetime.now(UTC)))
    files = CommitFiles(base.store, transaction, ())
    put = partial(publish, base.store, committer or committer_for(base.store))
    try:
        files.write_transaction(transaction, manifest.transaction)
        for _ in range(_TRIES):
            version = DETACHED_BIT | random.getrandbits(63)
            location = ManifestLocation(version, manifest_path(version, NamingScheme.V2))
            numbered = manifest.replace(version=version)
            if put(location, encode_manifest(numbered), transaction):
                made = Dataset(
                    base.store, location, numbered, storage_options=base.storage_options, root=base.root
                )
                return CommitResult(made, version, transaction, attempts=1)
    except InvalidArgumentError:
        files.discard()
        raise
    raise LanceOpsError("found no free version number for a detached version", path=base.uri)
