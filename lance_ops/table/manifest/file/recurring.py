"""Recurring manifests: files of which this process knows by heart what they say.

Who reads a dataset often opens the same version again and again, and who commits opens what it wrote itself
a moment ago. The file is read each time, for another one may lie there; only its bytes are not decoded again.
"""

from lance_ops.cache import Cache
from lance_ops.table.manifest.file.write import has_room_for
from lance_ops.table.manifest.fragments.totals import fragments_with_overlays
from lance_ops.table.manifest.model import Manifest

SMALL_MANIFEST = 1 << 20
"""Bytes of a file up to which it is kept."""

_MOST, _DECODED = 8, 4
"""Manifests that are kept, and about how much more memory one takes than its file."""


class RecurringManifests:
    """The manifests that were read or written last; thread-safe."""

    def __init__(self) -> None:
        self._kept: Cache[str, tuple[bytes, Manifest]] = Cache("manifests", _MOST)

    def get(self, path: str, data: bytes) -> Manifest | None:
        """What a file says, if it is known and of these bytes.

        Args:
            path: Names the file for all stores.
            data: What lies there now.
        """
        kept = self._kept.get(path)
        return None if kept is None or kept[0] != data else kept[1]

    def keep(self, path: str, data: bytes, manifest: Manifest) -> None:
        """Keep what a file says.

        Args:
            path: Names the file for all stores.
            data: Its bytes.
            manifest: What decoding them gives.
        """
        if len(data) <= SMALL_MANIFEST:
            self._kept.put(path, (data, manifest), (1 + _DECODED) * len(data))

    def keep_successor(self, root: str, path: str, data: bytes, manifest: Manifest, head: Manifest) -> None:
        """Keep what a file says that was written just now.

        Only where nothing but fragments and config changed since a version that was read: what comes of
        reading the rest is at hand then, and config reads as it was written.

        Args:
            root: URI of the dataset.
            path: Of the file, relative to the root.
            data: Its bytes.
            manifest: What was encoded.
            head: The version before, as it was read.
        """
        same = (
            manifest.schema is head.schema
            and manifest.indices is head.indices
            and manifest.base_paths is head.base_paths
            and manifest.table_metadata is head.table_metadata
        )
        # Reading takes coverage from indices under overlays, and finds no transaction that is too large.
        plain = not (manifest.indices and fragments_with_overlays(manifest.fragments))
        if same and plain and has_room_for(manifest.transaction or b""):
            self.keep(f"{root}/{path}", data, manifest)


recurring = RecurringManifests()
"""Those of this process."""
