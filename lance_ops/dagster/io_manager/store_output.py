"""Outputs: the rows of a step become one commit, with a job key of run and partition."""

import hashlib
from collections.abc import Sequence
from functools import partial
from typing import Any

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.dataset_ref import LanceDatasetRef
from lance_ops.dagster.ingest.proof import first_attempt
from lance_ops.dagster.io_manager.declaration import AssetDeclaration, partitions_predicate
from lance_ops.dagster.jobs.run_report import RunNotes, build_progress, parent_of, root_of
from lance_ops.dagster.resource import LanceStoreResource
from lance_ops.maintenance.results import AppendResult
from lance_ops.spark.row_writer import RowWrite, write_rows


def notes_of(context: dg.OutputContext) -> RunNotes:
    """Return the notes of a run for the commit of an output."""
    step = context.step_context
    run = step.dagster_run
    partitions = partitions_of(context)
    return RunNotes(
        run_id=run.run_id,
        root_run_id=root_of(run),
        job=context.job_name,
        step=context.step_key,
        partition=partitions[0] if len(partitions) == 1 else None,
        retry_number=step.previous_attempt_count,
        parent_run_id=parent_of(run),
    )


def partitions_of(context: dg.OutputContext) -> Sequence[str]:
    """Return the partitions of the asset in the run, in order; empty without partitions."""
    return list(context.asset_partition_keys) if context.has_asset_partitions else []


def store_rows(
    context: dg.OutputContext,
    declaration: AssetDeclaration,
    ref: LanceDatasetRef,
    store: LanceStoreResource,
    notes: RunNotes,
    data: Any,
) -> AppendResult:
    """Write rows as declared by the asset.

    Args:
        context: Context of the output.
        declaration: Declaration of the asset.
        ref: The dataset.
        store: Opens the dataset.
        notes: Notes of the run.
        data: Output of the step.
    """
    chosen = partitions_of(context)
    mode = declaration.effective_mode(partitioned=bool(chosen))
    predicate = None
    if mode == "replace_where":
        assert declaration.partition_expr is not None
        predicate = partial(
            partitions_predicate, context.asset_partitions_def, chosen, declaration.partition_expr
        )
    write = RowWrite(
        uri=ref.uri,
        storage_options=store.options_of(ref),
        mode=mode,
        on=declaration.on,
        predicate=predicate,
        job_key=_job_key(context, declaration, notes, chosen),
        properties={**notes.properties, keys.IO_MANAGER: context.name},
        # An empty output replaces no rows, unless the asset allows it.
        options={**({"allow_empty": False} if mode == "overwrite" else {}), **(declaration.options or {})},
    )
    return write_rows(write, data, store.build_runner, progress=build_progress(context, ref))


def _job_key(
    context: dg.OutputContext, declaration: AssetDeclaration, notes: RunNotes, partitions: Sequence[str]
) -> str:
    """Return the job key: an output of a step, for its partitions, over all attempts of the run."""
    digest = hashlib.sha256("\0".join(partitions).encode()).hexdigest()[:16] if partitions else ""
    # Re-executions of a failed run do the work of that run.
    first = first_attempt(context.step_context.instance, notes)
    return f"output|{declaration.name}|{context.step_key}|{context.name}|{digest}|{first}"
