"""End of a job: removes its records, and its files that no version uses.

A job can be ended without knowledge of other processes that run it. First its header is removed. From then on

- a task that finishes finds no header after it has written its record, and ends the job again;
- a driver commits no result any more: before it publishes a version it records the results to commit
  (`commit-*`), reads the newest version, and then checks the header.

So an unused file can be removed at once if no `commit-*` names its result, however slow a driver is. Named
results may be in the process of being committed: a driver that saw the header read the newest version before
the header went, and will publish the version after that one or none. As soon as the newest version is higher
than it was when the header had gone, nothing comes any more, and what no version uses goes as well. In a
table at rest, who cancels a job makes such a version; others leave a note behind (`closed`), and the next end
of the job finishes it.

Index segments are written once such a `commit-*` is there, and are named for the key of the job alone. So
they are listed before the header goes, while no later incarnation can have any, and those that no version
uses go as the files do: immediately when no process can be about to commit a result. Versions from before
the job began count for them, too: after a restore, those of an earlier incarnation may be in such a one
alone.

An end may itself be broken off: then records are left without a header. No record goes before the files that
it names, and ending a job ends all of its key that has no header any more.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lance_ops.errors import VersionNotFoundError
from lance_ops.file.io.side_files import data_file_of
from lance_ops.maintenance.jobs.folder import (
    CLOSED,
    COMMIT,
    DONE,
    HEADER,
    JOBS_DIRECTORY,
    JobFolder,
    find_open_job,
    mark_of,
    read_header_at,
)
from lance_ops.maintenance.jobs.results import TaskName, parse_name, read_intents, read_result
from lance_ops.maintenance.versions_made import commit
from lance_ops.storage import Store, is_temporary
from lance_ops.storage.retry import is_named
from lance_ops.table.commit.request import CommitRequest
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.file.read import read_manifest
from lance_ops.table.manifest.listing import all_manifests, is_detached, latest
from lance_ops.table.transaction.operations import ReserveFragments, present_files


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Result of ending a job.

    Attributes:
        files_removed: Unused data files and index segments of the job.
        complete: True if nothing is left; else the next call, or a cleanup, removes the rest.
    """

    files_removed: int = 0
    complete: bool = True

    def __add__(self, other: "Ending") -> "Ending":
        """Add both results."""
        return Ending(
            files_removed=self.files_removed + other.files_removed,
            complete=self.complete and other.complete,
        )


def end_job(
    job: JobFolder, *, settle: bool, committed: Mapping[TaskName, Iterable[str]] | None = None
) -> Ending:
    """End a job, even while it runs; may be repeated, also by another process.

    Args:
        job: The job.
        settle: Commit a version if that is required to determine unused files, see above; else leave them for
            later.
        committed: Files of results known to be in a version.

    Raises:
        LanceOpsError: The store failed; the next call continues from there.
    """
    ended, others = _end(job, settle=settle, committed=committed or {})
    return ended + _end_remains(job.store, job.mark, others, settle=settle)


def end_left_over(store: Store, key: str, *, settle: bool) -> Ending | None:
    """End all records under the key of a job, open or not; None without any.

    Args:
        store: Root of the dataset.
        key: Job key.
        settle: See `end_job`, also for errors.
    """
    mark = mark_of(key)
    listed = _listed(store, mark)
    if not listed:
        return None
    found = find_open_job(store, key)
    if found is not None:
        return end_job(found[0], settle=settle)
    return _end_remains(store, mark, listed, settle=settle)


def _end(
    job: JobFolder, *, settle: bool, committed: Mapping[TaskName, Iterable[str]]
) -> tuple[Ending, list[str]]:
    """End one incarnation; and the records of others under its key, if these were listed."""
    store = job.store
    segments = job.segments()
    since = _close(job)
    if not since:
        # They may be those of the open incarnation.
        segments = set()
    head = latest(store).version
    records = job.list()
    closed = job.read(CLOSED, CLOSED) if CLOSED in records else None
    if closed is not None:
        since = int(closed["since"])
        # Only those named by this job: a record may contain any path.
        lead = job.segment_lead
        segments = {path for path in closed.get("segments", ()) if path.startswith(lead)}
    known = {path for paths in committed.values() for path in paths}
    written = {info.path for info in job.files(unfinished=True)}
    unused = {path for path in written if _belongs(path) not in known}
    # Of running writers: they fail.
    store.delete_many(sorted(filter(is_temporary, unused)))
    unused = {path for path in unused if not is_temporary(path)} | segments
    removed = 0
    if unused:
        unused -= _used(store, unused - segments, since) | _used(store, unused & segments, 0)
        if head <= since and _has_others(job):
            # Of an earlier incarnation with an interrupted end: its driver may be about to commit.
            unused -= segments
        doubtful = _in_doubt(job, records, unused, committed)
        _delete(store, unused - doubtful)
        removed = len(unused - doubtful)
        if doubtful:
            if closed is None:
                closed = {"head": head, "since": since, "segments": sorted(doubtful & segments)}
                job.put(CLOSED, CLOSED, closed)
            if head <= int(closed["head"]):
                if not settle:
                    kept = (CLOSED, f"{COMMIT}-", f"{DONE}-")
                    store.delete_many(f"{job.path}/{name}" for name in records if not name.startswith(kept))
                    return Ending(files_removed=removed, complete=False), []
                commit(Dataset.open(store), CommitRequest(ReserveFragments(1)))
            # Whatever is in doubt still is in no version up to the head.
            doubtful -= _used(store, doubtful, since)
            _delete(store, doubtful)
            removed += len(doubtful)
    listed = _listed(store, job.mark)
    # The records that something may be committed are removed last.
    lead, last = f"{job.path}/", f"{job.path}/{COMMIT}-"
    own = [path for path in listed if path.startswith(lead)]
    store.delete_many(sorted(own, key=lambda path: path.startswith(last)))
    return Ending(files_removed=removed), [path for path in listed if not path.startswith(lead)]


def _delete(store: Store, paths: Iterable[str]) -> None:
    """Delete files, and all files of folders."""
    found: list[str] = []
    for path in sorted(paths):
        found += [info.path for info in store.list(path.rstrip("/"))] if path.endswith("/") else [path]
    store.delete_many(found)


def _has_others(job: JobFolder) -> bool:
    """Return whether there are records of other incarnations."""
    own, header = f"{job.path}/", job.header_path
    return any(path != header and not path.startswith(own) for path in _listed(job.store, job.mark))


def _listed(store: Store, mark: str) -> list[str]:
    return [info.path for info in store.list(f"{JOBS_DIRECTORY}/{mark}")]


def _end_remains(store: Store, mark: str, listed: Iterable[str], *, settle: bool) -> Ending:
    """End incarnations without a header, of those listed under a key."""
    root = f"{JOBS_DIRECTORY}/{mark}/"
    header_path = f"{root}{HEADER}"
    rests = [path.removeprefix(root) for path in listed]
    incarnations = {rest.partition("/")[0] for rest in rests if "/" in rest}
    ended = Ending()
    for incarnation in sorted(incarnations):
        # The listing is older: the job may have been started again.
        header = read_header_at(store, header_path)
        if header is None and is_named(store, header_path):
            # The owner is unknown.
            return ended + Ending(complete=False)
        if header is None or header.incarnation != incarnation:
            ended += _end(JobFolder(store, mark, incarnation), settle=settle, committed={})[0]
    return ended


def _close(job: JobFolder) -> int:
    """Remove the header; returns the version at which the job began, 0 if unknown."""
    header = read_header_at(job.store, job.header_path)
    if header is None or header.incarnation != job.incarnation:
        return 0
    job.store.delete(job.header_path)
    return header.version


def _in_doubt(
    job: JobFolder, records: Iterable[str], unused: set[str], committed: Mapping[TaskName, Iterable[str]]
) -> set[str]:
    """Return the files and segments that may be about to be committed."""
    if not unused:
        return set()
    intents = read_intents(job, records)
    if intents.unknown:
        return set(unused)
    named: set[str] = set()
    # Without files, only the committing driver knows that a result was committed.
    bare = False
    for name in filter(None, map(parse_name, intents.results)):
        found = read_result(job, name)
        if found is None:
            return set(unused)
        named.update(found.files)
        bare = bare or not (found.files or name in committed)
    files = {path for path in unused if _belongs(path) in named}
    segments = {path for path in unused if path.endswith("/")}
    return files | segments if files or bare else files


def _used(store: Store, paths: set[str], since: int) -> set[str]:
    """Return the files used by a version that was made after another one."""
    used: set[str] = set()
    if not paths:
        return used
    # The newest first, which has most of them.
    for location in sorted(all_manifests(store), key=lambda location: -location.version):
        if location.version > since or is_detached(location.version):
            try:
                present = present_files(read_manifest(store, location))
            except VersionNotFoundError:
                # A fresh listing confirmed its removal: it uses nothing.
                continue
            used.update(path for path in paths - used if _belongs(path) in present)
            if len(used) == len(paths):
                break
    return used


def _belongs(path: str) -> str:
    """Return the data file that a file is, or belongs to."""
    return data_file_of(path) or path
