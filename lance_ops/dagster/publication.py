"""Publication of versions as events: each version once, in order.

Two publishers share this, and Dagster's event log, their common record, has no compare-and-append. So each
version has one publisher at a time:

- A run publishes the versions that it committed itself, for a minute after the commit, and only when every
  version below is published. With a version of another writer in between it leaves its own to the sensor.
- The manifest sensor publishes the versions of all others at once, and those of a run when that is
  finished, or when the commit is older than the grace, which is longer than that minute.

The versions that the sensor is about to store are above the newest event, so no run publishes above it
meanwhile; and they include no version that its run may still publish.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.dataset_ref import LanceDatasetRef
from lance_ops.dagster.version_event import (
    VersionFacts,
    plain_metadata,
    read_facts,
    version_materialization,
)
from lance_ops.errors import (
    FormatError,
    LanceOpsError,
    NotFoundError,
    UnsupportedError,
    VersionNotFoundError,
)
from lance_ops.storage import Store
from lance_ops.table.dataset import Dataset
from lance_ops.table.history.history import HistoryEntry, read_history
from lance_ops.table.manifest.file.summary import read_summary
from lance_ops.table.manifest.listing import list_versions, locate

NEWEST = 20
"""Versions of a burst with their own events; older ones share one."""

MOST_READ = 1000
"""Versions of a burst whose transactions are read to count operations: bounds the time of a tick."""

RUN_PUBLISHES_WITHIN = timedelta(minutes=1)
"""Time after its commit in which a version is published by its run; later by the sensor."""

_EVENTS_SEARCHED = 100
_DOES_NOT_OPEN = (FormatError, UnsupportedError)
_MOST_DAMAGED = 20


@dataclass(frozen=True, slots=True)
class Published:
    """The newest published version.

    Attributes:
        version: Its number.
        data_version: Its data version, if the event has it.
        transaction_uuid: Its transaction, if the event has it: numbers recur in a recreated dataset.
    """

    version: int
    data_version: str | None
    transaction_uuid: str | None = None


@dataclass(frozen=True, slots=True)
class PublicationPlan:
    """Versions to publish, in order.

    Attributes:
        summarised: Older versions of a burst: one event for all, at the last of them.
        single: Versions with an event each.
    """

    summarised: tuple[int, ...]
    single: tuple[int, ...]

    @property
    def versions(self) -> tuple[int, ...]:
        """All of them."""
        return self.summarised + self.single


def last_published(instance: dg.DagsterInstance, key: dg.AssetKey) -> Published | None:
    """Return the newest published version of an asset, by any publisher; None without one.

    Events without our tag, such as those reported manually in the UI, are skipped.
    """
    found = instance.fetch_materializations(key, limit=_EVENTS_SEARCHED).records
    events = (_published(record.asset_materialization) for record in found)
    return next((published for published in events if published is not None), None)


def last_published_of_all(
    instance: dg.DagsterInstance, refs: Sequence[LanceDatasetRef]
) -> dict[str, Published | None]:
    """Return `last_published` for many datasets by name, with one query of the event log."""
    records = instance.get_asset_records([ref.key for ref in refs])
    newest = {record.asset_entry.asset_key: record.asset_entry.last_materialization for record in records}
    found: dict[str, Published | None] = {}
    for ref in refs:
        entry = newest.get(ref.key)
        published = None if entry is None else _published(entry.asset_materialization)
        # A manually reported event has no version: then the earlier events count.
        found[ref.name] = last_published(instance, ref.key) if entry and published is None else published
    return found


def _published(event: dg.AssetMaterialization | None) -> Published | None:
    if event is None:
        return None
    # An IO manager adds metadata to Dagster's event, and cannot tag it.
    noted = plain_metadata(event.metadata) if keys.PUBLISHED_VERSION in event.metadata else {}
    tags = dict(event.tags or {})
    version = str(noted.get(keys.PUBLISHED_VERSION, tags.get(keys.VERSION, "")))
    if not (version.isascii() and version.isdigit()):
        return None
    uuid = noted.get(keys.TRANSACTION_UUID, tags.get(keys.TRANSACTION_UUID))
    return Published(int(version), tags.get(keys.DATA_VERSION_TAG), None if uuid is None else str(uuid))


def now_utc() -> datetime:
    """Return the time for ages of versions."""
    return datetime.now(UTC)


def resume_after(published: Published | None, head: int, *, seen: int | None = None) -> int:
    """Return the newest version that needs no event any more; 0 if all need one.

    Args:
        published: From `last_published`.
        head: Newest version of the dataset.
        seen: Newest version of an earlier tick, if known. A head below it, or below the newest event before
            the head was read, means that the dataset was recreated.
    """
    if published is None:
        return 0
    if published.version <= head:
        return published.version
    # Unless the dataset was recreated, a run published a newer version after the head was read.
    return 0 if seen is None or head < seen else head


def plan_publication(versions: Sequence[int], after: int, *, newest: int = NEWEST) -> PublicationPlan:
    """Decide which versions get their own events.

    Args:
        versions: Versions whose manifests exist.
        after: Newest published version; 0 for none.
        newest: Number of versions of a burst with their own events.
    """
    new = sorted(version for version in versions if version > after)
    cut = max(0, len(new) - newest)
    return PublicationPlan(tuple(new[:cut]), tuple(new[cut:]))


@dataclass(frozen=True, slots=True)
class VersionEvent:
    """An event to emit, and its contents."""

    materialization: dg.AssetMaterialization
    dataset: Dataset
    facts: VersionFacts


def build_version_events(
    ref: LanceDatasetRef,
    store: Store,
    plan: PublicationPlan,
    *,
    storage_options: Mapping[str, str] | None = None,
    extra: Mapping[int, Mapping[str, object]] | None = None,
) -> Iterator[VersionEvent]:
    """Build the events of a plan, oldest first; versions removed by cleanup meanwhile are omitted.

    An unreadable version has no event either: the next one names it, so that later versions can still be
    published.

    Args:
        ref: The dataset.
        store: Its store.
        plan: Result of `plan_publication`.
        storage_options: For other stores of the dataset.
        extra: More metadata for some versions.

    Raises:
        LanceOpsError: The newest manifest cannot be read, or a store fails. Earlier events were returned and
            remain valid.
    """
    damaged: dict[int, str] = {}
    summed_up = False
    last_shared, last = max(plan.summarised, default=0), plan.versions[-1] if plan.versions else 0
    for version in (*reversed(plan.summarised), *plan.single):
        shared = version <= last_shared
        if shared and summed_up:
            continue
        try:
            dataset = Dataset.open(store, version, storage_options)
        except VersionNotFoundError:
            summed_up |= shared  # so are those below it: cleanup starts with the oldest
            continue
        except _DOES_NOT_OPEN as error:
            if version == last:
                raise
            damaged[version] = str(error)
            continue
        facts = read_facts(dataset)
        more = dict((extra or {}).get(version, {}))
        tags: dict[str, str] = {}
        if shared:
            summed_up = True
            more |= _summary(store, plan, damaged)
            tags[keys.SUMMARISED_FROM] = str(plan.summarised[0])
        if damaged:
            more[keys.DAMAGED_VERSIONS] = _damage_text(damaged)
            damaged = {}
        event = version_materialization(
            ref, dataset, facts=facts, extra=more, extra_tags=tags, newest=version == last
        )
        yield VersionEvent(event, dataset, facts)


def is_of_another_dataset(store: Store, published: Published | None) -> bool:
    """Return whether the newest event is of an earlier dataset at the same place, as far as known."""
    if published is None or published.transaction_uuid is None:
        return False
    try:
        summary = read_summary(store, locate(store, published.version))
    except (NotFoundError, *_DOES_NOT_OPEN):
        return False
    uuid = summary.transaction_file.partition("-")[2].removesuffix(".txn")
    return bool(uuid) and uuid != published.transaction_uuid


def own_versions(
    store: Store, versions: Sequence[int], after: int, run_id: str
) -> tuple[list[int], int | None]:
    """Return the versions that a run may publish: its own, up to the first one of another publisher.

    Args:
        store: Root of the dataset.
        versions: Versions whose manifests exist.
        after: Newest published version; 0 for none.
        run_id: The run.

    Returns:
        Their numbers, oldest first, and the version at which they stop, if any.
    """
    own: list[int] = []
    for version in sorted(version for version in versions if version > after):
        try:
            facts = read_facts(Dataset.open(store, version))
        except VersionNotFoundError:
            continue
        except _DOES_NOT_OPEN:
            return own, version
        if facts.run_id != run_id or now_utc() - facts.committed_at >= RUN_PUBLISHES_WITHIN:
            return own, version
        own.append(version)
    return own, None


def existing_versions(store: Store) -> list[int]:
    """Return the numbers of all versions, oldest first."""
    return [location.version for location in list_versions(store)]


def _summary(store: Store, plan: PublicationPlan, damaged: dict[int, str]) -> dict[str, object]:
    """Return counts per operation of the versions that share one event.

    Args:
        store: Root of the dataset.
        plan: Has the versions.
        damaged: Errors of unreadable versions; updated in place.
    """
    first, last = plan.summarised[0], plan.summarised[-1]
    metadata: dict[str, object] = {keys.SUMMARISED_VERSIONS: len(plan.summarised)}
    try:
        history = read_history(store, limit=min(len(plan.versions) + 1, MOST_READ))
    except LanceOpsError as error:
        metadata[keys.SUMMARISED_OPERATIONS] = f"versions {first} to {last}; could not be read: {error}"
        return metadata
    shared = [entry for entry in history if first <= entry.version <= last]
    counts = Counter(_operation(entry) for entry in shared)
    if len(history) >= MOST_READ:
        unread = bisect_left(plan.summarised, history[-1].version)
        counts |= {f"not read: versions {first} to {history[-1].version - 1}": unread} if unread else {}
    metadata[keys.SUMMARISED_OPERATIONS] = dg.MetadataValue.table(
        records=[
            dg.TableRecord({"operation": name, "versions": count}) for name, count in counts.most_common()
        ],
        schema=dg.TableSchema(
            columns=[
                dg.TableColumn("operation", "string"),
                dg.TableColumn("versions", "int"),
            ]
        ),
    )
    damaged |= {entry.version: entry.damage for entry in shared if entry.damage}
    return metadata


def _operation(entry: HistoryEntry) -> str:
    """Return the operation for a row of the summary."""
    if entry.damage:
        return "could not be read"
    return entry.operation or "unknown"


def _damage_text(damaged: Mapping[int, str]) -> str:
    """Return a line for each unreadable version, oldest first; long lists are truncated."""
    lines = [f"{version}: {why}" for version, why in sorted(damaged.items())]
    left = len(lines) - _MOST_DAMAGED
    return "\n".join([*lines[:_MOST_DAMAGED], *([f"and {left:,} more"] if left > 0 else [])])
