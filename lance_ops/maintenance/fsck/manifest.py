"""Fsck of a manifest: description of a version that cannot be opened or scanned, and its repair."""

from lance_ops.errors import FormatError, InvalidArgumentError, LanceOpsError, NotFoundError, UnsupportedError
from lance_ops.storage import Store
from lance_ops.table.commit.damaged_head import newest_sound_version
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.listing import ManifestLocation, latest, locate


def location_of(store: Store, version: int | str | None) -> ManifestLocation | None:
    """Return the location of the manifest of a version; None for a tag."""
    if isinstance(version, str):
        return None
    return latest(store) if version is None else locate(store, version)


def describe_damage(store: Store, location: ManifestLocation, error: LanceOpsError) -> str:
    """Describe a version that cannot be opened, and name a sound one."""
    field = f" ({error.field})" if error.field else ""
    what = f"cannot open version {location.version}: {error.message}{field}"
    if latest(store).version != location.version:
        return what
    sound = newest_sound_version(store, location.version)
    if sound is None:
        return f"{what}; no older version opens either"
    return f"{what}; version {sound.version} opens, and restore makes it the newest one"


def scan_problem(dataset: Dataset) -> FormatError | None:
    """Return why rows cannot be read although the manifest opens; None if nothing is known."""
    try:
        # Plans only; no row is read.
        dataset.scanner()
    except FormatError as error:
        return error
    except (UnsupportedError, InvalidArgumentError, NotFoundError):
        # Unsupported rows or missing files are reported by other checks one by one.
        return None
    return None
