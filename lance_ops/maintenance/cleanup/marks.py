"""Marks: which files the versions of a dataset use, the evidence that cleanup decides on."""

from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from lance_ops.errors import CorruptManifestError, FormatError
from lance_ops.file.io.side_files import data_file_of, side_folder
from lance_ops.maintenance.cleanup.places import is_own_root
from lance_ops.storage import validate_relative_path
from lance_ops.table.manifest.file.summary import ManifestSummary
from lance_ops.table.manifest.fragment import ExternalFile, Fragment
from lance_ops.table.manifest.fragment_reuse.partition import MAPS_FOLDER

DATA = "data"
DELETIONS = "_deletions"
INDICES = "_indices"
TRANSACTIONS = "_transactions"
ROW_MAPS = MAPS_FOLDER
OBJECTS = "_blobs"
"""New objects of managed blobs; a version may name files of `data` as such, too."""


@dataclass(slots=True)
class Marks:
    """Files used by a set of versions, relative to the dataset root.

    Attributes:
        files: Path to the version that was added first among those that use it. An index segment is marked
            by its directory, as are the files beside a data file.
    """

    files: dict[str, int] = field(default_factory=dict)
    _before: frozenset[bytes] = frozenset()

    def add(self, version: ManifestSummary, *, root: str, path: str) -> None:
        """Mark all files of a version; a fragment that the version added before has too costs one look-up.

        Versions that follow one another share nearly all fragments, and only those of one are kept at a time:
        memory follows the number of files, not of versions times their fragments.

        Args:
            version: The version.
            root: URI of the root that the version belongs to.
            path: Its manifest, for errors.

        Raises:
            CorruptManifestError: A fragment or an index entry cannot be read, or a path leaves the dataset.
        """
        try:
            fragments = frozenset(version.fragments)
            own = {None, *(base.id for base in version.base_paths if is_own_root(base, root))}
            for serialised in fragments - self._before:
                self.mark(_fragment_files(serialised, own), version.version)
            self._before = fragments
            segments = version.indices(path=path)
            # Of whatever base: pylance compacts a clone and writes the remapped segment here, and names it in
            # the base of the segment before. Names are unique, so no file of another base is meant.
            self.mark((segment.directory for segment in segments), version.version)
            if version.transaction_file:
                name = validate_relative_path(version.transaction_file)
                self.mark((f"{TRANSACTIONS}/{name}",), version.version)
        except FormatError as error:
            what = error.message if error.path is None else f"{error.message}: {error.path}"
            raise CorruptManifestError(what, path=path, field=error.field) from error

    def user_of(self, path: str) -> int | None:
        """A version that uses the file, or None."""
        folder = path
        if path.startswith(f"{INDICES}/"):
            folder = "/".join(path.split("/", 2)[:2])
        elif data_file_of(path) is not None:
            folder = path.rpartition("/")[0]
        # Managed blobs may name any file by itself.
        return self.files.get(path, self.files.get(folder))

    def mark(self, paths: Iterable[str], version: int) -> None:
        """Note that a version uses files."""
        for path in paths:
            self.files.setdefault(path, version)


def _fragment_files(serialised: bytes, own: Container[int | None]) -> list[str]:
    """Files of a fragment that lie below the dataset's own root, which is the base of the ids `own`.

    Raises:
        CorruptManifestError: It is no fragment.
        PathEscapeError: A path is not in the one spelling that a listing shows, so that its file would look
            unused.
    """
    fragment = Fragment.from_bytes(serialised)
    files = [
        f"{DATA}/{validate_relative_path(file.path)}" for file in fragment.all_files if file.base_id in own
    ]
    files += [f"{DATA}/{side_folder(path.rpartition('/')[2])}" for path in files]
    deletion = fragment.deletion_file
    if deletion is not None and deletion.base_id in own:
        files.append(deletion.path(fragment.id))
    sequences = (fragment.row_ids, fragment.last_updated_at_versions, fragment.created_at_versions)
    return files + [
        validate_relative_path(sequence.path) for sequence in sequences if isinstance(sequence, ExternalFile)
    ]
