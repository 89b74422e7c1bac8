"""Which versions still have to become events, and the events: each version once, in order.

Two publishers share this: a run publishes everything up to the version that it committed, and the manifest
sensor publishes what others commit. Dagster's event log tells both how far the other one came. Versions below
the newest published one are never published again, whoever missed them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.dataset_ref import LanceDatasetRef
from lance_ops.dagster.version_event import VersionFacts, read_facts, version_materialization
from lance_ops.errors import LanceOpsError, VersionNotFoundError
from lance_ops.storage import Store
from lance_ops.table.dataset import Dataset
from lance_ops.table.history import read_history
from lance_ops.table.versions import list_versions

NEWEST = 20
"""Versions of a burst that get an event each; older ones share one."""

_EVENTS_SEARCHED = 100


@dataclass(frozen=True, slots=True)
class Published:
    """The newest version that the event log knows."""

    version: int
    data_version: str | None


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
    """The newest version that was published for an asset, by whomever; None when none was.

    Events without our tag, such as those reported by hand in the UI, are looked past.
    """
    found = instance.fetch_materializations(key, limit=_EVENTS_SEARCHED).records
    for record in found:
        event = record.asset_materialization
        version = (event.tags or {}).get(keys.VERSION, "") if event is not None else ""
        if event is not None and version.isascii() and version.isdigit():
            return Published(int(version), (event.tags or {}).get(keys.DATA_VERSION_TAG))
    return None


def resume_after(published: Published | None, head: int, *, seen: int | None = None) -> int:
    """Newest version that needs no event any more; 0 when all need one.

    Args:
        published: From `last_published`.
        head: Newest version of the dataset.
        seen: Version that was the newest before, if that is known. A head below it, or below what the event
            log knew before the head was looked up, means that somebody made the dataset anew.
    """
    if published is None:
        return 0
    if published.version <= head:
        return published.version
    # Unless the dataset was made anew, a run published a newer version after the head was looked up.
    return 0 if seen is None or head < seen else head


def plan_publication(versions: Sequence[int], after: int, *, newest: int = NEWEST) -> PublicationPlan:
    """Decide which versions get an event of their own.

    Args:
        versions: Versions whose manifests exist.
        after: Newest version that is published already; 0 for none.
        newest: How many of a burst get an event each.
    """
    new = sorted(version for version in versions if version > after)
    cut = max(0, len(new) - newest)
    return PublicationPlan(tuple(new[:cut]), tuple(new[cut:]))


@dataclass(frozen=True, slots=True)
class VersionEvent:
    """An event to emit, and what it says."""

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
    """Events of a plan, oldest first; versions that cleanup removes meanwhile are left out.

    Args:
        ref: The dataset.
        store: Its store.
        plan: From `plan_publication`.
        storage_options: For stores that the dataset refers to.
        extra: More metadata for some versions.

    Raises:
        LanceOpsError: A manifest cannot be read. The events before it were returned and stand.
    """
    for version in (*plan.summarised[-1:], *plan.single):
        try:
            dataset = Dataset.open(store, version, storage_options)
        except VersionNotFoundError:
            continue
        facts = read_facts(dataset)
        more = dict((extra or {}).get(version, {}))
        tags: dict[str, str] = {}
        if version in plan.summarised:
            more |= _summary(store, plan)
            tags[keys.SUMMARISED_FROM] = str(plan.summarised[0])
        event = version_materialization(ref, dataset, facts=facts, extra=more, extra_tags=tags)
        yield VersionEvent(event, dataset, facts)


def existing_versions(store: Store) -> list[int]:
    """Numbers of all versions, oldest first."""
    return [location.version for location in list_versions(store)]


def _summary(store: Store, plan: PublicationPlan) -> dict[str, object]:
    """Counts per operation of the versions that share one event."""
    first, last = plan.summarised[0], plan.summarised[-1]
    metadata: dict[str, object] = {keys.SUMMARISED_VERSIONS: len(plan.summarised)}
    try:
        history = read_history(store, limit=len(plan.versions) + 1)
    except LanceOpsError as error:
        metadata[keys.SUMMARISED_OPERATIONS] = f"versions {first} to {last}; could not be read: {error}"
        return metadata
    counts = Counter(entry.operation or "unknown" for entry in history if first <= entry.version <= last)
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
    return metadata
