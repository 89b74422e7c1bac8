"""Merge of an epoch: its rows update those with the same key and insert the others, in one commit."""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql.types import StructType

from lance_ops.maintenance.ingest.operation import write_dataset
from lance_ops.maintenance.ingest.options import WriteOptions
from lance_ops.maintenance.merge_insert.clauses import OnDuplicates
from lance_ops.maintenance.merge_insert.operation import merge_changes
from lance_ops.maintenance.target import open_target
from lance_ops.spark.streaming.net_changes import net_changes
from lance_ops.spark.streaming.outbox import Outbox, discard_outboxes, discard_staged, rows_of
from lance_ops.spark.types import adapt_schema, arrow_schema
from lance_ops.table.commit.jobs.stream_epochs import Epoch, is_due, note_epoch
from lance_ops.table.dataset import Dataset


def merge_epoch(
    uri: str,
    rows: StructType,
    epoch: Epoch,
    outboxes: Sequence[Outbox],
    *,
    on: Sequence[str],
    on_duplicates: OnDuplicates,
    applies_changes: bool,
    first: int,
    options: WriteOptions,
) -> bool:
    """Merge the rows of an epoch, unless already committed.

    Args:
        uri: The dataset; it is created, in a commit of its own, if there is none.
        rows: Schema of the rows in the dataset.
        epoch: The epoch.
        outboxes: The rows.
        on: Key columns.
        on_duplicates: See `merge_insert`.
        applies_changes: The rows are those of a change feed; see `net_changes`.
        first: Number of the first epoch for this dataset.
        options: Options of a created dataset, and of the commit.

    Returns:
        True if this call committed.
    """
    store, dataset = open_target(uri, options.storage_options)
    try:
        if not is_due(dataset, epoch, first=first):
            return False
        note_epoch(store, epoch, 0 if dataset is None else dataset.version)
        if dataset is None:
            dataset = _create(uri, rows, options)
        schema = adapt_schema(arrow_schema(rows), dataset.schema)
        keys = pa.schema([schema.field(name) for name in on if name in schema.names])
        batches, gone = rows_of(store, outboxes), keys.empty_table()
        if applies_changes:
            found = list(batches)
            if not found:
                return False
            net = net_changes(pa.Table.from_batches(found), on)
            batches, gone = iter(net.rows.cast(schema).to_batches()), net.gone.cast(keys)
        result = merge_changes(
            dataset,
            pa.RecordBatchReader.from_batches(schema, batches),
            gone,
            on,
            on_duplicates=on_duplicates,
            job_key=options.job_key,
            properties=options.properties,
            committer=options.committer,
            storage_options=options.storage_options,
        )
    finally:
        # The merge writes the rows to data files itself, so that these are useless afterwards.
        discard_outboxes(store, outboxes)
        discard_staged(store, epoch)
    return result.changed and not result.already_committed


def _create(uri: str, rows: StructType, options: WriteOptions) -> Dataset:
    write_dataset(
        arrow_schema(rows, stored=True).empty_table(),
        uri,
        mode="append",
        data_storage_version=options.data_storage_version,
        enable_stable_row_ids=options.enable_stable_row_ids,
        storage_options=options.storage_options,
    )
    return Dataset.open(uri, storage_options=options.storage_options)
