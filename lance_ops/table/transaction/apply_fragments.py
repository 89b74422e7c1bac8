"""Application to fragments: change the fragment list by an operation, and allocate ids. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from lance_ops.errors import CorruptManifestError, InvalidArgumentError
from lance_ops.file.schema.model import Schema
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.table.manifest.data_file import LINEAGE_FIELDS, TOMBSTONE, DataFile
from lance_ops.table.manifest.fragment import Fragment, SpilledSequence
from lance_ops.table.manifest.fragments.totals import highest_id, with_fragments
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.manifest.row_ids import (
    count_row_ids,
    decode_row_ids,
    decode_row_versions,
    encode_row_ids,
    encode_row_versions,
    end_of_row_ids,
    inline,
)
from lance_ops.table.transaction.rewrite_group import RewriteGroup

_MAX_FRAGMENT_ID = (1 << 32) - 1
_MAX_ROW_ID = (1 << 64) - 1
_NEWEST_FRAGMENTS = 64


def next_fragment_id(manifest: Manifest) -> int:
    """Return the first fragment id that the history never used."""
    used = -1 if manifest.max_fragment_id is None else manifest.max_fragment_id
    return max(used, highest_id(manifest.fragments)) + 1


def reserved_ids(manifest: Manifest, number: int) -> range:
    """Return the ids reserved by a ReserveFragments of `number` ids, given its manifest."""
    end = next_fragment_id(manifest)
    return range(end - number, end)


def check_fragment_id(fragment_id: int) -> None:
    """Refuse an id beyond the range of row addresses.

    Raises:
        CorruptManifestError: It needs more than 32 bits.
    """
    if fragment_id > _MAX_FRAGMENT_ID:
        raise CorruptManifestError(
            f"fragment id {fragment_id} does not fit into 32 bits", field="max_fragment_id"
        )


def number_fragments(fragments: Iterable[Fragment], first: int) -> tuple[Fragment, ...]:
    """Assign consecutive ids to new fragments."""
    return tuple(fragment.replace(id=first + index) for index, fragment in enumerate(fragments))


def give_row_ids(
    fragments: Sequence[Fragment], *, next_row_id: int, version: int
) -> tuple[tuple[Fragment, ...], int]:
    """Assign stable ids and versions to the rows of new fragments.

    Args:
        fragments: New fragments. Moved rows have their ids and creation versions already: all rows of a
            fragment, or the first ones. The others are new.
        next_row_id: First unused id.
        version: Version of the dataset in which the rows appear.

    Returns:
        The fragments, and the next unused id.
    """
    numbered = []
    for fragment in fragments:
        rows = fragment.physical_rows
        moved = count_moved_rows(fragment)
        new = rows - moved
        changes: dict[str, object] = {}
        if new:
            if next_row_id + new > _MAX_ROW_ID:
                raise CorruptManifestError(
                    f"row ids are exhausted: the next one would be {next_row_id}", field="next_row_id"
                )
            ids = np.arange(next_row_id, next_row_id + new, dtype=np.uint64)
            if moved and fragment.row_ids is not None:
                known = decode_row_ids(inline(fragment.row_ids), rows=moved)
                ids = np.concatenate([known, ids])
            changes["row_ids"] = encode_row_ids(ids)
            next_row_id += new
        versions = np.full(rows, version, dtype=np.uint64)
        if fragment.created_at_versions is None:
            changes["created_at_versions"] = encode_row_versions(versions)
        elif moved and new:
            created = decode_row_versions(inline(fragment.created_at_versions), rows=moved)
            changes["created_at_versions"] = encode_row_versions(np.concatenate([created, versions[moved:]]))
        if fragment.last_updated_at_versions is None:
            changes["last_updated_at_versions"] = encode_row_versions(versions)
        numbered.append(fragment.replace(**changes))
    return tuple(numbered), next_row_id


def count_moved_rows(fragment: Fragment) -> int:
    """Count the leading rows of a new fragment that have stable ids already; the others get new ones."""
    if fragment.row_ids is None:
        return 0
    if isinstance(fragment.row_ids, SpilledSequence):
        return fragment.physical_rows
    return count_row_ids(inline(fragment.row_ids))


def new_fragments(current: Manifest, fragments: Sequence[Fragment]) -> tuple[tuple[Fragment, ...], int]:
    """Assign ids to new fragments, and stable row ids if the dataset has them.

    Returns:
        The fragments, and the next unused row id.
    """
    numbered = number_fragments(fragments, next_fragment_id(current))
    if not current.uses_stable_row_ids:
        return numbered, current.next_row_id
    return give_row_ids(numbered, next_row_id=free_row_id(current), version=current.version + 1)


def free_row_id(manifest: Manifest) -> int:
    """Return the first unused row id.

    That is `next_row_id`, unless a damaged manifest has it too low, which would duplicate ids. The highest
    ids are usually in the newest fragments, so only these are read. Fsck compares all of them.
    """
    highest = manifest.next_row_id
    for fragment in manifest.fragments[-_NEWEST_FRAGMENTS:]:
        if isinstance(fragment.row_ids, bytes):
            highest = max(highest, end_of_row_ids(fragment.row_ids))
    return highest


def without_dropped(fragments: Sequence[Fragment], schema: Schema) -> Sequence[Fragment]:
    """Remove columns from new fragments that were dropped after these were written.

    Their ids must not stay in the data files: a later column could get one of them.
    """
    kept = frozenset(prepare_schema(schema).ids) | frozenset(LINEAGE_FIELDS.values())
    if all(kept.issuperset(file.fields) for fragment in fragments for file in fragment.files):
        return fragments
    return project_fragments(
        (
            fragment.replace(
                files=tuple(
                    replace(file, fields=tuple(item if item in kept else TOMBSTONE for item in file.fields))
                    for file in fragment.files
                )
            )
            for fragment in fragments
        ),
        schema,
    )


def has_all_row_ids(fragment: Fragment) -> bool:
    """Return whether a fragment has one stable row id per physical row."""
    if isinstance(fragment.row_ids, SpilledSequence):
        # A column, of which a data file has as many values as rows.
        return sum(LINEAGE_FIELDS["row_ids"] in file.fields for file in fragment.files) == 1
    return fragment.row_ids is not None and count_row_ids(inline(fragment.row_ids)) == fragment.physical_rows


def touch_rows(fragment: Fragment, version: int, offsets: Sequence[int] | None = None) -> Fragment:
    """Update row versions of a fragment whose rows were changed in place.

    Args:
        fragment: Of a table with stable row ids, with last-updated versions.
        version: The new version.
        offsets: Of the rows; all of them when None.

    Returns:
        The unchanged fragment if the versions are in a separate file or not recorded.
    """
    before = fragment.last_updated_at_versions
    if offsets is None:
        versions = np.full(fragment.physical_rows, version, dtype=np.uint64)
    elif isinstance(before, bytes):
        versions = decode_row_versions(before, rows=fragment.physical_rows).copy()
        versions[np.asarray(offsets, dtype=np.int64)] = version
    else:
        return fragment
    return fragment.replace(last_updated_at_versions=encode_row_versions(versions))


def rewrite_fragments(fragments: Sequence[Fragment], groups: Sequence[RewriteGroup]) -> Sequence[Fragment]:
    """Replace the old fragments of each group by its new ones."""
    gone = (fragment.id for group in groups for fragment in group.old_fragments)
    new = (fragment for group in groups for fragment in group.new_fragments)
    return with_fragments(fragments, removed=gone, added=new)


def replace_columns(fragment: Fragment, new: DataFile) -> Fragment:
    """Return a fragment some of whose columns are in another file from now on.

    Old columns stay in their file as unused; a file without used columns is removed.
    """
    fields = frozenset(new.fields)
    files: list[DataFile] = []
    placed = False
    for file in fragment.files:
        if frozenset(file.fields) == fields:
            files.append(new)
            placed = True
        elif fields.isdisjoint(file.fields):
            files.append(file)
        else:
            left = tuple(TOMBSTONE if number in fields else number for number in file.fields)
            if set(left) != {TOMBSTONE}:
                files.append(replace(file, fields=left))
    return fragment.replace(files=tuple(files if placed else (*files, new)))


def project_fragments(fragments: Iterable[Fragment], schema: Schema) -> tuple[Fragment, ...]:
    """Remove files, also of overlays, without any column of the schema and without row ids or versions.

    A fragment keeps one file in any case, without columns: pylance cannot read one that has none.
    """
    kept = frozenset(node.id for node in schema.walk()) | frozenset(LINEAGE_FIELDS.values())
    projected = []
    for fragment in fragments:
        files = tuple(file for file in fragment.files if kept.intersection(file.fields))
        if fragment.files and not files:
            least = min(fragment.files, key=lambda file: file.size_bytes)
            files = (replace(least, fields=(TOMBSTONE,) * len(least.fields)),)
        overlays = tuple(item for item in fragment.overlays if kept.intersection(item.file.fields))
        same = files == fragment.files and len(overlays) == len(fragment.overlays)
        projected.append(fragment if same else fragment.replace(files=files, overlays=overlays))
    return tuple(projected)


def storage_version(file: DataFile) -> str:
    """Return the storage version of a data file, e.g. `2.0`, from the pair of numbers in the manifest.

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
    raise InvalidArgumentError(f"unknown storage version {file.major}.{file.minor}", path=file.path)
