"""Operations that `lance_ops.commit` takes: what one transaction does, as the specification has them."""

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
