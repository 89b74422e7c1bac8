"""Head of a cleanup: a check that the newest version is sound."""

from collections.abc import Container, Iterator

from lance_ops.errors import (
    CleanupRefusedError,
    FormatError,
    LanceOpsError,
    NotFoundError,
    VersionNotFoundError,
)
from lance_ops.maintenance.fsck.findings import Severity
from lance_ops.maintenance.fsck.fragments import check_fragments
from lance_ops.maintenance.fsck.manifest import scan_problem
from lance_ops.storage import Store
from lance_ops.storage.retry import is_there, persistently
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.base_paths import DATA_DIRECTORY
from lance_ops.table.manifest.file.read import read_manifest
from lance_ops.table.manifest.fragment import SEQUENCES, ExternalFile
from lance_ops.table.manifest.listing import ManifestLocation
from lance_ops.table.manifest.model import Manifest

_HINT = "run lance-ops fsck; restore an older version that is sound, then clean up"


def check_head(store: Store, location: ManifestLocation, listed: Container[str]) -> Manifest | None:
    """Check that the newest version opens, can be scanned, and has its files.

    Args:
        store: Root of the dataset.
        location: The newest version.
        listed: Files of the dataset in a listing.

    Returns:
        Its manifest; None if it no longer exists.

    Raises:
        CleanupRefusedError: It is not sound.
    """
    try:
        manifest = persistently(lambda: read_manifest(store, location))
        dataset = Dataset(store, location, manifest)
        problem = next(
            (item.message for item in check_fragments(dataset) if item.severity is Severity.ERROR), None
        )
        if problem is not None:
            raise refusal(store, location, problem)
        damage = scan_problem(dataset)
        if damage is not None:
            raise damage
    except VersionNotFoundError:
        return None
    except (FormatError, NotFoundError) as error:
        raise refusal(store, location, error.message, error) from error
    missing = [
        path
        for path in _files(manifest)
        if path not in listed and not persistently(lambda path=path: is_there(store, path))  # type: ignore[misc]
    ]
    if missing:
        more = f" and {len(missing) - 3:,} more" if len(missing) > 3 else ""
        raise refusal(store, location, f"files are missing: {', '.join(missing[:3])}{more}")
    return manifest


def refusal(
    store: Store, location: ManifestLocation, problem: str, cause: LanceOpsError | None = None
) -> CleanupRefusedError:
    """Return the error for a newest version that is not sound."""
    return CleanupRefusedError(
        f"the newest version, {location.version}, is damaged ({problem}), and the older ones may be the "
        "last readable ones",
        path=f"{store.uri}/{location.path}",
        field=cause.field if cause is not None else None,
        hint=_HINT,
    )


def _files(manifest: Manifest) -> Iterator[str]:
    """Yield files in the dataset's own root that contain rows."""
    for fragment in manifest.fragments:
        yield from (f"{DATA_DIRECTORY}/{file.path}" for file in fragment.all_files if file.base_id is None)
        deletion = fragment.deletion_file
        if deletion is not None and deletion.base_id is None:
            yield deletion.path(fragment.id)
        sequences = (getattr(fragment, name) for name in SEQUENCES)
        yield from (sequence.path for sequence in sequences if isinstance(sequence, ExternalFile))
