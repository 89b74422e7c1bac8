"""Checks of fragments that several operations share."""

from collections.abc import Iterable, Sequence

from lance_ops.errors import InvalidArgumentError
from lance_ops.file.schema.model import Schema
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.transaction.apply_fragments import has_all_row_ids, storage_version


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
        InvalidArgumentError: A file is part of the version, or of a storage version that cannot join it.
    """
    default = manifest.storage_version
    existing = {(file.base_id, file.path) for fragment in manifest.fragments for file in fragment.files}
    for fragment in fragments:
        for file in fragment.files:
            if (file.base_id, file.path) in existing:
                raise wrong(f"data file {file.path!r} is part of the dataset already", fragment)
            version = storage_version(file)
            if version != default and "0.1" in (version, default):
                raise wrong(f"a data file of version {version} in a dataset of version {default}", fragment)


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


def check_deletions(manifest: Manifest, updated: Sequence[Fragment], removed: Sequence[int]) -> None:
    """Refuse deletion files that bring rows back, and fragments that change in any other way.

    Args:
        manifest: The version that the operation goes on top of.
        updated: Fragments of it with new deletion files.
        removed: Ids of its fragments of which no row is left.

    Raises:
        InvalidArgumentError: A fragment is not right.
    """
    existing = {fragment.id: fragment for fragment in manifest.fragments}
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
