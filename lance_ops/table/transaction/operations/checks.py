"""Checks of fragments shared by several operations."""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from lance_ops.errors import InvalidArgumentError
from lance_ops.file.schema.model import Schema
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.totals import by_id, named_among
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.manifest.row_ids import decode_row_ids, decode_row_versions, inline
from lance_ops.table.transaction.apply_fragments import (
    count_moved_rows,
    free_row_id,
    has_all_row_ids,
    replace_columns,
    storage_version,
)


def wrong(what: str, fragment: Fragment, *, hint: str | None = None) -> InvalidArgumentError:
    """Return the error for a fragment and its files."""
    files = ", ".join(file.path for file in fragment.files[:3])
    return InvalidArgumentError(
        f"fragment {fragment.id} ({files or 'no files'}): {what}", field="fragments", hint=hint
    )


def check_added(manifest: Manifest, fragments: Sequence[Fragment], schema: Schema) -> None:
    """Check new fragments against a version.

    Raises:
        InvalidArgumentError: Files, fields, rows or row ids of a fragment are invalid.
    """
    check_new_fragments(fragments, schema)
    check_no_deletions(fragments)
    check_files(manifest, fragments)
    check_row_ids(fragments, required=False, allowed=manifest.uses_stable_row_ids)


def check_new_fragments(fragments: Iterable[Fragment], schema: Schema) -> None:
    """Refuse new fragments without data, and fields that are unknown or duplicate.

    Raises:
        InvalidArgumentError: A fragment is invalid.
    """
    known = frozenset(prepare_schema(schema).ids)
    for fragment in fragments:
        if not fragment.files:
            raise wrong("it has no data file", fragment)
        if fragment.physical_rows <= 0:
            raise wrong("it has no rows", fragment)
        seen: set[int] = set()
        for file in fragment.files:
            if not file.fields:
                raise wrong(f"data file {file.path!r} has no fields", fragment)
            unknown = set(file.fields) - known
            if unknown:
                raise wrong(
                    f"data file {file.path!r} has fields {sorted(unknown)} that the schema does not have",
                    fragment,
                )
            if seen.intersection(file.fields):
                raise wrong("two of its data files have the same field", fragment)
            seen.update(file.fields)


def check_files(manifest: Manifest, fragments: Iterable[Fragment]) -> None:
    """Check that new files are new, or rows would be duplicated, and of a compatible storage version.

    Versions from 2.0 on may be mixed; the table is flagged accordingly.

    Raises:
        InvalidArgumentError: A file is part of the version, is listed twice, or has an incompatible storage
            version.
    """
    default = manifest.storage_version
    fragments = tuple(fragments)
    check_once(fragments)
    existing = named_among(
        manifest.fragments, {(file.base_id, file.path) for fragment in fragments for file in fragment.files}
    )
    for fragment in fragments:
        for file in fragment.files:
            if (file.base_id, file.path) in existing:
                raise wrong(f"data file {file.path!r} is already part of the dataset", fragment)
            version = storage_version(file)
            if version != default and "0.1" in (version, default):
                raise wrong(
                    f"a data file of storage version {version} cannot be added to a dataset of "
                    f"version {default}",
                    fragment,
                )


def check_once(fragments: Iterable[Fragment]) -> None:
    """Refuse a data file that is listed twice in new fragments: its rows would be duplicated.

    Raises:
        InvalidArgumentError: Names the file.
    """
    seen: set[tuple[int | None, str]] = set()
    for fragment in fragments:
        for file in fragment.files:
            if (file.base_id, file.path) in seen:
                raise wrong(f"data file {file.path!r} is listed twice in the operation", fragment)
            seen.add((file.base_id, file.path))


def check_no_deletions(fragments: Iterable[Fragment]) -> None:
    """Refuse deletion files of fragments without id: the name of the file contains the id.

    Raises:
        InvalidArgumentError: Names the fragment.
    """
    for fragment in fragments:
        if fragment.deletion_file is not None:
            raise wrong(
                "it has a deletion file, whose name would need the id that the fragment gets by the commit",
                fragment,
                hint="write its live rows as a new fragment; to keep some fragments alone, commit a Delete "
                "of the others",
            )


def check_row_ids(fragments: Iterable[Fragment], *, required: bool, allowed: bool) -> None:
    """Refuse stable row ids that are missing, unexpected, or not one for each row.

    Raises:
        InvalidArgumentError: A fragment is invalid.
    """
    for fragment in fragments:
        if fragment.row_ids is None:
            if required:
                raise wrong("it has no row ids, but the dataset has stable row ids", fragment)
        elif not allowed:
            raise wrong("it has row ids, but the dataset has no stable row ids", fragment)
        elif not has_all_row_ids(fragment):
            raise wrong("the number of its row ids does not match its rows", fragment)


def check_moved_rows(manifest: Manifest, fragments: Iterable[Fragment]) -> None:
    """Refuse new fragments whose leading rows have stable ids that no row has, or duplicates.

    Args:
        manifest: The version to commit on.
        fragments: New fragments. Their other rows get ids when they are committed.

    Raises:
        InvalidArgumentError: A fragment is invalid.
    """
    seen: list[npt.NDArray[np.uint64]] = []
    for fragment in fragments:
        if fragment.row_ids is None:
            continue
        if not manifest.uses_stable_row_ids:
            raise wrong("it has row ids, but the dataset has no stable row ids", fragment)
        moved = count_moved_rows(fragment)
        if moved > fragment.physical_rows:
            raise wrong("it has more row ids than rows", fragment)
        if fragment.created_at_versions is None or fragment.last_updated_at_versions is not None:
            raise wrong("moved rows must keep the version that created them, and only that one", fragment)
        decode_row_versions(inline(fragment.created_at_versions), rows=moved)
        seen.append(decode_row_ids(inline(fragment.row_ids), rows=moved))
        highest = int(seen[-1].max()) if moved else -1
        if highest >= manifest.next_row_id and highest >= free_row_id(manifest):
            raise wrong("a moved row has an id that was never allocated", fragment)
    # Sorting takes a twentieth of the time of `np.unique`, which hashes, for numbers so close.
    ids = np.sort(np.concatenate(seen)) if seen else np.zeros(0, np.uint64)
    if bool((ids[1:] == ids[:-1]).any()):
        raise InvalidArgumentError("two of the moved rows have the same id", field="new_fragments")


def check_deletions(manifest: Manifest, updated: Sequence[Fragment], removed: Sequence[int]) -> None:
    """Refuse deletion files that restore rows, and fragments that change in any other way.

    Args:
        manifest: The version to commit on.
        updated: Fragments of it with new deletion files.
        removed: Ids of its fragments of which no row is left.

    Raises:
        InvalidArgumentError: A fragment is invalid.
    """
    existing = by_id(manifest.fragments)
    ids = [*(fragment.id for fragment in updated), *removed]
    if len(set(ids)) != len(ids):
        raise InvalidArgumentError("a fragment occurs twice in the delete", field="updated_fragments")
    missing = set(ids) - existing.keys()
    if missing:
        raise InvalidArgumentError(
            f"fragments {sorted(missing)[:8]} are not in version {manifest.version}",
            field="updated_fragments",
        )
    for fragment in updated:
        before = existing[fragment.id]
        if fragment.deletion_file is None or fragment.num_deleted_rows < before.num_deleted_rows:
            raise wrong("it would have fewer deleted rows than before", fragment)
        if fragment.num_deleted_rows > fragment.physical_rows:
            raise wrong("it would have more deleted rows than rows", fragment)
        if fragment.replace(deletion_file=before.deletion_file) != before:
            raise wrong("a delete may only change the deletion file", fragment)


def check_columns_updated(manifest: Manifest, updated: Sequence[Fragment], removed: Sequence[int]) -> None:
    """Refuse fragments that change in any other way than by data files for some columns and deleted rows.

    Args:
        manifest: The version to commit on.
        updated: Fragments of it with other data files.
        removed: Ids of its fragments of which no row is left.

    Raises:
        InvalidArgumentError: A fragment is invalid.
    """
    existing = by_id(manifest.fragments)
    plain = []
    for fragment in updated:
        before = existing.get(fragment.id)
        if before is None or fragment.files == before.files:
            plain.append(fragment)
            continue
        if before.has_overlays or fragment.has_overlays:
            raise wrong("it has overlays, which would override the new values", fragment)
        known = {(file.base_id, file.path) for file in before.files}
        new = [file for file in fragment.files if (file.base_id, file.path) not in known]
        check_new_fragments([fragment.replace(files=tuple(new))], manifest.schema)
        check_files(manifest, [fragment.replace(files=tuple(new))])
        expected = before
        for file in new:
            expected = replace_columns(expected, file)
        if _columns(fragment) != _columns(expected):
            raise wrong("its columns are not those of the previous version with some in new files", fragment)
        if fragment.num_deleted_rows < before.num_deleted_rows:
            raise wrong("it would have fewer deleted rows than before", fragment)
        same = fragment.replace(files=before.files, deletion_file=before.deletion_file)
        if same != before:
            raise wrong("an update may only change data files and deletion files", fragment)
    changed = [part for part in plain if part != existing.get(part.id)]
    check_deletions(manifest, changed, removed)


def _columns(fragment: Fragment) -> list[tuple[int, int, str]]:
    """Return the location of each column of a fragment."""
    return sorted(
        (number, -1 if file.base_id is None else file.base_id, file.path)
        for file in fragment.files
        for number in file.fields
        if number >= 0
    )
