"""Searches by score in the `lance` data source: the driver finds the rows, executors fetch their columns."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from lance_ops.spark.convert import to_spark
from lance_ops.spark.options import ReadOptions
from lance_ops.spark.read import wanted_columns
from lance_ops.spark.types import arrow_schema
from lance_ops.table.dataset import Dataset
from lance_ops.table.scan.run import BATCH_ROWS
from lance_ops.table.scan.scored_scan import ScoredScan
from lance_ops.table.scan.search import Scored


@dataclass(frozen=True, slots=True)
class _Share:
    """Some of the rows found by a search, by its number."""

    query: int
    found: Scored


class SearchReader(DataSourceReader):  # type: ignore[misc]  # pyspark counts as untyped
    """Reads the results of a search in one version, best first.

    Filters of Spark apply to the rows found, as usual: only the option `filter` with `prefilter` restricts
    the search.

    Args:
        dataset: The version.
        options: The search, and the columns to read.
        schema: Schema in Spark's types: from the data source, or the user's columns.

    Raises:
        SchemaMismatchError: The result does not have the wanted columns; lists every mismatch.
        PredicateError: The filter among the options does not parse.
        InvalidArgumentError: The search is invalid.
    """

    def __init__(self, dataset: Dataset, options: ReadOptions, schema: StructType) -> None:
        self._dataset = dataset
        self._options = options
        self._columns = wanted_columns(dataset, options, schema)
        self._target: pa.Schema = arrow_schema(schema)

    def partitions(self) -> list[InputPartition]:
        """Run the search."""
        return [
            InputPartition(_Share(number, found[start : start + BATCH_ROWS]))
            for number, found in self._scan().find()
            for start in range(0, len(found), BATCH_ROWS)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one share, on an executor."""
        share: _Share | None = partition.value
        if share is None:
            # Spark adds a partition if there is nothing to read.
            return
        for batch in self._scan().fetch(share.query, share.found).to_batches():
            yield to_spark(batch, self._target)

    def _scan(self) -> ScoredScan:
        scan = self._dataset.scanner(self._columns, self._options.filter, **self._options.search)
        assert isinstance(scan, ScoredScan)
        return scan
