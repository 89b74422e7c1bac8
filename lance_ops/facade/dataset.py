"""Dataset object: one version to read, and the operations on the table, as in pylance."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_ops.facade import operations
from lance_ops.facade.builder import MergeInsertBuilder
from lance_ops.facade.delegates import MovingHandle, operation, read, same
from lance_ops.facade.parts import Branches, Config, FragmentView, Optimizer, Reference, Statistics, Tags
from lance_ops.file.schema.model import Schema
from lance_ops.storage import Store
from lance_ops.table.dataset import Dataset as Snapshot
from lance_ops.table.history.resolve_version import VersionSpec

if TYPE_CHECKING:
    import os
    from datetime import datetime


MISSING: Mapping[str, str] = {
    "add_bases": "base paths are read and kept, not made",
    "all_files": "use fsck(), or cleanup(dry_run=True)",
    "base_paths": "use snapshot().manifest.base_paths",
    "centroids": "use index_statistics(name)",
    "commit_batch": "commit each transaction with lance_ops.commit",
    "commit_existing_index_segments": "use create_index with a runner",
    "create_index_uncommitted": "use create_index with a runner",
    "delta": "use changes(since)",
    "drop": "remove the folder of the dataset",
    "filter": "use scanner(filter=...), or to_pyarrow_dataset()",
    "from_pydantic_model": "use lance_ops.write_dataset with a list of dicts",
    "get_version": "use versions()",
    "get_ivf_model": "use index_statistics(name)",
    "initialize_mem_wal": "MemWAL tables are written by pylance",
    "initial_storage_options": "use storage_options",
    "io_stats_incremental": "there is no count of requests",
    "io_stats_snapshot": "there is no count of requests",
    "join": "use lance_ops.merge, or DuckDB on the dataset",
    "join_asof": "use DuckDB on the dataset",
    "latest_storage_options": "use storage_options",
    "mem_wal_index_details": "use explain(mem_wal=True), or compact_wal(dry_run=True)",
    "mem_wal_writer": "MemWAL tables are written by pylance",
    "merge_existing_index_segments": "use optimize_indices",
    "merge_index_metadata": "use create_index with a runner",
    "new_file_session": "use write_fragments",
    "partition_expression": "use to_pyarrow_dataset()",
    "prewarm_index": "indices are loaded by the first query",
    "read_blob_ranges": "use take([...], columns=[...])",
    "read_blobs": "use take([...], columns=[...])",
    "remap_row_addrs": "use stable row ids",
    "replace_schema": "use alter_columns, add_columns and drop_columns",
    "session": "use lance_ops.set_cache_budget and cache_stats",
    "sort_by": "use scanner(order_by=[...])",
    "sql": "use lance_ops.sql, or DuckDB on the dataset",
    "storage_options_accessor": "use storage_options",
    "take_blobs": "use take([...], columns=[...])",
    "tracked_files": "use fsck(), or cleanup(dry_run=True)",
    "version_refs": "use versions() and tags",
}
"""Names of pylance that there are not, and what to do instead."""


class Dataset(MovingHandle):
    """A dataset at one version, which moves to each version that its own operations commit.

    Reads are those of the version; an operation acts on the newest version, and does not wait for
    `checkout_latest`. Nothing else moves the object: other writers, functions of `lance_ops` and other
    objects do not change what it reads. `snapshot` returns the version as a value that never moves.

    Args:
        snapshot: The version; from `lance_ops.dataset`.

    Examples:
        >>> events = lo.dataset("events.lance")
        >>> events.delete("id > 7").rows_deleted
        2
        >>> events.version, events.count_rows()
        (3, 8)
    """

    @classmethod
    def open(
        cls,
        uri: "str | os.PathLike[str] | Store",
        version: VersionSpec | None = None,
        storage_options: Mapping[str, str] | None = None,
        *,
        asof: "datetime | str | None" = None,
    ) -> "Dataset":
        """Open a dataset; see `lance_ops.dataset`."""
        return cls(Snapshot.open(uri, version, storage_options, asof=asof))

    def __reduce__(self) -> tuple[object, ...]:
        return (Dataset, (self.snapshot(),))

    def __repr__(self) -> str:
        return f"Dataset({self.uri!r}, version={self.version})"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("_version", "result"):
            raise AttributeError(name)
        try:
            return getattr(self.snapshot(), name)
        except AttributeError:
            if self.result is not None and hasattr(self.result, name):
                # Functions that return a dataset today returned this result in earlier versions.
                return getattr(self.result, name)
            what = MISSING.get(name)
            if what is None:
                raise
            raise AttributeError(f"Dataset has no {name!r}: {what}") from None

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *(name for name in dir(self.snapshot()) if name[0] != "_")})

    # Versions

    def checkout_version(self, version: VersionSpec) -> "Dataset":
        """Return the dataset at another version: a number on this branch, a tag, or (branch, version).

        Raises:
            VersionNotFoundError: There is no such version, tag or branch.
        """
        return Dataset(self.snapshot().checkout_version(version))

    def checkout_latest(self) -> "Dataset":
        """Move to the newest version of this branch, and return the dataset."""
        self._version = self.snapshot().latest()
        return self

    def latest(self) -> "Dataset":
        """Return the newest version of this branch as another object; itself if it is the newest."""
        newest = self.snapshot().latest()
        return self if newest is self.snapshot() else Dataset(newest)

    @property
    def uri(self) -> str:
        """Root of the dataset, or of its branch."""
        return self.snapshot().uri

    @property
    def version(self) -> int:
        """Version number."""
        return self.snapshot().version

    @property
    def latest_version(self) -> int:
        """Number of the newest version, read from the store."""
        return self.snapshot().latest().version

    @property
    def schema(self) -> pa.Schema:
        """Columns as an Arrow schema."""
        return self.snapshot().schema

    @property
    def lance_schema(self) -> Schema:
        """Columns with field ids."""
        return self.snapshot().lance_schema

    @property
    def config(self) -> Config:
        """Entries of the table config, as a mapping; a call returns them, too."""
        return Config(self.snapshot().config)

    @property
    def metadata(self) -> dict[str, str]:
        """Metadata of the table."""
        return dict(self.snapshot().manifest.table_metadata)

    @property
    def schema_metadata(self) -> dict[str, str]:
        """Metadata of the schema."""
        return {key.decode(): value.decode() for key, value in (self.schema.metadata or {}).items()}

    @property
    def has_index(self) -> bool:
        """Whether the version has an index."""
        return bool(self.snapshot().indices)

    @property
    def has_stable_row_ids(self) -> bool:
        """Whether rows keep their ids when they move."""
        return self.snapshot().uses_stable_row_ids

    @property
    def max_field_id(self) -> int:
        """Highest id of a field of the schema; -1 without columns."""
        return max((field.id for field in self.lance_schema.walk()), default=-1)

    @property
    def tags(self) -> Tags:
        """Tags by name, and methods to change them."""
        return Tags(self)

    @property
    def branches(self) -> Branches:
        """Branches by name, and methods to change them."""
        return Branches(self)

    @property
    def stats(self) -> Statistics:
        """Statistics of the version."""
        return Statistics(self.snapshot())

    @property
    def optimize(self) -> Optimizer:
        """Upkeep: `compact_files` and `optimize_indices`."""
        return Optimizer(self)

    # Reads

    scanner = same(Snapshot.scanner)
    to_table = same(Snapshot.to_table)
    to_batches = same(Snapshot.to_batches)
    to_pandas = same(Snapshot.to_pandas)
    explain = same(Snapshot.explain)
    head = same(Snapshot.head)
    count_rows = same(Snapshot.count_rows)
    take = same(Snapshot.take)
    changes = same(Snapshot.changes)
    history = same(Snapshot.history)
    versions = same(Snapshot.versions)
    read_transaction = same(Snapshot.read_transaction)
    to_pyarrow_dataset = same(Snapshot.to_pyarrow_dataset)
    sample = read(operations.sample)
    slice = read(operations.slice_rows)
    get_transactions = read(operations.get_transactions)
    list_indices = read(operations.list_indices)
    describe_indices = read("index.upkeep.statistics.describe_indices")
    index_statistics = read("index.upkeep.statistics.index_statistics")
    measure_health = read("maintenance.health.measure.measure_health")
    fsck = read("maintenance.fsck.operation.fsck")
    validate = read(operations.validate)

    def get_fragments(self) -> list[FragmentView]:
        """Return the fragments, each of which can be read alone."""
        return [FragmentView(self.snapshot(), item) for item in self.snapshot().fragments]

    def get_fragment(self, fragment_id: int) -> FragmentView | None:
        """Return the fragment with an id; None if there is none."""
        found = self.snapshot().fragments_by_id.get(fragment_id)
        return None if found is None else FragmentView(self.snapshot(), found)

    def fragment_ids(self) -> list[int]:
        """Return the ids of all fragments."""
        return [item.id for item in self.snapshot().fragments]

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the rows of the version by the Arrow C stream interface, one batch at a time."""
        return self.snapshot().__arrow_c_stream__(requested_schema)

    # Operations

    append = operation("maintenance.ingest.operation.append")
    insert = operation(operations.insert)
    replace_where = operation("maintenance.ingest.operation.replace_where")
    delete = operation("maintenance.delete.operation.delete")
    update = operation("maintenance.update.operation.update")
    truncate_table = operation("maintenance.metadata.truncate.truncate")
    add_columns = operation(operations.add_columns)
    alter_columns = operation("maintenance.columns.alter.alter_columns")
    drop_columns = operation("maintenance.metadata.actions.drop_columns")
    replace_columns = operation("maintenance.columns.replace.replace_columns")
    merge = operation("maintenance.columns.join.merge")
    create_index = operation("maintenance.index.operation.create_index")
    create_scalar_index = operation(operations.create_scalar_index)
    drop_index = operation("maintenance.index.names.drop_index")
    rename_index = operation("maintenance.index.names.rename_index")
    optimize_indices = operation("maintenance.index.operation.optimize_indices")
    compact = operation("maintenance.compact.operation.compact")
    compact_wal = operation("maintenance.compact_wal.operation.compact_wal")
    compact_columns = operation("maintenance.column_files.operation.compact_columns")
    restore = operation(operations.restore)
    update_config = operation(operations.update_config)
    delete_config_keys = operation(operations.delete_config_keys)
    update_metadata = operation(operations.update_metadata)
    update_schema_metadata = operation(operations.update_schema_metadata)
    replace_schema_metadata = operation(operations.replace_schema_metadata)
    update_field_metadata = operation(operations.update_field_metadata)
    replace_field_metadata = operation(operations.replace_field_metadata)
    migrate_manifest_paths_v2 = operation("maintenance.metadata.manifest_paths.migrate_manifest_paths")
    cleanup = read("maintenance.cleanup.operation.cleanup")
    cleanup_old_versions = read(operations.cleanup_old_versions)
    explain_cleanup_old_versions = read(operations.explain_cleanup_old_versions)

    def merge_insert(self, on: str | Sequence[str] | None = None) -> MergeInsertBuilder:
        """Begin a merge by a key: add clauses, then call `execute` with the rows.

        Args:
            on: Columns of the key; the primary key of the schema when None.
        """
        return MergeInsertBuilder(self, on if on is None or isinstance(on, str) else list(on))

    def create_branch(self, branch: str, reference: Reference | None = None, **options: Any) -> "Dataset":
        """Create a branch, and return it; see `lance_ops.create_branch`.

        Args:
            branch: Name of the branch.
            reference: Version, tag or (branch, version) to fork off; that of the dataset when None.
            **options: See `lance_ops.create_branch`.
        """
        from lance_ops.maintenance.metadata.branches import create_branch

        return Dataset(create_branch(self.snapshot(), branch, reference, **options))

    def shallow_clone(
        self, target_path: Any, reference: Reference | None = None, **options: Any
    ) -> "Dataset":
        """Make a dataset that shares the files of this one, and return it; see `lance_ops.shallow_clone`."""
        from lance_ops.maintenance.metadata.clone import shallow_clone

        at = self.snapshot().version if reference is None else reference
        return Dataset(shallow_clone(self.snapshot(), target_path, at, **options))

    def deep_clone(self, target_path: Any, reference: Reference | None = None, **options: Any) -> "Dataset":
        """Copy the dataset, and return the copy; see `lance_ops.deep_clone`."""
        from lance_ops.maintenance.metadata.deep_clone import deep_clone

        at = self.snapshot().version if reference is None else reference
        return Dataset(deep_clone(self.snapshot(), target_path, at, **options))

    @staticmethod
    def commit(uri: Any, operation: Any, read_version: int | None = None, **options: Any) -> "Dataset":
        """Commit the files of tasks of any engine, and return the new version; see `lance_ops.commit`."""
        from lance_ops.maintenance.distributed.commit import commit

        result = commit(uri, operation, read_version, **options)
        made = Dataset(result.dataset)
        made.result = result
        return made
