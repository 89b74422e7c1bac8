"""Table API in the style of Delta Lake: change rows, maintain the layout, read the history."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession

from lance_ops.errors import InvalidArgumentError, UnsupportedError
from lance_ops.filter import parse_filter
from lance_ops.maintenance.cleanup.operation import CleanupResult, cleanup
from lance_ops.maintenance.compact.operation import compact
from lance_ops.maintenance.delete.operation import delete
from lance_ops.maintenance.merge_insert.clauses import merge_condition
from lance_ops.maintenance.merge_insert.result import MergeResult
from lance_ops.maintenance.results import CompactResult, DeleteResult
from lance_ops.maintenance.update.operation import update
from lance_ops.maintenance.update.result import UpdateResult
from lance_ops.spark.changes import changes_dataframe
from lance_ops.spark.merge import merge_dataframe
from lance_ops.spark.runner import SparkRunner
from lance_ops.spark.scan import read_dataset
from lance_ops.spark.sql.conditions import SparkSearch, refuse_local_values, refuse_other_meaning
from lance_ops.spark.sql.expressions import Translated, translated
from lance_ops.spark.sql.parse import merge_keys
from lance_ops.spark.sql.tables import Tables
from lance_ops.spark.types import arrow_schema
from lance_ops.table.dataset import Dataset
from lance_ops.table.history.resolve_version import VersionSpec

_HISTORY = "version long, timestamp timestamp, operation string, description string, damage string"


@dataclass(frozen=True, slots=True)
class LanceTable:
    """A dataset with a Spark session. Tasks run on executors.

    Attributes:
        spark: A session, classic or of Spark Connect.
        uri: The dataset.
        storage_options: Options of its store.
    """

    spark: SparkSession
    uri: str
    storage_options: Mapping[str, str] | None = None

    @classmethod
    def for_path(
        cls, spark: SparkSession, uri: str, storage_options: Mapping[str, str] | None = None
    ) -> "LanceTable":
        """Return the table of a URI.

        Raises:
            DatasetNotFoundError: There is no dataset.
        """
        Dataset.open(uri, storage_options=storage_options)
        return cls(spark, uri, storage_options)

    @classmethod
    def for_name(
        cls, spark: SparkSession, name: str, storage_options: Mapping[str, str] | None = None
    ) -> "LanceTable":
        """Return a table of Spark's catalog.

        Args:
            spark: A session.
            name: Name, with its database, if it has one: `sales.orders`.
            storage_options: Options of its store; they override those of the catalog, some of which Spark
                redacts.

        Raises:
            InvalidArgumentError: The table does not exist.
            UnsupportedError: Spark redacts a storage option of the table, and it was not given.
        """
        found = Tables(spark=spark, storage_options=storage_options or {}).find(tuple(name.split(".")))
        return cls(spark, found.uri, found.storage_options or None)

    @property
    def dataset(self) -> Dataset:
        """The newest version."""
        return Dataset.open(self.uri, storage_options=self.storage_options)

    def to_df(self, columns: Sequence[str] | None = None, version: VersionSpec | None = None) -> DataFrame:
        """Return the rows, of the newest version by default; see `read_dataset`."""
        return read_dataset(
            self.spark, self.uri, columns, version=version, storage_options=self.storage_options
        )

    def delete(self, condition: str | None = None) -> DeleteResult:
        """Delete matching rows, or all; see `lance_ops.delete`.

        Args:
            condition: Condition in Spark's SQL.
        """
        found = translated(condition or "true")
        return delete(
            self.uri,
            str(found),
            pruners=self._search(found),
            runner=self._runner,
            storage_options=self.storage_options,
        )

    def update(self, condition: str | None = None, set: Mapping[str, str] | None = None) -> UpdateResult:  # noqa: A002
        """Set columns of matching rows; see `lance_ops.update`.

        Args:
            condition: Condition in Spark's SQL; all rows if None.
            set: SQL expressions by column name.

        Raises:
            InvalidArgumentError: `set` is empty.
        """
        if not set:
            raise InvalidArgumentError("set must name at least one column", field="set")
        found = translated(condition or "true")
        values = {column: translated(value) for column, value in set.items()}
        refuse_local_values(values, self.dataset, self.spark)
        return update(
            self.uri,
            {column: str(value) for column, value in values.items()},
            None if condition is None else str(found),
            pruners=() if condition is None else self._search(found),
            runner=self._runner,
            storage_options=self.storage_options,
        )

    def merge(self, source: DataFrame, on: str | Sequence[str]) -> "MergeBuilder":
        """Merge rows of a DataFrame by a key; runs with `execute`.

        Args:
            source: The rows.
            on: Key columns, or a condition such as "t.id = s.id AND t.day = s.day".

        Raises:
            UnsupportedError: The condition has other terms than equality of columns with the same name.
        """
        if isinstance(on, str):
            on = merge_keys(on) if "=" in on else (on,)
        return MergeBuilder(self, source, tuple(on))

    def optimize(self, **options: Any) -> CompactResult:
        """Merge small fragments; see `lance_ops.compact` for the options."""
        done: CompactResult = compact(
            self.uri, runner=self._runner, storage_options=self.storage_options, **options
        )
        return done

    def vacuum(self, retention_hours: float | None = None, **options: Any) -> CleanupResult:
        """Remove old versions, and unused files; see `lance_ops.cleanup`.

        Args:
            retention_hours: Younger versions are kept; 14 days if None.
            **options: Other options of `lance_ops.cleanup`.
        """
        older = None if retention_hours is None else timedelta(hours=retention_hours)
        done: CleanupResult = cleanup(
            self.uri, older_than=older, storage_options=self.storage_options, **options
        )
        return done

    def history(self, limit: int | None = None) -> DataFrame:
        """Return the operations of the newest commits, newest first."""
        rows = [
            (item.version, item.timestamp, item.operation, item.description, item.damage)
            for item in self.dataset.history(limit)
        ]
        return self.spark.createDataFrame(rows, _HISTORY)

    def changes(self, since: VersionSpec, until: VersionSpec | None = None) -> DataFrame:
        """Return the rows inserted, updated and deleted between two versions; see `Dataset.changes`."""
        options = dict(self.storage_options or {})
        return changes_dataframe(self.spark, self.uri, since, until, storage_options=options or None)

    def _search(self, condition: Translated) -> tuple[SparkSearch, ...]:
        return (SparkSearch(self.spark, condition.original, condition.alias),)

    @property
    def _runner(self) -> SparkRunner:
        return SparkRunner(self.spark)

    # As Delta writes them.
    forPath, forName, toDF = for_path, for_name, to_df  # noqa: N815


@dataclass(frozen=True, slots=True)
class MergeBuilder:
    """Clauses of a merge; each method returns a builder with one more.

    Attributes:
        table: The target.
        source: The rows.
        on: Key columns.
        when_matched: See `merge_dataframe`, as the others.
        condition: See there.
        when_not_matched: See there.
        when_not_matched_by_source: See there.
    """

    table: LanceTable
    source: DataFrame
    on: tuple[str, ...]
    when_matched: Literal["update_all", "update_if", "delete"] | None = None
    condition: str | None = None
    when_not_matched: Literal["insert_all"] | None = None
    when_not_matched_by_source: str | None = None

    def when_matched_update_all(self, condition: str | None = None) -> "MergeBuilder":
        """Update rows whose key the source has: all, or those that match a condition.

        Raises:
            UnsupportedError: There is already a clause for such rows.
        """
        self._first("when_matched")
        return replace(
            self, when_matched="update_all" if condition is None else "update_if", condition=condition
        )

    def when_matched_delete(self) -> "MergeBuilder":
        """Delete rows whose key the source has.

        Raises:
            UnsupportedError: There is already a clause for matching rows.
        """
        self._first("when_matched")
        return replace(self, when_matched="delete", condition=None)

    def when_not_matched_insert_all(self) -> "MergeBuilder":
        """Insert rows of the source with a new key."""
        return replace(self, when_not_matched="insert_all")

    def when_not_matched_by_source_delete(self, condition: str | None = None) -> "MergeBuilder":
        """Delete rows whose key the source lacks: all, or those that match a condition.

        Raises:
            UnsupportedError: There is already a clause for such rows.
        """
        self._first("when_not_matched_by_source")
        return replace(self, when_not_matched_by_source=condition or "delete")

    def execute(self) -> MergeResult:
        """Run the merge, in one commit; see `merge_dataframe`.

        Raises:
            UnsupportedError: A condition may select other rows than in Spark.
        """
        spark, target = self.table.spark, self.table.dataset.schema
        condition, unmatched = self.condition, self.when_not_matched_by_source
        if condition is not None:
            parsed = merge_condition(condition, arrow_schema(self.source.schema), target)
            refuse_other_meaning(
                condition, parsed, spark, hint="compute the condition in a column of the source"
            )
        if unmatched not in (None, "delete", "nothing"):
            refuse_other_meaning(
                unmatched, parse_filter(unmatched, target), spark, hint="delete these rows with delete()"
            )
        return merge_dataframe(
            self.source,
            self.table.uri,
            list(self.on),
            when_matched=self.when_matched or "do_nothing",
            condition=self.condition,
            when_not_matched=self.when_not_matched,
            when_not_matched_by_source=self.when_not_matched_by_source,
            runner=SparkRunner(self.table.spark),
            storage_options=self.table.storage_options,
        )

    def _first(self, clause: str) -> None:
        """Check for a second clause of a kind, which would silently replace the first."""
        if getattr(self, clause) is not None:
            raise UnsupportedError(
                f"a merge can have only one clause {clause}",
                field=clause,
                hint="run two merges, or combine both conditions in one clause",
            )

    # As Delta writes them.
    whenMatchedUpdateAll, whenMatchedDelete = when_matched_update_all, when_matched_delete  # noqa: N815
    whenNotMatchedInsertAll = when_not_matched_insert_all  # noqa: N815
    whenNotMatchedBySourceDelete = when_not_matched_by_source_delete  # noqa: N815
