"""Packing: whether the members of a struct are stored together, which an option of its field says.

Readers and writers of the peer do not understand each value of the option alike: what they would stumble over
is not written.
"""

from lance_ops.file.schema.model import Field

PACKED_KEY = "lance-encoding:packed"
PACKED_LEGACY_KEY = "packed"

_YES = (b"true", b"1", b"yes", b"y", b"on")


def is_packed_2_0(field: Field) -> bool:
    """Whether writers of 2.0 pack a field: the newer key need only be there."""
    legacy = field.metadata.get(PACKED_LEGACY_KEY)
    asked = legacy.lower() in _YES if legacy is not None else PACKED_KEY in field.metadata
    return field.logical_type == "struct" and asked


def is_packed(field: Field) -> bool:
    """Whether writers of 2.1 and later versions pack a field."""
    return field.logical_type == "struct" and any(value in _YES for value in _values(field))


def find_packing_problem(field: Field, version: str) -> str | None:
    """Why readers would not find the members of a field as it is written; None if they would.

    Args:
        field: Any field.
        version: Storage version.
    """
    says_yes = any(value in _YES for value in _values(field))
    if field.logical_type != "struct" and field.children and says_yes:
        # The peer looks for a column as if of a packed struct, finds none, and takes the values for nulls.
        return "only structs can be packed, not lists and maps"
    # In 2.0 they expect the members together where either key says yes; later they do only if it says true.
    if version == "2.0":
        agreed = is_packed_2_0(field) == is_packed(field)
    else:
        agreed = not is_packed(field) or b"true" in _values(field)
    if agreed:
        return None
    return f"readers do not agree on what the option {PACKED_KEY!r} says; say 'true', or leave it out"


def _values(field: Field) -> list[bytes]:
    return [field.metadata[key].lower() for key in (PACKED_KEY, PACKED_LEGACY_KEY) if key in field.metadata]
