"""The format `lance` of Spark, as in `spark.read.format("lance").load(uri)`; also for streams.

A DataFrame is pinned to the version that was the newest (or was requested) at the time of `load`, however
often it is computed. The driver plans the scan, indices included; executors get their share of fragments and
read no manifest.

Spark passes no columns of a query, and confuses the filters of queries (see `read.PushingReader`): set both
in the options `columns` and `filter`.
"""

from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from lance_ops import _extra_spark as _extra_spark

# isort: split
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from lance_ops.errors import DatasetNotFoundError
from lance_ops.file.schema.column_names import check_column_names
from lance_ops.file.schema.model import Schema
from lance_ops.spark.catalog import install_catalog, load_classes
from lance_ops.spark.facts import with_facts
from lance_ops.spark.options import ReadOptions, read_options, write_options
from lance_ops.spark.read import EmptyReader, LanceReader, PushingReader
from lance_ops.spark.streaming.options import is_for_streams, sink_options, source_names, source_options
from lance_ops.spark.transport import refuse_memory_store
from lance_ops.spark.types import arrow_schema, declared_schema, spark_schema
from lance_ops.storage import Store
from lance_ops.table.dataset import Dataset

if TYPE_CHECKING:
    from lance_ops.spark.streaming.sink import LanceStreamWriter
    from lance_ops.spark.streaming.source import LanceStreamReader
    from lance_ops.spark.writing.save import LanceWriter

PUSHDOWN_SETTING = "spark.sql.python.filterPushdown.enabled"
_REGISTERED = "spark.lance_ops.registered"


def register(spark: SparkSession) -> None:
    """Register the format `lance` in a session: for paths, and for tables of its catalog.

    Sessions of `build_session` have it already, and so has `newSession()` of a session with it. With another
    session catalog, or on Spark Connect, named tables need more, see `lance_ops.spark.catalog`.
    """
    spark.conf.set(PUSHDOWN_SETTING, "true")
    if spark.conf.get(_REGISTERED, None) is not None:
        # Spark would warn on every further call.
        return
    jvm = getattr(spark, "_jvm", None)
    if jvm is not None:
        load_classes(jvm)
    spark.dataSource.register(SourceBehindJava)
    try:
        spark.dataSource.register(LanceDataSource)
    except AnalysisException as error:
        # The class in Java has this name, and reads and writes by the other one.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
    spark.conf.set(_REGISTERED, "true")
    if jvm is not None:
        # Every executor imports this module, and needs no statements.
        from lance_ops.spark.catalog.bridge import install_bridge

        install_bridge(spark)
    install_catalog(spark)


class LanceDataSource(DataSource):  # type: ignore[misc]  # pyspark counts as untyped
    """Reads and writes datasets; Spark makes one for each `load` and each `save`.

    Options of `load`: `version`, `tag`, `branch` (with or without `version`), `columns` (names separated by
    commas or a JSON list; nested paths too), `filter` (SQL of this package), `pushdown` ("true" or "false",
    the default), `partition_bytes`. For a search by score `nearest` or `full_text_query` (words or JSON
    objects, as the arguments of `Dataset.scanner`), `prefilter`, `fast_search` and `limit`: the driver finds
    rows, executors fetch them.

    Options of `save`: `data_storage_version`, `max_rows_per_file`, `max_bytes_per_file`,
    `enable_stable_row_ids`, `fill_missing`, `job_key`, `property.<name>`. Modes of `save` are `append`, which
    creates a missing dataset, and `overwrite`; Spark itself rejects the others.

    Both accept `storage.<name>` for options of the store. Options of streams are in `streaming.options`.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        # Store of the dataset or its branch, and version; set on first use.
        self._pinned: tuple[Store, int] | None = None

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "lance"

    def schema(self) -> StructType:
        """Return the columns to read, in Spark's types.

        Raises:
            UnsupportedTypeError: Spark has no type for some columns; lists every one. So do columns of a new
                table that no dataset can have.
            InvalidArgumentError: The name of a column of a new table is refused.
        """
        if is_for_streams(self.options):
            from lance_ops.spark.streaming.source import source_schema

            return source_schema(source_options(self.options))
        options = read_options(self.options, source_names())
        dataset = self._open(options)
        if dataset is None:
            assert options.declared is not None
            declared = declared_schema(options.declared)
            if options.is_checked:
                check_column_names(Schema.from_arrow(arrow_schema(declared, stored=True)), path=options.uri)
            return declared
        schema = spark_schema(dataset.scanner(options.columns, **options.search).schema)
        return with_facts(schema, dataset, options) if options.is_described else schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of the pinned version.

        Args:
            schema: From `schema`, or from `spark.read.schema`: some of the columns.

        Raises:
            SchemaMismatchError: The dataset does not have these columns; lists every mismatch.
        """
        options = read_options(self.options)
        dataset = self._open(options)
        if dataset is None:
            return EmptyReader()
        if options.search:
            from lance_ops.spark.search import SearchReader

            return SearchReader(dataset, options, schema)
        kind = PushingReader if options.pushdown else LanceReader
        return kind(dataset, options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> "LanceWriter":
        """Return the writer of a DataFrame with this schema.

        Raises:
            SchemaMismatchError: It does not fit the dataset; lists every mismatch.
            UnsupportedTypeError: A type cannot be stored; lists every field.
        """
        # Every executor that reads imports this module too, and needs no writing module.
        from lance_ops.spark.writing.save import plan_save

        uri, options, table = write_options(self.options)
        return plan_save(schema, uri, overwrite=overwrite, options=options, table=table)

    def streamReader(self, schema: StructType) -> "LanceStreamReader":  # noqa: N802 - Spark's name
        """Return the stream reader of added or changed rows.

        Args:
            schema: From `schema`, or from `spark.readStream.schema`.

        Raises:
            SchemaMismatchError: The dataset does not have these columns; lists every mismatch.
        """
        from lance_ops.spark.streaming.source import LanceStreamReader

        return LanceStreamReader(source_options(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> "LanceStreamWriter":  # noqa: N802
        """Return the stream writer of the epochs of a query.

        Args:
            schema: Schema of the rows.
            overwrite: The output mode is "complete".

        Raises:
            SchemaMismatchError: The rows do not fit the dataset; lists every mismatch.
            UnsupportedTypeError: A type cannot be stored; lists every field.
        """
        from lance_ops.spark.streaming.sink import LanceStreamWriter

        return LanceStreamWriter(schema, sink_options(self.options), complete=overwrite)

    def _open(self, options: ReadOptions) -> Dataset | None:
        """Open the version to read; None for a table of the catalog without data."""
        target, version = self._pinned or (options.uri, options.version)
        asof = None if self._pinned else options.asof
        try:
            dataset = Dataset.open(target, version, options.storage_options, asof=asof)
        except DatasetNotFoundError:
            if options.declared is None or version is not None or asof is not None:
                raise
            return None
        refuse_memory_store(dataset.store)
        self._pinned = (dataset.store, dataset.version)
        return dataset


class SourceBehindJava(LanceDataSource):
    """The same source, for the class in Java that has the name of the format (`LanceProvider.java`)."""

    @classmethod
    def name(cls) -> str:
        """The name that the class in Java looks for."""
        return "lance_python"
