"""Files of operations: they are left over if the commit fails."""

from collections.abc import Collection, Iterable

from lance_ops.table.manifest.base_paths import DATA_DIRECTORY
from lance_ops.table.manifest.fragment import DELETIONS_DIRECTORY, Fragment
from lance_ops.table.manifest.fragments.fragment_list import FragmentList
from lance_ops.table.manifest.fragments.fragment_tuple import FragmentTuple
from lance_ops.table.manifest.fragments.totals import find_fragment
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.transaction.operations.base import Operation, Scope

_FEW = 64
# Of an id with 32 bits.
_DIGITS = 10


def data_files(fragments: Iterable[Fragment]) -> frozenset[str]:
    """Return paths of the data files of fragments, relative to the root; none of other bases."""
    return frozenset(
        f"{DATA_DIRECTORY}/{file.path}"
        for fragment in fragments
        for file in fragment.all_files
        if file.base_id is None
    )


def deletion_files(fragments: Iterable[Fragment]) -> frozenset[str]:
    """Paths of the deletion files of fragments, relative to the root of the dataset; none of other bases."""
    return frozenset(
        fragment.deletion_file.path(fragment.id)
        for fragment in fragments
        if fragment.deletion_file is not None and fragment.deletion_file.base_id is None
    )


def present_files(manifest: Manifest) -> frozenset[str]:
    """Return files that a version uses, as `Operation.files` names them, in any base."""
    files = {f"{index.directory}/" for index in manifest.indices}
    files.update(
        [f"{DATA_DIRECTORY}/{file.path}" for fragment in manifest.fragments for file in fragment.all_files]
    )
    files.update(
        [
            fragment.deletion_file.path(fragment.id)
            for fragment in manifest.fragments
            if fragment.deletion_file is not None
        ]
    )
    return frozenset(files)


def used_among(files: Collection[str], manifest: Manifest) -> frozenset[str]:
    """Return which of some files a version uses, named as in `present_files`."""
    fragments = manifest.fragments
    if not files:
        return frozenset()
    if not isinstance(fragments, FragmentList | FragmentTuple) or len(files) > _FEW:
        return present_files(manifest).intersection(files)
    # Only fragments that may use them are checked.
    used = {f"{index.directory}/" for index in manifest.indices}.intersection(files)
    for file in files:
        folder, _, name = file.partition("/")
        if folder == DATA_DIRECTORY and fragments.may_name(name):
            return present_files(manifest).intersection(files)
        number = name.partition("-")[0]
        if folder == DELETIONS_DIRECTORY and number.isdecimal():
            fragment = find_fragment(fragments, int(number)) if len(number) <= _DIGITS else None
            if fragment is not None and file in files_of(fragment):
                used.add(file)
    return frozenset(used)


def files_of(fragment: Fragment) -> set[str]:
    """Return files of a fragment, as `Operation.files` names them, in any base."""
    files = {f"{DATA_DIRECTORY}/{file.path}" for file in fragment.all_files}
    if fragment.deletion_file is not None:
        files.add(fragment.deletion_file.path(fragment.id))
    return files


def brought_files(operation: Operation, base: Manifest | None) -> frozenset[str]:
    """Return files of an operation that its read version does not use.

    Args:
        operation: The operation to commit.
        base: Its read version; None when it creates the dataset, or the version is unknown. Then an operation
            that also lists files of others adds none for certain.
    """
    files = operation.files()
    if base is not None:
        return files - used_among(files, base)
    return frozenset() if operation.scope is Scope.OPEN else files
