"""Snapshot: metadata of one version of a dataset, for readers, pruners and indices."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.cache import Cache
from lance_ops.file.schema.model import Schema
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.storage import Store
from lance_ops.storage.fork_safe import cached_property
from lance_ops.table.joined_fragments import JoinedViews
from lance_ops.table.manifest.base_paths import Bases
from lance_ops.table.manifest.deletion_vector import DeletionVector, read_deletion_vector
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragment_reuse.read import FragmentReuse, read_fragment_reuse
from lance_ops.table.manifest.fragments.fragment_list import FragmentList, FragmentTuple
from lance_ops.table.manifest.fragments.totals import by_id, first_rows, positions_by_id
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.manifest.row_counts import with_row_counts
from lance_ops.table.open_files import OpenFiles


@dataclass(frozen=True, eq=False, repr=False)
class Snapshot:
    """One version: its manifest and the locations of its files.

    It is pickled with the manifest: a task gets it `narrowed` to its reads. Open files and caches are not
    pickled.

    Attributes:
        store: Root of the dataset, or of one of its branches.
        manifest: The manifest.
        storage_options: For opening other stores that the dataset refers to.
        counted: True if all row counts of the manifest are known to be correct.
    """

    store: Store
    manifest: Manifest
    storage_options: Mapping[str, str] = field(default_factory=dict)
    counted: bool = False

    def __reduce__(self) -> tuple[object, ...]:
        return (Snapshot, (self.store, self.manifest, self.storage_options, self.counted))

    def narrowed(self, fragments: Sequence[Fragment], schema: Schema | None = None) -> "Snapshot":
        """Return the part of it that a task reads, small enough to send: it has no indices.

        Args:
            fragments: Fragments of the version, or copies of them.
            schema: Columns; all when None.
        """
        manifest = self.manifest.replace(
            fragments=fragments
            if isinstance(fragments, FragmentList | FragmentTuple)
            else FragmentTuple(fragments),
            schema=self.lance_schema if schema is None else schema,
            data_format=(self.manifest.data_format[0], self.data_storage_version),
            indices=(),
            transaction=None,
        )
        return Snapshot(self.store, manifest, self.storage_options, counted=True)

    @property
    def origin(self) -> "Snapshot":
        """Snapshot of which this one is a view; usually itself. Open files belong to it."""
        return self

    @property
    def uri(self) -> str:
        """URI of the dataset, or of its branch."""
        return self.store.uri

    @property
    def version(self) -> int:
        """Version number."""
        return self.manifest.version

    @cached_property
    def schema(self) -> pa.Schema:
        """Arrow schema with all metadata."""
        return prepare_schema(self.manifest.schema).arrow

    @property
    def lance_schema(self) -> Schema:
        """Schema with the field ids of the format."""
        return self.manifest.schema

    @property
    def fragments(self) -> Sequence[Fragment]:
        """Fragments in the order of their rows, equal to a tuple of them."""
        return self.counted_manifest.fragments

    @cached_property
    def fragment_reuse(self) -> FragmentReuse | None:
        """Fragment reuse index, with the row maps of deferred remaps; None without one."""
        return read_fragment_reuse(self.bases, self.manifest)

    @cached_property
    def indices(self) -> tuple[IndexMetadata, ...]:
        """Index segments with their current coverage (the manifest may name earlier fragments)."""
        reuse = self.fragment_reuse
        if reuse is None:
            return self.manifest.indices
        return tuple(reuse.move_segment(index) for index in self.manifest.indices)

    @property
    def config(self) -> Mapping[str, str]:
        """Table config."""
        # A copy, because the cached manifest is shared by all openings of the version.
        return dict(self.manifest.config)

    @property
    def data_storage_version(self) -> str:
        """Storage version that writers must use, such as "2.0"."""
        return self.manifest.storage_version

    @property
    def uses_stable_row_ids(self) -> bool:
        """Return whether rows keep their ids when they are moved; otherwise row ids are addresses."""
        return self.manifest.uses_stable_row_ids

    @property
    def branch(self) -> str | None:
        """Name of the branch; None for main."""
        return self.manifest.branch

    @cached_property
    def bases(self) -> Bases:
        """Locations of files."""
        return Bases(self.store, self.manifest.base_paths, self.storage_options)

    @cached_property
    def counted_manifest(self) -> Manifest:
        """Manifest with missing and doubtful row counts corrected."""
        return self.manifest if self.counted else with_row_counts(self.bases, self.manifest)

    @cached_property
    def fragments_by_id(self) -> Mapping[int, Fragment]:
        """Fragments by their ids."""
        return by_id(self.fragments)

    @cached_property
    def fragment_numbers(self) -> Mapping[int, int]:
        """Position of each fragment in `fragments`, by its id."""
        return positions_by_id(self.fragments)

    @cached_property
    def first_rows(self) -> npt.NDArray[np.int64]:
        """Live rows before each fragment, and in total: int64 of (fragments + 1,)."""
        return first_rows(self.fragments)

    @cached_property
    def open_files(self) -> OpenFiles:
        """Data files that stay open for the next read."""
        return OpenFiles()

    @cached_property
    def joined_fragments(self) -> JoinedViews:
        """Cache of joined fragments."""
        return JoinedViews()

    @cached_property
    def _caches(self) -> dict[str, Cache[Any, Any]]:
        return {}

    def cache(self, kind: str, most: int | None = None, largest: int | None = None) -> Cache[Any, Any]:
        """What is kept of this version, for as long as this object is in use; see `Cache`.

        A version never changes, so that what follows from its files stays right. No value may refer to
        the snapshot, which would then not be freed at once.
        """
        found = self._caches.get(kind)
        return self._caches.setdefault(kind, Cache(kind, most, largest)) if found is None else found

    def deletion_vector(self, fragment: Fragment) -> DeletionVector | None:
        """Read the deleted rows of a fragment; None when it has no deletion file.

        Raises:
            CorruptFileError: The deletion file is damaged or does not match the manifest.
            FileMissingError: The deletion file does not exist.
        """
        if fragment.deletion_file is None:
            return None
        if self.fragments_by_id.get(fragment.id) is not fragment:
            return read_deletion_vector(self.bases, fragment)
        found: DeletionVector | None = self.cache("deletion vectors").load(
            fragment.id, lambda: read_deletion_vector(self.bases, fragment), _size_of_vector
        )
        return found


def _size_of_vector(vector: DeletionVector | None) -> int:
    # A bitmap needs two bytes for a row at most, but for those that stand alone.
    return 256 + 2 * len(vector or ())
