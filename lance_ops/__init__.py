"""Read, append, delete, compact, index and clean up Lance datasets.

The names in `__all__` are loaded on first use, so that `import lance_ops` is fast; Spark and Dagster are
imported by `lance_ops.spark` and `lance_ops.dagster` only.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lance_ops._version import __version__ as __version__
from lance_ops.errors import public as _public
from lance_ops.table.scan import accelerators as _accelerators

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from lance_ops import errors as errors
    from lance_ops import operations as operations
    from lance_ops.answers.description import ColumnDescription, DatasetDescription, describe
    from lance_ops.answers.difference import ColumnDiff, DatasetDiff, diff
    from lance_ops.answers.export import ExportResult, export
    from lance_ops.answers.text_columns import LostType
    from lance_ops.cache import CacheStats, CacheUse, cache_stats, set_cache_budget
    from lance_ops.facade.builder import MergeInsertBuilder
    from lance_ops.facade.dataset import Dataset
    from lance_ops.facade.write import write_dataset
    from lance_ops.file.schema.model import Schema
    from lance_ops.index.inverted.query import (
        BooleanQuery,
        BoostQuery,
        MatchQuery,
        MultiMatchQuery,
        PhraseQuery,
    )
    from lance_ops.index.search.index_search import IndexSearch
    from lance_ops.index.search.pruner import IndexPruner
    from lance_ops.index.search.recall import RecallSample, measure_recall
    from lance_ops.index.upkeep.statistics import IndexDescription, describe_indices, index_statistics
    from lance_ops.index.upkeep.wear import IndexWear, measure_wear
    from lance_ops.maintenance.cleanup.operation import CleanupResult, cleanup
    from lance_ops.maintenance.cleanup.plan import CleanupPlan
    from lance_ops.maintenance.cleanup.undo import TrashVerdict, UndoPlan, UndoResult, undo_cleanup
    from lance_ops.maintenance.column_files.operation import compact_columns
    from lance_ops.maintenance.column_files.plan import ColumnFilesPlan
    from lance_ops.maintenance.columns.alter import Alteration, AlterColumnsPlan, alter_columns
    from lance_ops.maintenance.columns.join import merge
    from lance_ops.maintenance.columns.operation import AddColumnsPlan, add_columns
    from lance_ops.maintenance.columns.replace import ReplaceColumnsPlan, replace_columns
    from lance_ops.maintenance.columns.result import (
        AddColumnsResult,
        AlterColumnsResult,
        ReplaceColumnsResult,
    )
    from lance_ops.maintenance.columns.transform import BatchUDF, batch_udf
    from lance_ops.maintenance.compact.operation import compact, resume_job
    from lance_ops.maintenance.compact.options import CompactionChoices, CompactionOptions
    from lance_ops.maintenance.compact.plan import CompactionPlan
    from lance_ops.maintenance.compact_wal.operation import compact_wal
    from lance_ops.maintenance.compact_wal.plan import CompactWalPlan
    from lance_ops.maintenance.compact_wal.result import CompactWalResult
    from lance_ops.maintenance.delete.operation import delete
    from lance_ops.maintenance.delete.plan import DeletePlan
    from lance_ops.maintenance.distributed.commit import CommitPlan, commit
    from lance_ops.maintenance.distributed.fragments import write_fragments
    from lance_ops.maintenance.fsck.findings import FsckResult
    from lance_ops.maintenance.fsck.operation import fsck
    from lance_ops.maintenance.health.forecast import Forecast, forecast_health
    from lance_ops.maintenance.health.measure import DatasetHealth, measure_health
    from lance_ops.maintenance.health.policy import MaintenancePolicy
    from lance_ops.maintenance.index.decision import WearLimits
    from lance_ops.maintenance.index.names import drop_index, rename_index
    from lance_ops.maintenance.index.operation import create_index, optimize_indices
    from lance_ops.maintenance.index.plan import IndexPlan
    from lance_ops.maintenance.index.result import IndexResult
    from lance_ops.maintenance.ingest.operation import append, replace_where
    from lance_ops.maintenance.ingest.options import IngestOptions
    from lance_ops.maintenance.ingest.preview import WritePreview
    from lance_ops.maintenance.ingest.replacement import ReplacePlan
    from lance_ops.maintenance.jobs.operation import JobStatus, cancel_job, list_jobs
    from lance_ops.maintenance.maintain.operation import MaintainPlan, maintain
    from lance_ops.maintenance.maintain.result import MaintainResult, OperationOutcome
    from lance_ops.maintenance.merge_insert.operation import merge_insert
    from lance_ops.maintenance.merge_insert.plan import MergePlan
    from lance_ops.maintenance.merge_insert.result import MergeResult
    from lance_ops.maintenance.metadata.actions import (
        create_tag,
        delete_tag,
        drop_columns,
        move_tag,
        restore,
        update_config,
    )
    from lance_ops.maintenance.metadata.branches import create_branch, delete_branch
    from lance_ops.maintenance.metadata.clone import shallow_clone
    from lance_ops.maintenance.metadata.deep_clone import deep_clone
    from lance_ops.maintenance.metadata.hold import hold_version
    from lance_ops.maintenance.metadata.manifest_paths import (
        MigratePathsPlan,
        MigratePathsResult,
        migrate_manifest_paths,
    )
    from lance_ops.maintenance.metadata.manifest_store import MigrateStoreResult, migrate_store
    from lance_ops.maintenance.metadata.restored import RestorePlan
    from lance_ops.maintenance.metadata.result import MetadataResult
    from lance_ops.maintenance.metadata.truncate import TruncatePlan, truncate
    from lance_ops.maintenance.progress import ProgressEvent
    from lance_ops.maintenance.results import (
        AppendResult,
        CompactColumnsResult,
        CompactResult,
        DeleteResult,
        OperationResult,
        Result,
    )
    from lance_ops.maintenance.run_options import RunOptions
    from lance_ops.maintenance.runner import LocalRunner, Runner
    from lance_ops.maintenance.sources.open import read_files, read_query
    from lance_ops.maintenance.update.operation import update
    from lance_ops.maintenance.update.plan import UpdatePlan
    from lance_ops.maintenance.update.result import UpdateResult
    from lance_ops.spark.sql.run import sql
    from lance_ops.storage import Store
    from lance_ops.table.commit.committer import (
        Committer,
        CopyIfAbsentCommitter,
        LockCommitter,
        PutIfAbsentCommitter,
    )
    from lance_ops.table.manifest.data_file import DataFile
    from lance_ops.table.manifest.fragment import Fragment
    from lance_ops.table.manifest.fragment_json import fragment_from_json, fragment_to_json
    from lance_ops.table.scan.options import ScanOptions
    from lance_ops.table.transaction.transaction import Transaction

_PUBLIC = {
    "lance_ops.answers.description": (
        "ColumnDescription",
        "DatasetDescription",
        "describe",
    ),
    "lance_ops.answers.difference": (
        "ColumnDiff",
        "DatasetDiff",
        "diff",
    ),
    "lance_ops.answers.export": (
        "ExportResult",
        "export",
    ),
    "lance_ops.answers.text_columns": ("LostType",),
    "lance_ops.cache": ("CacheStats", "CacheUse", "cache_stats", "set_cache_budget"),
    "lance_ops.facade.builder": ("MergeInsertBuilder",),
    "lance_ops.facade.dataset": ("Dataset",),
    "lance_ops.facade.write": ("write_dataset",),
    "lance_ops.file.schema.model": ("Schema",),
    "lance_ops.index.inverted.query": (
        "BooleanQuery",
        "BoostQuery",
        "MatchQuery",
        "MultiMatchQuery",
        "PhraseQuery",
    ),
    "lance_ops.index.search.pruner": ("IndexPruner",),
    "lance_ops.index.search.recall": (
        "RecallSample",
        "measure_recall",
    ),
    "lance_ops.index.upkeep.statistics": (
        "IndexDescription",
        "describe_indices",
        "index_statistics",
    ),
    "lance_ops.index.upkeep.wear": (
        "IndexWear",
        "measure_wear",
    ),
    "lance_ops.maintenance.cleanup.operation": (
        "CleanupResult",
        "cleanup",
    ),
    "lance_ops.maintenance.cleanup.plan": ("CleanupPlan",),
    "lance_ops.maintenance.columns.join": ("merge",),
    "lance_ops.maintenance.columns.operation": (
        "AddColumnsPlan",
        "add_columns",
    ),
    "lance_ops.maintenance.cleanup.undo": ("TrashVerdict", "UndoPlan", "UndoResult", "undo_cleanup"),
    "lance_ops.maintenance.column_files.operation": ("compact_columns",),
    "lance_ops.maintenance.column_files.plan": ("ColumnFilesPlan",),
    "lance_ops.maintenance.columns.alter": (
        "AlterColumnsPlan",
        "Alteration",
        "alter_columns",
    ),
    "lance_ops.maintenance.columns.replace": ("ReplaceColumnsPlan", "replace_columns"),
    "lance_ops.maintenance.columns.result": (
        "AddColumnsResult",
        "AlterColumnsResult",
        "ReplaceColumnsResult",
    ),
    "lance_ops.maintenance.columns.transform": ("BatchUDF", "batch_udf"),
    "lance_ops.maintenance.compact.operation": ("compact", "resume_job"),
    "lance_ops.maintenance.compact_wal.operation": ("compact_wal",),
    "lance_ops.maintenance.compact_wal.plan": ("CompactWalPlan",),
    "lance_ops.maintenance.compact_wal.result": ("CompactWalResult",),
    "lance_ops.maintenance.compact.options": (
        "CompactionChoices",
        "CompactionOptions",
    ),
    "lance_ops.maintenance.compact.plan": ("CompactionPlan",),
    "lance_ops.maintenance.delete.operation": ("delete",),
    "lance_ops.maintenance.delete.plan": ("DeletePlan",),
    "lance_ops.maintenance.distributed.commit": ("CommitPlan", "commit"),
    "lance_ops.maintenance.distributed.fragments": ("write_fragments",),
    "lance_ops.maintenance.fsck.findings": ("FsckResult",),
    "lance_ops.maintenance.fsck.operation": ("fsck",),
    "lance_ops.maintenance.health.forecast": (
        "Forecast",
        "forecast_health",
    ),
    "lance_ops.maintenance.health.measure": (
        "DatasetHealth",
        "measure_health",
    ),
    "lance_ops.maintenance.health.policy": ("MaintenancePolicy",),
    "lance_ops.maintenance.index.decision": ("WearLimits",),
    "lance_ops.maintenance.index.names": (
        "drop_index",
        "rename_index",
    ),
    "lance_ops.maintenance.index.operation": (
        "create_index",
        "optimize_indices",
    ),
    "lance_ops.maintenance.index.plan": ("IndexPlan",),
    "lance_ops.maintenance.index.result": ("IndexResult",),
    "lance_ops.maintenance.ingest.operation": (
        "append",
        "read_files",
        "read_query",
        "replace_where",
    ),
    "lance_ops.maintenance.ingest.options": ("IngestOptions",),
    "lance_ops.maintenance.ingest.preview": ("WritePreview",),
    "lance_ops.maintenance.sources.open": ("read_files", "read_query"),
    "lance_ops.maintenance.ingest.replacement": ("ReplacePlan",),
    "lance_ops.maintenance.jobs.operation": ("JobStatus", "cancel_job", "list_jobs"),
    "lance_ops.maintenance.maintain.operation": ("MaintainPlan", "maintain"),
    "lance_ops.maintenance.maintain.result": ("MaintainResult", "OperationOutcome"),
    "lance_ops.maintenance.merge_insert.operation": ("merge_insert",),
    "lance_ops.maintenance.merge_insert.plan": ("MergePlan",),
    "lance_ops.maintenance.merge_insert.result": ("MergeResult",),
    "lance_ops.maintenance.metadata.actions": (
        "create_tag",
        "delete_tag",
        "drop_columns",
        "move_tag",
        "restore",
        "update_config",
    ),
    "lance_ops.maintenance.metadata.branches": ("create_branch", "delete_branch"),
    "lance_ops.maintenance.metadata.clone": ("shallow_clone",),
    "lance_ops.maintenance.metadata.deep_clone": ("deep_clone",),
    "lance_ops.maintenance.metadata.hold": ("hold_version",),
    "lance_ops.maintenance.metadata.manifest_paths": (
        "MigratePathsPlan",
        "MigratePathsResult",
        "migrate_manifest_paths",
    ),
    "lance_ops.maintenance.metadata.restored": ("RestorePlan",),
    "lance_ops.maintenance.metadata.manifest_store": ("MigrateStoreResult", "migrate_store"),
    "lance_ops.maintenance.metadata.result": ("MetadataResult",),
    "lance_ops.maintenance.metadata.truncate": ("TruncatePlan", "truncate"),
    "lance_ops.maintenance.progress": ("ProgressEvent",),
    "lance_ops.maintenance.results": (
        "AppendResult",
        "CompactColumnsResult",
        "CompactResult",
        "DeleteResult",
        "OperationResult",
        "Result",
    ),
    "lance_ops.maintenance.run_options": ("RunOptions",),
    "lance_ops.maintenance.runner": (
        "LocalRunner",
        "Runner",
    ),
    "lance_ops.maintenance.update.operation": ("update",),
    "lance_ops.maintenance.update.plan": ("UpdatePlan",),
    "lance_ops.maintenance.update.result": ("UpdateResult",),
    "lance_ops.spark.sql.run": ("sql",),
    "lance_ops.table.commit.committer": (
        "Committer",
        "CopyIfAbsentCommitter",
        "LockCommitter",
        "PutIfAbsentCommitter",
    ),
    "lance_ops.table.manifest.data_file": ("DataFile",),
    "lance_ops.table.manifest.fragment": ("Fragment",),
    "lance_ops.table.manifest.fragment_json": ("fragment_from_json", "fragment_to_json"),
    "lance_ops.table.scan.options": ("ScanOptions",),
    "lance_ops.table.transaction.transaction": ("Transaction",),
}
_MODULES = frozenset({"errors", "operations"})
_HOMES = {name: home for home, names in _PUBLIC.items() for name in names}

__all__ = [
    "AddColumnsPlan",
    "AddColumnsResult",
    "AlterColumnsPlan",
    "AlterColumnsResult",
    "Alteration",
    "AppendResult",
    "BatchUDF",
    "BooleanQuery",
    "BoostQuery",
    "CacheStats",
    "CacheUse",
    "CleanupPlan",
    "CleanupResult",
    "ColumnDescription",
    "ColumnDiff",
    "ColumnFilesPlan",
    "CommitPlan",
    "Committer",
    "CompactColumnsResult",
    "CompactResult",
    "CompactWalPlan",
    "CompactWalResult",
    "CompactionChoices",
    "CompactionOptions",
    "CompactionPlan",
    "CopyIfAbsentCommitter",
    "DataFile",
    "Dataset",
    "DatasetDescription",
    "DatasetDiff",
    "DatasetHealth",
    "DeletePlan",
    "DeleteResult",
    "ExportResult",
    "Forecast",
    "Fragment",
    "FsckResult",
    "IndexDescription",
    "IndexPlan",
    "IndexPruner",
    "IndexResult",
    "IndexWear",
    "IngestOptions",
    "JobStatus",
    "LocalRunner",
    "LockCommitter",
    "LostType",
    "MaintainPlan",
    "MaintainResult",
    "MaintenancePolicy",
    "MatchQuery",
    "MergeInsertBuilder",
    "MergePlan",
    "MergeResult",
    "MetadataResult",
    "MigratePathsPlan",
    "MigratePathsResult",
    "MigrateStoreResult",
    "MultiMatchQuery",
    "OperationOutcome",
    "OperationResult",
    "PhraseQuery",
    "ProgressEvent",
    "PutIfAbsentCommitter",
    "RecallSample",
    "ReplaceColumnsPlan",
    "ReplaceColumnsResult",
    "ReplacePlan",
    "RestorePlan",
    "Result",
    "RunOptions",
    "Runner",
    "ScanOptions",
    "Schema",
    "Transaction",
    "TrashVerdict",
    "TruncatePlan",
    "UndoPlan",
    "UndoResult",
    "UpdatePlan",
    "UpdateResult",
    "WearLimits",
    "WritePreview",
    "__version__",
    "add_columns",
    "alter_columns",
    "append",
    "batch_udf",
    "cache_stats",
    "cancel_job",
    "cleanup",
    "commit",
    "compact",
    "compact_columns",
    "compact_wal",
    "create_branch",
    "create_index",
    "create_tag",
    "dataset",
    "deep_clone",
    "delete",
    "delete_branch",
    "delete_tag",
    "describe",
    "describe_indices",
    "diff",
    "drop_columns",
    "drop_index",
    "errors",
    "export",
    "forecast_health",
    "fragment_from_json",
    "fragment_to_json",
    "fsck",
    "hold_version",
    "index_statistics",
    "list_jobs",
    "maintain",
    "measure_health",
    "measure_recall",
    "measure_wear",
    "merge",
    "merge_insert",
    "migrate_manifest_paths",
    "migrate_store",
    "move_tag",
    "operations",
    "optimize_indices",
    "read_files",
    "read_query",
    "rename_index",
    "replace_columns",
    "replace_where",
    "restore",
    "resume_job",
    "set_cache_budget",
    "shallow_clone",
    "sql",
    "truncate",
    "undo_cleanup",
    "update",
    "update_config",
    "write_dataset",
    "write_fragments",
]


@_public(
    uri_or_dataset="uri",
    ignored=(
        "block_size",
        "index_cache_size",
        "index_cache_size_bytes",
        "metadata_cache_size_bytes",
        "read_params",
        "session",
    ),
    refused={
        "base_store_params": "give storage_options",
        "commit_lock": "give a committer to the operation, such as lance_ops.LockCommitter",
        "default_scan_options": "give them to each scan",
        "namespace_client": "give the URI of the dataset",
        "table_id": "give the URI of the dataset",
    },
)
def dataset(
    uri: "str | Path | Store",
    version: int | str | tuple[str | None, int | None] | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    asof: "datetime | str | None" = None,
) -> "Dataset":
    """Open one version of a dataset, like `lance.dataset` of pylance.

    Args:
        uri: A path, a URI, or a store bound to the dataset root.
        version: A number, the name of a tag, or (branch, number); the newest without it.
        storage_options: Options of the store.
        asof: Open the newest version at this time, instead of `version`; a time without a time zone is local
            time, and a string is ISO 8601.

    Raises:
        DatasetNotFoundError: no dataset is there.
        VersionNotFoundError: it has no such version or tag, or none that old.

    Examples:
        >>> lo.dataset("events.lance").count_rows("kind = 'a'")
        5
        >>> lo.dataset("events.lance", version=1).count_rows()
        5
    """
    from lance_ops.facade.dataset import Dataset

    return Dataset.open(uri, version, storage_options, asof=asof)


def _index_pruner() -> "IndexPruner":
    from lance_ops.index.search.pruner import IndexPruner

    return IndexPruner()


def _index_search() -> "IndexSearch":
    from lance_ops.index.search.index_search import IndexSearch

    return IndexSearch()


_accelerators.name_accelerators(_accelerators.Accelerators(_index_pruner, _index_search))


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"lance_ops.{name}")
    home = _HOMES.get(name)
    if home is None:
        from lance_ops._removed import REMOVED_NAMES

        why = REMOVED_NAMES.get(name)
        removed = "" if why is None else f"; it was removed: {why}"
        raise AttributeError(f"module 'lance_ops' has no attribute {name!r}{removed}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
