"""Packing: whether the members of a struct are stored together, by an option of its field.

Readers and writers of pylance interpret some values of the option differently: these are not written.
"""

from lance_ops.file.schema.model import Field

PACKED_KEY = "lance-encoding:packed"
PACKED_LEGACY_KEY = "packed"

_YES = (b"true", b"1", b"yes", b"y", b"on")


def is_packed_2_0(field: Field) -> bool:
    """Return whether writers of 2.0 pack a field: the newer key need only exist."""
    legacy = field.metadata.get(PACKED_LEGACY_KEY)
    asked = legacy.lower() in _YES if legacy is not None else PACKED_KEY in field.metadata
    return field.logical_type == "struct" and asked


def is_packed(field: Field) -> bool:
    """Return whether writers of 2.1 and later versions pack a field."""
    return field.logical_type == "struct" and any(value in _YES for value in _values(field))


def find_packing_problem(field: Field, version: str) -> str | None:
    """Return why readers would not find the members of a field; None if they would.

    Args:
        field: Any field.
        version: Storage version.
    """
    says_yes = any(value in _YES for value in _values(field))
    if field.logical_type != "struct" and field.children and says_yes:
        # Pylance expects a column as of a packed struct, finds none, and reads the values as nulls.
        return "only structs can be packed, not lists and maps"
    # Readers of 2.0 expect packed members if either key says yes; later ones only if it says true.
    if version == "2.0":
        agreed = is_packed_2_0(field) == is_packed(field)
    else:
        agreed = not is_packed(field) or b"true" in _values(field)
    if agreed:
        return None
    return f"readers interpret the value of option {PACKED_KEY!r} differently; use 'true', or omit it"


def _values(field: Field) -> list[bytes]:
    return [field.metadata[key].lower() for key in (PACKED_KEY, PACKED_LEGACY_KEY) if key in field.metadata]
