"""Options of the writer of 2.1 and 2.2, as a field's metadata give them."""

from collections.abc import Mapping
from dataclasses import dataclass

from lance_ops.file.schema.model import Field

_PREFIX = "lance-encoding:"
_STRUCTURES = ("miniblock", "fullzip")
_SCHEMES = ("zstd", "lz4", "fsst", "none")
_DICTIONARY_SCHEMES = ("zstd", "lz4", "none")
_BSS_MODES = ("off", "on", "auto")


@dataclass(frozen=True, slots=True)
class FieldOptions:
    """Options of one column; a value that means nothing counts as absent, as with pylance.

    Attributes:
        compression: "zstd", "lz4", "fsst", "none" (nothing at all), or None for the writer's choice.
        compression_level: Of zstd, None for its default.
        structure: "miniblock" or "fullzip", None for the writer's choice.
        bss: True if the streams of floating-point bytes are split: "off", "on", or "auto".
        rle_threshold: Runs per value (0 to 1) below which runs are encoded, None for the default.
        dict_divisor: A dictionary may have one entry for so many values.
        dict_size_ratio: Share of the plain size (0 to 1) below which a dictionary pays.
        dict_values_compression: Of the dictionary itself: "zstd", "lz4", "none", or None for the default.
        dict_values_compression_level: Of zstd there, None for its default.
        minichunk_bytes: Upper bound of a mini-block chunk, None for the default.
    """

    compression: str | None = None
    compression_level: int | None = None
    structure: str | None = None
    bss: str = "auto"
    rle_threshold: float | None = None
    dict_divisor: int | None = None
    dict_size_ratio: float | None = None
    dict_values_compression: str | None = None
    dict_values_compression_level: int | None = None
    minichunk_bytes: int | None = None

    @classmethod
    def of_field(cls, field: Field, top: Field | None = None) -> "FieldOptions":
        """Read the options of a field.

        Args:
            field: The field that has the column.
            top: The top-level field around it, whose structure counts where the field does not ask for one.
        """
        metadata = field.metadata
        if not metadata and (top is None or not top.metadata):
            return _NO_OPTIONS
        structure = _choice(metadata, "structural-encoding", _STRUCTURES)
        if structure is None and top is not None:
            structure = _choice(top.metadata, "structural-encoding", _STRUCTURES)
        return cls(
            compression=_choice(metadata, "compression", _SCHEMES),
            compression_level=_integer(metadata, "compression-level"),
            structure=structure,
            bss=_choice(metadata, "bss", _BSS_MODES) or "auto",
            rle_threshold=_share(metadata, "rle-threshold"),
            dict_divisor=_integer(metadata, "dict-divisor"),
            dict_size_ratio=_share(metadata, "dict-size-ratio"),
            dict_values_compression=_choice(metadata, "dict-values-compression", _DICTIONARY_SCHEMES),
            dict_values_compression_level=_integer(metadata, "dict-values-compression-level"),
            minichunk_bytes=_integer(metadata, "minichunk-size"),
        )

    @property
    def dictionary_scheme(self) -> tuple[str, int | None]:
        """Return the compression of a dictionary, if the version allows it, and the level, for zstd only."""
        scheme = self.dict_values_compression or "lz4"
        return scheme, self.dict_values_compression_level if scheme == "zstd" else None


_NO_OPTIONS = FieldOptions()


def _text(metadata: Mapping[str, bytes], key: str) -> str:
    return metadata.get(_PREFIX + key, b"").decode(errors="replace").strip().lower()


def _choice(metadata: Mapping[str, bytes], key: str, known: tuple[str, ...]) -> str | None:
    text = _text(metadata, key)
    return text if text in known else None


def _integer(metadata: Mapping[str, bytes], key: str) -> int | None:
    text = _text(metadata, key)
    return int(text) if text.removeprefix("-").isdecimal() and text.isascii() and len(text) < 12 else None


def _share(metadata: Mapping[str, bytes], key: str) -> float | None:
    text = _text(metadata, key)
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value <= 1 else None
