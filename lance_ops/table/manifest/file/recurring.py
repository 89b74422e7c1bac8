"""Manifest cache: decoded manifests of recently read or written files of this process.

Readers often open the same version repeatedly, and a commit opens the version it just wrote. The file is read
each time, because another file may have the same name; only decoding is skipped.
"""

from lance_ops.cache import Cache
from lance_ops.table.manifest.file.write import has_room_for
from lance_ops.table.manifest.fragments.totals import fragments_with_overlays
from lance_ops.table.manifest.model import Manifest

SMALL_MANIFEST = 1 << 20
"""Maximum bytes of a cached file."""

_MOST, _DECODED = 8, 4
"""Manifests that are kept, and about how much more memory one takes than its file."""


class RecurringManifests:
    """Cache of manifests that were read or written last; thread-safe."""

    def __init__(self) -> None:
        self._kept: Cache[str, tuple[bytes, Manifest]] = Cache("manifests", _MOST)

    def get(self, path: str, data: bytes) -> Manifest | None:
        """Return the manifest of a file, if cached for these bytes.

        Args:
            path: Unique path of the file over all stores.
            data: Its current content.
        """
        kept = self._kept.get(path)
        return None if kept is None or kept[0] != data else kept[1]

    def keep(self, path: str, data: bytes, manifest: Manifest) -> None:
        """Add a manifest.

        Args:
            path: Unique path of the file over all stores.
            data: Its bytes.
            manifest: The decoded manifest.
        """
        if len(data) <= SMALL_MANIFEST:
            self._kept.put(path, (data, manifest), (1 + _DECODED) * len(data))

    def keep_successor(self, root: str, path: str, data: bytes, manifest: Manifest, head: Manifest) -> None:
        """Add a manifest that was just written.

        Only if only fragments and config changed since a version that was read: the decoded rest is
        then reused, and config reads as it was written.

        Args:
            root: URI of the dataset.
            path: Of the file, relative to the root.
            data: Its bytes.
            manifest: The encoded manifest.
            head: The version before, as it was read.
        """
        same = (
            manifest.schema is head.schema
            and manifest.indices is head.indices
            and manifest.base_paths is head.base_paths
            and manifest.table_metadata is head.table_metadata
        )
        # Decoding removes coverage from indices under overlays, and drops transactions that are too large.
        plain = not (manifest.indices and fragments_with_overlays(manifest.fragments))
        if same and plain and has_room_for(manifest.transaction or b""):
            self.keep(f"{root}/{path}", data, manifest)


recurring = RecurringManifests()
"""The cache of this process."""
