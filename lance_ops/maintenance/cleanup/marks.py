"""Marks: the files used by versions, on which a cleanup decides."""

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
"""Folder of new objects of managed blobs; a version may also name files of `data`."""


@dataclass(slots=True)
class Marks:
    """Files used by a set of versions, relative to the dataset root.

    Attributes:
        files: From path to the first added version that uses it. An index segment is marked
            by its directory, as are the files beside a data file.
    """

    files: dict[str, int] = field(default_factory=dict)
    _before: frozenset[bytes] = frozenset()

    def add(self, version: ManifestSummary, *, root: str, path: str) -> None:
        """Mark all files of a version; a fragment shared with the previously added version costs one look-up.

        Consecutive versions share nearly all fragments, and only those of one are kept in memory: it grows
        with the number of files, not with versions times fragments.

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
            # Of any base: pylance compacts a clone and writes the remapped segment here, but records the base
            # of the previous segment. Names are unique, so no file of another base is meant.
            self.mark((segment.directory for segment in segments), version.version)
            if version.transaction_file:
                name = validate_relative_path(version.transaction_file)
                self.mark((f"{TRANSACTIONS}/{name}",), version.version)
        except FormatError as error:
            what = error.message if error.path is None else f"{error.message}: {error.path}"
            raise CorruptManifestError(what, path=path, field=error.field) from error

    def user_of(self, path: str) -> int | None:
        """Return a version that uses the file, or None."""
        folder = path
        if path.startswith(f"{INDICES}/"):
            folder = "/".join(path.split("/", 2)[:2])
        elif data_file_of(path) is not None:
            folder = path.rpartition("/")[0]
        # Managed blobs may name any single file.
        return self.files.get(path, self.files.get(folder))

    def mark(self, paths: Iterable[str], version: int) -> None:
        """Mark files used by a version."""
        for path in paths:
            self.files.setdefault(path, version)


def _fragment_files(serialised: bytes, own: Container[int | None]) -> list[str]:
    """Yield the files of a fragment below the dataset's own root, which is the base of the ids `own`.

    Raises:
        CorruptManifestError: It is not a fragment.
        PathEscapeError: A path is not in the normalized form of a listing, so that its file would look
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
