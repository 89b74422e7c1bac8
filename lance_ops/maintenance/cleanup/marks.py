"""Marks: the files used by versions, on which a cleanup decides.

Files of failed runs whose job was finished by another run.

The names of files written under a job key start with a mark of the key: those of data files and index
segments with a digest, as those of transactions do, the ids of deletion files with a part of it. They are
committed under that key or not at all, and a job commits at most once. So when a commit of the job is in the
lineage of the newest version, a file of the job that no version uses belongs to a run that can never commit
it, and can be removed before the end of the grace period. Never, because

- a run that checks its job now finds it done;
- a run that began before that commit finds it among the versions since its read version. If a restore has
  undone the commit by then, it finds that as well, and most operations cannot be rebased over one;
- a run that can, or that commits the same files on a newer version than planned, checks announced removals
  and its files first (see `table.commit.jobs.left_over`). The files are removed only if the newest version
  still has the job in its lineage after the announcement, so before such a restore: then the run finds the
  announcement, or its files missing.

Deletion files and transactions, which are rewritten for each read version, contain its number. Those of the
job's own commit or later ones are kept: a failed run is older. A foreign deletion file has the mark of such a
job by chance once in 2^48 times.
"""

import re
from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from lance_ops.errors import CorruptManifestError, FormatError
from lance_ops.file.io.side_files import data_file_of, side_folder
from lance_ops.maintenance.cleanup.places import is_own_root
from lance_ops.storage import Store, validate_relative_path
from lance_ops.table.manifest.file.summary import ManifestSummary
from lance_ops.table.manifest.fragment import ExternalFile, Fragment
from lance_ops.table.manifest.fragment_reuse.partition import MAPS_FOLDER
from lance_ops.table.transaction.operations import Delete, Restore, Update
from lance_ops.table.transaction.transaction import (
    MARK_BITS,
    decode_transaction,
    job_mark,
    job_uuid_prefix,
    work_key,
)

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


_PREFIX = len(job_uuid_prefix(""))
_DELETION = re.compile(r"_deletions/[0-9]{1,20}-([0-9]{1,20})-([0-9]{1,20})\.(?:arrow|bin)")


class FinishedJobs:
    """Collects the jobs in the lineage of the newest version, down to the first missing version.

    Args:
        store: Root of the dataset.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        # The version of each of them.
        self._by_prefix: dict[str, int] = {}
        self._by_mark: dict[int, int] = {}
        self._next: int | None = None
        self._ended = False

    def add(self, version: ManifestSummary) -> None:
        """Add a version of the history, from the newest to the oldest."""
        if self._next is None:
            self._next = version.version
        if self._ended or version.version > self._next:
            return
        if version.version < self._next or version.transaction is None:
            # A missing version may have been a restore of an even older one.
            self._ended = True
            return
        path = f"{self._store.uri} (version {version.version}, inline transaction)"
        try:
            transaction = decode_transaction(version.transaction, path=path)
        except FormatError:
            self._ended = True
            return
        operation, key = transaction.operation, transaction.job_key
        if key is not None:
            prefix = job_uuid_prefix(key)
            self._by_prefix.setdefault(prefix, version.version)
            # Index segments that the job remapped in any of its commits.
            self._by_prefix.setdefault(job_uuid_prefix(work_key(prefix)), version.version)
            if isinstance(operation, Delete | Update):
                self._by_mark.setdefault(job_mark(key), version.version)
        self._next = operation.version if isinstance(operation, Restore) else version.version - 1

    @property
    def any_found(self) -> bool:
        """Return whether a version was committed by a job."""
        return bool(self._by_prefix)

    def wrote(self, path: str, kind: str) -> bool:
        """Return whether the name of a file shows that one of these jobs wrote it, before its commit."""
        folder, name = path.split("/")[:2]
        # The shares of an index build are in the directory of its segment under temporary names.
        if kind in ("data", "blob", "index") or (kind == "temporary" and folder == INDICES):
            return name[:_PREFIX] in self._by_prefix
        if kind == "transaction":
            read_version, _, uuid = name.partition("-")
            return _is_before(read_version, self._by_prefix.get(uuid[:_PREFIX]))
        if kind == "deletion" and (match := _DELETION.fullmatch(path)) is not None:
            mark = int(match[2]) >> 64 - MARK_BITS
            return _is_before(match[1], self._by_mark.get(mark))
        return False


def _is_before(read_version: str, committed: int | None) -> bool:
    number = read_version.isascii() and read_version.isdigit()
    return committed is not None and number and int(read_version) < committed
