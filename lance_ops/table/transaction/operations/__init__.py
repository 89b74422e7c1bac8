"""Operations of transactions, a module for each family. Source: transaction.proto.

`codec` maps wire messages to classes, `conflict_matrix` says which pairs conflict, `apply` builds the next
manifest.
"""

from lance_ops.table.transaction.operations.base import (
    CommittedOperation,
    ManifestOptions,
    Operation,
    Scope,
    brought_files,
    data_files,
    deletion_files,
    files_of,
    present_files,
    used_among,
)
from lance_ops.table.transaction.operations.columns import DataReplacement, Merge, Project
from lance_ops.table.transaction.operations.config import JOBS_ENTRY, MapUpdate, UpdateConfig
from lance_ops.table.transaction.operations.deletions import Delete, Update
from lance_ops.table.transaction.operations.foreign import ForeignOperation
from lance_ops.table.transaction.operations.indices import CreateIndex
from lance_ops.table.transaction.operations.restore import Restore
from lance_ops.table.transaction.operations.rewrite import ReserveFragments, Rewrite
from lance_ops.table.transaction.operations.rows import Append, Overwrite
from lance_ops.table.transaction.rewrite_group import RewriteGroup, RewrittenIndex

OPERATIONS: tuple[type[Operation], ...] = (
    Append,
    Delete,
    Update,
    Overwrite,
    CreateIndex,
    Rewrite,
    Merge,
    Restore,
    ReserveFragments,
    Project,
    UpdateConfig,
    DataReplacement,
)
"""All operations with a class of their own; the rest are `ForeignOperation`."""

__all__ = [
    "JOBS_ENTRY",
    "OPERATIONS",
    "Append",
    "CommittedOperation",
    "CreateIndex",
    "DataReplacement",
    "Delete",
    "ForeignOperation",
    "ManifestOptions",
    "MapUpdate",
    "Merge",
    "Operation",
    "Overwrite",
    "Project",
    "ReserveFragments",
    "Restore",
    "Rewrite",
    "RewriteGroup",
    "RewrittenIndex",
    "Scope",
    "Update",
    "UpdateConfig",
    "brought_files",
    "data_files",
    "deletion_files",
    "files_of",
    "present_files",
    "used_among",
]
