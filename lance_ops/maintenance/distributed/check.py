"""Check of a commit: the files of an operation are validated before a version names them.

The operation itself checks against metadata whether it fits the version. Here the files of other writers are
opened: they must exist, with the stated version and number of rows, and contain the stated columns.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lance_ops.errors import FormatError, InvalidArgumentError, NotFoundError
from lance_ops.file.io.side_files import list_side_files
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.blob_fields import is_blob_v2
from lance_ops.file.schema.model import Field, Schema
from lance_ops.file.versions import is_legacy
from lance_ops.table.manifest.base_paths import Bases
from lance_ops.table.manifest.data_file import DataFile
from lance_ops.table.manifest.deletion_vector import read_deletion_vector
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.side_sizes import blob_field_ids, may_have_side_files
from lance_ops.table.transaction.operations import (
    Append,
    CreateIndex,
    DataReplacement,
    Delete,
    Merge,
    Operation,
    Overwrite,
    Rewrite,
    Update,
)


@dataclass(frozen=True, slots=True)
class CheckTask:
    """One fragment of an operation; serializable for executors.

    Attributes:
        bases: Roots of the files.
        fragment: Fragment of the operation.
        files: Its new data files.
        deletions: True if its deletion file is new.
        schema: The schema after the operation.
        complete: True if `files` has all of its columns: then non-nullable columns must be among them.
    """

    bases: Bases
    fragment: Fragment
    files: tuple[DataFile, ...]
    deletions: bool
    schema: Schema
    complete: bool


@dataclass(frozen=True, slots=True)
class CheckedFiles:
    """Validated files.

    Attributes:
        files: Data and deletion files.
        size: Their bytes, with blobs outside of data files, without deletion files.
    """

    files: int = 0
    size: int = 0


def check_tasks(operation: Operation, manifest: Manifest | None, bases: Bases) -> list[CheckTask]:
    """Return the checks before the commit of an operation.

    Args:
        operation: The operation.
        manifest: Its read version; None if it creates the dataset.
        bases: Roots of its files.
    """
    schema = operation.schema if isinstance(operation, Overwrite | Merge) else None
    if schema is None:
        assert manifest is not None
        schema = manifest.schema
    old = () if manifest is None or isinstance(operation, Overwrite) else manifest.fragments
    known = {(file.base_id, file.path) for fragment in old for file in fragment.files}
    deleted = {fragment.id: fragment.deletion_file for fragment in old}
    tasks = []
    for fragment in _fragments(operation, old):
        files = tuple(file for file in fragment.files if (file.base_id, file.path) not in known)
        deletion = fragment.deletion_file
        deletions = deletion is not None and deleted.get(fragment.id) != deletion
        if files or deletions:
            complete = len(files) == len(fragment.files)
            tasks.append(CheckTask(bases, fragment, files, deletions, schema, complete))
    return tasks


def _fragments(operation: Operation, old: Iterable[Fragment]) -> Iterator[Fragment]:
    """Yield all fragments in an operation."""
    if isinstance(operation, Append | Overwrite | Merge):
        yield from operation.fragments
    elif isinstance(operation, Delete):
        yield from operation.updated_fragments
    elif isinstance(operation, Update):
        yield from operation.updated_fragments
        yield from operation.new_fragments
    elif isinstance(operation, Rewrite):
        yield from operation.new_fragments
    elif isinstance(operation, DataReplacement):
        by_id = {fragment.id: fragment for fragment in old}
        for number, file in operation.replacements:
            # The operation itself reports a missing one.
            if number in by_id:
                yield by_id[number].replace(files=(*by_id[number].files, file))


def check_segments(operation: Operation, bases: Bases) -> None:
    """Check that the files of new index segments exist.

    Raises:
        InvalidArgumentError: One does not, or has another size than stated.
    """
    if not isinstance(operation, CreateIndex):
        return
    for segment in operation.new_indices:
        store, folder = bases.index_directory(segment)
        found = {info.path: info.size for info in store.list(folder)}
        if not found and not segment.is_system:
            raise InvalidArgumentError(
                f"index segment {segment.name!r} has no files", path=f"{store.uri}/{folder}", field="indices"
            )
        for file in segment.files:
            size = found.get(f"{folder}/{file.path}")
            if size is None or (file.size_bytes and size != file.size_bytes):
                what = (
                    "does not exist" if size is None else f"has {size:,} bytes, expected {file.size_bytes:,}"
                )
                raise InvalidArgumentError(
                    f"a file of index segment {segment.name!r} {what}",
                    path=f"{store.uri}/{folder}/{file.path}",
                    field="indices",
                )


def check_fragment(task: CheckTask) -> CheckedFiles:
    """Check the files of one fragment.

    Raises:
        InvalidArgumentError: One does not exist or differs from its description; names the file and the
            problem.
    """
    checked = CheckedFiles()
    held: set[int] = set()
    for file in task.files:
        size = _check_file(task, file, held)
        checked = CheckedFiles(checked.files + 1, checked.size + size)
    if task.complete:
        _check_required(task, held)
    if task.deletions:
        try:
            read_deletion_vector(task.bases, task.fragment)
        except (FormatError, NotFoundError) as error:
            raise _wrong(task, f"its deletion file is invalid: {error.message}", error.path) from error
        checked = CheckedFiles(checked.files + 1, checked.size)
    return checked


def _check_file(task: CheckTask, file: DataFile, held: set[int]) -> int:
    where = file.path
    try:
        store, path = task.bases.data_path(file)
        where = f"{store.uri}/{path}"
        size = store.size(path)
        if file.size_bytes and size != file.size_bytes and not is_legacy(file.major, file.minor):
            raise _wrong(task, f"a data file has {size:,} bytes, expected {file.size_bytes:,}", where)
        reader = FileReader.open(store, path, size=size)
        columns = file.live_columns
    except NotFoundError as error:
        raise _wrong(task, "a data file does not exist", where) from error
    except FormatError as error:
        raise _wrong(task, f"cannot read a data file: {error.message}", where) from error
    if reader.version != file.storage_version:
        raise _wrong(
            task, f"a data file has version {reader.version}, expected {file.storage_version}", where
        )
    if reader.num_rows != task.fragment.physical_rows:
        what = f"a data file has {reader.num_rows:,} rows, expected {task.fragment.physical_rows:,}"
        raise _wrong(task, what, where)
    held.update(field_id for field_id in file.fields if field_id >= 0)
    _check_columns(task, reader, columns, where)
    if may_have_side_files(file, blob_field_ids(task.schema)):
        size += sum(found for _, found in list_side_files(store, path))
    return size


def _check_columns(task: CheckTask, reader: FileReader, columns: dict[int, int], where: str) -> None:
    own = {index: number for number, index in reader.layout.assign_columns(reader.schema).items()}
    theirs = {node.id: node for node in reader.schema.walk()}
    wanted = {node.id: node for node in task.schema.walk()}
    opaque = {node.id for top in task.schema.walk() if is_blob_v2(top) for node in top.walk()}
    for number, index in columns.items():
        field = wanted.get(number)
        if field is None:
            raise _wrong(task, f"a data file has field {number}, which is not in the schema", where)
        found = theirs.get(own.get(index, -1))
        if found is None:
            raise _wrong(task, f"a data file has no column {index} for {_path(task, number)}", where)
        if number not in opaque and not _is_same(found, field):
            what = (
                f"column {_path(task, number)} has type {found.logical_type} in a data file, expected "
                f"{field.logical_type}"
            )
            raise _wrong(task, what, where)
        other = None if number in opaque else _other_name(found, theirs, field, wanted)
        if other is not None:
            # Written for another version: an overwrite assigns field ids from 0, and pylance reuses those of
            # dropped columns.
            what = f"column {_path(task, number)} has the name {other!r} in a data file"
            hint = "commit it with the read_version for which it was written, or write it again for this one"
            raise _wrong(task, what, where, hint=hint)
        # They are nullable in the file, so the values must be checked.
        if not field.nullable and found.nullable and field.parent_id < 0:
            part = Schema((found,))
            nulls = sum(batch.column(0).null_count for batch in reader.iter_batches(part))
            if nulls:
                raise _wrong(
                    task, f"column {_path(task, number)} is not nullable, but has {nulls:,} nulls", where
                )


def _other_name(found: Field, theirs: dict[int, Field], field: Field, wanted: dict[int, Field]) -> str | None:
    """Return the name of a column or of its parents in a data file, if it differs from the schema."""
    there: Field | None = found
    here: Field | None = field
    while there is not None and here is not None:
        above = wanted.get(here.parent_id)
        # Writers use any names for the items of lists and maps.
        is_named = above is None or (
            above.logical_type == "struct" and not _is_map(wanted.get(above.parent_id))
        )
        if is_named and there.name != here.name:
            return there.name
        there, here = theirs.get(there.parent_id), above
    return None


def _is_map(field: Field | None) -> bool:
    return field is not None and field.logical_type == "map"


def _is_same(found: Field, wanted: Field) -> bool:
    return found.logical_type == wanted.logical_type or {found.logical_type, wanted.logical_type} <= _TEXTS


_TEXTS = {"json", "large_binary"}
"""JSON documents are stored as bytes, and some writers record that type."""


def _check_required(task: CheckTask, held: set[int]) -> None:
    for field in task.schema.fields:
        if not field.nullable and held.isdisjoint(node.id for node in field.walk()):
            raise _wrong(task, f"none of its files has the non-nullable column {field.name!r}", None)


def _path(task: CheckTask, number: int) -> str:
    return repr(task.schema.path(number))


def _wrong(
    task: CheckTask, what: str, path: str | None, *, hint: str = "write the fragment again, for this dataset"
) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"fragment {task.fragment.id} cannot be committed: {what}",
        path=path,
        field="fragments",
        hint=hint,
    )
