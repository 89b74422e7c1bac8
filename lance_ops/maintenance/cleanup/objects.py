"""Objects of managed blobs: files below a root that the versions of a dataset name in their blobs.

Source: format, blob v2, garbage collection. An object is in use while a row of a kept version names it, in
any data file of any base. Deleted rows count too, which keeps an object until the fragment is rewritten. Only
descriptors are read.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from lance_ops.file.blob_extents import blob_extents
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Field
from lance_ops.maintenance.cleanup.places import behind_links, below
from lance_ops.storage import Store
from lance_ops.storage.prefetch import prefetch, requests_at_once
from lance_ops.storage.retry import persistently
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.feature_flags import Feature
from lance_ops.table.manifest.file.read import read_manifest
from lance_ops.table.manifest.listing import ManifestLocation
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.side_sizes import blob_field_ids, may_have_side_files

_Names = frozenset[tuple[int, str]]
_Key = tuple[str, tuple[tuple[int, int], ...], frozenset[int]]
"""A data file, its columns by field, and the blob fields: a version may have dropped one of them."""


@dataclass(slots=True)
class NamedObjects:
    """Finds the objects named by versions, reading each data file once.

    Attributes:
        root: URI of the root whose objects count.
        storage_options: For opening other bases.
    """

    root: str
    storage_options: Mapping[str, str] | None = None
    _known: dict[_Key, _Names] = field(default_factory=dict)

    def of(
        self,
        store: Store,
        location: ManifestLocation,
        manifest: Manifest | None = None,
        *,
        surely: bool = False,
    ) -> set[str]:
        """Return the paths of the objects named by a version, relative to the root; none without the flag.

        Args:
            store: Root of the dataset, branch or clone with the version.
            location: The version.
            manifest: Its manifest, if already read.
            surely: Exclude the same path of another base, which may be an unknown alias of the root, and
                targets of links.

        Raises:
            LanceOpsError: A data file or a descriptor cannot be read, or a base is not declared: the objects
                are unknown.
        """
        if manifest is None:
            manifest = persistently(lambda: read_manifest(store, location))
        if not manifest.reader_flags & Feature.MANAGED_BLOBS:
            return set()
        dataset = Dataset(store, location, manifest, storage_options=self.storage_options)
        found: set[str] = set()
        for base_id, name in self._names(dataset):
            base = dataset.bases.base(base_id)
            lead = None if base is None else below(base.path, self.root)
            if lead is not None:
                found.add(lead + name)
            if base is not None and not surely:
                found.update(filter(None, (name, behind_links(base.path, name, self.root))))
        return found

    def _names(self, dataset: Dataset) -> _Names:
        blobs = blob_field_ids(dataset.lance_schema)
        fields = dataset.lance_schema.fields
        names: set[tuple[int, str]] = set()
        unread: dict[_Key, Callable[[], _Names]] = {}
        for fragment in dataset.manifest.fragments:
            for file in fragment.all_files:
                if not may_have_side_files(file, blobs):
                    continue
                store, path = dataset.bases.data_path(file)
                columns = file.live_columns
                key = f"{store.uri}/{path}", tuple(sorted(columns.items())), blobs.intersection(columns)
                if key in self._known:
                    names |= self._known[key]
                else:
                    unread[key] = partial(_read, store, path, file.size_bytes, fields, columns)
        results = prefetch(iter(unread.values()), requests_at_once(dataset.store))
        for key, found in zip(unread, results, strict=True):
            self._known[key] = found
            names |= found
        return frozenset(names)


def _read(
    store: Store, path: str, size: int | None, fields: Sequence[Field], columns: Mapping[int, int]
) -> _Names:
    def read() -> _Names:
        reader = FileReader.open(store, path, size=size or None)
        return frozenset(blob_extents(reader, fields, columns).objects)

    return persistently(read)
