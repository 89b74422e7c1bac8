"""Fsck of files: every file named by a version exists with its recorded size."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from lance_ops.errors import LanceOpsError
from lance_ops.file.versions import is_legacy
from lance_ops.maintenance.fsck.findings import Finding, Severity
from lance_ops.storage import Store, validate_relative_path
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.base_paths import Bases
from lance_ops.table.manifest.fragment import SEQUENCES, ExternalFile
from lance_ops.table.manifest.index_metadata import IndexMetadata


def check_files(dataset: Dataset) -> Iterator[Finding]:
    """Check that every file named by the version exists with its recorded size."""
    listed = _listed_sizes(dataset)
    for file in promised_files(dataset):
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


def promised_files(dataset: Dataset) -> Iterator[PromisedFile]:
    """Yield every file named by a version."""
    bases = dataset.bases
    # As in the manifest: completing the omissions of old writers would require the files.
    for fragment in dataset.manifest.fragments:
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
