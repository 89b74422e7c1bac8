"""Feature flags: requirements of a manifest on readers and writers. Source: format, "Feature Flags".

Bits that this version of lance_ops does not implement are refused, also those that pylance ignores.
"""

from collections.abc import Iterator
from enum import IntFlag

from lance_ops.errors import CorruptManifestError, UnsupportedFeatureError
from lance_ops.table.manifest.fragments.totals import (
    fragments_with_overlays,
    have_deletions,
    have_row_ids,
    have_spilled,
    lacking_row_ids,
)
from lance_ops.table.manifest.model import Manifest


class Feature(IntFlag):
    """Features that lance_ops implements."""

    DELETION_FILES = 1
    STABLE_ROW_IDS = 2
    V2_FORMAT = 4
    """Deprecated: the data files contain the same information."""
    TABLE_CONFIG = 8
    BASE_PATHS = 16
    NO_TRANSACTION_FILE = 32
    DATA_OVERLAYS = 64
    """Fragments with data overlays: newer values of single cells. None is written here."""
    COVERING_INDICES = 128
    """Index entries that name covering columns. Such segments are kept as they are and never used."""
    MIXED_FILE_VERSIONS = 256
    """Data files of other versions than the one in the manifest; never cleared."""
    TAGGED_REUSE = 1024
    """A fragment reuse index of version 1 may exist. Never cleared, not even by a restore."""
    SPILLED_LINEAGE = 2048
    """Row ids or row versions in data files."""
    MANAGED_BLOBS = 16384
    """Blobs may name objects by base and path (kind 4). They are read; none is written here, as in pylance
    14. Never cleared, not even by a restore.
    """


KNOWN = int(
    Feature.DELETION_FILES
    | Feature.STABLE_ROW_IDS
    | Feature.V2_FORMAT
    | Feature.TABLE_CONFIG
    | Feature.BASE_PATHS
    | Feature.NO_TRANSACTION_FILE
    | Feature.DATA_OVERLAYS
    | Feature.COVERING_INDICES
    | Feature.MIXED_FILE_VERSIONS
    | Feature.TAGGED_REUSE
    | Feature.SPILLED_LINEAGE
    | Feature.MANAGED_BLOBS
)

# Mixed file versions, tagged fragment reuse, managed blobs: inconsistent if set for readers or writers alone.
_PAIRED = (1 << 8, 1 << 10, 1 << 14)

_NAMES = {
    1 << 8: "data files of several versions",
    1 << 9: "fragment reuse with stable row ids",
    1 << 10: "tagged fragment reuse",
    1 << 12: "fragment lists stored in a tree of files",
    1 << 13: "covering columns in addition to the key of an index",
    1 << 14: "managed blobs",
    1 << 15: "field ids that are never reused",
}


def uses_tagged_reuse(manifest: Manifest) -> bool:
    """Return whether the fragment reuse index of a table is tagged, now or when one is created again."""
    return bool(manifest.reader_flags & Feature.TAGGED_REUSE)


def unknown_bits(flags: int) -> tuple[int, ...]:
    """Return the set bits that are not implemented, lowest first."""
    return tuple(1 << bit for bit in range(flags.bit_length()) if flags & ~KNOWN & (1 << bit))


def check_readable(manifest: Manifest, *, path: str) -> None:
    """Refuse a manifest with unsupported reader features.

    Raises:
        UnsupportedFeatureError: An unknown bit is set among the reader flags.
        CorruptManifestError: A bit that must be set for readers and writers alike is set for one of them, or
            the fragments contradict the flags, see `contradictions`.
    """
    for bit in _PAIRED:
        if bool(manifest.reader_flags & bit) != bool(manifest.writer_flags & bit):
            raise CorruptManifestError(
                f"feature flag {bit} ({_NAMES[bit]}) must be set for readers and writers, but is set "
                "for one of them",
                path=path,
                field="reader_feature_flags, writer_feature_flags",
            )
    _refuse(manifest.reader_flags, "read", path)
    for what, field in contradictions(manifest):
        raise CorruptManifestError(what, path=path, field=field, hint="restore an older version")


def check_writable(manifest: Manifest, *, path: str) -> None:
    """Refuse to write on top of a manifest with unsupported features.

    Raises:
        UnsupportedFeatureError: An unknown bit is set among the reader or writer flags.
        CorruptManifestError: See `check_readable`.
    """
    check_readable(manifest, path=path)
    _refuse(manifest.writer_flags, "written", path)


def _refuse(flags: int, what: str, path: str) -> None:
    bits = unknown_bits(flags)
    if bits:
        listed = ", ".join(f"{bit} ({_NAMES.get(bit, 'meaning unknown')})" for bit in bits)
        raise UnsupportedFeatureError(
            f"the dataset cannot be {what}: it uses feature flags that are not implemented: {listed}",
            bits,
            path=path,
        )


def contradictions(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Return where fragments contradict the flags, as (what, field); pylance opens none of them.

    pylance also refuses tables whose writer recorded the wrong version of its own files; these are valid.

    Args:
        manifest: Any version.
    """
    if manifest.uses_stable_row_ids:
        lacking = lacking_row_ids(manifest.fragments)
        if lacking:
            yield f"fragments {lacking[:8]} have no row ids, but the table has stable row ids", "row_ids"
    default = manifest.storage_version
    versions = manifest.file_versions
    if versions <= {default}:
        return
    mixed = manifest.reader_flags & Feature.MIXED_FILE_VERSIONS
    if versions == {"2.0"} and default == "2.1" and _was_misnamed(manifest):
        return
    for fragment in manifest.fragments:
        for file in fragment.files:
            version = file.storage_version
            if version != default and not (mixed and version != "0.1" and default != "0.1"):
                what = f"data file {file.path!r} of fragment {fragment.id} has version {version}"
                yield (
                    f"{what}, but the manifest declares only {default}",
                    "data_format",
                )


def _was_misnamed(manifest: Manifest) -> bool:
    return manifest.writer_version is not None and manifest.writer_version.misnames_files


def flags_for(manifest: Manifest) -> tuple[int, int]:
    """Return the reader and writer flags that the content of a manifest needs, as pylance sets them.

    Stable row ids and mixed file versions are permanent: the flags stay when the last fragment that needed
    them is gone.
    """
    default = manifest.storage_version
    both = 0
    if have_deletions(manifest.fragments):
        both |= Feature.DELETION_FILES
    if manifest.uses_stable_row_ids or have_row_ids(manifest.fragments):
        both |= Feature.STABLE_ROW_IDS
    if manifest.base_paths:
        both |= Feature.BASE_PATHS
    if fragments_with_overlays(manifest.fragments):
        both |= Feature.DATA_OVERLAYS
    if any(index.covering_fields for index in manifest.indices):
        both |= Feature.COVERING_INDICES
    if manifest.reader_flags & Feature.MIXED_FILE_VERSIONS or not manifest.file_versions <= {default}:
        both |= Feature.MIXED_FILE_VERSIONS
    both |= manifest.reader_flags & (Feature.MANAGED_BLOBS | Feature.TAGGED_REUSE)
    if both & Feature.STABLE_ROW_IDS and have_spilled(manifest.fragments):
        both |= Feature.SPILLED_LINEAGE
    writer = both
    if manifest.config:
        writer |= Feature.TABLE_CONFIG
    if not manifest.transaction_file:
        writer |= Feature.NO_TRANSACTION_FILE
    return int(both), int(writer)
