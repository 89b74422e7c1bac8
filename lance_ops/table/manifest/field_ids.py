"""Field ids: the highest id ever allocated, so that a new column gets an unused one.

The format has `max_allocated_field_id` in the manifest for this, with writer flag 32768, which pylance 14
refuses as corrupt. Until it can be written, the highest id is kept in the config of the table, with the
version up to which it is known, because pylance allocates ids without recording them.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from lance_ops.errors import FormatError, NotFoundError
from lance_ops.pb import table_pb2
from lance_ops.storage import Store
from lance_ops.storage.prefetch import read_small
from lance_ops.table.manifest.file.read import read_manifest
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.listing import ManifestLocation, list_versions
from lance_ops.table.manifest.model import Manifest

CONFIG_KEY = "lance_ops.max_field_id"
"""Config entry: the highest field id allocated up to a version, and that version, such as `7@12`."""

_ENTRY = re.compile(r"([0-9]{1,10})@([0-9]{1,19})", re.ASCII)
_MOST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class GivenIds:
    """Value of the config entry.

    Attributes:
        highest: No version up to `version` has a field id above it.
        version: The version.
    """

    highest: int
    version: int

    @classmethod
    def of(cls, manifest: Manifest) -> "GivenIds | None":
        """Return the entry of a version; None without one, or if it is invalid."""
        found = _ENTRY.fullmatch(manifest.config.get(CONFIG_KEY, ""))
        if found is None or int(found[1]) >= _MOST or int(found[2]) > manifest.version:
            return None
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.highest}@{self.version}"


def stored_ids(fragments: Iterable[Fragment]) -> set[int]:
    """Return field ids of values in data files, also those of dropped columns."""
    return {
        number
        for fragment in fragments
        for file in fragment.all_files
        for number in file.fields
        if number >= 0
    }


def highest_given(store: Store, manifest: Manifest) -> int:
    """Return the highest field id ever allocated, as far as existing versions show; -1 for none.

    Reads the manifests of versions after the config entry; all kept ones without an entry.

    Args:
        store: Root of the dataset, or of its branch.
        manifest: The head.
    """
    known = GivenIds.of(manifest)
    after = 0 if known is None else known.version
    found = [_highest_in(manifest), -1 if known is None else known.highest]
    if after < manifest.version - 1:
        between = (item for item in list_versions(store) if after < item.version < manifest.version)
        found += read_small(store, (partial(_read_highest, store, item) for item in between))
    return max(found)


def record_given(before: Manifest, after: Manifest, highest: int | None) -> Manifest:
    """Return the next version with its config entry: the entry never decreases, not even by a restore.

    Args:
        before: The head.
        after: Content of the next version, numbered like the head.
        highest: From `highest_given`; None where the operation allocates no field ids.
    """
    entries = [entry for entry in (GivenIds.of(before), GivenIds.of(after)) if entry is not None]
    if highest is not None:
        entry = GivenIds(max(highest, after.schema.max_field_id), before.version + 1)
    elif entries:
        entry = GivenIds(max(item.highest for item in entries), entries[0].version)
    else:
        return after
    if after.config.get(CONFIG_KEY) == str(entry):
        return after
    return after.replace(config={**after.config, CONFIG_KEY: str(entry)})


def _read_highest(store: Store, location: ManifestLocation) -> int:
    try:
        return _highest_in(read_manifest(store, location))
    except (NotFoundError, FormatError):
        # Cleaned up concurrently, or damaged: its columns cannot be read.
        return -1


def _highest_in(manifest: Manifest) -> int:
    allocated = -1
    if manifest.unknown:
        message = table_pb2.Manifest.FromString(manifest.unknown)
        allocated = message.max_allocated_field_id if message.HasField("max_allocated_field_id") else -1
    entry = GivenIds.of(manifest)
    recorded = -1 if entry is None else entry.highest
    return max(manifest.schema.max_field_id, allocated, recorded, *stored_ids(manifest.fragments), -1)
