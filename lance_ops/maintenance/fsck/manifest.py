"""Fsck of a manifest: what is said of a version that cannot be opened or scanned, and how to go on."""

from lance_ops.errors import FormatError, InvalidArgumentError, LanceOpsError, NotFoundError, UnsupportedError
from lance_ops.storage import Store
from lance_ops.table.commit.damaged_head import newest_sound_version
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.listing import ManifestLocation, latest, locate


def location_of(store: Store, version: int | str | None) -> ManifestLocation | None:
    """Where the manifest of a version lies; None when it is named by a tag."""
    if isinstance(version, str):
        return None
    return latest(store) if version is None else locate(store, version)


def describe_damage(store: Store, location: ManifestLocation, error: LanceOpsError) -> str:
    """What is wrong with a version that cannot be opened, and which one would do instead."""
    field = f" ({error.field})" if error.field else ""
    what = f"version {location.version} cannot be opened: {error.message}{field}"
    if latest(store).version != location.version:
        return what
    sound = newest_sound_version(store, location.version)
    if sound is None:
        return f"{what}; no older version opens either"
    return f"{what}; version {sound.version} opens, and restore makes it the newest one"


def scan_problem(dataset: Dataset) -> FormatError | None:
    """Why rows cannot be read although the manifest opens; None when nothing is known against it."""
    try:
        # Plans only; no row is read.
        dataset.scanner()
    except FormatError as error:
        return error
    except (UnsupportedError, InvalidArgumentError, NotFoundError):
        # Rows cannot be read here, or files are missing, which other checks tell one by one.
        return None
    return None
