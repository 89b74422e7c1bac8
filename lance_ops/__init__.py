"""Keeps Lance datasets healthy: read, append, delete, compact, index, clean; the official library beside it.

Everything listed in `__all__` is loaded when it is first used, so that `import lance_ops` costs nothing;
Spark and Dagster come in with `lance_ops.spark` and `lance_ops.dagster` only.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lance_ops._version import __version__ as __version__

if TYPE_CHECKING:
    from pathlib import Path

    from lance_ops.maintenance.cleanup.operation import cleanup
    from lance_ops.maintenance.compact.operation import compact
    from lance_ops.maintenance.compact.options import CompactionOptions
    from lance_ops.maintenance.delete.operation import delete
    from lance_ops.maintenance.fsck.operation import fsck
    from lance_ops.maintenance.index.operation import create_index, drop_index, optimize_indices
    from lance_ops.maintenance.ingest.operation import append, replace_where, write_dataset
    from lance_ops.maintenance.metadata.actions import (
        create_tag,
        delete_tag,
        move_tag,
        restore,
        update_config,
    )
    from lance_ops.maintenance.metadata.clone import shallow_clone
    from lance_ops.maintenance.progress import ProgressEvent
    from lance_ops.maintenance.runner import LocalRunner, Runner
    from lance_ops.table.dataset import Dataset

_HOMES = {
    "CompactionOptions": "lance_ops.maintenance.compact.options",
    "Dataset": "lance_ops.table.dataset",
    "LocalRunner": "lance_ops.maintenance.runner",
    "ProgressEvent": "lance_ops.maintenance.progress",
    "Runner": "lance_ops.maintenance.runner",
    "append": "lance_ops.maintenance.ingest.operation",
    "cleanup": "lance_ops.maintenance.cleanup.operation",
    "compact": "lance_ops.maintenance.compact.operation",
    "create_index": "lance_ops.maintenance.index.operation",
    "delete": "lance_ops.maintenance.delete.operation",
    "drop_index": "lance_ops.maintenance.index.operation",
    "fsck": "lance_ops.maintenance.fsck.operation",
    "optimize_indices": "lance_ops.maintenance.index.operation",
    "replace_where": "lance_ops.maintenance.ingest.operation",
    "create_tag": "lance_ops.maintenance.metadata.actions",
    "delete_tag": "lance_ops.maintenance.metadata.actions",
    "move_tag": "lance_ops.maintenance.metadata.actions",
    "restore": "lance_ops.maintenance.metadata.actions",
    "shallow_clone": "lance_ops.maintenance.metadata.clone",
    "update_config": "lance_ops.maintenance.metadata.actions",
    "write_dataset": "lance_ops.maintenance.ingest.operation",
}

__all__ = [
    "CompactionOptions",
    "Dataset",
    "LocalRunner",
    "ProgressEvent",
    "Runner",
    "append",
    "cleanup",
    "compact",
    "create_index",
    "create_tag",
    "dataset",
    "delete",
    "delete_tag",
    "drop_index",
    "fsck",
    "move_tag",
    "optimize_indices",
    "replace_where",
    "restore",
    "shallow_clone",
    "update_config",
    "write_dataset",
]


def dataset(
    uri: "str | Path",
    version: int | str | tuple[str, int] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> "Dataset":
    """Open one version of a dataset. Its indices narrow filtered scans.

    Args:
        uri: Where it is.
        version: A number, the name of a tag, or (branch, number); the newest without it.
        storage_options: For the store.

    Raises:
        DatasetNotFoundError: no dataset is there.
        VersionNotFoundError: it has no such version or tag.
    """
    from lance_ops.index.pruner import IndexPruner
    from lance_ops.table.dataset import Dataset

    return Dataset.open(uri, version, storage_options, pruners=(IndexPruner(),))


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'lance_ops' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
