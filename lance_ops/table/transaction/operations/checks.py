"""Checks of fragments that several operations share."""

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
    """The error that names a fragment and its files."""
    files = ", ".join(file.path for file in fragment.files[:3])
    return InvalidArgumentError(
        f"fragment {fragment.id} ({files or 'no files'}): {what}", field="fragments", hint=hint
    )


def check_added(manifest: Manifest, fragments: Sequence[Fragment], schema: Schema) -> None:
    """Refuse new rows that do not fit beside those of a version.

    Raises:
        InvalidArgumentError: Files, fields, rows or row ids of a fragment are not right.
    """
    check_new_fragments(fragments, schema)
    check_no_deletions(fragments)
    check_files(manifest, fragments)
    check_row_ids(fragments, required=False, allowed=manifest.uses_stable_row_ids)


def check_new_fragments(fragments: Iterable[Fragment], schema: Schema) -> None:
    """Refuse new fragments without data, and fields that the schema does not have or that come twice.

    Raises:
        InvalidArgumentError: A fragment is not right.
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
                raise wrong("two of its data files have one field", fragment)
            seen.update(file.fields)


def check_files(manifest: Manifest, fragments: Iterable[Fragment]) -> None:
    """New files must be new, or rows would come twice, and readable beside the others.

    Versions from 2.0 on may lie side by side; the table is marked as such a one then.

    Raises:
        InvalidArgumentError: A file is part of the version, comes twice, or is of a storage version that
            cannot join it.
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
                raise wrong(f"data file {file.path!r} is part of the dataset already", fragment)
            version = storage_version(file)
            if version != default and "0.1" in (version, default):
                raise wrong(f"a data file of version {version} in a dataset of version {default}", fragment)


def check_once(fragments: Iterable[Fragment]) -> None:
    """Refuse a data file that comes twice among new fragments: its rows would.

    Raises:
        InvalidArgumentError: Names the file.
    """
    seen: set[tuple[int | None, str]] = set()
    for fragment in fragments:
        for file in fragment.files:
            if (file.base_id, file.path) in seen:
                raise wrong(f"data file {file.path!r} comes twice in the operation", fragment)
            seen.add((file.base_id, file.path))


def check_no_deletions(fragments: Iterable[Fragment]) -> None:
    """Refuse deletion files of fragments that get their ids by the commit: the name of one has the id in it.

    Raises:
        InvalidArgumentError: Names the fragment.
    """
    for fragment in fragments:
        if fragment.deletion_file is not None:
            raise wrong(
                "it has a deletion file, which would be looked for under the id that the fragment gets",
                fragment,
                hint="write its live rows as a new fragment; to keep some fragments alone, commit a Delete "
                "of the others",
            )


def check_row_ids(fragments: Iterable[Fragment], *, required: bool, allowed: bool) -> None:
    """Refuse stable row ids that are missing, out of place, or not one for each row.

    Raises:
        InvalidArgumentError: A fragment is not right.
    """
    for fragment in fragments:
        if fragment.row_ids is None:
            if required:
                raise wrong("it has no row ids, and the dataset has stable ones", fragment)
        elif not allowed:
            raise wrong("it has row ids, and the dataset has none", fragment)
        elif not has_all_row_ids(fragment):
            raise wrong("it has another number of row ids than rows", fragment)


def check_moved_rows(manifest: Manifest, fragments: Iterable[Fragment]) -> None:
    """Refuse new fragments whose first rows bring stable ids that no row has, or that come twice.

    Args:
        manifest: The version that the operation goes on top of.
        fragments: New fragments. Their other rows get ids when they are committed.

    Raises:
        InvalidArgumentError: A fragment is not right.
    """
    seen: list[npt.NDArray[np.uint64]] = []
    for fragment in fragments:
        if fragment.row_ids is None:
            continue
        if not manifest.uses_stable_row_ids:
            raise wrong("it has row ids, and the dataset has none", fragment)
        moved = count_moved_rows(fragment)
        if moved > fragment.physical_rows:
            raise wrong("it has more row ids than rows", fragment)
        if fragment.created_at_versions is None or fragment.last_updated_at_versions is not None:
            raise wrong("rows that move keep the version that created them, and that alone", fragment)
        decode_row_versions(inline(fragment.created_at_versions), rows=moved)
        seen.append(decode_row_ids(inline(fragment.row_ids), rows=moved))
        highest = int(seen[-1].max()) if moved else -1
        if highest >= manifest.next_row_id and highest >= free_row_id(manifest):
            raise wrong("a row that moves has an id that was never given", fragment)
    # Sorted rather than by `np.unique`, which hashes and takes twenty times as long for numbers so close.
    ids = np.sort(np.concatenate(seen)) if seen else np.zeros(0, np.uint64)
    if bool((ids[1:] == ids[:-1]).any()):
        raise InvalidArgumentError("two of the rows that move have one id", field="new_fragments")


def check_deletions(manifest: Manifest, updated: Sequence[Fragment], removed: Sequence[int]) -> None:
    """Refuse deletion files that bring rows back, and fragments that change in any other way.

    Args:
        manifest: The version that the operation goes on top of.
        updated: Fragments of it with new deletion files.
        removed: Ids of its fragments of which no row is left.

    Raises:
        InvalidArgumentError: A fragment is not right.
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
            raise wrong("a delete may change nothing but the deletion file", fragment)


def check_columns_updated(manifest: Manifest, updated: Sequence[Fragment], removed: Sequence[int]) -> None:
    """Refuse fragments that change in any other way than by data files for some columns and deleted rows.

    Args:
        manifest: The version that the operation goes on top of.
        updated: Fragments of it with other data files.
        removed: Ids of its fragments of which no row is left.

    Raises:
        InvalidArgumentError: A fragment is not right.
    """
    existing = by_id(manifest.fragments)
    plain = []
    for fragment in updated:
        before = existing.get(fragment.id)
        if before is None or fragment.files == before.files:
            plain.append(fragment)
            continue
        if before.has_overlays or fragment.has_overlays:
            raise wrong("it has overlays, which would lie over the new values", fragment)
        known = {(file.base_id, file.path) for file in before.files}
        new = [file for file in fragment.files if (file.base_id, file.path) not in known]
        check_new_fragments([fragment.replace(files=tuple(new))], manifest.schema)
        check_files(manifest, [fragment.replace(files=tuple(new))])
        expected = before
        for file in new:
            expected = replace_columns(expected, file)
        if _columns(fragment) != _columns(expected):
            raise wrong("its columns are not those of before with some in new files", fragment)
        if fragment.num_deleted_rows < before.num_deleted_rows:
            raise wrong("it would have fewer deleted rows than before", fragment)
        same = fragment.replace(files=before.files, deletion_file=before.deletion_file)
        if same != before:
            raise wrong("an update may change nothing but data and deletion files", fragment)
    changed = [part for part in plain if part != existing.get(part.id)]
    check_deletions(manifest, changed, removed)


def _columns(fragment: Fragment) -> list[tuple[int, int, str]]:
    """Where each column of a fragment lies."""
    return sorted(
        (number, -1 if file.base_id is None else file.base_id, file.path)
        for file in fragment.files
        for number in file.fields
        if number >= 0
    )
