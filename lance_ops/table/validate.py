"""Whether an operation makes sense on a version of the dataset: the last look before it is committed. Pure.

A wrong Rewrite or Delete loses rows for good, so nothing that can be seen in the metadata is taken on trust.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from lance_ops.errors import InvalidArgumentError, UnsupportedError
from lance_ops.file.schema import Field, Schema
from lance_ops.file.versions import is_first_age
from lance_ops.table.apply_fragments import has_all_row_ids, storage_version
from lance_ops.table.fragment import Fragment
from lance_ops.table.manifest import Manifest
from lance_ops.table.naming import is_detached
from lance_ops.table.operations import (
    Append,
    Delete,
    Merge,
    Operation,
    Overwrite,
    Project,
    ReserveFragments,
    Restore,
    Rewrite,
    RewriteGroup,
    Update,
    UpdateConfig,
)


def check_age(manifest: Manifest, *, path: str) -> None:
    """Refuse to write on top of versions of the first age.

    Writers before 0.8.15 recorded wrong row counts and index coverages. The peer corrects them when it
    commits, and knows by the writer in the manifest that it has to: our name would hide the fault from it.

    Raises:
        UnsupportedError: The version was written before 0.8.15, keeps blobs in a dataset of their own, or has
            dictionary columns of storage version 0.1.
    """
    if manifest.may_miscount:
        raise UnsupportedError(
            "the row counts and index coverages of this version may be wrong: a writer before 0.8.15 made it",
            path=path,
            field="writer_version",
            hint="let pylance correct them with one commit, such as dataset.delete('false')",
        )
    if manifest.blob_dataset_version:
        raise UnsupportedError(
            "the dataset keeps blobs in a dataset of their own, as old writers did, and cannot be changed",
            path=path,
            field="blob_dataset_version",
        )
    coded = [node.name for node in manifest.schema.walk() if node.logical_type.startswith("dict:")]
    if coded and any(
        is_first_age(file.major, file.minor) for fragment in manifest.fragments for file in fragment.files
    ):
        # Manifests of 0.1 hold the values of the dictionaries themselves, and the peer reads them there.
        raise UnsupportedError(
            "dictionary columns of storage version 0.1 cannot be carried into a new version",
            path=path,
            field=coded[0],
            hint="read the rows and write them into a new dataset",
        )


def check_operation(manifest: Manifest, operation: Operation, *, schema: Schema | None = None) -> None:
    """Refuse an operation that would damage the dataset.

    Args:
        manifest: The version that the operation goes on top of.
        operation: What to commit.
        schema: Schema by which new rows were written, if it is not that of the manifest: columns may have
            been dropped meanwhile.

    Raises:
        InvalidArgumentError: Fragments, fields, row counts or ids do not fit together.
    """
    if isinstance(operation, Append):
        _check_append(manifest, operation.fragments, schema or manifest.schema)
        return
    if isinstance(operation, Update):
        _check_update(manifest, operation, schema or manifest.schema)
        return
    check = _CHECKS.get(type(operation))
    if check is not None:
        check(manifest, operation)


def _check_append(manifest: Manifest, fragments: Sequence[Fragment], schema: Schema) -> None:
    _check_new_fragments(fragments, schema)
    _check_files(manifest, fragments)
    _check_row_ids(fragments, required=False, allowed=manifest.uses_stable_row_ids)


def _check_update(manifest: Manifest, operation: Update, schema: Schema) -> None:
    """The form that replaces rows by new ones; rows that keep their ids or get other columns are not it."""
    if operation.fields_modified or operation.unknown:
        raise InvalidArgumentError(
            "an update that changes columns in place can be read in history, not committed",
            field="fields_modified",
        )
    for fragment in operation.new_fragments:
        if fragment.row_ids is not None:
            raise _wrong("the new rows of an update have no row ids yet", fragment)
    _check_deletions(manifest, operation.updated_fragments, operation.removed_fragment_ids)
    _check_append(manifest, operation.new_fragments, schema)


def _check_overwrite(manifest: Manifest, operation: Overwrite) -> None:
    if operation.initial_bases and manifest.version:
        raise InvalidArgumentError("bases are declared when a dataset is created", field="initial_bases")
    _check_new_fragments(operation.fragments, operation.schema)
    versions = {storage_version(file) for fragment in operation.fragments for file in fragment.files}
    if len(versions) > 1:
        raise InvalidArgumentError(
            f"data files of several storage versions: {', '.join(sorted(versions))}", field="fragments"
        )
    _check_row_ids(operation.fragments, required=False, allowed=manifest.uses_stable_row_ids)


def _check_new_fragments(fragments: Iterable[Fragment], schema: Schema) -> None:
    known = {node.id for node in schema.walk()}
    for fragment in fragments:
        if not fragment.files:
            raise _wrong("it has no data file", fragment)
        if fragment.physical_rows <= 0:
            raise _wrong("it has no rows", fragment)
        seen: set[int] = set()
        for file in fragment.files:
            if not file.fields:
                raise _wrong(f"data file {file.path!r} has no fields", fragment)
            unknown = set(file.fields) - known
            if unknown:
                raise _wrong(
                    f"data file {file.path!r} has fields {sorted(unknown)} that the schema does not have",
                    fragment,
                )
            if seen.intersection(file.fields):
                raise _wrong("two of its data files have one field", fragment)
            seen.update(file.fields)


def _check_files(manifest: Manifest, fragments: Iterable[Fragment]) -> None:
    """New files must be new, or rows would come twice, and readable beside the others.

    Versions from 2.0 on may lie side by side; the table is marked as such a one then.
    """
    default = manifest.storage_version
    existing = {(file.base_id, file.path) for fragment in manifest.fragments for file in fragment.files}
    for fragment in fragments:
        for file in fragment.files:
            if (file.base_id, file.path) in existing:
                raise _wrong(f"data file {file.path!r} is part of the dataset already", fragment)
            version = storage_version(file)
            if version != default and "0.1" in (version, default):
                raise _wrong(f"a data file of version {version} in a dataset of version {default}", fragment)


def _check_row_ids(fragments: Iterable[Fragment], *, required: bool, allowed: bool) -> None:
    for fragment in fragments:
        if fragment.row_ids is None:
            if required:
                raise _wrong("it has no row ids, and the dataset has stable ones", fragment)
        elif not allowed:
            raise _wrong("it has row ids, and the dataset has none", fragment)
        elif not has_all_row_ids(fragment):
            raise _wrong("it has another number of row ids than rows", fragment)


def _check_delete(manifest: Manifest, operation: Delete) -> None:
    _check_deletions(manifest, operation.updated_fragments, operation.deleted_fragment_ids)


def _check_deletions(manifest: Manifest, updated: Sequence[Fragment], removed: Sequence[int]) -> None:
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
            raise _wrong("it would have fewer deleted rows than before", fragment)
        if fragment.num_deleted_rows > fragment.physical_rows:
            raise _wrong("it would have more deleted rows than rows", fragment)
        if fragment.replace(deletion_file=before.deletion_file) != before:
            raise _wrong("a delete may change nothing but the deletion file", fragment)


def _check_rewrite(manifest: Manifest, operation: Rewrite) -> None:
    existing = {fragment.id: fragment for fragment in manifest.fragments}
    old_ids: set[int] = set()
    for group in operation.groups:
        if not group.old_fragments:
            raise InvalidArgumentError("a group of a rewrite replaces no fragment", field="groups")
        for fragment in group.old_fragments:
            if existing.get(fragment.id) != fragment:
                raise _wrong(f"it is not the fragment of that id in version {manifest.version}", fragment)
            if fragment.id in old_ids:
                raise _wrong("it is rewritten twice", fragment)
            old_ids.add(fragment.id)
        _check_group(manifest, group)
    _check_files(manifest, [fragment for group in operation.groups for fragment in group.new_fragments])


def check_reserved_ids(head: Manifest, operation: Rewrite) -> None:
    """Refuse new fragments of a Rewrite whose ids are not its own.

    Args:
        head: The version that the Rewrite goes on top of; the ids are reserved after its read version.
        operation: What to commit.

    Raises:
        InvalidArgumentError: An id is in use, or was never reserved.
    """
    taken = {fragment.id for fragment in head.fragments}
    for group in operation.groups:
        for fragment in group.new_fragments:
            if fragment.id in taken:
                raise _wrong("its id is in use", fragment)
            if head.max_fragment_id is None or fragment.id > head.max_fragment_id:
                raise _wrong(
                    "its id was not reserved", fragment, hint="commit ReserveFragments before the Rewrite"
                )
            taken.add(fragment.id)


def _check_group(manifest: Manifest, group: RewriteGroup) -> None:
    before = sum(fragment.num_rows for fragment in group.old_fragments)
    after = sum(fragment.num_rows for fragment in group.new_fragments)
    if before != after:
        ids = [fragment.id for fragment in group.old_fragments]
        raise InvalidArgumentError(
            f"rewriting fragments {ids[:8]} would turn {before:,} live rows into {after:,}", field="groups"
        )
    if not group.new_fragments:
        return
    _check_new_fragments_of_rewrite(group, manifest.schema)
    stable = manifest.uses_stable_row_ids
    _check_row_ids(group.new_fragments, required=stable, allowed=stable)


def _check_new_fragments_of_rewrite(group: RewriteGroup, schema: Schema) -> None:
    stored = _stored_fields(group.old_fragments)
    leaves = {leaf.id: line for leaf, line in _leaves(schema) if _is_stored(line, stored)}
    for fragment in group.new_fragments:
        if not fragment.files or fragment.physical_rows <= 0:
            raise _wrong("it has no data", fragment)
        present = _stored_fields([fragment])
        lost = [schema.path(leaf) for leaf, line in leaves.items() if not _is_stored(line, present)]
        if lost:
            raise _wrong(f"columns {', '.join(lost[:8])} would be lost", fragment)


def _stored_fields(fragments: Iterable[Fragment]) -> set[int]:
    return {field_id for fragment in fragments for file in fragment.files for field_id in file.fields}


def _leaves(schema: Schema) -> Iterable[tuple[Field, Sequence[Field]]]:
    def descend(node: Field, line: tuple[Field, ...]) -> Iterable[tuple[Field, Sequence[Field]]]:
        line = (*line, node)
        if not node.children:
            yield node, line
        for child in node.children:
            yield from descend(child, line)

    for top in schema.fields:
        yield from descend(top, ())


def _is_stored(line: Sequence[Field], stored: set[int]) -> bool:
    """Whether the files hold the last field of a line of ancestors.

    Versions differ in which fields of a struct they list: all, the leaves only, or a packed struct alone.
    """
    *ancestors, leaf = line
    if leaf.id in stored:
        return True
    for ancestor in reversed(ancestors):
        if ancestor.id in stored:
            return not any(node.id in stored for node in ancestor.walk() if node is not ancestor)
    return False


def _check_merge(manifest: Manifest, operation: Merge) -> None:
    new = {fragment.id: fragment for fragment in operation.fragments}
    if len(new) != len(operation.fragments):
        raise InvalidArgumentError("a fragment occurs twice in the merge", field="fragments")
    for fragment in manifest.fragments:
        merged = new.pop(fragment.id, None)
        if merged is None:
            raise _wrong("the merge leaves it out", fragment)
        if (merged.physical_rows, merged.deletion_file) != (fragment.physical_rows, fragment.deletion_file):
            raise _wrong("the merge would change its rows", fragment)
    if new:
        raise InvalidArgumentError(f"the merge adds fragments {sorted(new)[:8]}", field="fragments")


def _check_project(manifest: Manifest, operation: Project) -> None:
    added = {node.id for node in operation.schema.walk()} - {node.id for node in manifest.schema.walk()}
    if added:
        raise InvalidArgumentError(f"fields {sorted(added)[:8]} are not in the dataset", field="schema")


def _check_restore(_manifest: Manifest, operation: Restore) -> None:
    if is_detached(operation.version):
        raise InvalidArgumentError(
            f"version {operation.version} is detached: the history may use its fragment ids for other rows",
            field="version",
            hint="check it out and write its rows as an overwrite",
        )


def _check_reserve(_manifest: Manifest, operation: ReserveFragments) -> None:
    if operation.num_fragments <= 0:
        raise InvalidArgumentError(f"cannot reserve {operation.num_fragments} ids", field="num_fragments")


def _check_update_config(manifest: Manifest, operation: UpdateConfig) -> None:
    missing = set(operation.field_metadata) - {node.id for node in manifest.schema.walk()}
    if missing:
        raise InvalidArgumentError(
            f"fields {sorted(missing)[:8]} are not in the dataset", field="field_metadata"
        )


_CHECKS: dict[type[Operation], Callable[[Manifest, Any], None]] = {
    Delete: _check_delete,
    Overwrite: _check_overwrite,
    Rewrite: _check_rewrite,
    Merge: _check_merge,
    Project: _check_project,
    ReserveFragments: _check_reserve,
    Restore: _check_restore,
    UpdateConfig: _check_update_config,
}


def _wrong(what: str, fragment: Fragment, *, hint: str | None = None) -> InvalidArgumentError:
    files = ", ".join(file.path for file in fragment.files[:3])
    return InvalidArgumentError(
        f"fragment {fragment.id} ({files or 'no files'}): {what}", field="fragments", hint=hint
    )
