"""Job record: which jobs are done, as an entry of the table config.

The config is part of each version. Operations of all libraries preserve it, a restore brings back that of the
restored version, and a cleanup cannot remove it, so the record of a version lists exactly the jobs whose
commits are in its lineage. A commit with a job key writes the record of its version; nothing else does.

The entry, `JOBS_ENTRY`, has a line for the record and one for each of the newest `RECENT` jobs. When it is
full, a commit moves them with all earlier ones into a new text file, which the entry names; the file before
it stays for the versions that name it, until a cleanup finds no such version (`remove_unused_files`). So a
manifest grows by 9 KB at most, a look-up reads one file at most, and of the keys of a table the newest
`MAX_JOB_KEYS` are kept, whatever their age.

Earlier releases kept job keys in files only (`earlier_record`). They know nothing of this record; `SEAL`
makes them refuse job keys where it is in use.
"""

import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import blake2b

from lance_ops.errors import CorruptFileError, CorruptManifestError, JobUnprovenError, UnsupportedError
from lance_ops.storage import Store
from lance_ops.storage.retry import is_there, unless_gone
from lance_ops.table.commit.jobs.stream_notes import stream_of
from lance_ops.table.manifest.base_paths import Bases
from lance_ops.table.manifest.model import BasePath, Manifest
from lance_ops.table.transaction.operations import JOBS_ENTRY
from lance_ops.table.transaction.transaction import job_uuid_prefix

KEEP_JOB_KEYS = timedelta(days=90)
"""Minimum retention of a job key, counted from its commit, while there are at most `MAX_JOB_KEYS`."""

MAX_JOB_KEYS = 100_000
RECENT = 128
DIRECTORY = "_lance_ops/job_keys"
DONE = f"{DIRECTORY}/done"
SEAL = f"{DIRECTORY}/segments/{'0' * 32}-2-0.keys"
"""An invalid segment of the earlier record (two entries out of order), which its readers report as damage."""
BEGUN = f"{DIRECTORY}/begun"
"""Number of the first version with a record: later versions without a record may have lost it."""

LOST = f"{'0' * 32}-{'0' * 16}.jobs"
"""Name of a file that never exists: of a record begun when the one before it could not be found."""

_FORMAT = "1"
_HEADER = re.compile(r"(\d{1,9}) (\d{1,20}) (\d{1,12}) (-|[0-9a-f]{32}-[0-9a-f]{16}\.jobs)", re.ASCII)
_ENTRY = re.compile(r"([0-9a-f-]{36}) (\d{1,20}) ([0-9a-f]{16})(?: ([0-9a-f]{16}))?", re.ASCII)
_FILE_AGE = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class JobEntry:
    """The commit of a job.

    Attributes:
        uuid: Of the transaction; it begins with the digest of the job key (`job_uuid_prefix`).
        version: Version that it made; 0 when it cannot be proven that the commit is in the lineage.
        evidence: Digest of one of the files that the transaction brought; 0 when it brought none.
        stream: Digest of the streaming query whose epoch it was; of each query only the last one is kept.
    """

    uuid: str
    version: int
    evidence: int = 0
    stream: str = ""

    def __str__(self) -> str:
        return f"{self.uuid} {self.version} {self.evidence:016x} {self.stream}".rstrip()


@dataclass(frozen=True, slots=True)
class JobRecord:
    """The record of a version.

    Attributes:
        since: The first version of the table that had a record.
        begun: Time of that; UTC.
        recent: The newest jobs, the oldest first.
        file: Name of the file of all earlier ones, below `DONE`; empty when there is none.
        bases: Of the version: a branch or a shallow clone names the file of its source dataset.
        options: Storage options for opening the bases; they may hold secrets.
    """

    since: int
    begun: datetime
    recent: tuple[JobEntry, ...] = ()
    file: str = ""
    bases: tuple[BasePath, ...] = ()
    options: Mapping[str, str] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        config: Mapping[str, str],
        path: str,
        bases: tuple[BasePath, ...] = (),
        options: Mapping[str, str] | None = None,
    ) -> "JobRecord | None":
        """Parse the record of a version; None when it has none.

        Args:
            config: Config of the version.
            path: Names the dataset in errors.
            bases: See `JobRecord`.
            options: See `JobRecord`.

        Raises:
            CorruptManifestError: The entry is damaged.
            UnsupportedError: A later release wrote it in a format of its own.
        """
        text = config.get(JOBS_ENTRY)
        if text is None:
            return None
        first, *lines = text.split("\n")
        header = _HEADER.fullmatch(first)
        entries = [_parse(line) for line in lines]
        if header is not None and header[1] != _FORMAT:
            raise UnsupportedError(
                f"config entry {JOBS_ENTRY!r} has format {header[1]}; this release reads format {_FORMAT}",
                path=path,
                hint="use the release that wrote the newest version",
            )
        recent = tuple(entry for entry in entries if entry is not None)
        if header is None or len(recent) < len(entries):
            raise CorruptManifestError(
                f"config entry {JOBS_ENTRY!r} is damaged, so the finished jobs are unknown",
                path=path,
                hint="restore a version with a valid entry; do not edit the entry",
            )
        begun = datetime.fromtimestamp(int(header[3]), UTC)
        return cls(int(header[2]), begun, recent, header[4].removeprefix("-"), bases, options)

    def __str__(self) -> str:
        header = f"{_FORMAT} {self.since} {int(self.begun.timestamp())} {self.file or '-'}"
        return "\n".join([header, *map(str, self.recent)])

    def find(self, store: Store, prefix: str) -> JobEntry | None:
        """Find the last commit of a job; reads the file when the job is not among the newest.

        Args:
            store: Root of the dataset.
            prefix: Beginning of the UUIDs of its transactions; see `job_uuid_prefix`.

        Raises:
            CorruptFileError: The file is damaged.
            JobUnprovenError: It is missing.
        """
        for entry in reversed(self.recent):
            if entry.uuid.startswith(prefix):
                return entry
        data = self._read(store)
        place = data.rfind(f"\n{prefix}")
        return None if place < 0 else _parse(data[place + 1 : data.index("\n", place + 1)])

    def add(self, store: Store, *jobs: JobEntry) -> "JobRecord":
        """Return the record with more jobs; writes a file when the entry is full.

        Raises:
            CorruptFileError: The file with the earlier jobs is damaged.
            JobUnprovenError: It is missing.
        """
        recent = _last_epochs([*self.recent, *jobs])
        if len(recent) <= RECENT or self.file == LOST:
            return replace(self, recent=tuple(recent))
        jobs_done = _last_epochs([*self.filed(store), *recent])
        data = "".join(f"\n{entry}" for entry in jobs_done[-MAX_JOB_KEYS:]) + "\n"
        name = f"{uuid.uuid4().hex}-{_digest(data)}.jobs"
        store.put(f"{DONE}/{name}", data.encode(), durable="later")
        return replace(self, recent=(), file=name)

    def filed(self, store: Store) -> list[JobEntry]:
        """Return the jobs in the file, oldest first.

        Raises:
            CorruptFileError: It is damaged.
            JobUnprovenError: It is missing.
        """
        entries = map(_parse, self._read(store).split("\n"))
        return [entry for entry in entries if entry is not None]

    def holder(self, store: Store) -> Store | None:
        """Return the store that has the file; None when there is no file, or it was removed."""
        places = self._places(store) if self.file else ()
        return next((place for place in places if is_there(place, f"{DONE}/{self.file}")), None)

    def _places(self, store: Store) -> Iterator[Store]:
        yield store
        bases = Bases(store, self.bases, self.options)
        yield from (bases.store_for(base.id) for base in self.bases if base.is_dataset_root)

    def _read(self, store: Store) -> str:
        if not self.file:
            return ""
        path = f"{DONE}/{self.file}"
        for place in self._places(store):
            found = unless_gone(place, path, partial(place.read, path))
            if found is not None:
                break
        else:
            raise unproven(store, f"the record of job keys is missing: {path}")
        data = bytes(memoryview(found)).decode(errors="replace")
        if self.file != f"{self.file[:32]}-{_digest(data)}.jobs":
            raise CorruptFileError(
                "the record of job keys is damaged, so the finished jobs are unknown",
                path=f"{store.uri}/{path}",
                hint="restore the file from a copy; without it, jobs would run a second time",
            )
        return data


def new_entry(transaction_uuid: str, job_key: str, version: int, brought: Iterable[str]) -> JobEntry:
    """Return the entry of a commit.

    Args:
        transaction_uuid: Of its transaction.
        job_key: Of its job.
        version: Version that it makes.
        brought: Files that it adds.
    """
    return JobEntry(transaction_uuid, version, evidence_of(brought), stream_of(job_key))


def unproven(store: Store, why: str) -> JobUnprovenError:
    """Return the error for a job that a lost record may have."""
    return JobUnprovenError(
        f"{why}, so it is unknown whether the job is done",
        path=store.uri,
        hint=f"copy {DONE} from the source of this dataset or from a backup, or restore a version with "
        "a complete record; to forget all jobs whose files are lost, remove config entry "
        f"{JOBS_ENTRY!r} and folder {DIRECTORY}",
    )


def seal(store: Store) -> None:
    """Make processes of earlier releases refuse job keys here, if they do not already."""
    if not store.exists(SEAL):
        store.put(SEAL, b"\xff" * 48 + b"\0" * 48, durable="later")


def note_begun(store: Store, manifest: Manifest) -> None:
    """Note that a table has a record, after the commit that began it."""
    record = JobRecord.of(manifest.config, store.uri)
    # A record that was begun after a restore keeps the note of the first one.
    if record is not None and record.since == manifest.version and not store.exists(BEGUN):
        store.put(BEGUN, str(record.since).encode(), durable="never")


def begun_at(store: Store) -> int | None:
    """Return the first version with a record; None when there was none, 0 when that is not known."""
    if not is_there(store, BEGUN):
        return None
    data = bytes(memoryview(store.read(BEGUN)))
    return int(data) if data.isdigit() else 0


def list_job_files(store: Store) -> list[str]:
    """Return the paths of all files of job keys, those of earlier releases included."""
    return [info.path for info in store.list(DIRECTORY)]


def remove_unused_files(store: Store, configs: Iterable[Mapping[str, str]], now: datetime) -> int:
    """Remove record files that no version names; those of the last day stay for commits in progress.

    Args:
        store: Root of the dataset.
        configs: Config of each version that stays; not read when there is nothing to remove.
        now: Time of the store.

    Returns:
        How many were removed.
    """
    old = {info.path for info in store.list(DONE) if now - info.modified > _FILE_AGE}
    for config in configs if old else ():
        record = JobRecord.of(config, store.uri)
        old.discard(f"{DONE}/{record.file}" if record is not None else "")
        if not old:
            break
    store.delete_many(sorted(old))
    return len(old)


def evidence_of(files: Iterable[str]) -> int:
    """Return the digest of one of some files, as an entry keeps it; 0 for none."""
    # Data files outlive deletion files.
    first = min(files, key=lambda path: (not path.startswith("data/"), path), default=None)
    return 0 if first is None else file_mark(first)


def file_mark(path: str) -> int:
    """Return the digest of the path of a file, never 0."""
    return int.from_bytes(blake2b(path.encode(), digest_size=8).digest(), "big") or 1


def _parse(line: str) -> JobEntry | None:
    found = _ENTRY.fullmatch(line)
    return None if found is None else JobEntry(found[1], int(found[2]), int(found[3], 16), found[4] or "")


def _last_epochs(entries: Iterable[JobEntry]) -> list[JobEntry]:
    """Keep only the newest epoch of each query."""
    kept: dict[str, JobEntry] = {}
    for entry in entries:
        name = entry.stream or entry.uuid
        kept.pop(name, None)
        kept[name] = entry
    return list(kept.values())


def _digest(data: str) -> str:
    return blake2b(data.encode(), digest_size=8).hexdigest()


def knows_job(store: Store, manifest: Manifest, job_key: str) -> bool:
    """Return whether the record of a version has a job, or an epoch of the same streaming query.

    Args:
        store: Root of the dataset.
        manifest: The version. Of each query its record has the newest epoch only.
        job_key: Key of the job.

    Raises:
        JobUnprovenError: A file of the record is missing.
    """
    record = JobRecord.of(manifest.config, store.uri, manifest.base_paths)
    if record is None:
        return False
    stream = stream_of(job_key)
    if stream and any(entry.stream == stream for entry in record.recent):
        return True
    return record.find(store, job_uuid_prefix(job_key)) is not None
