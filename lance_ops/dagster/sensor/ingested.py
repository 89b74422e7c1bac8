"""Checks `partitions_loaded` of ingests, as the manifest sensor reports them."""

from collections.abc import Collection, Sequence

import dagster as dg

from lance_ops.dagster.dataset_ref import LanceDatasetRef
from lance_ops.dagster.ingest.loaded import last_passed, look_at_partitions
from lance_ops.dagster.ingest.spec import LanceIngest
from lance_ops.dagster.place import CodePlace
from lance_ops.dagster.publication import VersionEvent
from lance_ops.dagster.registry import REGISTRY
from lance_ops.dagster.resource import LanceStoreResource
from lance_ops.dagster.sensor.cursor import DatasetCursor
from lance_ops.dagster.sensor.survey import Survey
from lance_ops.errors import DatasetNotFoundError, LanceOpsError

_TAKING = frozenset({"Restore", "Overwrite"})
_SECONDS = 5.0


def ingests_into(names: Collection[str]) -> list[LanceIngest]:
    """Return the declared ingests into some datasets."""
    return [ingest for ingest in REGISTRY.ingests.values() if ingest.ref.name in names]


def takes_partitions(survey: Survey, dealt: Sequence[VersionEvent], before: DatasetCursor) -> bool:
    """Return whether partitions may be missing: the dataset was restored, recreated or removed.

    Args:
        survey: Result of the tick.
        dealt: The new versions.
        before: Previous state of the dataset.
    """
    gone = isinstance(survey.error, DatasetNotFoundError) and before.version is not None
    return (
        survey.of_another is not None
        or (gone and before.problem is None)
        or (before.version is not None and any(event.facts.operation in _TAKING for event in dealt))
    )


def partition_verdicts(
    ref: LanceDatasetRef,
    instance: dg.DagsterInstance,
    store: LanceStoreResource,
    place: CodePlace | None,
    *,
    only_failed: bool = False,
) -> list[dg.AssetCheckEvaluation]:
    """Return `partitions_loaded` of the ingests into a dataset.

    Args:
        ref: The dataset.
        instance: With the event log.
        store: How it is reached.
        place: Where the ingests are defined, as far as that is known.
        only_failed: Leave out those whose newest verdict passed.
    """
    found: list[dg.AssetCheckEvaluation] = []
    for ingest in ingests_into({ref.name}):
        if ingest.partitions is None or (only_failed and last_passed(instance, ingest)):
            continue
        try:
            loaded = look_at_partitions(instance, ingest, store, seconds=_SECONDS)
        except LanceOpsError:
            continue  # The dataset cannot be read, and its own checks say so.
        found.append(loaded.evaluation(ingest, place))
    return found
