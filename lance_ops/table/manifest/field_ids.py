"""Field ids that a table has given out, so that a new column gets one that no column had before.

The format has `max_allocated_field_id` in the manifest for this, with writer flag 32768, which pylance 14
refuses as corrupt. Until it can be written, the highest id is kept in the config of the table, with the
version up to which it is known: pylance gives out ids without recording them.
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
"""Config of the table: the highest field id given out up to a version, and that version, such as `7@12`."""

_ENTRY = re.compile(r"([0-9]{1,10})@([0-9]{1,19})", re.ASCII)
_MOST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class GivenIds:
    """The entry of the config.

    Attributes:
        highest: No version up to `version` has a field id above it.
        version: The version.
    """

    highest: int
    version: int

    @classmethod
    def of(cls, manifest: Manifest) -> "GivenIds | None":
        """The entry of a version; None where there is none, or no sound one."""
        found = _ENTRY.fullmatch(manifest.config.get(CONFIG_KEY, ""))
        if found is None or int(found[1]) >= _MOST or int(found[2]) > manifest.version:
            return None
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.highest}@{self.version}"


def stored_ids(fragments: Iterable[Fragment]) -> set[int]:
    """Field ids under which data files hold values, also those of dropped columns."""
    return {
        number
        for fragment in fragments
        for file in fragment.all_files
        for number in file.fields
        if number >= 0
    }


def highest_given(store: Store, manifest: Manifest) -> int:
    """The highest field id that a table has ever given out, as far as its versions tell; -1 for none.

    Reads the manifests of the versions that the config entry does not account for; all kept ones without an
    entry.

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
    """The next version with its config entry: the entry never goes down, also over a restore.

    Args:
        before: The head.
        after: What the next version has, numbered like the head.
        highest: From `highest_given`; None where the operation changes no field ids.
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
        # Cleaned away meanwhile, or damaged: nobody reads its columns.
        return -1


def _highest_in(manifest: Manifest) -> int:
    allocated = -1
    if manifest.unknown:
        message = table_pb2.Manifest.FromString(manifest.unknown)
        allocated = message.max_allocated_field_id if message.HasField("max_allocated_field_id") else -1
    entry = GivenIds.of(manifest)
    recorded = -1 if entry is None else entry.highest
    return max(manifest.schema.max_field_id, allocated, recorded, *stored_ids(manifest.fragments), -1)
