"""Row counts that legacy writers did not record in the manifest, or recorded wrongly."""

from dataclasses import replace

from lance_ops.file.reader import FileReader
from lance_ops.table.manifest.base_paths import Bases
from lance_ops.table.manifest.deletion_vector import read_deletion_vector
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.fragment_list import lacks_row_counts
from lance_ops.table.manifest.fragments.totals import any_lacks_row_counts
from lance_ops.table.manifest.model import Manifest


def with_row_counts(bases: Bases, manifest: Manifest) -> Manifest:
    """Return the manifest with missing and doubtful row counts read from the files; usually the same object.

    Raises:
        UnsupportedVersionError: A file of a storage version that cannot be read.
        FileMissingError: A file does not exist.
    """
    doubtful = manifest.may_miscount
    if not doubtful and not any_lacks_row_counts(manifest.fragments):
        return manifest
    fragments = (
        count_rows(bases, fragment) if doubtful or lacks_row_counts(fragment) else fragment
        for fragment in manifest.fragments
    )
    return manifest.replace(fragments=tuple(fragments))


def count_rows(bases: Bases, fragment: Fragment) -> Fragment:
    """Return the fragment with the numbers of rows and deleted rows in its files.

    Raises:
        UnsupportedVersionError: A file of a storage version that cannot be read.
        CorruptFileError: A file is damaged.
        FileMissingError: A file does not exist.
    """
    if fragment.files:
        store, path = bases.data_path(fragment.files[0])
        # Some releases of that age recorded a smaller file size.
        rows = FileReader.open(store, path).num_rows
        fragment = fragment.replace(physical_rows=rows)
    if fragment.deletion_file is not None:
        # A recorded number would be checked against the file.
        fragment = fragment.replace(deletion_file=replace(fragment.deletion_file, num_deleted_rows=0))
    deleted = read_deletion_vector(bases, fragment)
    if fragment.deletion_file is None or deleted is None:
        return fragment
    return fragment.replace(deletion_file=replace(fragment.deletion_file, num_deleted_rows=len(deleted)))
