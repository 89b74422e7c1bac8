"""Numbers of rows that writers of the first age did not record in the manifest."""

from dataclasses import replace

from lance_ops.file.reader import FileReader
from lance_ops.table.base_paths import Bases
from lance_ops.table.deletion import read_deletion_vector
from lance_ops.table.fragment import Fragment
from lance_ops.table.manifest import Manifest


def lacks_row_counts(fragment: Fragment) -> bool:
    """Whether the manifest does not say how many rows a fragment has, or how many of them are deleted."""
    if fragment.physical_rows == 0 and fragment.files:
        return True
    return fragment.deletion_file is not None and fragment.deletion_file.num_deleted_rows == 0


def with_row_counts(bases: Bases, manifest: Manifest) -> Manifest:
    """The manifest with the missing numbers looked up in the files; as a rule it is the same object.

    Raises:
        UnsupportedVersionError: A file of a storage version that cannot be read.
        FileMissingError: A file is gone.
    """
    if not any(lacks_row_counts(fragment) for fragment in manifest.fragments):
        return manifest
    fragments = (
        _count(bases, fragment) if lacks_row_counts(fragment) else fragment for fragment in manifest.fragments
    )
    return manifest.replace(fragments=tuple(fragments))


def _count(bases: Bases, fragment: Fragment) -> Fragment:
    if fragment.physical_rows == 0:
        store, path = bases.data_path(fragment.files[0])
        reader = FileReader.open(store, path, size=fragment.files[0].size_bytes or None)
        fragment = fragment.replace(physical_rows=reader.num_rows)
    deleted = read_deletion_vector(bases, fragment)
    if fragment.deletion_file is None or deleted is None:
        return fragment
    return fragment.replace(deletion_file=replace(fragment.deletion_file, num_deleted_rows=len(deleted)))
