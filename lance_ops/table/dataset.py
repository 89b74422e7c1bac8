"""Dataset: one version of a table, and the door to everything else."""

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy.typing as npt
import pyarrow as pa

from lance_ops.deprecation import warn_renamed
from lance_ops.errors import InvalidArgumentError, NotFoundError, check_type
from lance_ops.filter import Expression, parse_filter
from lance_ops.storage import Store, is_store, open_store
from lance_ops.table.history.data_version import data_version
from lance_ops.table.history.history import HistoryEntry, VersionInfo, read_history, read_versions
from lance_ops.table.history.refs import Branch, Tag, list_branches, list_tags
from lance_ops.table.history.resolve_version import (
    VersionSpec,
    find_version,
    find_version_as_of,
    main_root,
    root_of_branch,
)
from lance_ops.table.manifest.feature_flags import check_readable
from lance_ops.table.manifest.file import (
    ManifestSummary,
    read_latest,
    read_manifest,
    read_summary,
)
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.listing import ManifestLocation, latest, locate
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.scan.fragment_rows import ScanSource
from lance_ops.table.scan.options import ScanOptions
from lance_ops.table.scan.plan import plan_scan, refuse_blob_dataset
from lance_ops.table.scan.projection import build_projection, build_take_projection
from lance_ops.table.scan.pruner import Pruner, default_pruners
from lance_ops.table.scan.row_columns import ROW_ADDRESS, ROW_COLUMNS, row_column_field
from lance_ops.table.scan.run import BATCH_ROWS, Scan
from lance_ops.table.scan.scored_scan import PostFilter, ScoredScan, build_output
from lance_ops.table.scan.search import SearchPlan, default_search
from lance_ops.table.scan.take import RowKey, take_rows
from lance_ops.table.snapshot import Snapshot
from lance_ops.table.transaction.transaction import Transaction, read_transaction

if TYPE_CHECKING:
    import pandas as pd


class _ScanArguments(ScanOptions, total=False):
    limit: int | None
    offset: int | None


class Dataset(Snapshot):
    """An immutable snapshot of a dataset. It may be pickled; the copy reads the manifest again.

    Args:
        store: Root of the dataset, or of one of its branches.
        location: Where the manifest lies.
        manifest: The manifest.
        storage_options: For opening other stores that the dataset refers to.
        root: Main root of the dataset, when `store` is a branch and this is known.
        pruners: What narrows filtered scans when a call names none; its indices when None.

    Raises:
        UnsupportedFeatureError: The manifest asks for a feature that is not implemented.
        CorruptManifestError: Its feature flags contradict themselves.
    """

    def __init__(
        self,
        store: Store,
        location: ManifestLocation,
        manifest: Manifest,
        *,
        storage_options: Mapping[str, str] | None = None,
        root: Store | None = None,
        pruners: Sequence[Pruner] | None = None,
    ) -> None:
        check_readable(manifest, path=f"{store.uri}/{location.path}")
        super().__init__(store, manifest, storage_options)
        self.location = location
        self._pruners = None if pruners is None else tuple(pruners)
        self._root = root

    @classmethod
    def open(
        cls,
        uri_or_store: str | os.PathLike[str] | Store,
        version: VersionSpec | None = None,
        storage_options: Mapping[str, str] | None = None,
        *,
        asof: datetime | str | None = None,
        pruners: Sequence[Pruner] | None = None,
    ) -> "Dataset":
        """Open a dataset. Its indices narrow filtered scans.

        Args:
            uri_or_store: Where it lies: a path, a URI, or a store bound to its root.
            version: A version number, a tag, or (branch, version); the newest when None.
            storage_options: For the store.
            asof: The newest version made by then, in place of `version`; a moment without a time zone is one
                of this machine's, and text is ISO 8601.
            pruners: What narrows filtered scans when a call names none; the indices of the dataset when None.

        Raises:
            DatasetNotFoundError: There is no dataset.
            VersionNotFoundError: There is no such version, tag or branch, or none that old.
            InvalidArgumentError: Both a version and a moment, or no moment.
            CorruptManifestError: The manifest is damaged.
            UnsupportedFeatureError: The dataset needs a feature that is not implemented.
        """
        if is_store(uri_or_store):
            store = uri_or_store
        else:
            store = open_store(cast("str | os.PathLike[str]", uri_or_store), storage_options)
        root = main_root(store, storage_options) if isinstance(version, str | tuple) else None
        if asof is not None:
            if version is not None:
                raise InvalidArgumentError("give a version or a moment, not both", field="asof")
            location = find_version_as_of(store, asof)
            manifest = read_manifest(store, location)
        elif version is None:
            location, manifest = read_latest(store)
        else:
            store, location = find_version(store, root or store, version)
            manifest = read_manifest(store, location)
        return cls(store, location, manifest, storage_options=storage_options, root=root, pruners=pruners)

    def __reduce__(self) -> tuple[object, ...]:
        return (_reopen, (self.store, self.location, self.storage_options, self._root, self._pruners))

    def __repr__(self) -> str:
        return f"Dataset({self.uri!r}, version={self.version})"

    # What it is

    @cached_property
    def root(self) -> Store:
        """Main root of the dataset: the store itself, except on a branch."""
        return self._root or root_of_branch(self.store, self.branch, self.storage_options)

    @property
    def pruners(self) -> tuple[Pruner, ...]:
        """What narrows filtered scans when a call names none."""
        return default_pruners() if self._pruners is None else self._pruners

    @property
    def tags(self) -> dict[str, Tag]:
        """Tags of the dataset by name, read anew each time."""
        return list_tags(self.root)

    @property
    def branches(self) -> dict[str, Branch]:
        """Branches of the dataset by name, read anew each time."""
        return list_branches(self.root)

    @cached_property
    def data_version(self) -> str:
        """32 hexadecimal digits that change when rows or columns do, and stay when only their layout does."""
        return data_version(self.store, self.manifest)

    # Versions

    def checkout_version(self, version: VersionSpec) -> "Dataset":
        """The dataset at another version: a number on this branch, a tag, or (branch, version).

        Raises:
            VersionNotFoundError: There is no such version, tag or branch.
        """
        root = self.root if isinstance(version, str | tuple) else self._root
        return self._at(*find_version(self.store, root or self.store, version), root)

    def checkout(self, version: VersionSpec) -> "Dataset":
        """The former name of `checkout_version`."""
        warn_renamed("Dataset.checkout", "Dataset.checkout_version")
        return self.checkout_version(version)

    def latest(self) -> "Dataset":
        """The newest version of this branch; itself when that is what it is."""
        location, manifest = read_latest(self.store, self.manifest)
        if manifest is self.manifest:
            self.location = location
            return self
        return Dataset(
            self.store,
            location,
            manifest,
            storage_options=self.storage_options,
            root=self._root,
            pruners=self._pruners,
        )

    def is_stale(self) -> bool:
        """Whether there is a newer version."""
        return latest(self.store).version != self.version

    def versions(self) -> list[VersionInfo]:
        """All versions of this branch, oldest first; one that is damaged says so in `damage`."""
        return read_versions(self.store)

    def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """What the newest commits did, newest first; a version that is damaged says so in `damage`.

        Args:
            limit: How many; all when None.
        """
        return read_history(self.store, limit)

    def read_transaction(self, version: int | None = None) -> Transaction:
        """The transaction that made a version.

        Args:
            version: A version of this branch; this one when None.

        Raises:
            VersionNotFoundError: There is no such version.
            NotFoundError: Its transaction was not recorded, or its file is gone.
            CorruptManifestError: The transaction is damaged.
        """
        manifest: Manifest | ManifestSummary = self.manifest
        if version is not None and version != self.version:
            manifest = read_summary(self.store, locate(self.store, version))
        transaction = read_transaction(self.store, manifest)
        if transaction is None:
            raise NotFoundError(f"version {manifest.version} records no transaction", path=self.uri)
        return transaction

    # Rows

    def parse_filter(self, sql: str, score: str | None = None) -> Expression:
        """Parse a filter against this dataset's columns, row columns included.

        Args:
            sql: The condition.
            score: Column of the scores of a search, which it may name, too.

        Raises:
            PredicateError: It does not parse, or names an unknown column.
        """
        extra = [row_column_field(name) for name in ROW_COLUMNS if name not in self.schema.names]
        if score is not None:
            extra.append(pa.field(score, pa.float32()))
        return parse_filter(sql, pa.schema([*self.schema, *extra], metadata=self.schema.metadata))

    def scanner(
        self,
        columns: Iterable[str] | None = None,
        filter: str | Expression | None = None,  # noqa: A002 - the name users know
        limit: int | None = None,
        offset: int | None = None,
        *,
        with_row_id: bool = False,
        with_row_address: bool = False,
        fragments: Sequence[int | Fragment] | None = None,
        batch_size: int | None = None,
        nearest: Mapping[str, Any] | None = None,
        full_text_query: Any = None,
        prefilter: bool = False,
        fast_search: bool = False,
        use_scalar_index: bool = True,
        pruners: Sequence[Pruner] | None = None,
        batch_rows: int | None = None,
    ) -> Scan:
        """Prepare a scan; nothing but metadata (and indices) is read yet.

        Blobs come with their bytes; of those that lie outside of the dataset, only the URI is read. JSON
        documents come as text.

        Args:
            columns: Top-level names, nested paths such as `a.b`, or `_rowid`, `_rowaddr`, `_rowoffset`,
                `_row_created_at_version`, `_row_last_updated_at_version`; all columns when None.
            filter: SQL, or a parsed expression.
            limit: Rows to return at most.
            offset: Rows to leave out at the start.
            with_row_id: Add the column `_rowid`.
            with_row_address: Add the column `_rowaddr`.
            fragments: Only these, by id or as they are, in this order.
            batch_size: Rows of a batch at most.
            nearest: Search for the vectors nearest to one; see `ScanOptions`.
            full_text_query: Search for words; see `ScanOptions`.
            prefilter: Let a search find rows that meet the filter only, instead of leaving those out
                afterwards that do not.
            fast_search: Let a search find indexed rows only.
            use_scalar_index: Let indices narrow the scan of the filter.
            pruners: What narrows the scan; those of the dataset, its indices as a rule, when None.
            batch_rows: The former name of `batch_size`.

        Raises:
            InvalidArgumentError: An unknown column or fragment, or a number that makes no sense.
            PredicateError: The filter does not parse.
            UnsupportedError: A column whose values this version cannot reach.
        """
        if batch_rows is not None:
            warn_renamed("batch_rows", "batch_size")
        if filter is not None:
            check_type(filter, (str, Expression), "an SQL condition", field="filter")
        sizes = [size for size in (batch_size, batch_rows) if size is not None]
        batch_rows = sizes[0] if sizes else BATCH_ROWS
        if pruners is None:
            pruners = self.pruners if use_scalar_index else ()
        if nearest is not None or full_text_query is not None:
            search = self._plan_search(nearest, full_text_query, fast=fast_search, limit=limit)
            among = filter if prefilter else None
            rows = self.scanner([ROW_ADDRESS], among, fragments=fragments, pruners=pruners)
            post = None if prefilter else filter
            if isinstance(post, str):
                post = self.parse_filter(post, search.column)
            skip = offset or 0
            return ScoredScan(
                self._source,
                rows,
                self.fragments,
                search,
                build_output(
                    self.lance_schema,
                    columns,
                    search,
                    with_row_id=with_row_id,
                    with_row_address=with_row_address,
                ),
                prefilter=among is not None or fragments is not None,
                post_filter=None
                if post is None or prefilter
                else PostFilter.of(self.lance_schema, post, search),
                offset=skip,
                limit=limit,
                batch_rows=batch_rows,
                # As with the peer: a search for words stops there, one for vectors at its `k`.
                found_limit=None if limit is None or nearest is not None else skip + limit,
            )
        expression = self.parse_filter(filter) if isinstance(filter, str) else filter
        prunings = []
        if expression is not None:
            found = (pruner.prune(self, expression) for pruner in pruners)
            prunings = [pruning for pruning in found if pruning is not None]
        plan = plan_scan(
            self.counted_manifest,
            self.lance_schema,
            build_projection(
                self.lance_schema, columns, with_row_id=with_row_id, with_row_address=with_row_address
            ),
            filter=expression,
            prunings=prunings,
            fragments=None if fragments is None else [self._fragment(item) for item in fragments],
            offset=offset or 0,
            limit=limit,
            path=self.uri,
        )
        return Scan(self._source, plan, batch_rows=batch_rows)

    def scan(
        self,
        columns: Iterable[str] | None = None,
        filter: str | Expression | None = None,  # noqa: A002
        **options: Unpack[_ScanArguments],
    ) -> Scan:
        """The former name of `scanner`."""
        warn_renamed("Dataset.scan", "Dataset.scanner")
        return self.scanner(columns, filter, **options)

    def to_table(
        self,
        columns: Iterable[str] | None = None,
        filter: str | Expression | None = None,  # noqa: A002
        limit: int | None = None,
        offset: int | None = None,
        **options: Unpack[ScanOptions],
    ) -> pa.Table:
        """Read rows into one table; see `scanner` for the arguments and errors."""
        return self.scanner(columns, filter, limit, offset, **options).to_table()

    def to_batches(
        self,
        columns: Iterable[str] | None = None,
        filter: str | Expression | None = None,  # noqa: A002
        limit: int | None = None,
        offset: int | None = None,
        **options: Unpack[ScanOptions],
    ) -> pa.RecordBatchReader:
        """Stream rows with bounded memory; see `scanner` for the arguments and errors."""
        return self.scanner(columns, filter, limit, offset, **options).to_batches()

    def explain(
        self,
        columns: Iterable[str] | None = None,
        filter: str | Expression | None = None,  # noqa: A002
        limit: int | None = None,
        offset: int | None = None,
        **options: Unpack[ScanOptions],
    ) -> str:
        """What reading these rows would do: which indices are used, which fragments are scanned.

        Indices are asked, no row is read; see `scanner` for the arguments and errors.
        """
        return self.scanner(columns, filter, limit, offset, **options).explain()

    def to_pandas(
        self,
        columns: Iterable[str] | None = None,
        filter: str | Expression | None = None,  # noqa: A002
        limit: int | None = None,
        offset: int | None = None,
        **options: Unpack[ScanOptions],
    ) -> "pd.DataFrame":
        """Read rows into a DataFrame; see `scanner` for the arguments and errors."""
        return self.to_table(columns, filter, limit, offset, **options).to_pandas()

    def head(
        self,
        num_rows: int,
        columns: Iterable[str] | None = None,
        filter: str | Expression | None = None,  # noqa: A002
        **options: Unpack[ScanOptions],
    ) -> pa.Table:
        """The first rows; see `scanner` for the arguments and errors."""
        return self.to_table(columns, filter, num_rows, **options)

    def count_rows(
        self,
        filter: str | Expression | None = None,  # noqa: A002
        *,
        pruners: Sequence[Pruner] | None = None,
    ) -> int:
        """Number of live rows, or of those that a filter selects; see `scanner`."""
        if filter is None:
            return sum(fragment.num_rows for fragment in self.fragments)
        return self.scanner([], filter, pruners=pruners).count_rows()

    def take(
        self,
        rows: npt.ArrayLike,
        columns: Iterable[str] | None = None,
        *,
        by: str = "offset",
        with_row_id: bool = False,
        with_row_address: bool = False,
    ) -> pa.Table:
        """Fetch single rows, in the order asked for.

        Args:
            rows: Numbers that name live rows; repeated ones are returned as often.
            columns: See `scanner`, but that a nested path comes as its struct with only that member, a column
                once however often it is asked for, and a row column as often as it is: as with the peer.
            by: What the numbers are: "offset" (place among the live rows), "address" (`_rowaddr`) or "id"
                (`_rowid`).
            with_row_id: Add the column `_rowid`.
            with_row_address: Add the column `_rowaddr`.

        Raises:
            InvalidArgumentError: There is no live row of some number, or an unknown column.
        """
        try:
            key = RowKey(by)
        except ValueError as error:
            raise InvalidArgumentError('by must be "offset", "address" or "id"', field="by") from error
        projection = build_take_projection(
            self.lance_schema, columns, with_row_id=with_row_id, with_row_address=with_row_address
        )
        refuse_blob_dataset(self.manifest, projection.schema.fields, self.uri)
        return take_rows(self._source, self.fragments, projection, rows, key)

    def _plan_search(
        self, nearest: Mapping[str, Any] | None, text: Any, *, fast: bool, limit: int | None
    ) -> SearchPlan:
        if nearest is None:
            return default_search().plan_full_text(self, text, fast=fast)
        if text is not None:
            raise InvalidArgumentError("one search at a time", field="nearest, full_text_query")
        return default_search().plan_nearest(self, nearest, fast=fast, limit=limit)

    @cached_property
    def _source(self) -> ScanSource:
        return ScanSource(self.bases, self.manifest.uses_stable_row_ids, self.deletion_vector)

    def _fragment(self, item: int | Fragment) -> Fragment:
        if isinstance(item, Fragment):
            return item
        fragment = self.fragments_by_id.get(item)
        if fragment is None:
            raise InvalidArgumentError(f"there is no fragment {item}", path=self.uri, field="fragments")
        return fragment

    def _at(self, store: Store, location: ManifestLocation, root: Store | None) -> "Dataset":
        return _reopen(store, location, self.storage_options, root, self._pruners)


def _reopen(
    store: Store,
    location: ManifestLocation,
    storage_options: Mapping[str, str],
    root: Store | None,
    pruners: Sequence[Pruner] | None,
) -> Dataset:
    return Dataset(
        store,
        location,
        read_manifest(store, location),
        storage_options=storage_options,
        root=root,
        pruners=pruners,
    )
