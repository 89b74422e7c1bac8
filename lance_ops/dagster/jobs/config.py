"""Typed config of the maintenance jobs, as shown in their launchpads. Destructive ones are dry runs."""

from datetime import timedelta
from enum import Enum
from typing import Any

import dagster as dg
from pydantic import Field

from lance_ops.dagster.dataset_ref import LanceDatasetRef
from lance_ops.table.data_writer import MAX_ROWS_PER_FILE

DRY_RUN_BY_DEFAULT = (
    "The default is a dry run, which changes nothing: set `dry_run: false` to run the operation."
)


def dry_run_field(what: str) -> Any:
    """Return the field of a destructive operation; its launchpad shows that the default is a dry run.

    Args:
        what: Description of the dry run, starting with a verb.
    """
    return Field(
        default=True, description=f"{what}, change nothing. Default: true. Set false to run the operation."
    )


class WhenMatched(Enum):
    """Action for rows whose key the files have. Dagster's config uses the names of the members."""

    update_all = "update_all"
    update_if = "update_if"
    do_nothing = "do_nothing"
    delete = "delete"
    fail = "fail"


class UnknownIndex(Enum):
    """Action for fragments under an index that cannot be remapped.

    Dagster's config uses the names of the members.
    """

    leave = "leave"
    defer = "defer"


class CompactionMethod(Enum):
    """Method of writing new files. Dagster's config uses the names of the members."""

    auto = "auto"
    copy = "copy"
    rewrite = "rewrite"


class CompactionStrategy(Enum):
    """Rule that chooses fragments. Dagster's config uses the names of the members."""

    tiers = "tiers"
    rows = "rows"


class OperationConfig(dg.Config):
    """Config of every operation."""

    conflict_retries: int = Field(
        default=3,
        ge=0,
        description="Number of retries of the step after a conflict that the operation could not resolve.",
    )
    conflict_pause_seconds: float = Field(
        default=5.0, ge=0, description="Longest pause before the first such retry; it doubles with each."
    )


def paths_field() -> Any:
    """Field of the input files of a job."""
    return Field(
        default_factory=list,
        description="Parquet, Arrow, CSV, TSV, JSON, ORC or Avro files, also compressed, folders of them, or "
        "globs; or a Lance table. Either these or a query.",
    )


def read_options_field() -> Any:
    """Field of the options of input files."""
    return Field(
        default_factory=dict,
        description="Options of the files, as of lance_ops.read_files, e.g. {delimiter: ';'}.",
    )


def query_field() -> Any:
    """Field of a query instead of files."""
    return Field(default=None, description="SQL query whose rows are the input, see lance_ops.read_query.")


def database_field() -> Any:
    """Field of the database of a query."""
    return Field(default=None, description="Database of the query: a file or URL; default DuckDB.")


class AppendConfig(OperationConfig):
    """Add the rows of files, exactly once however often it is retried or re-executed."""

    paths: list[str] = paths_field()
    read_options: dict[str, Any] = read_options_field()
    query: str | None = query_field()
    database: str | None = database_field()
    fill_missing: bool = Field(
        default=False, description="Fill nullable columns that the files lack with nulls."
    )
    max_rows_per_file: int = Field(
        default=MAX_ROWS_PER_FILE, ge=1, description="Maximum rows per new fragment."
    )
    rerun_token: str = Field(
        default="",
        description="A re-executed run adds nothing, unless this has a new value.",
    )


class DeleteConfig(OperationConfig):
    """Delete the rows that match a predicate."""

    predicate: str = Field(description="SQL; rows for which it is true are deleted.")
    dry_run: bool = dry_run_field("Count the rows that match in each fragment")
    max_fraction: float = Field(
        default=0.5, ge=0, le=1, description="Fail if more than this share of the rows would be deleted."
    )


class UpsertConfig(OperationConfig):
    """Update rows by a key from files and insert those with a new key, once over all retries."""

    paths: list[str] = paths_field()
    read_options: dict[str, Any] = read_options_field()
    query: str | None = query_field()
    database: str | None = database_field()
    on: list[str] = Field(
        default_factory=list,
        description="Key columns; default the primary key of the schema.",
    )
    when_matched: WhenMatched = Field(
        default=WhenMatched.update_all, description="Action for rows whose key the files have."
    )
    condition: str | None = Field(
        default=None, description="Condition of update_if: SQL, such as source.seen > target.seen."
    )
    insert_new: bool = Field(default=True, description="Insert the rows of the files with a new key.")
    when_not_matched_by_source: str | None = Field(
        default=None,
        description="Rows whose key the files lack are kept; 'delete' removes them, an SQL condition "
        "limits this to matching rows.",
    )
    dry_run: bool = Field(default=False, description="Only plan.")
    rerun_token: str = Field(
        default="",
        description="A re-executed run is the same job, unless this has a new value.",
    )


class UpdateConfig(OperationConfig):
    """Set columns of rows to new values by SQL; a re-executed run changes nothing twice."""

    values: dict[str, str] = Field(
        description="SQL expression of each column to change, e.g. {price: price * 2}."
    )
    where: str | None = Field(
        default=None, description="SQL condition; matching rows are changed. Default: all rows."
    )
    dry_run: bool = dry_run_field("Count the rows that match")
    rerun_token: str = Field(
        default="",
        description="A re-executed run is the same job, unless this has a new value.",
    )


class AlterationSpec(dg.Config):
    """Change of one column."""

    path: str = Field(description="The column; a path such as a.b for a field of a struct.")
    name: str | None = Field(default=None, description="New name of the last part of the path.")
    data_type: str | None = Field(
        default=None, description="New type as an Arrow name: int64, float, string, timestamp[us]."
    )
    nullable: bool | None = Field(default=None, description="Allow or forbid nulls.")


class AlterColumnsConfig(OperationConfig):
    """Change names, types or nullability of columns, in one commit."""

    alterations: list[AlterationSpec] = Field(
        description="List of changes, e.g. [{path: price, data_type: double}]."
    )
    dry_run: bool = dry_run_field("Show the changes")


class AddColumnsConfig(OperationConfig):
    """Add columns by SQL or by a function; a retry resumes the interrupted step."""

    values: dict[str, str] = Field(
        default_factory=dict, description="SQL expression of each new column, e.g. {total: price * amount}."
    )
    function: str = Field(
        default="",
        description="Instead of SQL: module:name of a function over record batches, see batch_udf.",
    )
    dry_run: bool = Field(default=False, description="Only plan.")
    rerun_token: str = Field(
        default="",
        description="A re-executed run is the same job, unless this has a new value.",
    )


class MaintainConfig(OperationConfig):
    """Compact, refresh indices and clean up, each if it is due by the dataset's policy."""

    dry_run: bool = Field(default=False, description="Only plan.")
    budget_bytes: int | None = Field(
        default=None, ge=1, description="Maximum bytes read plus written by the estimates."
    )
    budget_seconds: float | None = Field(
        default=None, gt=0, description="Maximum seconds by the estimates; nothing is started after them."
    )


class CompactConfig(OperationConfig):
    """Merge small fragments and purge deleted rows; the data stay the same."""

    dry_run: bool = Field(default=False, description="Only plan.")
    target_rows_per_fragment: int | None = Field(
        default=None, ge=1, description="Target rows per fragment; default that of the dataset's policy."
    )
    strategy: CompactionStrategy | None = Field(
        default=None,
        description="tiers: targets in rows and bytes, and size tiers; rows: merge all small fragments up to "
        "the target of rows, as pylance does; default that of the dataset's policy.",
    )
    target_bytes_per_fragment: int | None = Field(
        default=None, ge=1, description="Target bytes per fragment; default that of the dataset's policy."
    )
    tier_growth: int | None = Field(
        default=None,
        ge=2,
        description="Merge a fragment only into a size tier this many times larger; default that of the "
        "policy.",
    )
    min_source_fragments: int | None = Field(default=None, ge=2, description="Minimum fragments to merge.")
    max_source_fragments: int | None = Field(default=None, ge=1, description="Maximum fragments to rewrite.")
    max_source_rows: int | None = Field(default=None, ge=1, description="Maximum rows to rewrite.")
    max_source_bytes: int | None = Field(default=None, ge=1, description="Maximum bytes to rewrite.")
    budget_seconds: float | None = Field(
        default=None,
        gt=0,
        description="Maximum seconds by the estimate; chooses the fragments with most benefit for scans.",
    )
    budget_bytes: int | None = Field(
        default=None, ge=1, description="Maximum bytes read plus written, chosen in the same way."
    )
    budget_fragments: int | None = Field(
        default=None, ge=1, description="Maximum fragments replaced, chosen in the same way."
    )
    budget_requests: int | None = Field(
        default=None, ge=1, description="Maximum requests to the store, chosen in the same way."
    )
    budget_money: float | None = Field(default=None, description="Removed; use budget_requests instead.")
    defer_index_remap: bool | None = Field(
        default=None,
        description="Do not rewrite indices; record moved rows in the fragment reuse index for lance_index.",
    )
    defer_where_cheaper: bool | None = Field(
        default=None,
        description="Defer the remap of segments with few moved rows where that costs less than a remap.",
    )
    on_unknown_index: UnknownIndex | None = Field(
        default=None,
        description="Fragments under an index that cannot be remapped: leave them, or defer its remap.",
    )
    method: CompactionMethod | None = Field(
        default=None,
        description="Copy encoded pages where files allow it, or rewrite all rows; default by estimated "
        "cost.",
    )
    commit_every: int | None = Field(
        default=None,
        ge=1,
        description="Commit after this many groups of fragments instead of once at the end.",
    )
    commit_every_seconds: float | None = Field(
        default=None,
        gt=0,
        description="Commit finished groups when this much time has passed since the last commit.",
    )


class IndexSpec(dg.Config):
    """Index that must exist."""

    column: str = Field(description="The column.")
    kind: str = Field(default="BTREE", description="Kind of the index.")
    name: str | None = Field(default=None, description="Name of the index; default <column>_idx.")
    parameters: dict[str, Any] = Field(
        default_factory=dict, description="Parameters of its kind, e.g. {metric: cosine}."
    )


class IndexConfig(OperationConfig):
    """Build or refresh indices."""

    column: str | None = Field(
        default=None, description="Build an index on this column; by default, refresh the existing indices."
    )
    kind: str = Field(default="BTREE", description="Kind of a new index.")
    name: str | None = Field(default=None, description="Name of the index; default <column>_idx.")
    parameters: dict[str, Any] = Field(
        default_factory=dict, description="Parameters of a new index, e.g. {metric: cosine}."
    )
    indices: list[IndexSpec] = Field(
        default_factory=list,
        description="Required indices: missing ones are built (with `replace` all), others refreshed.",
    )
    replace: bool = Field(default=False, description="Replace an index of this name.")
    rebuild: bool = Field(default=False, description="Rebuild the indices instead of refreshing them.")
    merge_segments: int | None = Field(
        default=None, ge=0, description="Newest segments to merge with new rows; default by estimated cost."
    )
    dry_run: bool = Field(default=False, description="Only plan.")


class CompactWalConfig(OperationConfig):
    """Fold flushed generations of MemWAL into the dataset, and remove those that no reader needs."""

    dry_run: bool = Field(default=False, description="Only plan.")
    max_bytes: int | None = Field(
        default=None, ge=1, description="Maximum bytes of the generations of one commit; default 256 MiB."
    )
    remove: bool = Field(
        default=True, description="Remove generations that every existing version of the dataset has."
    )


class CleanupConfig(OperationConfig):
    """Remove old versions and the files that only they use."""

    dry_run: bool = dry_run_field("List every file to remove with the reason")
    older_than_days: float | None = Field(
        default=None, ge=0, description="Minimum age of removed versions; default that of the policy."
    )
    retain_versions: int | None = Field(
        default=None, ge=1, description="Number of newest versions to keep; default that of the policy."
    )
    delete_unverified: bool = Field(
        default=False,
        description="Also remove unused files younger than 7 days; a writer may still need them.",
    )

    def age(self, ref: LanceDatasetRef) -> timedelta:
        """Return the minimum age of removed versions of a dataset."""
        return ref.policy.older_than if self.older_than_days is None else timedelta(days=self.older_than_days)

    def retained(self, ref: LanceDatasetRef) -> int:
        """Return the number of newest versions to keep."""
        return self.retain_versions or ref.policy.retain_versions
