"""Parts of the dataset object: tags, branches, upkeep, statistics and fragments, with pylance's methods."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.errors import InvalidArgumentError, UnsupportedError
from lance_ops.facade.delegates import MovingHandle
from lance_ops.table.history.refs import Branch, Tag
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.scan.run import Scan

if TYPE_CHECKING:
    from lance_ops.maintenance.metadata.result import MetadataResult
    from lance_ops.maintenance.results import CompactResult
    from lance_ops.table.dataset import Dataset as Snapshot

Ref = TypeVar("Ref", Tag, Branch)
Reference = int | str | tuple[str | None, int | None]
"""A version number, a tag, or (branch, version)."""


class _Refs(Mapping[str, Ref], Generic[Ref]):
    """Tags or branches by name, read when they are asked for."""

    def __init__(self, dataset: MovingHandle) -> None:
        self._dataset = dataset

    @abstractmethod
    def _read(self) -> dict[str, Ref]:
        """Return all of them by name."""

    def __getitem__(self, name: str) -> Ref:
        return self._read()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def __repr__(self) -> str:
        return repr(self._read())

    def list(self) -> dict[str, Ref]:
        """Return all of them by name."""
        return self._read()

    def list_ordered(self, order: str | None = None) -> Sequence[tuple[str, Ref]]:
        """Return all of them, by version: "desc", the default, or "asc"."""
        if order not in (None, "asc", "desc"):
            raise InvalidArgumentError(f'order must be "asc" or "desc", got {order!r}', field="order")
        return sorted(self._read().items(), key=lambda item: _version_of(item[1]), reverse=order != "asc")


def _version_of(ref: Tag | Branch) -> int:
    return ref.version if isinstance(ref, Tag) else ref.parent_version


class Tags(_Refs[Tag]):
    """Tags of a dataset: a mapping of names to tags, and the methods of pylance."""

    def _read(self) -> dict[str, Tag]:
        return self._dataset.snapshot().tags

    def create(self, tag: str, reference: Reference | None = None) -> Tag:
        """Tag a version; the one at which the dataset is when None."""
        from lance_ops.maintenance.metadata.actions import create_tag

        return create_tag(self._at(reference), tag)

    def update(self, tag: str, reference: Reference | None = None) -> Tag:
        """Move a tag to another version; to the one at which the dataset is when None."""
        from lance_ops.maintenance.metadata.actions import move_tag

        return move_tag(self._at(reference), tag)

    def delete(self, tag: str) -> None:
        """Remove a tag."""
        from lance_ops.maintenance.metadata.actions import delete_tag

        delete_tag(self._dataset.snapshot(), tag)

    def get_version(self, tag: str) -> int:
        """Return the version number of a tag."""
        return self._dataset.snapshot().checkout_version(tag).version

    def _at(self, reference: Reference | None) -> "Snapshot":
        snapshot = self._dataset.snapshot()
        return snapshot if reference is None else snapshot.checkout_version(_filled(reference, snapshot))


class Branches(_Refs[Branch]):
    """Branches of a dataset: a mapping of names to branches, and the methods of pylance."""

    def _read(self) -> dict[str, Branch]:
        return self._dataset.snapshot().branches

    def delete(self, branch: str) -> None:
        """Remove a branch with its versions and files."""
        from lance_ops.maintenance.metadata.branches import delete_branch

        delete_branch(self._dataset.snapshot(), branch)


def _filled(reference: Reference, snapshot: "Snapshot") -> Any:
    """Return a reference without gaps: None as the branch is the main one."""
    if isinstance(reference, tuple) and reference[0] is None:
        branch, version = reference
        return version if snapshot.branch is None else (branch, version)
    return reference


class Optimizer:
    """Upkeep of a dataset; from `Dataset.optimize`."""

    def __init__(self, dataset: MovingHandle) -> None:
        self._dataset = dataset

    def compact_files(
        self,
        *,
        max_rows_per_group: int | None = None,  # noqa: ARG002 - of pylance's oldest files
        num_threads: int | None = None,
        compaction_mode: str | None = None,
        binary_copy_read_batch_bytes: int | None = None,  # noqa: ARG002 - tunes pylance's copies
        **options: Any,
    ) -> "CompactResult":
        """Merge small fragments and remove deleted rows; see `lance_ops.compact`, whose options it takes too.

        Args:
            max_rows_per_group: No effect.
            num_threads: Threads of the rewrite.
            compaction_mode: "reencode" reads and writes all rows, "try_binary_copy" copies pages where that
                is possible.
            binary_copy_read_batch_bytes: No effect.
            **options: See `lance_ops.compact`; None stands for the default.
        """
        from lance_ops.maintenance.compact.operation import compact
        from lance_ops.maintenance.runner import LocalRunner

        # As pylance: all small fragments up to the target of rows.
        given = {"strategy": "rows", **{name: value for name, value in options.items() if value is not None}}
        if compaction_mode is not None:
            methods = {"reencode": "rewrite", "try_binary_copy": "auto"}
            if compaction_mode not in methods:
                raise UnsupportedError(
                    f"there is no compaction mode {compaction_mode!r}",
                    field="compaction_mode",
                    hint=f"one of {', '.join(methods)}",
                )
            given["method"] = methods[compaction_mode]
        if num_threads is not None:
            given["runner"] = LocalRunner(num_threads)
        result = compact(self._dataset.snapshot(), **given)
        self._dataset.move_to(result)
        return result  # type: ignore[no-any-return]  # the options are not known here

    def optimize_indices(self, **options: Any) -> Any:
        """Index new rows; see `lance_ops.optimize_indices`."""
        from lance_ops.maintenance.index.operation import optimize_indices

        result = optimize_indices(self._dataset.snapshot(), **options)
        self._dataset.move_to(result)
        return result

    def enable_auto_cleanup(self, auto_cleanup_config: Mapping[str, Any]) -> "MetadataResult":
        """Let commits clean up: `interval` in versions, and `older_than` or `retain_versions`."""
        from lance_ops.maintenance.metadata.actions import update_config

        result = update_config(self._dataset.snapshot(), auto_cleanup_entries(auto_cleanup_config))
        self._dataset.move_to(result)
        return result

    def disable_auto_cleanup(self) -> "MetadataResult":
        """Let no commit clean up."""
        from lance_ops.maintenance.metadata.actions import update_config

        config = self._dataset.snapshot().config
        keys = [key for key in config if key.startswith(_AUTO_CLEANUP)]
        result = update_config(self._dataset.snapshot(), delete=keys)
        self._dataset.move_to(result)
        return result


_AUTO_CLEANUP = "lance.auto_cleanup."


def auto_cleanup_entries(config: Mapping[str, Any]) -> dict[str, str]:
    """Return config entries of the table for an auto cleanup.

    Args:
        config: `interval` (a number of versions), `older_than_seconds`, `older_than` (a timedelta or text) or
            `retain_versions`, as pylance's `AutoCleanupConfig`.
    """
    entries = {}
    for name, value in config.items():
        if value is None:
            continue
        if name not in ("interval", "older_than_seconds", "older_than", "retain_versions"):
            raise InvalidArgumentError(
                f"an auto cleanup has no {name!r}",
                field=name,
                hint="interval, older_than_seconds, older_than, retain_versions",
            )
        if name == "older_than_seconds":
            entries[f"{_AUTO_CLEANUP}older_than"] = f"{int(value)}s"
        elif hasattr(value, "total_seconds"):
            entries[_AUTO_CLEANUP + name] = f"{int(value.total_seconds())}s"
        else:
            entries[_AUTO_CLEANUP + name] = str(value)
    return entries


class Statistics:
    """Statistics of a version; from `Dataset.stats`."""

    def __init__(self, snapshot: "Snapshot") -> None:
        self._snapshot = snapshot

    def dataset_stats(self, max_rows_per_group: int = 1024) -> dict[str, int]:
        """Return the numbers of deleted rows, of fragments, and of fragments below a number of rows."""
        fragments = self._snapshot.fragments
        return {
            "num_deleted_rows": sum(item.num_deleted_rows for item in fragments),
            "num_fragments": len(fragments),
            "num_small_files": sum(item.physical_rows < max_rows_per_group for item in fragments),
        }

    def index_stats(self, index_name: str) -> dict[str, Any]:
        """Return the statistics of an index; see `lance_ops.index_statistics`."""
        from lance_ops.index.upkeep.statistics import index_statistics

        return index_statistics(self._snapshot, index_name)


class FragmentView:
    """One fragment of a version, to be read alone; from `Dataset.get_fragments`.

    Attributes:
        metadata: The fragment as the manifest has it.
    """

    def __init__(self, snapshot: "Snapshot", metadata: Fragment) -> None:
        self._snapshot = snapshot
        self.metadata = metadata

    def __repr__(self) -> str:
        return f"FragmentView(id={self.fragment_id})"

    @property
    def fragment_id(self) -> int:
        """Id of the fragment."""
        return self.metadata.id

    @property
    def physical_rows(self) -> int:
        """Rows in the files, deleted ones included."""
        return self.metadata.physical_rows

    @property
    def num_deletions(self) -> int:
        """Deleted rows."""
        return self.metadata.num_deleted_rows

    @property
    def schema(self) -> pa.Schema:
        """Columns of the dataset."""
        return self._snapshot.schema

    def count_rows(self, filter: Any = None) -> int:  # noqa: A002 - the name users know
        """Count live rows, or those that match a filter."""
        return self.metadata.num_rows if filter is None else self.scanner([], filter).count_rows()

    def scanner(self, *arguments: Any, **options: Any) -> Scan:
        """Prepare a scan of the fragment; see `Dataset.scanner`."""
        return self._snapshot.scanner(*arguments, **options, fragments=[self.metadata])

    def to_table(self, *arguments: Any, **options: Any) -> pa.Table:
        """Read rows of the fragment; see `Dataset.scanner`."""
        return self.scanner(*arguments, **options).to_table()

    def to_batches(self, *arguments: Any, **options: Any) -> pa.RecordBatchReader:
        """Stream rows of the fragment; see `Dataset.scanner`."""
        return self.scanner(*arguments, **options).to_batches()

    def head(self, num_rows: int, **options: Any) -> pa.Table:
        """Return the first live rows of the fragment."""
        return self.to_table(limit=num_rows, **options)

    def take(self, indices: npt.ArrayLike, columns: Any = None) -> pa.Table:
        """Return live rows of the fragment by their numbers in it."""
        first = 0
        for item in self._snapshot.fragments:
            if item.id == self.metadata.id:
                break
            first += item.num_rows
        return self._snapshot.take(np.asarray(indices, np.int64) + first, columns)

    def data_files(self) -> tuple[Any, ...]:
        """Return the data files."""
        return self.metadata.files

    def deletion_file(self) -> Any:
        """Return the deletion file; None when no row is deleted."""
        return self.metadata.deletion_file


class Config(dict[str, str]):
    """Entries of the table config; pylance reads them by a call, `config()`."""

    def __call__(self) -> dict[str, str]:
        """Return the entries."""
        return dict(self)
