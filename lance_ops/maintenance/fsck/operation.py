"""Fsck: is everything that the manifest of a dataset promises there, and does it fit together?"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from itertools import pairwise
from typing import ClassVar

from lance_ops.errors import FormatError, LanceOpsError, NotFoundError, UnsupportedError
from lance_ops.file.reader import FileReader
from lance_ops.file.versions import is_legacy
from lance_ops.index.coverage import effective_fragments
from lance_ops.maintenance.fsck.indices import (
    indices_without_their_rows,
    unreadable_indices,
    unusable_moves,
)
from lance_ops.maintenance.fsck.manifest import describe_damage, location_of, scan_problem
from lance_ops.maintenance.fsck.race_probe import probe_races
from lance_ops.maintenance.fsck.remedy import damage_commands
from lance_ops.maintenance.progress import Progress, Reporter
from lance_ops.maintenance.results import Result
from lance_ops.maintenance.target import Target, store_of
from lance_ops.maintenance.text import count_text
from lance_ops.storage import Store, validate_relative_path
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.base_paths import Bases
from lance_ops.table.manifest.deletion_vector import read_deletion_vector
from lance_ops.table.manifest.fragment import SEQUENCES, UNASSIGNED, ExternalFile, Fragment
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.listing import list_versions
from lance_ops.table.manifest.row_counts import count_rows, lacks_row_counts
from lance_ops.table.row_lineage import lineage_file, read_sequences

_MENDED_IN_PLACE = frozenset({"indices_readable", "index_rows_match"})
"""Checks whose findings name the command that mends them: the rows are sound."""


class Severity(StrEnum):
    """How bad a finding is: with an error, rows or files are lost or wrong; a warning is only odd."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        check: Name of the check that found it.
        severity: How bad it is.
        message: What is wrong, with the numbers.
        path: The file it is about, if any.
    """

    check: str
    severity: Severity
    message: str
    path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FsckResult(Result):
    """What was checked and what was found.

    Attributes:
        uri: The dataset.
        version: Version that was checked.
        seconds: Wall-clock time.
        checks: Names of the checks that ran, in order.
        findings: Everything found.
        files_checked: Files whose presence and size were looked at.
        races: What the probe of put-if-absent said, by name; empty when nobody asked for it.
    """

    operation: ClassVar[str] = "fsck"

    checks: tuple[str, ...]
    findings: tuple[Finding, ...]
    files_checked: int = 0
    races: str = ""

    @property
    def ok(self) -> bool:
        """No finding is an error."""
        return not any(finding.severity is Severity.ERROR for finding in self.findings)

    def of(self, check: str) -> tuple[Finding, ...]:
        """Findings of one check."""
        return tuple(finding for finding in self.findings if finding.check == check)

    @property
    def remedy(self) -> str:
        """What to do about damage, in commands; empty when none is found but in indices."""
        damaged = any(
            finding.severity is Severity.ERROR and finding.check not in _MENDED_IN_PLACE
            for finding in self.findings
        )
        return damage_commands(self.uri) if damaged else ""

    def to_dict(self) -> dict[str, object]:
        """All fields, the verdict and the remedy as JSON values."""
        return {
            **Result.to_dict(self),
            "findings": [asdict(finding) for finding in self.findings],
            "ok": self.ok,
            "remedy": self.remedy,
        }

    def summary(self) -> str:
        """What was found, in one line."""
        verdict = "is sound" if self.ok else "is damaged"
        work = f"{count_text(len(self.checks), 'check')}, {count_text(self.files_checked, 'file')}"
        return f"version {self.version} {verdict}: {work}"

    def __str__(self) -> str:
        lines = [f"fsck: {self.summary()}, {self.seconds:.2f} s"]
        if self.races:
            lines.append(f"  racing writers: {self.races}")
        lines += [
            f"  {finding.severity.value}: {finding.message} [{finding.check}]"
            + (f" {finding.path}" if finding.path else "")
            for finding in self.findings
        ]
        if self.remedy:
            lines.append(f"  what to do: {self.remedy}")
        return "\n".join(lines)


def fsck(
    target: Target,
    version: int | str | None = None,
    *,
    deep: bool = False,
    probe: bool = False,
    progress: Progress | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> FsckResult:
    """Check one version of a dataset without changing anything of it.

    Args:
        target: The dataset; a `Dataset` is checked at its own version.
        version: Version or tag; the newest by default.
        deep: Also open every data file and compare its rows with the manifest, and read all of the indices.
        probe: Also try whether the store keeps racing writers apart, see `probe_races`: a small object is
            written beside the versions and deleted.
        progress: Receives events.
        storage_options: For opening the store.

    Raises:
        NotFoundError: There is no dataset, or no such version.
        UnsupportedError: The version uses what is not implemented.
        StorageError: The store failed.
    """
    started = time.monotonic()
    report = Reporter("fsck", progress)
    try:
        dataset = target if isinstance(target, Dataset) else Dataset.open(target, version, storage_options)
    except FormatError as error:
        store = store_of(target, storage_options)
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
    return FsckResult(
        uri=dataset.uri,
        version=dataset.version,
        checks=(
            *CHECKS,
            *(("put_if_absent",) if probe else ()),
            *(("rows_match",) if deep or counts_doubtful else ()),
        ),
        findings=tuple(findings),
        files_checked=sum(1 for _ in _promised_files(dataset)),
        seconds=time.monotonic() - started,
        races="" if races is None else races.state.value,
    )


def _findings(
    name: str, check: Callable[[Dataset], Iterator[Finding]], dataset: Dataset
) -> Iterator[Finding]:
    try:
        yield from check(dataset)
    except (FormatError, NotFoundError) as error:
        # It needs what is damaged or missing, and goes no further.
        yield Finding(name, Severity.ERROR, f"cannot be checked: {error.message}", error.path)
    except UnsupportedError as error:
        yield Finding(name, Severity.WARNING, f"cannot be checked: {error.message}", error.path)


def check_manifest(dataset: Dataset) -> Iterator[Finding]:
    """The version can be scanned, for all that its manifest says."""
    problem = scan_problem(dataset)
    if problem is not None:
        yield Finding("manifest_valid", Severity.ERROR, problem.message, problem.path)


def check_files(dataset: Dataset) -> Iterator[Finding]:
    """Every file that the version names is there and has the recorded size."""
    listed = _listed_sizes(dataset)
    for file in _promised_files(dataset):
        path = file.path
        try:
            store, path = file.find()
            size = listed.get(path) if store is dataset.store else None
            if size is None:
                # In another base, behind a link, or not there.
                size = store.size(path)
        except LanceOpsError as error:
            message = f"{file.what} cannot be found: {error.message}"
            yield Finding("files_present", Severity.ERROR, message, path)
            continue
        if size < file.at_least:
            message = f"{file.what} has {size:,} bytes and should have at least {file.at_least:,}"
            yield Finding("files_present", Severity.ERROR, message, path)
        if file.size and size != file.size:
            message = f"{file.what} has {size:,} bytes, the manifest says {file.size:,}"
            yield Finding("files_present", Severity.ERROR, message, path)


def check_deletions(dataset: Dataset) -> Iterator[Finding]:
    """Every deletion file can be read, holds as many offsets as recorded, and only rows that exist."""
    for fragment in dataset.manifest.fragments:
        if fragment.deletion_file is None:
            continue
        try:
            if lacks_row_counts(fragment) or dataset.manifest.may_miscount:
                count_rows(dataset.bases, fragment)
            else:
                # Reading compares the count and the range with the manifest.
                read_deletion_vector(dataset.bases, fragment)
        except LanceOpsError as error:
            message = f"deletions of fragment {fragment.id}: {error.message}"
            yield Finding("deletion_vectors_valid", Severity.ERROR, message, error.path)


def check_fragments(dataset: Dataset) -> Iterator[Finding]:
    """Fragments have rows, and every column and spilled sequence of theirs has one place of its own."""
    known = {field.id for field in dataset.lance_schema.walk()}
    for fragment in dataset.manifest.fragments:
        if fragment.num_rows < 0 and not lacks_row_counts(fragment):
            message = f"fragment {fragment.id} has more deleted rows than rows"
            yield Finding("fragments_consistent", Severity.ERROR, message)
        yield from _column_findings(fragment, known)
        yield from _lineage_findings(fragment)


def check_indices(dataset: Dataset) -> Iterator[Finding]:
    """Index entries name fields that exist, and no fragment twice in the segments of one index."""
    fields = {field.id for field in dataset.lance_schema.walk()}
    covered: dict[tuple[str, int], str] = {}
    for segment in dataset.indices:
        missing = [field for field in segment.fields if field not in fields]
        if missing:
            message = f"index {segment.name!r} is on fields that do not exist: {missing}"
            yield Finding("indices_consistent", Severity.ERROR, message)
        if segment.is_system:
            continue
        for fragment_id in effective_fragments(dataset.manifest, segment):
            other = covered.setdefault((segment.name, fragment_id), str(segment.uuid))
            if other != str(segment.uuid):
                message = f"two segments of index {segment.name!r} cover fragment {fragment_id}"
                yield Finding("indices_consistent", Severity.ERROR, message)


def check_index_files(dataset: Dataset, *, deep: bool = False) -> Iterator[Finding]:
    """Indices of known kinds open, and hold what fits their columns and fragments."""
    for segment, error, repair in unreadable_indices(dataset, deep=deep):
        # No reader opens a segment that covers nothing any more.
        covers = effective_fragments(dataset.manifest, segment)
        severity = Severity.ERROR if covers else Severity.WARNING
        yield Finding("indices_readable", severity, f"{error.message}; {repair}", error.path)


def check_index_rows(dataset: Dataset, *, deep: bool = False) -> Iterator[Finding]:
    """Indices of known kinds hold the rows of the fragments that they cover, wherever these were moved."""
    problem = unusable_moves(dataset)
    if problem is not None:
        error, effect = problem
        severity = Severity.WARNING if isinstance(error, UnsupportedError) else Severity.ERROR
        hint = f"; {error.hint}" if error.hint else ""
        yield Finding("index_rows_match", severity, f"{error.message}; {effect}{hint}", error.path)
    for segment, message, repair in indices_without_their_rows(dataset, deep=deep):
        yield Finding("index_rows_match", Severity.ERROR, f"{message}; {repair}", segment.directory)


def check_history(dataset: Dataset) -> Iterator[Finding]:
    """Versions follow one another without gaps but at the old end; a gap in the middle hides commits."""
    versions = [location.version for location in list_versions(dataset.store)]
    tagged = {tag.version for tag in dataset.tags.values()}
    for before, after in pairwise(versions):
        if after != before + 1 and before not in tagged:
            message = f"versions {before + 1} to {after - 1} are missing between kept versions"
            yield Finding("history_contiguous", Severity.WARNING, message)


CHECKS: Mapping[str, Callable[[Dataset], Iterator[Finding]]] = {
    "manifest_valid": check_manifest,
    "files_present": check_files,
    "deletion_vectors_valid": check_deletions,
    "fragments_consistent": check_fragments,
    "indices_consistent": check_indices,
    "indices_readable": check_index_files,
    "index_rows_match": check_index_rows,
    "history_contiguous": check_history,
}
"""The checks that every run makes, by name: they read metadata, and indices in part."""

DEEPER_CHECKS: Mapping[str, Callable[[Dataset], Iterator[Finding]]] = {
    "indices_readable": partial(check_index_files, deep=True),
    "index_rows_match": partial(check_index_rows, deep=True),
}
"""What takes the place of some of them in a deep run."""


def check_rows(dataset: Dataset) -> Iterator[Finding]:
    """Every data file opens and has as many rows as its fragment, and so have stable row ids and versions."""
    # As recorded: where that is missing or wrong, the dataset itself asks the files.
    for fragment in dataset.manifest.fragments:
        expected = fragment.physical_rows
        for file in fragment.files:
            path = file.path
            try:
                store, path = dataset.bases.data_path(file)
                reader = FileReader.open(store, path, size=file.size_bytes or None)
            except LanceOpsError as error:
                # What is not understood may well be sound.
                severity = Severity.WARNING if isinstance(error, UnsupportedError) else Severity.ERROR
                yield Finding("rows_match", severity, error.message, path)
                continue
            if reader.version != file.storage_version:
                message = (
                    f"a file of version {reader.version}, which the manifest takes for {file.storage_version}"
                )
                yield Finding("rows_match", Severity.WARNING, message, path)
            rows = reader.num_rows
            # Legacy writers recorded no number, and then all files just have the same.
            expected = expected or rows
            if rows != expected:
                message = f"{rows:,} rows, fragment {fragment.id} should have {expected:,}"
                yield Finding("rows_match", Severity.ERROR, message, path)
        if dataset.manifest.uses_stable_row_ids:
            try:
                read_sequences(dataset.bases, fragment)
            except LanceOpsError as error:
                message = f"row ids and versions of fragment {fragment.id}: {error.message}"
                yield Finding("rows_match", Severity.ERROR, message, error.path)


def check_doubtful_counts(dataset: Dataset) -> Iterator[Finding]:
    """What a writer recorded that is known to have miscounted is what the files have."""
    recorded, counted = dataset.manifest.fragments, dataset.fragments
    hint = "the next commit of pylance corrects it, such as dataset.delete('false')"
    for before, now in zip(recorded, counted, strict=True):
        for what, number, right in (
            ("rows", before.physical_rows, now.physical_rows),
            ("deleted rows", before.num_deleted_rows, now.num_deleted_rows),
        ):
            if number and number != right:
                message = (
                    f"the manifest gives fragment {before.id} {number:,} {what} instead of {right:,}; {hint}"
                )
                yield Finding("rows_match", Severity.ERROR, message)


def _column_findings(fragment: Fragment, known: set[int]) -> Iterator[Finding]:
    seen: set[int] = set()
    for file in fragment.files:
        try:
            file.check_columns()
        except LanceOpsError as error:
            message = f"a data file of fragment {fragment.id}: {error.message}"
            yield Finding("fragments_consistent", Severity.ERROR, message, file.path)
        if UNASSIGNED in file.fields:
            message = f"fragment {fragment.id} has a column of which nobody can tell the field"
            yield Finding("fragments_consistent", Severity.ERROR, message, file.path)
        live = {field_id for field_id in file.fields if field_id >= 0 and field_id in known}
        twice = sorted(live & seen)
        if twice:
            message = f"fragment {fragment.id} has two files for fields {twice}"
            yield Finding("fragments_consistent", Severity.ERROR, message, file.path)
        seen |= live


def _lineage_findings(fragment: Fragment) -> Iterator[Finding]:
    for name in fragment.spilled:
        try:
            lineage_file(fragment, name)
        except LanceOpsError as error:
            yield Finding("fragments_consistent", Severity.ERROR, error.message, error.path)


@dataclass(frozen=True, slots=True)
class _PromisedFile:
    """A file that a version names.

    Attributes:
        what: For messages.
        path: As the version spells it.
        size: As recorded; 0 when it is not.
        find: Its store and its path there; refuses a path that leaves its base.
        at_least: Bytes that it must have, when only a part of it is promised.
    """

    what: str
    path: str
    size: int
    find: Callable[[], tuple[Store, str]]
    at_least: int = 0


def _promised_files(dataset: Dataset) -> Iterator[_PromisedFile]:
    bases = dataset.bases
    # As the manifest has them: to complete what old writers left out, the files would have to be there.
    for fragment in dataset.manifest.fragments:
        for file in fragment.files:
            what = f"a data file of fragment {fragment.id}"
            # Some releases of the peer record less for files of 0.1 than those have.
            size = 0 if is_legacy(file.major, file.minor) else file.size_bytes
            yield _PromisedFile(what, file.path, size, partial(bases.data_path, file))
        deletion = fragment.deletion_file
        if deletion is not None:
            find = partial(bases.deletion_path, fragment.id, deletion)
            what = f"the deletion file of fragment {fragment.id}"
            yield _PromisedFile(what, deletion.path(fragment.id), 0, find)
        for name in SEQUENCES:
            sequence = getattr(fragment, name)
            if isinstance(sequence, ExternalFile):
                find = partial(bases.external_path, sequence)
                end = sequence.offset + sequence.size
                what = f"the {name} of fragment {fragment.id}"
                yield _PromisedFile(what, sequence.path, 0, find, at_least=end)
    for segment in dataset.indices:
        for index_file in segment.files:
            find = partial(_index_path, bases, segment, index_file.path)
            what = f"a file of index {segment.name!r}"
            yield _PromisedFile(what, f"{segment.directory}/{index_file.path}", index_file.size_bytes, find)


def _index_path(bases: Bases, segment: IndexMetadata, name: str) -> tuple[Store, str]:
    store, directory = bases.index_directory(segment)
    return store, f"{directory}/{validate_relative_path(name)}"


def _listed_sizes(dataset: Dataset) -> dict[str, int]:
    """Sizes of the files below the dataset's own root, from three listings instead of a request for each."""
    return {
        info.path: info.size
        for folder in ("data", "_deletions", "_indices")
        for info in dataset.store.list(folder)
    }
