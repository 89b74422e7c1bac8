"""Fsck operation: check that a dataset is complete and consistent with its manifest."""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import cast

from lance_ops.errors import FormatError, InconsistentStoreError, NotFoundError, UnsupportedError, public
from lance_ops.index.coverage import effective_fragments
from lance_ops.index.registry import why_not_indexed_here
from lance_ops.maintenance.fsck.blobs import check_blobs
from lance_ops.maintenance.fsck.dictionaries import check_dictionaries
from lance_ops.maintenance.fsck.files import check_files, count_promised_files
from lance_ops.maintenance.fsck.findings import Finding, FsckResult, Severity
from lance_ops.maintenance.fsck.fragments import (
    check_deletions,
    check_doubtful_counts,
    check_fragments,
    check_rows,
    describe_damage,
    location_of,
    scan_problem,
)
from lance_ops.maintenance.fsck.indices import (
    indices_without_their_rows,
    unreadable_indices,
    unusable_moves,
)
from lance_ops.maintenance.fsck.race_probe import probe_races
from lance_ops.maintenance.fsck.refs import check_refs
from lance_ops.maintenance.fsck.row_ids import check_row_ids
from lance_ops.maintenance.fsck.schema import check_names, check_schema
from lance_ops.maintenance.progress import Progress, Reporter
from lance_ops.maintenance.target import Target, store_of
from lance_ops.storage import Store
from lance_ops.storage.prefetch import prefetch, requests_at_once
from lance_ops.storage.retry import unless_gone
from lance_ops.table.commit.head import check_no_staged
from lance_ops.table.dataset import Dataset, snapshot_of
from lance_ops.table.manifest.listing import ManifestLocation, latest, list_versions
from lance_ops.table.mem_wal.state import read_state


@public(target="uri_or_dataset")
def fsck(
    uri_or_dataset: Target,
    version: int | str | None = None,
    *,
    deep: bool = False,
    probe: bool = False,
    progress: Progress | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> FsckResult:
    """Check one version of a dataset without changes.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`, which is checked at its own version.
        version: Version or tag; the newest by default.
        deep: Also open every data file and compare its rows with the manifest, read all indices, and search
            rows of up to 64 fragments in each index by their values.
        probe: Also test put-if-absent of the store, see `probe_races`: a small object is written beside the
            versions and deleted.
        progress: Receives progress events.
        storage_options: Options of the store.

    Raises:
        NotFoundError: The dataset or version does not exist.
        UnsupportedError: The version uses unsupported features.
        StorageError: The store failed.

    Examples:
        >>> lo.fsck("events.lance").findings
        ()
    """
    started = time.monotonic()
    report = Reporter("fsck", progress)
    try:
        given = snapshot_of(uri_or_dataset)
        dataset = given or Dataset.open(
            cast("str | os.PathLike[str] | Store", uri_or_dataset), version, storage_options
        )
    except (FormatError, InconsistentStoreError) as error:
        store = store_of(uri_or_dataset, storage_options)
        location = location_of(store, version)
        if location is None:
            raise
        message = describe_damage(store, location, error)
        finding = Finding("manifest_valid", Severity.ERROR, message, location.path)
        return FsckResult(
            uri=store.uri,
            version=location.version,
            seconds=time.monotonic() - started,
            checks=("manifest_valid",),
            findings=(finding,),
        )
    findings: list[Finding] = []
    for done, (name, check) in enumerate(CHECKS.items()):
        report(name, done, len(CHECKS) + deep)
        findings += _findings(name, DEEPER_CHECKS.get(name, check) if deep else check, dataset)
    races = probe_races(dataset.store) if probe else None
    if races is not None and not races.is_safe:
        findings.append(Finding("put_if_absent", Severity.WARNING, str(races)))
    counts_doubtful = dataset.manifest.may_miscount
    if deep or counts_doubtful:
        report("rows_match", len(CHECKS), len(CHECKS) + 1)
        if counts_doubtful:
            findings += _findings("rows_match", check_doubtful_counts, dataset)
        if deep:
            findings += _findings("rows_match", check_rows, dataset)
            findings += _findings("rows_match", check_dictionaries, dataset)
    return FsckResult(
        uri=dataset.uri,
        version=dataset.version,
        checks=(
            *CHECKS,
            *(("put_if_absent",) if probe else ()),
            *(("rows_match",) if deep or counts_doubtful else ()),
        ),
        findings=tuple(findings),
        files_checked=count_promised_files(dataset),
        seconds=time.monotonic() - started,
        races="" if races is None else races.state.value,
    )


def _findings(
    name: str, check: Callable[[Dataset], Iterator[Finding]], dataset: Dataset
) -> Iterator[Finding]:
    try:
        yield from check(dataset)
    except (FormatError, NotFoundError) as error:
        # It requires the damaged or missing part, and stops there.
        yield Finding(name, Severity.ERROR, f"check failed: {error.message}", error.path)
    except UnsupportedError as error:
        yield Finding(name, Severity.WARNING, f"check failed: {error.message}", error.path)


def check_manifest(dataset: Dataset) -> Iterator[Finding]:
    """Check that the version can be scanned, by its manifest."""
    yield from check_schema(dataset)
    problem = scan_problem(dataset)
    if problem is not None:
        yield Finding("manifest_valid", Severity.ERROR, problem.message, problem.path)


def check_indices(dataset: Dataset) -> Iterator[Finding]:
    """Check that index entries name existing fields, and segments of an index no fragment twice."""
    fields = {field.id for field in dataset.lance_schema.walk()}
    covered: dict[tuple[str, int], str] = {}
    for number, times in Counter(segment.uuid for segment in dataset.indices).items():
        if times > 1:
            message = f"segment {number} is listed {times} times, and pylance cannot open the version"
            yield Finding("indices_consistent", Severity.ERROR, message, dataset.location.path)
    for segment in dataset.indices:
        missing = [field for field in segment.fields if field not in fields]
        if missing:
            message = f"index {segment.name!r} covers fields that do not exist: {missing}"
            yield Finding("indices_consistent", Severity.ERROR, message)
        if segment.is_system:
            continue
        for fragment_id in effective_fragments(dataset.manifest, segment):
            other = covered.setdefault((segment.name, fragment_id), str(segment.uuid))
            if other != str(segment.uuid):
                message = f"two segments of index {segment.name!r} cover fragment {fragment_id}"
                yield Finding("indices_consistent", Severity.ERROR, message)


def check_index_files(dataset: Dataset, *, deep: bool = False) -> Iterator[Finding]:
    """Check that indices of known kinds open, and fit their columns and fragments."""
    for segment, error, repair in unreadable_indices(dataset, deep=deep):
        # No reader opens a segment without coverage.
        covers = effective_fragments(dataset.manifest, segment)
        unknown = why_not_indexed_here(dataset, segment)
        if unknown is None and isinstance(error.__cause__, UnsupportedError):
            unknown = error.__cause__.message
        if unknown is not None:
            message = f"index {segment.name!r} is not checked: {unknown}"
            yield Finding("indices_readable", Severity.WARNING, message, segment.directory)
            continue
        severity = Severity.ERROR if covers else Severity.WARNING
        yield Finding("indices_readable", severity, f"{error.message}; {repair}", error.path)


def check_index_rows(dataset: Dataset, *, deep: bool = False) -> Iterator[Finding]:
    """Check that indices of known kinds have the rows of the fragments that they cover, after all moves."""
    problem = unusable_moves(dataset)
    if problem is not None:
        error, effect = problem
        severity = Severity.WARNING if isinstance(error, UnsupportedError) else Severity.ERROR
        hint = f"; {error.hint}" if error.hint else ""
        yield Finding("index_rows_match", severity, f"{error.message}; {effect}{hint}", error.path)
    for segment, message, repair in indices_without_their_rows(dataset, deep=deep):
        yield Finding("index_rows_match", Severity.ERROR, f"{message}; {repair}", segment.directory)


def _unfound_manifests(store: Store, locations: Sequence[ManifestLocation]) -> Iterator[Finding]:
    """Report manifests that are listed but not found by reads: cleanups fail because of them."""

    def look(path: str) -> InconsistentStoreError | None:
        try:
            # A part proves that it is found, and manifests may be large.
            unless_gone(store, path, partial(store.read, path, 0, 1))
        except InconsistentStoreError as error:
            return error
        except FormatError:
            # It is empty.
            return None
        return None

    looks = (partial(look, location.path) for location in locations)
    for location, error in zip(locations, prefetch(looks, requests_at_once(store)), strict=True):
        if error is not None:
            message = f"cannot read version {location.version}: {error.message}"
            yield Finding("history_contiguous", Severity.ERROR, message, error.path)


def check_history(dataset: Dataset) -> Iterator[Finding]:
    """Check that versions are consecutive except at the old end; a gap in the middle hides commits.

    Every listed manifest must be readable.
    """
    store, locations = dataset.store, list_versions(dataset.store)
    yield from _unfound_manifests(store, locations)
    versions = [location.version for location in locations]
    try:
        newest = latest(dataset.store)
        check_no_staged(newest.staged, newest.version, dataset.uri)
    except UnsupportedError as error:
        yield Finding("history_contiguous", Severity.WARNING, error.message, error.path)
    tagged = {tag.version for tag in dataset.tags.values()}
    for before, after in pairwise(versions):
        if after != before + 1 and before not in tagged:
            message = f"versions {before + 1} to {after - 1} are missing between kept versions"
            yield Finding("history_contiguous", Severity.WARNING, message)


def check_mem_wal(dataset: Dataset) -> Iterator[Finding]:
    """Check that the shards of MemWAL are complete: manifests, generations and log entries."""
    state = read_state(dataset)
    if state is None:
        return
    for item in state.shards:
        for generation in item.generations:
            try:
                Dataset.open(dataset.store.child(generation.path), storage_options=dataset.storage_options)
            except (FormatError, NotFoundError) as error:
                message = f"generation {generation.number} of shard {item.shard.id}: {error.message}"
                yield Finding("mem_wal_readable", Severity.ERROR, message, generation.path)
    state.count()


CHECKS: Mapping[str, Callable[[Dataset], Iterator[Finding]]] = {
    "manifest_valid": check_manifest,
    "column_names": check_names,
    "files_present": check_files,
    "deletion_vectors_valid": check_deletions,
    "blobs_present": check_blobs,
    "fragments_consistent": check_fragments,
    "row_ids_unique": check_row_ids,
    "indices_consistent": check_indices,
    "indices_readable": check_index_files,
    "index_rows_match": check_index_rows,
    "history_contiguous": check_history,
    "refs_valid": check_refs,
    "mem_wal_readable": check_mem_wal,
}
"""The checks of every run, by name: they read metadata, and parts of indices."""

DEEPER_CHECKS: Mapping[str, Callable[[Dataset], Iterator[Finding]]] = {
    "row_ids_unique": partial(check_row_ids, deep=True),
    "indices_readable": partial(check_index_files, deep=True),
    "index_rows_match": partial(check_index_rows, deep=True),
}
"""Replacements of some of them in a deep run."""
