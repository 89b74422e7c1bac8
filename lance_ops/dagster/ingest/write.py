"""Writing of the rows of a source for a partition: in the step's process, or by a submitted program."""

from functools import partial

import dagster as dg

from lance_ops.dagster.ingest.partition_predicate import partition_rules, time_window_of
from lance_ops.dagster.ingest.spec import IngestRequest, LanceIngest
from lance_ops.dagster.jobs.run_report import RunNotes, build_progress
from lance_ops.dagster.resource import LanceStoreResource
from lance_ops.dagster.submit.operation import submit_operation
from lance_ops.errors import InvalidArgumentError, ProgramLostError
from lance_ops.maintenance.ingest.partition_rows import PartitionRule, rows_of_partition
from lance_ops.maintenance.results import AppendResult
from lance_ops.spark.row_writer import RowWrite, write_rows
from lance_ops.spark.submitted.ingest import INGEST, ingest_arguments
from lance_ops.spark.submitted.request import Request, import_named


def write_partition(
    context: dg.AssetExecutionContext,
    ingest: LanceIngest,
    store: LanceStoreResource,
    notes: RunNotes,
    job_key: str,
) -> AppendResult:
    """Load a partition, or everything without partitions, in one commit.

    Args:
        context: Context of the step.
        ingest: What to load.
        store: Opens the dataset and runs tasks.
        notes: Notes of the run, with the partition.
        job_key: Key of the commit.

    Raises:
        InvalidArgumentError: The source is a function without a name for the submitted program.
    """
    window = time_window_of(ingest.partitions, str(notes.partition))
    request = IngestRequest(notes.partition, window, store)
    predicate = _predicate(ingest, request)
    options = {
        "allow_empty": ingest.allow_empty,
        "max_rows_per_file": ingest.max_rows_per_file,
        "data_storage_version": ingest.data_storage_version,
        "fill_missing": ingest.fill_missing,
    }
    progress = build_progress(context, ingest.ref)
    if store.submits:
        if not isinstance(ingest.source, str):
            raise InvalidArgumentError(
                f"{ingest.asset_name}: a function cannot be passed to a submitted program",
                field="source",
                hint="pass its name: 'module:function', importable where the driver runs",
            )
        arguments = ingest_arguments(
            ingest.source,
            partition_key=request.partition_key,
            window=None if window is None else (window.start, window.end),
            wall_clock_window=request.wall_clock_window,
            mode=ingest.effective_mode,
            on=ingest.on,
            predicate=predicate,
            options=options,
        )
        done = submit_operation(
            store.submit_client(),
            context,
            Request(INGEST, ingest.ref.uri, arguments, job_key, notes.properties),
            store.submitted_options(ingest.ref),
            progress,
        )
        if not isinstance(done, AppendResult):
            raise ProgramLostError(
                f"the program returned a {type(done).__name__} instead of an ingest result",
                path=ingest.ref.uri,
            )
        return done
    source = import_named(ingest.source, field="source") if isinstance(ingest.source, str) else ingest.source
    write = RowWrite(
        uri=ingest.ref.uri,
        storage_options=store.options_of(ingest.ref),
        mode=ingest.effective_mode,
        on=tuple(ingest.on),
        predicate=partial(rows_of_partition, predicate) if isinstance(predicate, list) else predicate,
        job_key=job_key,
        properties=notes.properties,
        options=options,
    )
    return write_rows(write, source(request), store.build_runner, progress=progress)


def _predicate(ingest: LanceIngest, request: IngestRequest) -> str | list[PartitionRule] | None:
    """Return the rows to replace, as a predicate or partition rules; None for an append."""
    if ingest.effective_mode != "replace_where":
        return None
    if ingest.replace_where is not None:
        return ingest.replace_where(request)
    assert ingest.partitions is not None
    assert ingest.partition_column is not None
    return partition_rules(ingest.partitions, str(request.partition_key), ingest.partition_column)
