"""Fragments as JSON: passed from tasks of any engine to the one that commits, with the names of pylance."""

import json
from collections.abc import Mapping
from typing import Any

from lance_ops.errors import InvalidArgumentError, UnsupportedError
from lance_ops.table.manifest.data_file import DataFile
from lance_ops.table.manifest.fragment import (
    DeletionFile,
    DeletionFileType,
    ExternalFile,
    Fragment,
    RowSequence,
)

_DELETION_TYPES = {"array": DeletionFileType.ARROW_ARRAY, "bitmap": DeletionFileType.BITMAP}
_DELETION_NAMES = {kind: name for name, kind in _DELETION_TYPES.items()}

# pylance spells the names of the two forms of a sequence in two ways.
_ROW_IDS = ("row_id_meta", "row_ids", ("Inline", "External"))
_SEQUENCES = (
    _ROW_IDS,
    ("created_at_version_meta", "created_at_versions", ("inline", "external")),
    ("last_updated_at_version_meta", "last_updated_at_versions", ("inline", "external")),
)


def fragment_to_json(fragment: Fragment) -> dict[str, Any]:
    """Convert a fragment to JSON values; pylance's `FragmentMetadata.from_json` reads them as text.

    Raises:
        UnsupportedError: It has overlays, or sequences in data files, which have no such form.

    Examples:
        >>> fragment = lo.dataset("events.lance").fragments[0]
        >>> lo.fragment_to_json(fragment)["physical_rows"]
        5
    """
    if fragment.overlays or fragment.unmodelled or fragment.unknown or fragment.spilled:
        overlays = ("overlays",) if fragment.overlays else ()
        what = ", ".join((*overlays, *fragment.unmodelled, *fragment.spilled)) or "unknown fields"
        raise UnsupportedError(f"fragment {fragment.id} has no JSON form: it has {what}")
    deletion = fragment.deletion_file
    return {
        "id": fragment.id,
        "files": [file.to_json() for file in fragment.files],
        "overlays": [],
        "physical_rows": fragment.physical_rows,
        "deletion_file": None
        if deletion is None
        else {
            "read_version": deletion.read_version,
            "id": deletion.id,
            "file_type": _DELETION_NAMES[deletion.file_type],
            "num_deleted_rows": deletion.num_deleted_rows,
            "base_id": deletion.base_id,
        },
        **{name: _sequence_to_json(getattr(fragment, own), forms) for name, own, forms in _SEQUENCES},
    }


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno}, character {error.colno} is not JSON"
    return f"it lacks {error}" if isinstance(error, KeyError) else str(error)


def fragment_from_json(values: Mapping[str, Any] | str | bytes) -> Fragment:
    """Read the result of `fragment_to_json` or of pylance's `FragmentMetadata.to_json`.

    Args:
        values: The JSON values, or their text.

    Raises:
        InvalidArgumentError: It is not a fragment.
        UnsupportedError: It has overlays.

    Examples:
        >>> fragment = lo.dataset("events.lance").fragments[0]
        >>> lo.fragment_from_json(lo.fragment_to_json(fragment)) == fragment
        True
    """
    try:
        found: Mapping[str, Any] = json.loads(values) if isinstance(values, (str, bytes)) else values
        if found.get("overlays"):
            raise UnsupportedError("data overlays cannot be committed", field="overlays")
        deletion = found.get("deletion_file")
        return Fragment(
            id=int(found["id"]),
            files=tuple(DataFile.from_json(file) for file in found["files"]),
            physical_rows=int(found["physical_rows"]),
            deletion_file=None if deletion is None else _deletion_file(deletion),
        ).replace(**{own: _sequence_from_json(found.get(name), forms) for name, own, forms in _SEQUENCES})
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"not the JSON of a fragment: {_reason(error)}",
            field="fragments",
            hint="pass the output of write_fragments(), or of pylance's FragmentMetadata.to_json",
        ) from error


def _deletion_file(values: Mapping[str, Any]) -> DeletionFile:
    return DeletionFile(
        _DELETION_TYPES[values["file_type"]],
        int(values["read_version"]),
        int(values["id"]),
        int(values["num_deleted_rows"]),
        values.get("base_id"),
    )


def _sequence_to_json(sequence: RowSequence | None, forms: tuple[str, str]) -> dict[str, Any] | None:
    if isinstance(sequence, bytes):
        return {forms[0]: list(sequence)}
    if isinstance(sequence, ExternalFile):
        return {forms[1]: {"path": sequence.path, "offset": sequence.offset, "size": sequence.size}}
    return None


def _sequence_from_json(values: Mapping[str, Any] | None, forms: tuple[str, str]) -> RowSequence | None:
    if values is None:
        return None
    if forms[0] in values:
        return bytes(values[forms[0]])
    external = values[forms[1]]
    return ExternalFile(str(external["path"]), int(external["offset"]), int(external["size"]))
