"""A table as an object, for whoever comes from Delta: rows changed, layout kept, history told."""

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
    """A dataset and the session that works on it. Tasks run on executors.

    Attributes:
        spark: A session, classic or of Spark Connect.
        uri: The dataset.
        storage_options: For its store.
    """

    spark: SparkSession
    uri: str
    storage_options: Mapping[str, str] | None = None

    @classmethod
    def for_path(
        cls, spark: SparkSession, uri: str, storage_options: Mapping[str, str] | None = None
    ) -> "LanceTable":
        """The dataset at a URI.

        Raises:
            DatasetNotFoundError: There is none.
        """
        Dataset.open(uri, storage_options=storage_options)
        return cls(spark, uri, storage_options)

    @classmethod
    def for_name(
        cls, spark: SparkSession, name: str, storage_options: Mapping[str, str] | None = None
    ) -> "LanceTable":
        """A table of Spark's catalog.

        Args:
            spark: A session.
            name: With its database, if it has one: `sales.orders`.
            storage_options: For its store; they go before those that the catalog has, of which Spark hides
                the values of some.

        Raises:
            InvalidArgumentError: There is no such table.
            UnsupportedError: Spark hides a storage option of the table that was not given.
        """
        found = Tables(spark=spark, storage_options=storage_options or {}).find(tuple(name.split(".")))
        return cls(spark, found.uri, found.storage_options or None)

    @property
    def dataset(self) -> Dataset:
        """The newest version."""
        return Dataset.open(self.uri, storage_options=self.storage_options)

    def to_df(self, columns: Sequence[str] | None = None, version: VersionSpec | None = None) -> DataFrame:
        """The rows, of the newest version unless told otherwise; see `read_dataset`."""
        return read_dataset(
            self.spark, self.uri, columns, version=version, storage_options=self.storage_options
        )

    def delete(self, condition: str | None = None) -> DeleteResult:
        """Delete the rows that match, or all of them; see `lance_ops.delete`.

        Args:
            condition: In Spark's SQL.
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
        """Give columns of the rows that match other values; see `lance_ops.update`.

        Args:
            condition: Which rows, in Spark's SQL; all when None.
            set: SQL expressions by the names of columns.

        Raises:
            InvalidArgumentError: No column is named.
        """
        if not set:
            raise InvalidArgumentError("which columns get which values?", field="set")
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
        """Merge rows of a DataFrame by a key; nothing happens before `execute`.

        Args:
            source: The rows.
            on: Columns of the key, or a condition such as "t.id = s.id AND t.day = s.day".

        Raises:
            UnsupportedError: The condition is none of equal columns of one name.
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
        """Remove old versions, and the files that no version needs; see `lance_ops.cleanup`.

        Args:
            retention_hours: Younger versions stay; 14 days when None.
            **options: Others of `lance_ops.cleanup`.
        """
        older = None if retention_hours is None else timedelta(hours=retention_hours)
        done: CleanupResult = cleanup(
            self.uri, older_than=older, storage_options=self.storage_options, **options
        )
        return done

    def history(self, limit: int | None = None) -> DataFrame:
        """What the newest commits did, newest first."""
        rows = [
            (item.version, item.timestamp, item.operation, item.description, item.damage)
            for item in self.dataset.history(limit)
        ]
        return self.spark.createDataFrame(rows, _HISTORY)

    def changes(self, since: VersionSpec, until: VersionSpec | None = None) -> DataFrame:
        """The rows that were inserted, updated and deleted between two versions; see `Dataset.changes`."""
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
        on: Columns of the key.
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
        """Rows of which the source has the key get its values: all, or those that meet a condition.

        Raises:
            UnsupportedError: There is a clause for such rows already.
        """
        self._first("when_matched")
        return replace(
            self, when_matched="update_all" if condition is None else "update_if", condition=condition
        )

    def when_matched_delete(self) -> "MergeBuilder":
        """Rows of which the source has the key go.

        Raises:
            UnsupportedError: There is a clause for rows that match already.
        """
        self._first("when_matched")
        return replace(self, when_matched="delete", condition=None)

    def when_not_matched_insert_all(self) -> "MergeBuilder":
        """Rows of the source whose key is new are added."""
        return replace(self, when_not_matched="insert_all")

    def when_not_matched_by_source_delete(self, condition: str | None = None) -> "MergeBuilder":
        """Rows of the table of which the source does not have the key go, or those that match.

        Raises:
            UnsupportedError: There is a clause for such rows already.
        """
        self._first("when_not_matched_by_source")
        return replace(self, when_not_matched_by_source=condition or "delete")

    def execute(self) -> MergeResult:
        """Do it, in one commit; see `merge_dataframe`.

        Raises:
            UnsupportedError: A condition may select other rows than in Spark.
        """
        spark, target = self.table.spark, self.table.dataset.schema
        condition, unmatched = self.condition, self.when_not_matched_by_source
        if condition is not None:
            parsed = merge_condition(condition, arrow_schema(self.source.schema), target)
            refuse_other_meaning(condition, parsed, spark, hint="compute it in a column of the source")
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
        """A second clause of a kind would silently take the place of the first."""
        if getattr(self, clause) is not None:
            raise UnsupportedError(
                f"a merge has one clause {clause}, and this one has it already",
                field=clause,
                hint="merge twice, or join the conditions of both into one clause",
            )

    # As Delta writes them.
    whenMatchedUpdateAll, whenMatchedDelete = when_matched_update_all, when_matched_delete  # noqa: N815
    whenNotMatchedInsertAll = when_not_matched_insert_all  # noqa: N815
    whenNotMatchedBySourceDelete = when_not_matched_by_source_delete  # noqa: N815
