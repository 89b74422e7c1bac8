"""Predicates for the rows of Dagster partitions; see `partition_rows` for the selected rows."""

from collections.abc import Mapping
from typing import Any

import dagster as dg
import pyarrow as pa

from lance_ops.errors import InvalidArgumentError
from lance_ops.maintenance.ingest.partition_rows import Bound, PartitionRule, rows_of_partition

Columns = str | Mapping[str, str]
"""The partition column, or that of each dimension by name.

A path into a struct is joined by dots; a part that contains a dot is quoted by backticks, unless the whole
string is the name of a column.
"""


def partition_predicate(
    partitions: dg.PartitionsDefinition[Any], key: str, columns: Columns, schema: pa.Schema
) -> str:
    """Return the predicate that selects the rows of a partition.

    Args:
        partitions: The definition.
        key: The partition.
        columns: Partition columns.
        schema: Of the dataset.

    Raises:
        InvalidArgumentError: A column does not exist, or its type does not match the partitions.
    """
    return rows_of_partition(partition_rules(partitions, key, columns), schema)


def partition_rules(
    partitions: dg.PartitionsDefinition[Any], key: str, columns: Columns
) -> list[PartitionRule]:
    """Return the rules that identify the rows of a partition, one for each dimension.

    Args:
        partitions: The definition.
        key: The partition.
        columns: Partition columns.

    Raises:
        InvalidArgumentError: A dimension has no column.
    """
    if isinstance(partitions, dg.MultiPartitionsDefinition):
        if isinstance(columns, str):
            raise InvalidArgumentError(
                "partitions with several dimensions require a column for each of them",
                field="partition_column",
                hint="use a mapping from dimensions to columns",
            )
        keys = partitions.get_partition_key_from_str(key).keys_by_dimension
        missing = sorted(set(keys).difference(columns))
        if missing:
            raise InvalidArgumentError(
                f"no column given for the dimensions {', '.join(missing)}", field="partition_column"
            )
        return [
            rule
            for dimension in partitions.partitions_defs
            for rule in partition_rules(
                dimension.partitions_def, keys[dimension.name], columns[dimension.name]
            )
        ]
    column = columns if isinstance(columns, str) else next(iter(columns.values()))
    if isinstance(partitions, dg.TimeWindowPartitionsDefinition):
        window = partitions.time_window_for_partition_key(key)
        return [PartitionRule(column, key, Bound.of(window.start), Bound.of(window.end))]
    return [PartitionRule(column, key)]


def time_window_of(partitions: dg.PartitionsDefinition[Any] | None, key: str) -> dg.TimeWindow | None:
    """Return the time window of a partition; None if neither it nor a dimension of it is a time."""
    if isinstance(partitions, dg.TimeWindowPartitionsDefinition):
        return partitions.time_window_for_partition_key(key)
    if isinstance(partitions, dg.MultiPartitionsDefinition):
        keys = partitions.get_partition_key_from_str(key).keys_by_dimension
        windows = (
            time_window_of(dimension.partitions_def, keys[dimension.name])
            for dimension in partitions.partitions_defs
        )
        return next((window for window in windows if window is not None), None)
    return None
