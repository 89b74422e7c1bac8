"""Runs maintenance statements by the operations of lance_ops."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.errors import (
    AlreadyExistsError,
    DatasetNotFoundError,
    InvalidArgumentError,
    VersionNotFoundError,
    public,
)
from lance_ops.file.schema.field_path import format_field_path
from lance_ops.maintenance.cleanup.operation import cleanup
from lance_ops.maintenance.columns.alter import alter_columns
from lance_ops.maintenance.columns.operation import add_columns
from lance_ops.maintenance.compact.operation import compact
from lance_ops.maintenance.delete.operation import delete
from lance_ops.maintenance.index.names import drop_index
from lance_ops.maintenance.metadata.actions import create_tag, delete_tag, drop_columns, update_config
from lance_ops.maintenance.metadata.branches import create_branch, delete_branch
from lance_ops.maintenance.runner import Runner
from lance_ops.maintenance.target import open_latest_if_any
from lance_ops.maintenance.update.operation import update
from lance_ops.spark.sql import results, statements
from lance_ops.spark.sql.indices import create_named_index, maintain_index, show_indexes
from lance_ops.spark.sql.names import check_new, own_names, refuse_padded
from lance_ops.spark.sql.option_values import COMPACTION, NOT_OURS, check_names, plain, typed
from lance_ops.spark.sql.parse import parse_statement
from lance_ops.spark.sql.queries import run_in_duckdb, run_on_spark
from lance_ops.spark.sql.rows import check_values, merge_rows, replace_rows, searches
from lance_ops.spark.sql.schema_changes import declare_primary_key
from lance_ops.spark.sql.sources import source_rows
from lance_ops.spark.sql.statements import Name, Options, Source, Statement
from lance_ops.spark.sql.tables import TableRef, Tables
from lance_ops.spark.sql.tokens import refuse_names_in_quotes
from lance_ops.spark.sql.versions import run_on_versions
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragments.totals import by_id

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@public()
def sql(
    statement: str,
    spark: "SparkSession | None" = None,
    *,
    tables: Mapping[str, str] | None = None,
    root: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    runner: Runner | None = None,
) -> Any:
    """Run a query, or a maintenance statement of Lance's connector for the JVM.

    Queries (`SELECT`, `DESCRIBE`, `SUMMARIZE`, `EXPLAIN`) run in DuckDB, in this process and without Java:
    only their columns are read, and comparisons are pushed down to indices and statistics. They require the
    extra `duckdb`, and may also name files, such as `'prices.parquet'`.

    `OPTIMIZE`, `VACUUM`, `ALTER TABLE ... CREATE | REFRESH | OPTIMIZE | DROP INDEX`, `... CREATE | DROP TAG`
    and `BRANCH`, `... ADD COLUMNS ... FROM`, `... DROP | RENAME COLUMN`, `... SET | UNSET TBLPROPERTIES`,
    `SHOW INDEXES | TAGS | BRANCHES`, `DELETE FROM`, `UPDATE`, `REPLACE ... WHERE`, `MERGE INTO`: options and
    columns of results have the same names. `DESCRIBE HISTORY | DETAIL`, `RESTORE` and `CREATE TABLE ...
    SHALLOW | DEEP CLONE` are written as for Delta.

    Args:
        statement: One statement. With `spark`, queries are passed to `spark.sql`.
        spark: A session: its catalog has the tables, its executors run tasks, and `MERGE INTO` and `ADD
            COLUMNS` read from its views.
        tables: URIs of tables by name. A path in backticks is a table, too.
        root: Folder in which table `t` is `t.lance`.
        storage_options: Options of the stores.
        runner: Runs tasks; the executors of `spark`, or threads of this process by default.

    Returns:
        An Arrow table; with `spark` a DataFrame.

    Raises:
        InvalidArgumentError: The statement does not parse, or the table is unknown.
        MissingExtraError: A query, and neither DuckDB is installed nor `spark` given.
        UnsupportedError: No operation does what it says.
        LanceOpsError: What the operation raises.

    Examples:
        >>> lo.sql("DELETE FROM events WHERE id > 7", root=".").to_pylist()
        [{'num_affected_rows': 2}]
        >>> lo.sql("SELECT kind, count(*) AS n FROM events GROUP BY kind ORDER BY kind", root=".").to_pylist()
        [{'kind': 'a', 'n': 4}, {'kind': 'b', 'n': 4}]
    """
    parsed = parse_statement(statement)
    if parsed is None:
        if spark is not None:
            return spark.sql(statement)
        with run_in_duckdb(statement, Tables(tables or {}, root, None, storage_options or {})) as rows:
            return rows.read_all()
    if spark is not None:
        refuse_names_in_quotes(statement, spark)
    if runner is None and spark is not None:
        from lance_ops.spark.runner import SparkRunner

        runner = SparkRunner(spark)
    found = Tables(tables or {}, root, spark, storage_options or {})
    table = run_statement(parsed, found, runner)
    if spark is None:
        return table
    from lance_ops.spark.types import spark_schema

    rows = [tuple(row.values()) for row in table.to_pylist()]
    return spark.createDataFrame(rows, spark_schema(table.schema))


@contextmanager
def open_rows(
    statement: str,
    *,
    tables: Mapping[str, str] | None = None,
    root: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    runner: Runner | None = None,
) -> Iterator[pa.RecordBatchReader]:
    """Run a statement and stream its rows, while the context is open; see `sql`.

    Queries run on the session of a `SparkRunner`, and in DuckDB with any other runner.
    """
    found = Tables(tables or {}, root, getattr(runner, "spark", None), storage_options or {})
    parsed = parse_statement(statement)
    if parsed is not None:
        yield run_statement(parsed, found, runner).to_reader()
    elif found.spark is not None:
        yield run_on_spark(statement, found).to_reader()
    else:
        with run_in_duckdb(statement, found) as rows:
            yield rows


def run_statement(statement: Statement, tables: Tables, runner: Runner | None = None) -> pa.Table:
    """Run a parsed statement; see `sql`."""
    table = tables.find(statement.table)
    refuse_padded(statement, table.padded)
    run = _Run(statement, tables, table, runner)
    try:
        return run.result()
    except DatasetNotFoundError:
        if table.quoted is None or open_latest_if_any(table.uri, table.storage_options) is not None:
            raise
    # A table of the catalog gets its dataset with its first rows, or an empty one.
    assert tables.spark is not None
    tables.spark.table(table.quoted).write.insertInto(table.quoted)
    return run.result()


class _Run:
    """One statement on one table."""

    def __init__(self, statement: Statement, tables: Tables, table: TableRef, runner: Runner | None) -> None:
        self._statement = statement
        self._tables = tables
        self._uri = table.uri
        self._storage = dict(table.storage_options)
        self._options: dict[str, Any] = {"storage_options": self._storage or None}
        self._tasks = self._options if runner is None else {**self._options, "runner": runner}

    def result(self) -> pa.Table:
        """Run the statement."""
        match self._statement:
            case statements.Optimize(options=options):
                return self._optimize(options)
            case statements.Vacuum(options=options):
                return self._vacuum(options)
            case statements.CreateIndex() as create:
                return create_named_index(create, self._uri, self._tasks)
            case statements.MaintainIndex() as maintain:
                return maintain_index(maintain, self._uri, self._tasks)
            case statements.DropIndex(index=index):
                drop_index(self._uri, index, **self._options)
                return results.one_row(results.DROP_INDEX, index, "dropped")
            case statements.Show(what=what):
                return self._show(what)
            case statements.Describe() | statements.Restore() | statements.Clone() as on_versions:
                return run_on_versions(on_versions, self._uri, self._storage)
            case statements.CreateRef() as create_ref:
                return self._create_ref(create_ref)
            case statements.DropRef() as drop_ref:
                return self._drop_ref(drop_ref)
            case statements.AddColumnsFrom(columns=columns, source=source):
                return self._add_columns(columns, source)
            case statements.AddNullColumns(columns=typed_columns):
                check_new(self._names(), typed_columns)
                add_columns(self._uri, pa.schema(dict(typed_columns)), **self._options)
            case statements.DropNotNull(column=column):
                alter_columns(self._uri, {"path": self._path(column), "nullable": True}, **self._options)
            case statements.SetPrimaryKey(columns=key):
                names = [self._path(column) for column in key]
                declare_primary_key(self._uri, names, self._storage, self._options)
                return results.one_row(results.PRIMARY_KEY, "OK", ",".join(names))
            case statements.DropColumns(columns=columns, if_exists=lenient):
                return self._drop_columns(columns, lenient=lenient)
            case statements.RenameColumn(column=column, to=to):
                path = self._path(column)
                if len(column) == 1:
                    check_new([name for name in self._names() if format_field_path([name]) != path], [to])
                alter_columns(self._uri, {"path": path, "name": to}, **self._options)
            case statements.SetProperties(properties=properties):
                upsert = {key: value for key, value in properties.items() if value is not None}
                gone = [key for key, value in properties.items() if value is None]
                update_config(self._uri, upsert, gone, **self._options)
            case statements.Delete(condition=condition):
                search = searches(self._tables.spark, condition)
                deleted = delete(self._uri, str(condition or "true"), pruners=search, **self._tasks)
                return results.one_row(results.AFFECTED, deleted.rows_deleted)
            case statements.Update(columns=columns, condition=condition):
                own = self._own_names(columns)
                values = {own[name]: value for name, value in columns.items()}
                check_values(self._tables.spark, values, self._open())
                search = searches(self._tables.spark, condition)
                texts = {name: str(value) for name, value in values.items()}
                updated = update(
                    self._uri, texts, condition and str(condition), pruners=search, **self._tasks
                )
                return results.one_row(results.AFFECTED, updated.rows_updated)
            case statements.Replace() as replace:
                return replace_rows(replace, self._tables, self._open(), self._tasks)
            case statements.Merge() as merge:
                return merge_rows(merge, self._tables, self._open(), self._tasks)
        return results.rows(results.NOTHING, [])

    def _open(self) -> Dataset:
        return Dataset.open(self._uri, storage_options=self._storage)

    def _names(self) -> list[str]:
        names: list[str] = self._open().schema.names
        return names

    def _own_names(self, names: Iterable[str]) -> dict[str, str]:
        """Return names of columns as in the dataset."""
        return own_names(self._names(), names)

    def _path(self, column: Name) -> str:
        """Return the path of a column, whose first name may be written in any case."""
        return format_field_path((self._own_names(column[:1])[column[0]], *column[1:]))

    # Layout

    def _optimize(self, options: Options) -> pa.Table:
        check_names(options, {*COMPACTION, *NOT_OURS})
        chosen = {
            "batch_rows" if name == "batch_size" else name: typed(name, value, COMPACTION[name])
            for name, value in options.items()
            if name in COMPACTION
        }
        before = self._open()
        done = compact(before, **chosen, **self._tasks)
        after = {fragment.id: fragment for fragment in self._open().fragments}
        old = by_id(before.fragments)
        files = [sum(len(old[n].files) for n in old.keys() - after.keys())]
        files.append(sum(len(after[n].files) for n in after.keys() - old.keys()))
        return results.one_row(results.OPTIMIZE, done.fragments_removed, done.fragments_added, *files)

    def _vacuum(self, options: Options) -> pa.Table:
        names = {
            "before_version",
            "before_timestamp_millis",
            "delete_unverified",
            "error_if_tagged_old_versions",
        }
        check_names(options, names)
        dataset = self._open()
        versions = dataset.versions()
        chosen: dict[str, Any] = {}
        going = set()
        if "before_version" in options:
            limit = typed("before_version", options["before_version"], int)
            kept = [item.version for item in versions if item.version >= limit]
            going = {item.version for item in versions if item.version < limit}
            chosen["retain_versions"] = max(1, len(kept))
        if "before_timestamp_millis" in options:
            millis = typed("before_timestamp_millis", options["before_timestamp_millis"], int)
            try:
                moment = datetime.fromtimestamp(millis / 1000, UTC)
            except (ValueError, OverflowError, OSError) as error:
                raise InvalidArgumentError(
                    f"{millis} milliseconds since 1970 are out of range", field="before_timestamp_millis"
                ) from error
            older = {item.version for item in versions if item.timestamp < moment}
            going = going & older if "before_version" in options else older
            chosen["older_than"] = max(timedelta(0), datetime.now(UTC) - moment)
        if typed("error_if_tagged_old_versions", options.get("error_if_tagged_old_versions", False), bool):
            tagged = [
                tag.name for tag in dataset.tags.values() if tag.branch is None and tag.version in going
            ]
            if tagged:
                raise InvalidArgumentError(
                    f"tags name versions to remove: {', '.join(sorted(tagged))}",
                    field="error_if_tagged_old_versions",
                    hint="drop the tags, or omit the option: tagged versions are kept",
                )
        unverified = typed("delete_unverified", options.get("delete_unverified", False), bool)
        done = cleanup(self._uri, delete_unverified=unverified, **chosen, **self._options)
        return results.one_row(results.VACUUM, done.bytes_removed, done.versions_removed)

    # References

    def _show(self, what: str) -> pa.Table:
        dataset = self._open()
        if what == "indexes":
            return show_indexes(dataset)
        schema = results.SHOW_TAGS if what == "tags" else results.SHOW_BRANCHES
        items = dataset.tags.values() if what == "tags" else dataset.branches.values()
        values = [{name: plain(getattr(item, name)) for name in schema.names} for item in items]
        return results.rows(schema, values)

    def _create_ref(self, create: statements.CreateRef) -> pa.Table:
        at = self._at(create.source)
        try:
            if create.kind == "tag":
                create_tag(at, create.ref)
            else:
                create_branch(at, create.ref)
        except AlreadyExistsError:
            if not create.if_not_exists:
                raise
        return results.one_row(results.NAME, create.ref)

    def _at(self, source: Source) -> Dataset:
        version = (source.branch, source.version) if source.branch else source.tag or source.version
        return Dataset.open(self._uri, version, self._storage)

    def _drop_ref(self, drop: statements.DropRef) -> pa.Table:
        try:
            if drop.kind == "tag":
                delete_tag(self._uri, drop.ref, **self._options)
            else:
                delete_branch(self._uri, drop.ref, **self._options)
        except VersionNotFoundError:
            if not drop.if_exists:
                raise
        return results.one_row(results.NAME, drop.ref)

    # Columns

    def _drop_columns(self, columns: tuple[Name, ...], *, lenient: bool) -> pa.Table:
        known = {name.lower() for name in self._names()}
        wanted = [".".join(column) for column in columns if not lenient or column[0].lower() in known]
        if wanted:
            drop_columns(self._uri, list(self._own_names(wanted).values()), **self._options)
        return results.rows(results.NOTHING, [])

    def _add_columns(self, columns: tuple[str, ...], source: Name) -> pa.Table:
        """Add columns with values by row address; rows that the source lacks get nulls.

        Raises:
            InvalidArgumentError: An address is repeated, or does not exist in the newest version.
        """
        given = source_rows(self._tables, source, ["_rowaddr", *columns])
        dataset = self._open()
        check_new(dataset.schema.names, columns)
        live = dataset.to_table(["_rowaddr"])["_rowaddr"].combine_chunks().cast(pa.uint64())
        addresses = given["_rowaddr"].combine_chunks().cast(pa.uint64())
        if pc.count_distinct(addresses).as_py() != len(addresses):
            raise InvalidArgumentError("a row of the table occurs twice in the source", field="_rowaddr")
        found = pc.sum(pc.is_in(addresses, value_set=live)).as_py() or 0
        if found != len(addresses):
            # Merged or updated rows have new addresses: their values would be lost.
            raise InvalidArgumentError(
                f"{len(addresses) - found} of {len(addresses)} addresses in the source do not exist in "
                f"version {dataset.version} of the table; nothing was changed",
                path=self._uri,
                field="_rowaddr",
                hint="compute the source again from the newest version: compactions and updates move rows",
            )
        places = pc.index_in(live, value_set=addresses)
        new = given.select(list(columns)).take(places)
        add_columns(dataset, pa.RecordBatchReader.from_batches(new.schema, new.to_batches()), **self._options)
        return results.rows(results.NOTHING, [])
