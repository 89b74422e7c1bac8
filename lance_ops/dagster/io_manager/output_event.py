"""Metadata of Dagster's event for a materialization: the committed version.

It is the event of the version if all earlier versions have events. If one of another writer is missing, the
version is left to the manifest sensor, so that events stay in order; then Dagster's event names the version,
and is ignored when the position in the log is determined.
"""

from dataclasses import dataclass

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.dataset_ref import LanceDatasetRef
from lance_ops.dagster.jobs.run_report import RunNotes, result_metadata
from lance_ops.dagster.publication import (
    build_version_events,
    existing_versions,
    last_published,
    own_versions,
    plan_publication,
    resume_after,
)
from lance_ops.dagster.resource import LanceStoreResource
from lance_ops.dagster.version_event import Metadata, as_metadata
from lance_ops.maintenance.results import AppendResult


@dataclass(frozen=True, slots=True)
class DescribedOutput:
    """Contents of the event of an output.

    Attributes:
        metadata: Its metadata.
        data_version: Data version of the dataset; None if unknown.
    """

    metadata: Metadata
    data_version: str | None


def describe_output(
    context: dg.OutputContext,
    ref: LanceDatasetRef,
    store: LanceStoreResource,
    notes: RunNotes,
    result: AppendResult,
) -> DescribedOutput:
    """Describe a commit for Dagster. The commit is done already, so nothing is raised."""
    metadata = result_metadata(result) | as_metadata(
        {keys.WRITTEN_VERSION: result.version, keys.URI: ref.uri}
    )
    if not (result.already_committed or result.changed):
        context.log.warning("nothing was written to %s: the step returned no rows", ref.name)
    if context.has_asset_partitions and not result.already_committed:
        metadata |= as_metadata({keys.PARTITION_ROW_COUNT: result.rows_added})
    try:
        return _described(context, ref, store, notes, result, metadata)
    except Exception as error:  # noqa: BLE001 - see above
        context.log.warning(
            "version %d of %s is committed, but could not be described: %s", result.version, ref.name, error
        )
        return DescribedOutput(metadata, None)


def _described(
    context: dg.OutputContext,
    ref: LanceDatasetRef,
    store: LanceStoreResource,
    notes: RunNotes,
    result: AppendResult,
    metadata: Metadata,
) -> DescribedOutput:
    if not context.has_asset_key:
        return DescribedOutput(metadata, store.open(ref, result.version).data_version)
    # In this order: a version in the event log is then in the listing, too.
    published = last_published(context.step_context.instance, ref.key)
    opened = store.open_store(ref)
    versions = existing_versions(opened)
    after = resume_after(published, versions[-1] if versions else 0)
    own, first_left = own_versions(opened, versions, after, notes.run_id)
    if result.version not in own:
        if first_left is not None and first_left <= result.version and result.changed:
            context.log.info(
                "version %d of %s is left to the manifest sensor, which publishes version %d first",
                result.version,
                ref.name,
                first_left,
            )
        return DescribedOutput(metadata, store.open(ref).data_version)
    events = list(
        build_version_events(
            ref,
            opened,
            plan_publication([version for version in own if version <= result.version], after),
            storage_options=store.options_of(ref),
        )
    )
    for event in events[:-1]:
        context.log_event(event.materialization)
    last = events[-1]
    noted = {keys.PUBLISHED_VERSION: result.version, keys.TRANSACTION_UUID: last.facts.transaction_uuid}
    return DescribedOutput(
        {**last.materialization.metadata, **metadata, **as_metadata(noted)}, last.facts.data_version
    )
