"""Every exception that a caller of lance_ops can meet.

Each carries what a person needs to act: the file or URI, the field of it that was wrong, and a hint. Errors
about bytes on disk derive from `FormatError`; errors about other writers derive from `CommitError`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lance_ops.uri_secrets import hide_credentials


def shown(text: str) -> str:
    """Return a text fit for messages: without credentials, and such that any stream can write it."""
    return encodable(hide_credentials(text))


def encodable(text: str) -> str:
    """Return a text with the bytes of paths that are not UTF-8 as escapes, so that any file can hold it."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


class LanceOpsError(Exception):
    """Base of all errors of this package.

    Args:
        message: What happened, in one sentence.
        path: The file or URI that it is about, if any.
        field: The message field, column or option that was wrong, if any.
        hint: What the caller can do, if anything.
    """

    def __init__(
        self, message: str, *, path: str | None = None, field: str | None = None, hint: str | None = None
    ) -> None:
        # Here and not where errors are made: every one of them may carry the URI that the user gave.
        message = shown(message)
        path = shown(path) if path is not None else None
        field = encodable(field) if field is not None else None
        hint = shown(hint) if hint is not None else None
        self.message = message
        self.path = path
        self.field = field
        self.hint = hint
        parts = [message]
        if path is not None:
            parts.append(f"file: {path}")
        if field is not None:
            parts.append(f"field: {field}")
        if hint is not None:
            parts.append(f"hint: {hint}")
        super().__init__("; ".join(parts))

    def __reduce__(self) -> tuple[object, ...]:
        """Survive the trip from a Spark worker to the driver with all attributes."""
        return (_rebuild, (type(self), self.args, self.__dict__.copy()))


def _rebuild(
    kind: type[LanceOpsError], args: tuple[object, ...], attributes: dict[str, object]
) -> LanceOpsError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(attributes)
    return error


class InvalidArgumentError(LanceOpsError, ValueError):
    """An option or argument of the caller makes no sense."""


def check_type(value: object, kinds: type | tuple[type, ...], what: str, *, field: str) -> None:
    """Refuse an argument of another type at the door, before it fails somewhere inside.

    Args:
        value: What the caller gave.
        kinds: Types that it may have.
        what: What is expected, in words.
        field: Name of the argument.

    Raises:
        InvalidArgumentError: It is of another type.
    """
    if not isinstance(value, kinds):
        raise InvalidArgumentError(f"{what} is expected, not {type(value).__name__}: {value!r}", field=field)


class PredicateError(InvalidArgumentError):
    """A filter does not parse, names an unknown column, or cannot be evaluated on the column's type."""


class SchemaMismatchError(LanceOpsError):
    """The data do not fit the dataset; `mismatches` lists every difference found, not only the first."""

    def __init__(
        self, message: str, mismatches: Sequence[str], *, path: str | None = None, hint: str | None = None
    ) -> None:
        self.mismatches = tuple(mismatches)
        super().__init__("\n  - ".join([message, *self.mismatches]), path=path, hint=hint)


class UnsupportedError(LanceOpsError):
    """The bytes may be valid, but use something this version of lance_ops does not implement."""


class MissingExtraError(UnsupportedError, ModuleNotFoundError):
    """A library is not installed that one of the extras brings along; the hint says which."""


class UnsupportedVersionError(UnsupportedError):
    """A data file or index of a storage version that this version of lance_ops cannot open."""


class UnsupportedFeatureError(UnsupportedError):
    """A feature flag is set that this version does not know; `bits` are the unknown flag values."""

    def __init__(self, message: str, bits: Sequence[int], *, path: str | None = None) -> None:
        self.bits = tuple(bits)
        super().__init__(message, path=path, hint="open it with a newer version of lance_ops or of pylance")


class UnsupportedTypeError(UnsupportedError):
    """An Arrow type that the storage version (or Spark) cannot hold."""


class FormatError(LanceOpsError):
    """Bytes on disk are not what the format says; nothing was changed."""


class CorruptFileError(FormatError):
    """A data, deletion or index file is truncated or damaged."""


class CorruptManifestError(FormatError):
    """A manifest or transaction is truncated, damaged or contradicts itself."""


class UnreadableIndexError(FormatError):
    """The files of an index are missing, damaged or of an unknown layout; the rows are sound."""


class PathEscapeError(FormatError):
    """A path in the metadata leaves the dataset root or its declared base path."""


class NotFoundError(LanceOpsError):
    """Something named by the caller or by the metadata does not exist."""


class DatasetNotFoundError(NotFoundError):
    """No dataset at this URI."""


class VersionNotFoundError(NotFoundError):
    """The dataset has no such version or tag."""


class FileMissingError(NotFoundError):
    """A file that the metadata name is not in the store."""


class DatasetExistsError(LanceOpsError):
    """A dataset is already at this URI and the mode is `create`."""


class StorageError(LanceOpsError):
    """The store failed; nothing is known to have changed unless the message says so."""


class AlreadyExistsError(StorageError):
    """Put-if-absent found an object at the path."""


class PermissionDeniedError(StorageError):
    """The store refused access."""


class BucketMissingError(StorageError):
    """The bucket or container of the URI does not exist, or not at this endpoint."""


class StorageFullError(StorageError):
    """The store has no space left."""


class NotFlushedError(StorageError):
    """Files written before could not be brought to the disk, so that nothing that needs them was named."""


class InconsistentStoreError(StorageError):
    """A listing names an object that reads do not find; a later attempt may find it."""


class CommitError(LanceOpsError):
    """A commit did not happen; `version` of the dataset is unchanged by it."""


class CommitConflictError(CommitError):
    """Another writer's commit stands in the way.

    Args:
        message: What collides.
        ours: One line on the transaction that failed.
        theirs: One line on the committed transaction that it collides with (with its version).
        version: The version of the committed transaction, or the version that could not be judged.

    `orphans` are the files, relative to the dataset root, that were written for this commit and that no
    version refers to: whoever wrote them may delete them.
    """

    retryable: bool = False
    orphans: tuple[str, ...] = ()

    def __init__(
        self,
        message: str,
        *,
        ours: str,
        theirs: str,
        version: int | None = None,
        path: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.ours = ours
        self.theirs = theirs
        self.version = version
        super().__init__(f"{message} (ours: {ours}; theirs: {theirs})", path=path, hint=hint)


class RetryableCommitConflictError(CommitConflictError):
    """The operation may succeed when it is planned afresh from the head."""

    retryable = True


class IncompatibleCommitConflictError(CommitConflictError):
    """Planning afresh does not help: the other commit contradicts this operation."""


class CommitOutcomeUnknownError(CommitError):
    """The store did not say whether the manifest was written, and reading it back failed too.

    Nothing that the commit refers to may be deleted while this is unknown.
    """


class JobUnprovenError(CommitError):
    """Whether the commit of a job still counts cannot be told: versions were removed without a record."""


class StreamUnprovenError(JobUnprovenError):
    """Whether an epoch of a streaming query is committed cannot be told, so it was not written."""


class StreamGapError(NotFoundError):
    """Versions that a streaming query has not read yet were removed."""


class StreamChangeError(LanceOpsError):
    """A commit changed or deleted rows that a streaming query of appended rows has delivered already."""


class JobCancelledError(LanceOpsError):
    """Somebody ended the job while it was at work: it was cancelled, or broken off for dead."""


class CleanupRefusedError(LanceOpsError):
    """Cleanup found a branch, clone or flag that it does not understand, and removed nothing."""


class BranchInUseError(LanceOpsError):
    """A branch cannot be removed: a tag, another branch, or what is being made needs its versions."""


class RowsLostError(LanceOpsError):
    """Rows that a job committed were deleted since; the job is done, and what it loaded is not there."""


class JavaNotFoundError(LanceOpsError):
    """Spark needs a Java runtime of version 17 or newer and none was found."""


class SparkStartError(LanceOpsError):
    """Spark's JVM, master or a worker process did not start."""


class ProgramLostError(LanceOpsError):
    """A program that was submitted to a cluster ended without saying what came of its work.

    What it committed stands, and is found again by whoever tries again under the same job key.
    """


class TaskFailedError(LanceOpsError):
    """A task of an operation failed on its runner; nothing was committed."""


class AlertNotDeliveredError(LanceOpsError):
    """A notifier could not pass on an alert."""


@dataclass(frozen=True, slots=True)
class PolicyProblem:
    """What is wrong at one place of a fleet policy.

    Attributes:
        line: Of the file, from 1; None for a policy that no file says.
        where: Path of the value, such as `classes.hot.max_versions`.
        message: What is wrong, and what to write.
    """

    line: int | None
    where: str
    message: str

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        return f"{place}{self.message}" if self.line is None else f"line {self.line}: {place}{self.message}"


class PolicyError(InvalidArgumentError):
    """A fleet policy makes no sense; `problems` lists all that is wrong, in the order of its lines."""

    def __init__(self, problems: Sequence[PolicyProblem], *, path: str | None = None) -> None:
        self.problems = tuple(sorted(problems, key=lambda item: item.line or 0))
        head = "the fleet policy makes no sense"
        super().__init__("\n  - ".join([head, *map(str, self.problems)]), path=path)


class FleetModeError(LanceOpsError):
    """The mode of the fleet does not allow what was asked for, or a plan is not the one that was approved."""


class LeaseHeldError(LanceOpsError):
    """Somebody else maintains the dataset, or makes a clone or branch at the place, at the moment."""


class UnreadableIndexWarning(UserWarning):
    """An index could not be read, so that the query that wanted it scans the rows: slower, never wrong."""


class SuspiciousInputWarning(UserWarning):
    """An input file was read in a way that is possible and probably not meant."""
