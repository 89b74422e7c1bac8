"""Batch writer of the `lance` data source; imported by executors."""

import json
import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from lance_ops.errors import DatasetExistsError, InvalidArgumentError
from lance_ops.spark.options import TableWrite
from lance_ops.spark.transport import capture, load_outcome
from lance_ops.spark.writing.partition_writer import PartitionWriter, partition_id

if TYPE_CHECKING:
    from lance_ops.maintenance.ingest.options import Mode, WriteOptions
    from lance_ops.maintenance.ingest.plan import WritePlan

# Planning and commits are imported by the functions that use them: executors import this module, too.


def plan_save(
    data: StructType, uri: str, *, overwrite: bool, options: Mapping[str, Any], table: TableWrite
) -> "LanceWriter":
    """Return the writer of the `lance` data source; see `plan_dataframe_write`.

    Args:
        data: Schema of the DataFrame.
        uri: The dataset.
        overwrite: Replace all rows, or those that match a predicate in the options.
        options: Options of `WriteOptions`, without the mode.
        table: The table in Spark's catalog.
    """
    from lance_ops.maintenance.ingest.options import WriteOptions
    from lance_ops.spark.writing.dataframe import plan_dataframe_write

    if table.is_new:
        _refuse_existing(uri, options)
    mode: Mode = "overwrite" if overwrite else "append"
    if table.replaced is not None:
        options = _replacing(uri, options, table.replaced)
        mode = "replace_where" if "predicate" in options else mode
    elif "predicate" in options:
        if not overwrite:
            raise InvalidArgumentError("requires mode 'overwrite'", field="replaceWhere")
        _check_predicate(uri, options, table)
        mode = "replace_where"
    elif table.is_new:
        mode = "create"
    chosen = WriteOptions(mode=mode, **_with_properties(uri, options, table))
    return LanceWriter(*plan_dataframe_write(data, uri, chosen, _schema_of_table(uri, chosen, table)))


def _refuse_existing(uri: str, options: Mapping[str, Any]) -> None:
    """Refuse a new table over an existing dataset: its rows may belong to another table.

    A table that is replaced by its own name is not new.
    """
    from lance_ops.maintenance.target import open_latest_if_any

    if open_latest_if_any(uri, options.get("storage_options")) is not None:
        raise DatasetExistsError(
            "the location of the new table already has a dataset",
            path=uri,
            hint="register it with CREATE TABLE ... USING lance LOCATION and without a query, then overwrite "
            "the table by its name; or name another location",
        )


def _with_properties(uri: str, options: Mapping[str, Any], table: TableWrite) -> dict[str, Any]:
    """Add the properties of a table for the creation of its dataset."""
    from lance_ops.maintenance.target import open_latest_if_any

    said = creation_options(table.properties)
    if not said or open_latest_if_any(uri, options.get("storage_options")) is not None:
        return dict(options)
    return {**said, **options}


def creation_options(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the options of `WriteOptions` that properties of a table stand for.

    Args:
        properties: By names in lower case.
    """
    said: dict[str, Any] = {}
    if "enable_stable_row_ids" in properties:
        said["enable_stable_row_ids"] = properties["enable_stable_row_ids"].lower() == "true"
    if "file_format_version" in properties:
        said["data_storage_version"] = properties["file_format_version"]
    return said


def _replacing(uri: str, options: Mapping[str, Any], conditions: str) -> Mapping[str, Any]:
    """Add the predicate of an overwrite by a condition; without a dataset there are no rows to replace."""
    from lance_ops.filter.junctions import all_of
    from lance_ops.maintenance.target import open_latest_if_any
    from lance_ops.spark.pushed import parse_conditions

    if "predicate" in options:
        raise InvalidArgumentError("the write has a condition already", field="replaceWhere")
    dataset = open_latest_if_any(uri, options.get("storage_options"))
    if dataset is None:
        return options
    return {**options, "predicate": str(all_of(parse_conditions(json.loads(conditions), dataset.schema)))}


def _check_predicate(uri: str, options: Mapping[str, Any], table: TableWrite) -> None:
    from lance_ops.maintenance.target import open_latest_if_any
    from lance_ops.spark.local_time import refuse_local_filter

    dataset = open_latest_if_any(uri, options.get("storage_options"))
    if dataset is not None:
        predicate = str(options["predicate"])
        refuse_local_filter(predicate, dataset.parse_filter(predicate), table.zone, field="replaceWhere")


def _schema_of_table(uri: str, options: "WriteOptions", table: TableWrite) -> pa.Schema | None:
    """Return the schema of a table, for a created or overwritten dataset: literals have no nulls."""
    if table.declared is None:
        return None
    from lance_ops.maintenance.target import open_latest_if_any
    from lance_ops.spark.types import arrow_schema, declared_schema, with_sizes

    has_own = table.is_new or table.replaces_columns
    dataset = None if has_own else open_latest_if_any(uri, options.storage_options)
    if dataset is not None:
        return dataset.schema
    return arrow_schema(with_sizes(declared_schema(table.declared), table.properties), stored=True)


@dataclass(frozen=True)
class _Written(WriterCommitMessage):  # type: ignore[misc]  # pyspark counts as untyped
    """Result of one task."""

    partition: int
    outcome: bytes


class LanceWriter(DataSourceArrowWriter):  # type: ignore[misc]  # pyspark counts as untyped
    """Writes one DataFrame in one commit; see `datasource.LanceDataSource`."""

    def __init__(self, plan: "WritePlan", writer: PartitionWriter) -> None:
        # Spark sends this object to every executor, where the plan stays bytes: no dataset is opened.
        self._plan = pickle.dumps(plan)
        self._writer = writer

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a partition, on an executor."""
        # A final error is sent like a result: when a task fails, Spark kills the others, and their files
        # would be unknown.
        partition = partition_id()
        return _Written(partition, capture(lambda: self._writer.write_or_send(iterator, partition)))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make the one commit, on the driver, after all tasks have ended.

        Raises:
            TaskFailedError: A partition could not be written. Files of the others are removed.
        """
        from lance_ops.maintenance.cleanup.auto import cleans_up
        from lance_ops.maintenance.ingest.operation import commit_write
        from lance_ops.spark.writing.dataframe import written_by

        plan = self._load_plan()
        cleans_up(commit_write)(plan, written_by(plan, _sent(messages)))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the files of an uncommitted write."""
        from lance_ops.maintenance.ingest.operation import abandon_write
        from lance_ops.spark.writing.dataframe import files_of

        # Spark calls this after a failed commit, too, with all messages. That commit removed the files that
        # may be removed; files of a commit with unknown outcome must stay.
        if any(message is None for message in messages):
            outcomes = [load_outcome(data) for data in _sent(messages).values()]
            abandon_write(self._load_plan(), files_of(outcomes))

    def _load_plan(self) -> "WritePlan":
        plan: WritePlan = pickle.loads(self._plan)  # noqa: S301 - pickled above
        return plan


def _sent(messages: Iterable[WriterCommitMessage | None]) -> dict[int, bytes]:
    return {message.partition: message.outcome for message in messages if isinstance(message, _Written)}
