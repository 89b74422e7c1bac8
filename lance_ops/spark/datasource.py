"""The format `lance` of Spark, as in `spark.read.format("lance").load(uri)`.

A DataFrame is pinned to the version that was the newest (or was asked for) at the time of `load`, however
often it is computed. The driver plans the scan, indices included; executors get their share of fragments and
read no manifest.

Spark never says which columns a query needs, and mixes up the filters of queries (see `read.PushingReader`):
name both in the options `columns` and `filter`.
"""

from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from lance_ops.spark.options import ReadOptions, read_options, write_options
from lance_ops.spark.read import LanceReader, PushingReader
from lance_ops.spark.search import SearchReader
from lance_ops.spark.transport import refuse_memory_store
from lance_ops.spark.types import spark_schema
from lance_ops.storage import Store
from lance_ops.table.dataset import Dataset

if TYPE_CHECKING:
    from lance_ops.spark.write import LanceWriter

PUSHDOWN_SETTING = "spark.sql.python.filterPushdown.enabled"
_REGISTERED = "spark.lance_ops.registered"


def register(spark: SparkSession) -> None:
    """Make the format `lance` known to a session, and let it hand down filters where a reader wants them.

    Sessions of `build_session` know it already.
    """
    spark.conf.set(PUSHDOWN_SETTING, "true")
    if spark.conf.get(_REGISTERED, None) is None:
        # Spark would warn about every further time.
        spark.dataSource.register(LanceDataSource)
        spark.conf.set(_REGISTERED, "true")


class LanceDataSource(DataSource):  # type: ignore[misc]  # pyspark counts as untyped
    """Reads and writes datasets; Spark makes one for each `load` and each `save`.

    Options of `load`: `version`, `tag`, `branch` (with or without `version`), `columns` (names between commas
    or a JSON list; nested paths too), `filter` (SQL of this package), `pushdown` ("true" or "false", the
    default), `partition_bytes`. For a search by score `nearest` or `full_text_query` (words or JSON
    objects, as the arguments of `Dataset.scanner`), `prefilter`, `fast_search` and `limit`: the driver finds
    rows, executors fetch them.

    Options of `save`: `data_storage_version`, `max_rows_per_file`, `max_bytes_per_file`,
    `enable_stable_row_ids`, `fill_missing`, `job_key`, `property.<name>`. Modes of `save` are `append`, which
    creates a dataset that is not there, and `overwrite`; Spark itself refuses the others.

    Of both: `storage.<name>` for options of the store.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        # The store of the dataset or its branch, and the version; set by the first look.
        self._pinned: tuple[Store, int] | None = None

    @classmethod
    def name(cls) -> str:
        """What users write into `format`."""
        return "lance"

    def schema(self) -> StructType:
        """The columns to read, in Spark's types.

        Raises:
            UnsupportedTypeError: Spark has no type for some columns; lists every one.
        """
        options = read_options(self.options)
        return spark_schema(self._open(options).scanner(options.columns, **options.search).schema)

    def reader(self, schema: StructType) -> LanceReader | SearchReader:
        """What reads the pinned version.

        Args:
            schema: From `schema`, or what the user gave to `spark.read.schema`: some of the columns.

        Raises:
            SchemaMismatchError: The dataset does not have these columns; lists every mismatch.
        """
        options = read_options(self.options)
        if options.search:
            return SearchReader(self._open(options), options, schema)
        kind = PushingReader if options.pushdown else LanceReader
        return kind(self._open(options), options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> "LanceWriter":
        """What writes a DataFrame of this schema.

        Raises:
            SchemaMismatchError: It does not fit the dataset; lists every mismatch.
            UnsupportedTypeError: A type cannot be stored; lists every field.
        """
        # Every executor that reads imports this module too, and needs nothing of the writing half.
        from lance_ops.spark.write import plan_save

        uri, options = write_options(self.options)
        return plan_save(schema, uri, mode="overwrite" if overwrite else "append", options=options)

    def _open(self, options: ReadOptions) -> Dataset:
        target, version = self._pinned or (options.uri, options.version)
        dataset = Dataset.open(target, version, storage_options=options.storage_options)
        refuse_memory_store(dataset.store)
        self._pinned = (dataset.store, dataset.version)
        return dataset
