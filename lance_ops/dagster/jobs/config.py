"""Typed config of the maintenance jobs, as their launchpads show it. What destroys something is a dry run."""

from datetime import timedelta
from enum import Enum
from typing import Any

import dagster as dg
from pydantic import Field

from lance_ops.dagster.dataset_ref import LanceDatasetRef
from lance_ops.table.data_writer import MAX_ROWS_PER_FILE

DRY_RUN_BY_DEFAULT = "The default is a dry run, which changes nothing: set `dry_run: false` to do it."


def dry_run_field(what: str) -> Any:
    """The field of an operation that destroys something; its launchpad says that the default is a dry run.

    Args:
        what: What a dry run does, with a verb first.
    """
    return Field(default=True, description=f"{what}, change nothing. Default: true. Set false to do it.")


class WhenMatched(Enum):
    """What becomes of rows whose key the files have. Dagster's config has the names of the members."""

    update_all = "update_all"
    update_if = "update_if"
    do_nothing = "do_nothing"
    delete = "delete"
    fail = "fail"


class UnknownIndex(Enum):
    """What a compaction does about fragments under an index that cannot be moved along.

    Dagster's config has the names of the members.
    """

    leave = "leave"
    defer = "defer"


class CompactionMethod(Enum):
    """How rows get into new files. Dagster's config has the names of the members."""

    auto = "auto"
    copy = "copy"
    rewrite = "rewrite"


class OperationConfig(dg.Config):
    """What every operation can be told."""

    conflict_retries: int = Field(
        default=3,
        ge=0,
        description="How often the step starts anew after a conflict that the operation could not solve.",
    )
    conflict_pause_seconds: float = Field(
        default=5.0, ge=0, description="Longest pause before the first such retry; it doubles with each."
    )


class AppendConfig(OperationConfig):
    """Add the rows of files, exactly once however often it is retried or re-executed."""

    paths: list[str] = Field(description="Parquet, CSV, TSV or Arrow IPC files, folders of them, or globs.")
    fill_missing: bool = Field(
        default=False, description="Fill nullable columns that the files lack with nulls."
    )
    max_rows_per_file: int = Field(
        default=MAX_ROWS_PER_FILE, ge=1, description="Rows of a new fragment at most."
    )
    rerun_token: str = Field(
        default="",
        description="A re-executed run adds nothing, unless it has something new here.",
    )


class DeleteConfig(OperationConfig):
    """Delete the rows that match a predicate."""

    predicate: str = Field(description="SQL; rows for which it is true are deleted.")
    dry_run: bool = dry_run_field("Count the rows that match in each fragment")
    max_fraction: float = Field(
        default=0.5, ge=0, le=1, description="Refuse to delete a greater share of the rows than this."
    )


class UpsertConfig(OperationConfig):
    """Update rows by a key from files and add those whose key is new, once however often it is retried."""

    paths: list[str] = Field(description="Parquet, CSV, TSV or Arrow IPC files, folders of them, or globs.")
    on: list[str] = Field(
        default_factory=list,
        description="Columns of the key; the primary key that the schema declares when none are named.",
    )
    when_matched: WhenMatched = Field(
        default=WhenMatched.update_all, description="What becomes of rows whose key the files have."
    )
    condition: str | None = Field(
        default=None, description="Of update_if: SQL, such as source.seen > target.seen."
    )
    insert_new: bool = Field(default=True, description="Add the rows of the files whose key is new.")
    when_not_matched_by_source: str | None = Field(
        default=None,
        description="Rows whose key the files lack stay; 'delete' removes them, an SQL condition those for "
        "which it is true.",
    )
    dry_run: bool = Field(default=False, description="Only plan.")
    rerun_token: str = Field(
        default="",
        description="A re-executed run is the same job, unless there is something new here.",
    )


class UpdateConfig(OperationConfig):
    """Give columns of rows other values, by SQL; a re-executed run changes nothing twice."""

    values: dict[str, str] = Field(
        description="SQL of each column to change by its name, e.g. {price: price * 2}."
    )
    where: str | None = Field(
        default=None, description="SQL; rows for which it is true are changed. All rows without it."
    )
    dry_run: bool = dry_run_field("Count the rows that match")
    rerun_token: str = Field(
        default="",
        description="A re-executed run is the same job, unless there is something new here.",
    )


class AlterationSpec(dg.Config):
    """How one column becomes another."""

    path: str = Field(description="The column; a path such as a.b for a field of a struct.")
    name: str | None = Field(default=None, description="Its new name, of the last part of the path.")
    data_type: str | None = Field(
        default=None, description="Its new type as Arrow names it: int64, float, string, timestamp[us]."
    )
    nullable: bool | None = Field(default=None, description="Whether it may be null from now on.")


class AlterColumnsConfig(OperationConfig):
    """Give columns other names or types, or let them be null or not, in one commit."""

    alterations: list[AlterationSpec] = Field(
        description="One for each column, e.g. [{path: price, data_type: double}]."
    )
    dry_run: bool = dry_run_field("Say what would change")


class AddColumnsConfig(OperationConfig):
    """Add columns by SQL or by a function; a retry goes on where the step was broken off."""

    values: dict[str, str] = Field(
        default_factory=dict, description="SQL of each new column by its name, e.g. {total: price * amount}."
    )
    function: str = Field(
        default="",
        description="In place of SQL: module:name of a function over record batches, see batch_udf.",
    )
    dry_run: bool = Field(default=False, description="Only plan.")
    rerun_token: str = Field(
        default="",
        description="A re-executed run is the same job, unless there is something new here.",
    )


class CompactConfig(OperationConfig):
    """Merge small fragments and purge deleted rows; the data stay the same."""

    dry_run: bool = Field(default=False, description="Only plan.")
    target_rows_per_fragment: int | None = Field(
        default=None, ge=1, description="Rows to aim at; what the policy of the dataset says by default."
    )
    target_bytes_per_fragment: int | None = Field(
        default=None, ge=1, description="Bytes to aim at; what the policy of the dataset says by default."
    )
    tier_growth: int | None = Field(
        default=None,
        ge=2,
        description="Merge only what gets into a size tier so many times as large; by the policy by default.",
    )
    min_source_fragments: int | None = Field(
        default=None, ge=2, description="Merge no fewer fragments than this."
    )
    max_source_fragments: int | None = Field(
        default=None, ge=1, description="Rewrite at most so many fragments."
    )
    max_source_rows: int | None = Field(default=None, ge=1, description="Rewrite at most so many rows.")
    max_source_bytes: int | None = Field(default=None, ge=1, description="Rewrite at most so many bytes.")
    budget_seconds: float | None = Field(
        default=None,
        gt=0,
        description="Take what speeds scans up most for its time, no more than this by the estimate.",
    )
    budget_bytes: int | None = Field(default=None, ge=1, description="So for bytes read and written.")
    budget_fragments: int | None = Field(default=None, ge=1, description="So for fragments replaced.")
    budget_requests: int | None = Field(default=None, ge=1, description="So for requests to the store.")
    budget_money: float | None = Field(default=None, description="Removed; bound requests instead.")
    defer_index_remap: bool | None = Field(
        default=None,
        description="Leave the indices as they are and tell readers where rows went; lance_index follows.",
    )
    defer_where_cheaper: bool | None = Field(
        default=None,
        description="Do so for segments of which little moves, where that costs less than a remap.",
    )
    on_unknown_index: UnknownIndex | None = Field(
        default=None,
        description="Fragments under an index that cannot be moved along: leave them, or defer its remap.",
    )
    method: CompactionMethod | None = Field(
        default=None,
        description="Copy encoded pages where files allow that, or rewrite all rows; by cost when left out.",
    )
    commit_every: int | None = Field(
        default=None, ge=1, description="Commit after so many groups of fragments instead of once at the end."
    )
    commit_every_seconds: float | None = Field(
        default=None,
        gt=0,
        description="Commit what is done when so much time has passed since the last commit.",
    )


class IndexSpec(dg.Config):
    """An index that is to be there."""

    column: str = Field(description="The column.")
    kind: str = Field(default="BTREE", description="Kind of the index.")
    name: str | None = Field(default=None, description="Name of the index; <column>_idx by default.")
    parameters: dict[str, Any] = Field(
        default_factory=dict, description="How it is made, e.g. {metric: cosine}; what its kind knows."
    )


class IndexConfig(OperationConfig):
    """Build indices, or bring all of them up to date."""

    column: str | None = Field(
        default=None, description="Build an index on this column; without it, refresh the indices there are."
    )
    kind: str = Field(default="BTREE", description="Kind of a new index.")
    name: str | None = Field(default=None, description="Name of the index; <column>_idx by default.")
    parameters: dict[str, Any] = Field(
        default_factory=dict, description="How a new index is made, e.g. {metric: cosine}."
    )
    indices: list[IndexSpec] = Field(
        default_factory=list,
        description="Indices to be there: missing ones are built (with `replace` all), others refreshed.",
    )
    replace: bool = Field(default=False, description="Build the index anew if there is one of this name.")
    rebuild: bool = Field(default=False, description="Read everything again when refreshing.")
    merge_segments: int | None = Field(
        default=None, ge=0, description="Newest segments to merge with new rows; by what it costs by default."
    )
    dry_run: bool = Field(default=False, description="Only plan.")


class CleanupConfig(OperationConfig):
    """Remove old versions and the files that only they use."""

    dry_run: bool = dry_run_field("List every file to remove and why")
    older_than_days: float | None = Field(
        default=None, ge=0, description="Age from which versions may go; the policy's by default."
    )
    retain_versions: int | None = Field(
        default=None, ge=1, description="Newest versions that stay in any case; the policy's by default."
    )
    delete_unverified: bool = Field(
        default=False,
        description="Also remove young files that no version uses; a writer may still need them.",
    )

    def age(self, ref: LanceDatasetRef) -> timedelta:
        """Age from which versions of a dataset may go."""
        return ref.policy.older_than if self.older_than_days is None else timedelta(days=self.older_than_days)

    def retained(self, ref: LanceDatasetRef) -> int:
        """Newest versions of a dataset that stay."""
        return self.retain_versions or ref.policy.retain_versions
