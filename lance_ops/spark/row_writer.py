"""Row writer: rows of a source become one commit in a declared mode, by threads or by Spark.

Ingests of schedulers, IO managers and programs submitted to a cluster write through it. Spark is imported
only for a DataFrame.
"""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from lance_ops.errors import DatasetExistsError
from lance_ops.maintenance.ingest.operation import write_dataset
from lance_ops.maintenance.merge_insert.operation import merge_insert
from lance_ops.maintenance.progress import Progress
from lance_ops.maintenance.results import AppendResult
from lance_ops.maintenance.runner import Runner
from lance_ops.maintenance.sources.file_source import check_types_known
from lance_ops.maintenance.sources.open import open_source
from lance_ops.maintenance.sources.source import StreamSource, unify_schemas
from lance_ops.maintenance.target import open_latest_if_any

RowMode = Literal["append", "overwrite", "replace_where", "merge"]


@dataclass(frozen=True, slots=True)
class RowWrite:
    """Options of a write.

    Attributes:
        uri: The dataset; it is created if there is none.
        storage_options: Options of its store.
        mode: "merge" updates and inserts rows by their key; the others as in `write_dataset`.
        job_key: Job key of the commit.
        properties: Properties of the transaction.
        on: Key columns of a merge; if empty, the primary key of the schema.
        predicate: Rows that "replace_where" replaces.
        options: More arguments of `write_dataset`.
    """

    uri: str
    storage_options: Mapping[str, str]
    mode: RowMode
    job_key: str
    properties: Mapping[str, str]
    on: tuple[str, ...] = ()
    predicate: str | Callable[[pa.Schema], str] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def write_rows(
    write: RowWrite, data: Any, runner: Callable[[], Runner], *, progress: Progress
) -> AppendResult:
    """Write rows in one commit.

    Args:
        write: Options of the write.
        data: A Spark DataFrame, or data for `write_dataset`.
        runner: Returns the runner of tasks, if one is needed.
        progress: Receives progress events.
    """
    common: dict[str, Any] = {
        "job_key": write.job_key,
        "properties": write.properties,
        "progress": progress,
        "storage_options": write.storage_options,
    }
    if write.mode == "merge":
        if open_latest_if_any(write.uri, common["storage_options"]) is None:
            data = _create(write, data, common)
        return _merge(write, data, runner, common)
    options: dict[str, Any] = {"mode": write.mode, "predicate": write.predicate, **write.options, **common}
    if is_dataframe(data):
        from lance_ops.spark.writing.dataframe import append_dataframe

        return append_dataframe(data, write.uri, **options)
    done: AppendResult = write_dataset(data, write.uri, runner=runner(), **options)
    return done


def _create(write: RowWrite, data: Any, common: Mapping[str, Any]) -> Any:
    """Create a dataset without rows, for the first merge: concurrent merges find it, too.

    Returns:
        The rows; only their schema was read.
    """
    if is_dataframe(data):
        from lance_ops.spark.types import arrow_schema

        schema = arrow_schema(data.schema)
    else:
        data = source = open_source(data)
        parts = source.read_schemas()
        schema = unify_schemas(parts) if len(parts) > 1 else parts[0][1]
        check_types_known(schema, parts)
        if isinstance(source, StreamSource):
            data = pa.RecordBatchReader.from_batches(schema, source.batches())
    chosen: dict[str, Any] = {
        name: write.options[name]
        for name in ("max_rows_per_file", "data_storage_version")
        if name in write.options
    }
    # Another run may create it at the same time.
    with contextlib.suppress(DatasetExistsError):
        write_dataset(
            schema.empty_table(),
            write.uri,
            mode="create",
            properties=common["properties"],
            storage_options=common["storage_options"],
            **chosen,
        )
    return data


def _merge(
    write: RowWrite, data: Any, runner: Callable[[], Runner], common: Mapping[str, Any]
) -> AppendResult:
    """Update and insert rows by their key."""
    options: dict[str, Any] = {
        "when_matched": "update_all",
        "when_not_matched": "insert_all",
        "runner": runner(),
        **common,
    }
    key = list(write.on) or None
    if is_dataframe(data):
        from lance_ops.spark.merge import merge_dataframe

        done = merge_dataframe(data, write.uri, key, **options)
    else:
        done = merge_insert(write.uri, data, key, **options)
    return AppendResult(
        uri=done.uri,
        read_version=done.read_version,
        version=done.version,
        seconds=done.seconds,
        attempts=done.attempts,
        conflicts=done.conflicts,
        already_committed=done.already_committed,
        mode="merge",
        rows_added=done.rows_inserted + done.rows_updated,
        rows_deleted=done.rows_updated,
        fragments_added=done.fragments_added,
        fragments_updated=done.fragments_updated,
        fragments_removed=done.fragments_removed,
        bytes_written=done.bytes_written,
        transaction_uuid=done.transaction_uuid,
    )


def is_dataframe(data: object) -> bool:
    """Return whether an object is a Spark DataFrame, of a classic session or a remote one."""
    return any(kind.__module__.startswith("pyspark.sql.") for kind in type(data).__mro__)
