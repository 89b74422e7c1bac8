"""Applying to fragments: what an operation does to their list, and the ids that it gives. Pure."""

from collections.abc import Iterable, Sequence

import numpy as np

from lance_ops.errors import CorruptManifestError, InvalidArgumentError
from lance_ops.file.schema.model import Schema
from lance_ops.table.manifest.data_file import LINEAGE_FIELDS, DataFile
from lance_ops.table.manifest.fragment import Fragment, SpilledSequence
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.manifest.row_ids import count_row_ids, encode_row_ids, encode_row_versions, inline
from lance_ops.table.transaction.rewrite_group import RewriteGroup

_MAX_FRAGMENT_ID = (1 << 32) - 1
_MAX_ROW_ID = (1 << 64) - 1


def next_fragment_id(manifest: Manifest) -> int:
    """First fragment id that this history never used."""
    used = -1 if manifest.max_fragment_id is None else manifest.max_fragment_id
    return max(used, max([fragment.id for fragment in manifest.fragments], default=-1)) + 1


def reserved_ids(manifest: Manifest, number: int) -> range:
    """The ids that a ReserveFragments of `number` ids reserved, given the manifest that it led to."""
    end = next_fragment_id(manifest)
    return range(end - number, end)


def check_fragment_id(fragment_id: int) -> None:
    """Refuse an id that a row address has no room for.

    Raises:
        CorruptManifestError: It needs more than 32 bits.
    """
    if fragment_id > _MAX_FRAGMENT_ID:
        raise CorruptManifestError(
            f"fragment id {fragment_id} does not fit into 32 bits", field="max_fragment_id"
        )


def number_fragments(fragments: Iterable[Fragment], first: int) -> tuple[Fragment, ...]:
    """Give new fragments their ids, one after the other."""
    return tuple(fragment.replace(id=first + index) for index, fragment in enumerate(fragments))


def give_row_ids(
    fragments: Sequence[Fragment], *, next_row_id: int, version: int
) -> tuple[tuple[Fragment, ...], int]:
    """Give the rows of new fragments their stable ids and versions.

    Args:
        fragments: New fragments. One that has a row id sequence already, of rows that moved, keeps it.
        next_row_id: First unused id.
        version: Version of the dataset in which the rows appear.

    Returns:
        The fragments, and the id that is next to use.
    """
    numbered = []
    for fragment in fragments:
        rows = fragment.physical_rows
        changes: dict[str, object] = {}
        if fragment.row_ids is None:
            if next_row_id + rows > _MAX_ROW_ID:
                raise CorruptManifestError(
                    f"no row ids are left: the next one is {next_row_id}", field="next_row_id"
                )
            changes["row_ids"] = encode_row_ids(np.arange(next_row_id, next_row_id + rows, dtype=np.uint64))
            next_row_id += rows
        versions = encode_row_versions(np.full(rows, version, dtype=np.uint64))
        if fragment.created_at_versions is None:
            changes["created_at_versions"] = versions
        if fragment.last_updated_at_versions is None:
            changes["last_updated_at_versions"] = versions
        numbered.append(fragment.replace(**changes))
    return tuple(numbered), next_row_id


def new_fragments(current: Manifest, fragments: Sequence[Fragment]) -> tuple[tuple[Fragment, ...], int]:
    """Give new fragments their ids, and their rows the stable ids that the dataset may have.

    Returns:
        The fragments, and the row id that is next to use.
    """
    numbered = number_fragments(fragments, next_fragment_id(current))
    if not current.uses_stable_row_ids:
        return numbered, current.next_row_id
    return give_row_ids(numbered, next_row_id=current.next_row_id, version=current.version + 1)


def has_all_row_ids(fragment: Fragment) -> bool:
    """Whether a fragment has one stable row id per physical row."""
    if isinstance(fragment.row_ids, SpilledSequence):
        # A column, of which a data file has as many values as rows.
        return sum(LINEAGE_FIELDS["row_ids"] in file.fields for file in fragment.files) == 1
    return fragment.row_ids is not None and count_row_ids(inline(fragment.row_ids)) == fragment.physical_rows


def replace_fragments(
    fragments: Iterable[Fragment], updated: Iterable[Fragment], removed: Iterable[int]
) -> tuple[Fragment, ...]:
    """Put updated fragments in the place of those with the same ids, and leave removed ones out."""
    by_id = {fragment.id: fragment for fragment in updated}
    gone = frozenset(removed)
    return tuple(by_id.get(fragment.id, fragment) for fragment in fragments if fragment.id not in gone)


def rewrite_fragments(fragments: Iterable[Fragment], groups: Sequence[RewriteGroup]) -> tuple[Fragment, ...]:
    """Put the new fragments of each group in the place of its old ones."""
    gone = frozenset(fragment.id for group in groups for fragment in group.old_fragments)
    kept = [fragment for fragment in fragments if fragment.id not in gone]
    return (*kept, *(fragment for group in groups for fragment in group.new_fragments))


def project_fragments(fragments: Iterable[Fragment], schema: Schema) -> tuple[Fragment, ...]:
    """Leave out data files of which no column is in the schema any more, nor holds row ids or versions."""
    kept = frozenset(node.id for node in schema.walk()) | frozenset(LINEAGE_FIELDS.values())
    projected = []
    for fragment in fragments:
        files = tuple(file for file in fragment.files if kept.intersection(file.fields))
        projected.append(fragment if len(files) == len(fragment.files) else fragment.replace(files=files))
    return tuple(projected)


def in_id_order(fragments: Iterable[Fragment]) -> tuple[Fragment, ...]:
    """Sort by id: the peer calls a manifest in any other order corrupt and loses rows of it."""
    return tuple(sorted(fragments, key=lambda fragment: fragment.id))


def storage_version(file: DataFile) -> str:
    """Name of the storage version of a data file, e.g. `2.0`, from the pair of numbers in the manifest.

    Raises:
        InvalidArgumentError: No version has these numbers.
    """
    if file.major == 0 and file.minor in (0, 1, 2):
        return "0.1"
    # The footer of 2.0 files says 0.3; some writers copied that into the manifest.
    if (file.major, file.minor) == (0, 3):
        return "2.0"
    if file.major == 2:
        return f"2.{file.minor}"
    raise InvalidArgumentError(f"no storage version {file.major}.{file.minor} is known", path=file.path)
