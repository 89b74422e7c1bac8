"""Fsck of files: every file named by a version exists with its recorded size."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from lance_ops.errors import LanceOpsError
from lance_ops.file.versions import is_legacy
from lance_ops.maintenance.fsck.findings import Finding, Severity
from lance_ops.storage import Store, validate_relative_path
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.base_paths import Bases
from lance_ops.table.manifest.fragment import SEQUENCES, ExternalFile, Fragment
from lance_ops.table.manifest.fragments.data_files import iter_data_files
from lance_ops.table.manifest.fragments.fragment_list import IRREGULAR, FragmentList
from lance_ops.table.manifest.fragments.totals import fragments_at, numbers_of
from lance_ops.table.manifest.index_metadata import IndexMetadata

_PLAIN = re.compile(r"[0-9A-Za-z_-]+[.]lance").fullmatch
"""Matches names of data files that libraries give them, which need no check."""


def check_files(dataset: Dataset) -> Iterator[Finding]:
    """Check that every file named by the version exists with its recorded size."""
    listed = _listed_sizes(dataset)
    for file in promised_files(dataset, partial(_unlike_listing, listed=listed)):
        path = file.path
        try:
            store, path = file.find()
            size = listed.get(path) if store is dataset.store else None
            if size is None:
                # In another base, behind a link, or missing.
                size = store.size(path)
        except LanceOpsError as error:
            message = f"cannot find {file.what}: {error.message}"
            yield Finding("files_present", Severity.ERROR, message, path)
            continue
        if size < file.at_least:
            message = f"{file.what} has {size:,} bytes, expected at least {file.at_least:,}"
            yield Finding("files_present", Severity.ERROR, message, path)
        if file.size and size != file.size:
            message = f"{file.what} has {size:,} bytes, the manifest records {file.size:,}"
            yield Finding("files_present", Severity.ERROR, message, path)


@dataclass(frozen=True, slots=True)
class PromisedFile:
    """A file named by a version.

    Attributes:
        what: Description for messages.
        path: Path in the version.
        size: Recorded size; 0 if unknown.
        find: Returns its store and path; rejects a path that leaves its base.
        at_least: Minimum size, if only a part of it is used.
    """

    what: str
    path: str
    size: int
    find: Callable[[], tuple[Store, str]]
    at_least: int = 0


def promised_files(
    dataset: Dataset, choose: Callable[[Sequence[Fragment]], Sequence[Fragment]] | None = None
) -> Iterator[PromisedFile]:
    """Yield every file named by a version.

    Args:
        dataset: The version.
        choose: Returns those of the fragments whose files are wanted; all when None.
    """
    bases = dataset.bases
    # As in the manifest: completing the omissions of old writers would require the files.
    fragments = dataset.manifest.fragments
    for fragment in fragments if choose is None else choose(fragments):
        for file in fragment.all_files:
            what = f"a data file of fragment {fragment.id}"
            # Some releases of pylance record less than the real size for files of 0.1.
            size = 0 if is_legacy(file.major, file.minor) else file.size_bytes
            yield PromisedFile(what, file.path, size, partial(bases.data_path, file))
        deletion = fragment.deletion_file
        if deletion is not None:
            find = partial(bases.deletion_path, fragment.id, deletion)
            what = f"the deletion file of fragment {fragment.id}"
            yield PromisedFile(what, deletion.path(fragment.id), 0, find)
        for name in SEQUENCES:
            sequence = getattr(fragment, name)
            if isinstance(sequence, ExternalFile):
                find = partial(bases.external_path, sequence)
                end = sequence.offset + sequence.size
                what = f"the {name} of fragment {fragment.id}"
                yield PromisedFile(what, sequence.path, 0, find, at_least=end)
    for segment in dataset.indices:
        for index_file in segment.files:
            find = partial(_index_path, bases, segment, index_file.path)
            what = f"a file of index {segment.name!r}"
            yield PromisedFile(what, f"{segment.directory}/{index_file.path}", index_file.size_bytes, find)


def count_promised_files(dataset: Dataset) -> int:
    """Return the number of files named by a version."""
    fragments = dataset.manifest.fragments
    if not isinstance(fragments, FragmentList):
        return sum(1 for _ in promised_files(dataset))
    irregular = fragments.has(IRREGULAR)
    numbers = numbers_of(fragments)
    regular = int((numbers.file_counts + numbers.has_deletions)[~irregular].sum())
    others = np.flatnonzero(irregular).tolist()
    return regular + sum(1 for _ in promised_files(dataset, lambda every: fragments_at(every, others)))


def _unlike_listing(fragments: Sequence[Fragment], listed: Mapping[str, int]) -> Sequence[Fragment]:
    """Return the fragments with files other than data files as they are listed: few of many as a rule."""
    if not isinstance(fragments, FragmentList):
        return fragments
    unlike = numbers_of(fragments).has_deletions.copy()
    for part in iter_data_files(fragments):
        unlike[part.others] = True
        sizes = [listed.get(f"data/{path}", -1) if _PLAIN(path) else -1 for path in part.paths]
        found = np.array(sizes, np.int64)
        # As `check_files` says of single ones: of unknown sizes, and those of 0.1, existence counts.
        unsized = (part.sizes == 0) | ((part.majors == 0) & (part.minors < 3))
        same = (part.bases < 0) & (found >= 0) & (unsized | (found == part.sizes))
        unlike[part.positions[~same]] = True
    return fragments_at(fragments, np.flatnonzero(unlike).tolist())


def _index_path(bases: Bases, segment: IndexMetadata, name: str) -> tuple[Store, str]:
    store, directory = bases.index_directory(segment)
    return store, f"{directory}/{validate_relative_path(name)}"


def _listed_sizes(dataset: Dataset) -> dict[str, int]:
    """Return sizes of files below the dataset's own root, from three listings instead of single requests."""
    return {
        info.path: info.size
        for folder in ("data", "_deletions", "_indices")
        for info in dataset.store.list(folder)
    }
