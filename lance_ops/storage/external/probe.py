"""Check that an external manifest store creates only, before the first commit of a process depends on it.

A proxy, a replica or a table without its primary key may accept two rows for one version: both writers then
believe that they have committed.
"""

import contextlib
import uuid
from functools import partial

from lance_ops.errors import AlreadyExistsError, LanceOpsError, UnsupportedError
from lance_ops.storage.conditional_put import prove_once
from lance_ops.storage.external.manifest_store import ExternalManifestStore, ManifestEntry

_FOLDER = "_lance_ops_probe"


def require_create_only(manifests: ExternalManifestStore, base: str) -> None:
    """Make sure that racing writers cannot replace each other's rows.

    Asks once in the life of the process, with a row of its own, which is deleted again.

    Args:
        manifests: The external manifest store.
        base: `base_uri` of a dataset that is about to be written.

    Raises:
        UnsupportedError: The external manifest store fails the check.
        StorageError: It could not be asked.
    """
    prove_once(manifests.server, partial(check_create_only, manifests, base))


def check_create_only(manifests: ExternalManifestStore, base: str) -> None:
    """Check an external manifest store with a row of its own.

    Args:
        manifests: The external manifest store.
        base: The row belongs to a folder below this `base_uri`.

    Raises:
        UnsupportedError: It replaces rows, or does not return what it confirmed.
        StorageError: It could not be asked.
    """
    key = f"{base}/{_FOLDER}/{uuid.uuid4().hex}" if base else f"{_FOLDER}/{uuid.uuid4().hex}"
    first, second = (ManifestEntry(1, f"{key}/{name}", 1) for name in ("first", "second"))
    problem = None
    try:
        if manifests.put_if_exists(key, first):
            problem = "it replaces a row that does not exist"
        with contextlib.suppress(AlreadyExistsError):
            # The key is new. If it is taken, the answer to the first attempt was lost and a second met it.
            manifests.put_if_not_exists(key, first)
        try:
            manifests.put_if_not_exists(key, second)
            problem = problem or "it accepts a second row for the same version"
        except AlreadyExistsError:
            pass
        found = (manifests.get(key, 1), manifests.get_latest(key))
        if problem is None and found != (first, first):
            problem = "a row that it confirmed is not the one that it returns"
    finally:
        for entry in (first, second):
            with contextlib.suppress(LanceOpsError):
                manifests.delete(key, 1, entry.path)
    if problem is not None:
        raise UnsupportedError(
            f"the external manifest store does not decide races: {problem}, so writers could lose each "
            "other's versions without any error",
            path=manifests.name,
            hint="check that it is no replica or cache, and that its primary key is base_uri and version",
        )
