"""Operations for `lance_ops.commit`: the contents of one transaction, as in the specification."""

from lance_ops.table.transaction.operations import (
    Append,
    CreateIndex,
    DataReplacement,
    Delete,
    MapUpdate,
    Merge,
    Operation,
    Overwrite,
    Project,
    ReserveFragments,
    Restore,
    Rewrite,
    RewriteGroup,
    RewrittenIndex,
    Update,
    UpdateConfig,
)

__all__ = [
    "Append",
    "CreateIndex",
    "DataReplacement",
    "Delete",
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
    "Update",
    "UpdateConfig",
]
