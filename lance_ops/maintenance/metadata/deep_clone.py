"""Deep clones: a separate dataset with copies of all files that a version uses, in any base.

Source: format, base paths; files written by pylance.
"""

import contextlib
import os
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from lance_ops.errors import (
    CommitOutcomeUnknownError,
    CorruptManifestError,
    InvalidArgumentError,
    LanceOpsError,
    UnsupportedError,
    public,
)
from lance_ops.file.blob_extents import blob_extents
from lance_ops.file.io.side_files import list_side_files
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.blob_fields import has_blob_v2
from lance_ops.maintenance.metadata.clone import (
    first_manifest,
    hold_place,
    publish_first,
    refuse_attached_blobs,
    refuse_existing,
    refuse_inside,
)
from lance_ops.maintenance.progress import Progress, Reporter
from lance_ops.pb import transaction_pb2
from lance_ops.storage import Store, open_store
from lance_ops.storage.lease import Lease
from lance_ops.storage.paths import official_uri
from lance_ops.storage.prefetch import prefetch, requests_at_once
from lance_ops.table.commit.committer import Committer
from lance_ops.table.commit.jobs.job_record import DONE, JobRecord
from lance_ops.table.dataset import Dataset, Target, open_dataset
from lance_ops.table.history.pins import pinned
from lance_ops.table.history.resolve_version import VersionSpec
from lance_ops.table.manifest.base_paths import DATA_DIRECTORY
from lance_ops.table.manifest.feature_flags import Feature
from lance_ops.table.manifest.fragment import ExternalFile, Fragment
from lance_ops.table.manifest.listing import is_detached
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.side_sizes import blob_field_ids, may_have_side_files
from lance_ops.table.transaction.transaction import Transaction

_PIECE = 64 << 20


@dataclass(frozen=True, slots=True)
class _Copy:
    """A file, and the path of its copy below the root of the clone."""

    store: Store
    path: str
    name: str

    def __call__(self, target: Store) -> int:
        size = self.store.size(self.path)
        with target.open_writer(self.name) as writer:
            pieces = range(0, size, _PIECE)
            writer.copy_from(self.store, self.path, [(start, min(start + _PIECE, size)) for start in pieces])
        return size


@public(target="uri_or_dataset", target_path="uri", reference="version")
def deep_clone(
    uri_or_dataset: Target,
    uri: str | os.PathLike[str],
    version: VersionSpec | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
    clone_storage_options: Mapping[str, str] | None = None,
    committer: Committer | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """Create a dataset that starts as a version of another one, with copies of its files.

    Files of other bases are copied as well, and objects of managed blobs, so that the clone is independent;
    blobs at external addresses are not copied. A failed clone leaves no copies; after a crash another call
    starts over.

    Args:
        uri_or_dataset: URI or path of the source, or a `Dataset`.
        uri: Where to make the clone.
        version: Version, tag or (branch, version) of the source; that of a `Dataset` when None.
        storage_options: For opening the source.
        clone_storage_options: For the clone; those of the source when None.
        committer: Who decides races for the first version of the clone; its store when None.
        progress: Receives events.

    Returns:
        The clone, at its first version, which has the number of the source's version.

    Raises:
        DatasetExistsError: A dataset is at `uri` already.
        LeaseHeldError: Another clone is being created at `uri`.
        VersionNotFoundError: The version does not exist.
        RetryableCommitConflictError: A cleanup of the source is removing the version.
        FileMissingError: A file of the version is missing.
        InvalidArgumentError: The version is a detached one, or `uri` is within the folders of the source.
        UnsupportedError: Managed and external blobs share a base.

    Examples:
        >>> lo.deep_clone("events.lance", "copy.lance").count_rows()
        10
    """
    source = open_dataset(uri_or_dataset, storage_options)
    if version is not None:
        source = source.checkout_version(version)
    if is_detached(source.version):
        raise InvalidArgumentError("a detached version cannot be cloned", path=source.uri, field="version")
    refuse_attached_blobs(source.manifest, source.uri)
    options = source.storage_options if clone_storage_options is None else clone_storage_options
    store = open_store(uri, options)
    refuse_inside(source, store)
    refuse_existing(store)
    report = Reporter("deep_clone", progress)
    with (
        hold_place(store, "deep clone") as lease,
        pinned(source.store, source.version, f"deep clone {store.uri}"),
    ):
        objects = _managed_objects(source)
        copies = _copies(source, objects)
        with _removed_when_it_fails(store, copies, lease):
            _copy_all(store, copies, report)
            manifest, transaction = _first_version(
                source, store.uri, frozenset(base_id for base_id, _ in objects)
            )
            lease.check()
            return publish_first(store, manifest, transaction, committer=committer, storage_options=options)


def _copy_all(store: Store, copies: Sequence[_Copy], report: Reporter) -> None:
    tasks: Iterator[Callable[[], int]] = (partial(copy, store) for copy in copies)
    finished = prefetch(tasks, max(2, requests_at_once(store)))
    try:
        for done, _ in enumerate(finished):
            report("copying files", done + 1, len(copies))
    finally:
        # After an interrupt, no thread may write once the copies are removed.
        if isinstance(finished, Generator):
            finished.close()


@contextlib.contextmanager
def _removed_when_it_fails(store: Store, copies: Sequence[_Copy], lease: Lease) -> Iterator[None]:
    """Remove the copies when a clone fails, but for files that were there before.

    Nothing is removed where a dataset is, nor when another clone took over the place after this process had
    been stopped for minutes: it uses files of the same names.
    """
    before = {
        info.path
        for folder in {copy.name.partition("/")[0] for copy in copies}
        for info in store.list(folder)
    }
    try:
        yield
    except CommitOutcomeUnknownError:
        # The clone may be there.
        raise
    except BaseException:
        with contextlib.suppress(LanceOpsError):
            lease.check()
            refuse_existing(store)
            store.delete_many(copy.name for copy in copies if copy.name not in before)
        raise


def _managed_objects(source: Dataset) -> frozenset[tuple[int, str]]:
    """Objects that rows of a version name in managed blobs, by base and path.

    Raises:
        UnsupportedError: Blobs outside of the dataset are named relative to one of these bases, which would
            have to stay where it is.
    """
    if not source.manifest.reader_flags & Feature.MANAGED_BLOBS:
        return frozenset()
    blobs = blob_field_ids(source.lance_schema)
    objects: set[tuple[int, str]] = set()
    external: set[int] = set()
    for fragment in source.fragments:
        vector = source.deletion_vector(fragment)
        deleted = None if vector is None else vector.offsets()
        for file in fragment.all_files:
            if may_have_side_files(file, blobs):
                store, path = source.bases.data_path(file)
                reader = FileReader.open(store, path, size=file.size_bytes or None)
                found = blob_extents(reader, source.lance_schema.fields, file.live_columns, deleted)
                objects.update(found.objects)
                external |= found.external_bases
    shared = sorted(external & {base_id for base_id, _ in objects})
    if shared:
        raise UnsupportedError(
            f"base {shared[0]} has managed blobs, which a clone copies, and external ones",
            path=source.uri,
            field="base_paths",
            hint="make a shallow clone, or read the rows and write them to a new dataset",
        )
    return frozenset(objects)


def _copies(source: Dataset, objects: Collection[tuple[int, str]]) -> list[_Copy]:
    found: dict[str, _Copy] = {}
    managed = (_Copy(source.bases.store_for(base_id), name, name) for base_id, name in sorted(objects))
    for copy in chain(_files(source), managed):
        before = found.setdefault(copy.name, copy)
        if (before.store.uri, before.path) != (copy.store.uri, copy.path):
            raise CorruptManifestError(
                f"two bases have a file {copy.name}, but a clone can have only one", path=source.uri
            )
    return list(found.values())


def _files(source: Dataset) -> Iterator[_Copy]:
    bases = source.bases
    record = JobRecord.of(source.config, source.uri, source.manifest.base_paths)
    if record is not None and (holder := record.holder(source.store)) is not None:
        yield _Copy(holder, f"{DONE}/{record.file}", f"{DONE}/{record.file}")
    for fragment in source.fragments:
        for file in fragment.all_files:
            store, path = bases.data_path(file)
            own = f"{DATA_DIRECTORY}/{file.path}"
            yield _Copy(store, path, own)
            for side, _ in list_side_files(store, path):
                yield _Copy(store, side, own.removesuffix(file.path) + _below(side, path, file.path))
        if fragment.deletion_file is not None:
            store, path = bases.deletion_path(fragment.id, fragment.deletion_file)
            yield _Copy(store, path, fragment.deletion_file.path(fragment.id))
        for sequence in _sequences(fragment):
            store, path = bases.external_path(sequence)
            yield _Copy(store, path, sequence.path)
    for base_id, path in () if source.fragment_reuse is None else source.fragment_reuse.row_maps():
        if base_id is not None:
            raise UnsupportedError(
                "its fragment reuse index has row maps in another base, which a clone would still refer to",
                path=source.uri,
                field="stable_partition",
                hint="run optimize_indices() first, which removes them",
            )
        yield _Copy(bases.root, path, path)
    for index in source.manifest.indices:
        store, folder = bases.index_directory(index)
        for info in store.list(folder):
            yield _Copy(store, info.path, f"{index.directory}{info.path.removeprefix(folder)}")


def _below(side: str, path: str, name: str) -> str:
    """Path of a side file in the folder of data files, given that of its data file."""
    return side.removeprefix(path.removesuffix(name))


def _sequences(fragment: Fragment) -> list[ExternalFile]:
    every = (fragment.row_ids, fragment.last_updated_at_versions, fragment.created_at_versions)
    return [sequence for sequence in every if isinstance(sequence, ExternalFile)]


def _first_version(source: Dataset, uri: str, managed: Collection[int]) -> tuple[Manifest, Transaction]:
    """The first version of a clone at `uri`; bases of managed blobs are its own root from there on."""
    before = source.manifest
    clone = transaction_pb2.Transaction.Clone(ref_version=before.version, ref_path=official_uri(source.uri))
    if source.branch is not None:
        clone.ref_name = source.branch
    # Blobs may name bases that are no datasets by number.
    bases = [
        replace(base, path=uri, is_dataset_root=True) if base.id in managed else base
        for base in before.base_paths
        if base.id in managed or not base.is_dataset_root
    ]
    return first_manifest(
        before,
        clone.SerializeToString(deterministic=True),
        None,
        base_paths=tuple(bases if has_blob_v2(source.lance_schema) else ()),
        fragments=tuple(map(_own, before.fragments)),
        indices=tuple(replace(index, base_id=None) for index in before.indices),
    )


def _own(fragment: Fragment) -> Fragment:
    deletion = fragment.deletion_file
    return fragment.replace(
        files=tuple(replace(file, base_id=None) for file in fragment.files),
        overlays=tuple(
            replace(overlay, file=replace(overlay.file, base_id=None)) for overlay in fragment.overlays
        ),
        deletion_file=None if deletion is None else replace(deletion, base_id=None),
    )
