"""The files that an operation brings into the dataset: what is left over when it is not committed."""

from collections.abc import Iterator

from lance_ops.table.base_paths import DATA_DIRECTORY
from lance_ops.table.fragment import Fragment
from lance_ops.table.operations import (
    Append,
    CreateIndex,
    Delete,
    Operation,
    Overwrite,
    Rewrite,
    Update,
)


def new_files(operation: Operation) -> tuple[str, ...]:
    """Paths, relative to the root of the dataset, of files that were written for an operation.

    Index segments are given by their directory, with "/" at the end. Files in other bases are left out.
    """
    return tuple(sorted(set(_new_files(operation))))


def _new_files(operation: Operation) -> Iterator[str]:
    if isinstance(operation, Append | Overwrite):
        yield from _data_files(operation.fragments)
    elif isinstance(operation, Delete):
        yield from deletion_files(operation)
    elif isinstance(operation, Update):
        yield from deletion_files(operation)
        yield from _data_files(operation.new_fragments)
    elif isinstance(operation, Rewrite):
        yield from _data_files(tuple(f for group in operation.groups for f in group.new_fragments))
        yield from (f"_indices/{index.new_uuid}/" for index in operation.rewritten_indices)
    elif isinstance(operation, CreateIndex):
        yield from (f"{index.directory}/" for index in operation.new_indices if index.base_id is None)


def _data_files(fragments: tuple[Fragment, ...]) -> Iterator[str]:
    for fragment in fragments:
        yield from (f"{DATA_DIRECTORY}/{file.path}" for file in fragment.files if file.base_id is None)


def deletion_files(operation: Delete | Update) -> frozenset[str]:
    """Paths of the deletion files of an operation, relative to the root of the dataset."""
    return frozenset(
        fragment.deletion_file.path(fragment.id)
        for fragment in operation.updated_fragments
        if fragment.deletion_file is not None and fragment.deletion_file.base_id is None
    )
