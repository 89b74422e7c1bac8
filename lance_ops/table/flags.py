"""Feature flags: what a reader or writer of a manifest must know. Source: format, "Feature Flags".

Bits that this version of lance_ops does not implement are refused, also those that the peer lets pass.
"""

from enum import IntFlag

from lance_ops.errors import CorruptManifestError, UnsupportedFeatureError
from lance_ops.table.manifest import Manifest


class Feature(IntFlag):
    """Features that lance_ops implements."""

    DELETION_FILES = 1
    STABLE_ROW_IDS = 2
    V2_FORMAT = 4
    """Deprecated: says nothing that the data files do not say."""
    TABLE_CONFIG = 8
    BASE_PATHS = 16
    NO_TRANSACTION_FILE = 32


KNOWN = int(
    Feature.DELETION_FILES
    | Feature.STABLE_ROW_IDS
    | Feature.V2_FORMAT
    | Feature.TABLE_CONFIG
    | Feature.BASE_PATHS
    | Feature.NO_TRANSACTION_FILE
)

# Mixed file versions, tagged fragment reuse, managed blobs: set in one word alone they contradict themselves.
_PAIRED = (1 << 8, 1 << 10, 1 << 14)

_NAMES = {
    1 << 6: "data overlay files",
    1 << 7: "covering indices",
    1 << 8: "data files of several versions",
    1 << 9: "fragment reuse with stable row ids",
    1 << 10: "tagged fragment reuse",
    1 << 14: "managed blobs",
    1 << 15: "field ids that are never reused",
}


def unknown_bits(flags: int) -> tuple[int, ...]:
    """Values of the set bits that are not implemented, lowest first."""
    return tuple(1 << bit for bit in range(flags.bit_length()) if flags & ~KNOWN & (1 << bit))


def check_readable(manifest: Manifest, *, path: str) -> None:
    """Refuse a manifest that needs features this version cannot read.

    Raises:
        UnsupportedFeatureError: An unknown bit is set among the reader flags.
        CorruptManifestError: A bit that must be set for readers and writers alike is set for one of them.
    """
    for bit in _PAIRED:
        if bool(manifest.reader_flags & bit) != bool(manifest.writer_flags & bit):
            raise CorruptManifestError(
                f"feature flag {bit} ({_NAMES[bit]}) is set for readers or for writers alone",
                path=path,
                field="reader_feature_flags, writer_feature_flags",
            )
    _refuse(manifest.reader_flags, "read", path)


def check_writable(manifest: Manifest, *, path: str) -> None:
    """Refuse to write on top of a manifest that needs features this version does not implement.

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


def flags_for(manifest: Manifest) -> tuple[int, int]:
    """Reader and writer flags that the content of a manifest asks for, the way the peer sets them.

    Stable row ids are a property for life: they stay when the last fragment is gone.
    """
    both = 0
    if any(fragment.deletion_file is not None for fragment in manifest.fragments):
        both |= Feature.DELETION_FILES
    if manifest.uses_stable_row_ids or any(fragment.row_ids is not None for fragment in manifest.fragments):
        both |= Feature.STABLE_ROW_IDS
    if manifest.base_paths:
        both |= Feature.BASE_PATHS
    writer = both
    if manifest.config:
        writer |= Feature.TABLE_CONFIG
    if not manifest.transaction_file:
        writer |= Feature.NO_TRANSACTION_FILE
    return int(both), int(writer)
