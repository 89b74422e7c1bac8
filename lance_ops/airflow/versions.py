"""Versions as events: changes of a dataset since a version. Independent of Airflow."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lance_ops.errors import (
    DatasetNotFoundError,
    FormatError,
    LanceOpsError,
    UnsupportedError,
    VersionNotFoundError,
)
from lance_ops.storage import Store, open_store
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.listing import latest, list_versions, mark_of


@dataclass(frozen=True, slots=True)
class VersionEvent:
    """A committed version.

    Attributes:
        uri: The dataset.
        version: Its number; with `uri` it names the event.
        previous_version: The version before, if it was seen; None for the first.
        data_version: 32 hexadecimal digits; equal for versions that differ in layout only.
        operation: Operation that made it; "" if unknown.
        rows: Live rows.
        fragments: Fragments.
        committed_at: Time of the commit; ISO 8601.
    """

    uri: str
    version: int
    previous_version: int | None
    data_version: str
    operation: str
    rows: int
    fragments: int
    committed_at: str

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Watermark:
    """The newest reported version, and its data version."""

    version: int
    data_version: str

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return asdict(self)


def head_of(uri: str, options: Mapping[str, str]) -> Watermark | None:
    """Return the newest version; None if there is no dataset yet."""
    try:
        dataset = Dataset.open(uri, storage_options=options)
    except DatasetNotFoundError:
        return None
    return Watermark(dataset.version, dataset.data_version)


def watermark_of(uri: str, options: Mapping[str, str], version: int) -> Watermark | None:
    """Return the watermark of a version; None if there is no such version, or no longer."""
    try:
        return Watermark(version, Dataset.open(uri, version, options).data_version)
    except (DatasetNotFoundError, VersionNotFoundError):
        return None


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest version by the listing.

    Attributes:
        version: Its number; 0 when there is no dataset.
        mark: Differs if the dataset was recreated up to this number; None if the store provides none.
    """

    version: int
    mark: str | None = None


def newest_version(uri: str, options: Mapping[str, str]) -> Newest:
    """Return the newest version, with one listing."""
    store = open_store(uri, options)
    try:
        location = latest(store)
    except DatasetNotFoundError:
        return Newest(0)
    return Newest(location.version, mark_of(store, location))


def events_since(
    uri: str, options: Mapping[str, str], seen: Watermark | None, *, layout: bool = False
) -> tuple[list[VersionEvent], Watermark | None]:
    """Return the versions after a reported one, oldest first, without those removed meanwhile.

    Args:
        uri: The dataset.
        options: Of its store.
        seen: The last reported version; None without one.
        layout: Include versions without changed data: compactions, indices.

    Returns:
        The events, and the watermark to keep after they are sent.
    """
    store = open_store(uri, options)
    numbers = sorted(location.version for location in list_versions(store))
    if seen is not None and numbers and _is_recreated(store, numbers, seen, options):
        seen = None
    events: list[VersionEvent] = []
    for number in numbers:
        if seen is not None and number <= seen.version:
            continue
        try:
            dataset = Dataset.open(store, number, options)
        except VersionNotFoundError:
            continue
        data_version = dataset.data_version
        if layout or seen is None or data_version != seen.data_version:
            events.append(_event(uri, dataset, data_version, seen))
        seen = Watermark(number, data_version)
    return events, seen


def _is_recreated(store: Store, numbers: list[int], seen: Watermark, options: Mapping[str, str]) -> bool:
    """Return whether the dataset was recreated since the reported version, as far as can be known."""
    if numbers[-1] < seen.version:
        return True
    if seen.version not in numbers:
        return False
    try:
        return Dataset.open(store, seen.version, options).data_version != seen.data_version
    except (VersionNotFoundError, FormatError, UnsupportedError):
        # Removed meanwhile, or damaged: later versions are reported anyway.
        return False


def _event(uri: str, dataset: Dataset, data_version: str, seen: Watermark | None) -> VersionEvent:
    try:
        operation = dataset.read_transaction().operation.name
    except LanceOpsError:
        operation = ""
    return VersionEvent(
        uri=uri,
        version=dataset.version,
        previous_version=None if seen is None else seen.version,
        data_version=data_version,
        operation=operation,
        rows=dataset.count_rows(),
        fragments=len(dataset.fragments),
        committed_at=dataset.manifest.timestamp.isoformat(),
    )
