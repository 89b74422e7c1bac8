"""Exceptions of lance_ops.

Each has a message, the file or URI, the field with the problem, a hint, and a stable `code`. Errors about
bytes on disk derive from `FormatError`; errors about other writers derive from `CommitError`.
"""

import functools
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, ClassVar, NamedTuple, ParamSpec, TypeVar, Unpack, get_args, get_origin

from lance_ops.uri_secrets import hide_credentials

P = ParamSpec("P")
R = TypeVar("R")


def shown(text: str) -> str:
    """Return a text for messages: without credentials, and writable to any stream."""
    return encodable(hide_credentials(text))


def encodable(text: str) -> str:
    """Return a text with non-UTF-8 bytes of paths as escapes, so that any file can hold it."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


class LanceOpsError(Exception):
    """Base class of all errors of lance_ops.

    Args:
        message: The problem, in one sentence.
        path: File or URI with the problem, if any.
        field: Column, option or field of a message with the problem, if any.
        hint: What the caller can do, if anything.

    Attributes:
        code: Stable name of the kind of error, for programs; a subclass without its own has that of its base.
    """

    code: ClassVar[str] = "lance-ops"

    def __init__(
        self, message: str, *, path: str | None = None, field: str | None = None, hint: str | None = None
    ) -> None:
        # Done here instead of at each raise: any message may contain the URI of the caller.
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
        """Pickle all attributes, for the trip from a Spark worker to the driver."""
        return (_rebuild, (type(self), self.args, self.__dict__.copy()))


def _rebuild(
    kind: type[LanceOpsError], args: tuple[object, ...], attributes: dict[str, object]
) -> LanceOpsError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(attributes)
    return error


class InvalidArgumentError(LanceOpsError, ValueError):
    """An argument or option has a value that is not allowed."""

    code: ClassVar[str] = "invalid-argument"


def check_type(value: object, kinds: type | tuple[type, ...], what: str, *, field: str) -> None:
    """Check the type of an argument at the public entry point.

    Args:
        value: The argument.
        kinds: Allowed types.
        what: Description of the expected value.
        field: Name of the argument.

    Raises:
        InvalidArgumentError: The argument has another type.
    """
    if not isinstance(value, kinds):
        raise InvalidArgumentError(
            f"{field} must be {what}, got {type(value).__name__}: {value!r}", field=field
        )


class UnknownArgumentError(InvalidArgumentError, TypeError):
    """A function has no keyword argument of this name; the hint names the closest one."""

    code: ClassVar[str] = "unknown-argument"


def public(
    *, ignored: Collection[str] = (), refused: Mapping[str, str] | None = None, **other_names: str
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator for a function of the public API: typed options, and a typed error for a wrong one.

    The keyword arguments of a TypedDict (`**run: Unpack[RunOptions]`) are parameters of their own in the
    signature, so that `help()` and editors show them.

    Args:
        ignored: Arguments of pylance that only tune it: taken, without an effect.
        refused: Arguments of pylance without a counterpart here, and what to do instead. None is taken.
        other_names: Other names of parameters, such as those of pylance, by what they stand for here.
    """
    foreign = _Foreign(other_names, frozenset(ignored), refused or {})

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = _with_options(inspect.signature(function))
        known = frozenset(signature.parameters)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if not known.issuperset(kwargs):
                return function(*args, **_renamed(function.__name__, kwargs, known, foreign))
            return function(*args, **kwargs)

        call.__signature__ = signature  # type: ignore[attr-defined]
        return call

    return decorate


class _ByFunction:
    """Default of an option that each function sets for itself."""

    def __repr__(self) -> str:
        return "..."


_BY_FUNCTION = _ByFunction()


def _with_options(signature: inspect.Signature) -> inspect.Signature:
    """Return a signature with a parameter for each key of an unpacked TypedDict."""
    parameters = dict(signature.parameters)
    last = next(reversed(parameters.values()))
    if get_origin(last.annotation) is not Unpack:
        return signature
    del parameters[last.name]
    for name, kind in get_args(last.annotation)[0].__annotations__.items():
        default = None if NoneType in get_args(kind) else _BY_FUNCTION
        option = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        parameters.setdefault(name, option)
    return signature.replace(parameters=list(parameters.values()))


class _Foreign(NamedTuple):
    """Arguments of pylance: see `public`."""

    other_names: Mapping[str, str]
    ignored: frozenset[str]
    refused: Mapping[str, str]


def _renamed(
    function: str, given: Mapping[str, Any], known: Collection[str], foreign: _Foreign
) -> dict[str, Any]:
    """Return keyword arguments by their names here.

    Raises:
        UnknownArgumentError: There is no such argument.
        InvalidArgumentError: An argument is given under two names.
    """
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name in foreign.ignored or (name in foreign.refused and value is None):
            continue
        if name in foreign.refused:
            raise UnknownArgumentError(
                f"{function} has no argument {name!r}", field=name, hint=foreign.refused[name]
            )
        ours = name if name in known else foreign.other_names.get(name)
        if ours is None:
            from difflib import get_close_matches

            close = get_close_matches(name, [*known, *foreign.other_names], 1)
            raise UnknownArgumentError(
                f"{function} has no argument {name!r}",
                field=name,
                hint=f"did you mean {close[0]!r}?" if close else f"see help(lance_ops.{function})",
            )
        if ours in found:
            raise InvalidArgumentError(
                f"{function} got {ours!r} twice, once as {name!r}", field=ours, hint="give one of them"
            )
        found[ours] = value
    return found


class PredicateError(InvalidArgumentError):
    """A filter cannot be parsed, names an unknown column, or does not fit the column's type."""

    code: ClassVar[str] = "predicate"


class SchemaMismatchError(LanceOpsError):
    """The data do not fit the schema of the dataset; `mismatches` lists all differences."""

    code: ClassVar[str] = "schema-mismatch"

    def __init__(
        self, message: str, mismatches: Sequence[str], *, path: str | None = None, hint: str | None = None
    ) -> None:
        self.mismatches = tuple(mismatches)
        super().__init__("\n  - ".join([message, *self.mismatches]), path=path, hint=hint)


class UnsupportedError(LanceOpsError):
    """Valid data use a feature that this version of lance_ops does not implement."""

    code: ClassVar[str] = "unsupported"


class MissingExtraError(UnsupportedError, ModuleNotFoundError):
    """A library of an optional extra is not installed; the hint names the extra."""

    code: ClassVar[str] = "missing-extra"


class UnsupportedVersionError(UnsupportedError):
    """A data file or index has a storage version that this version of lance_ops cannot read."""

    code: ClassVar[str] = "unsupported-version"


class UnsupportedFeatureError(UnsupportedError):
    """The manifest sets unknown feature flags; `bits` are their values."""

    code: ClassVar[str] = "unsupported-feature"

    def __init__(self, message: str, bits: Sequence[int], *, path: str | None = None) -> None:
        self.bits = tuple(bits)
        super().__init__(message, path=path, hint="open it with a newer version of lance_ops or of pylance")


class UnsupportedTypeError(UnsupportedError):
    """The storage version, or Spark, cannot store this Arrow type."""

    code: ClassVar[str] = "unsupported-type"


class FormatError(LanceOpsError):
    """Bytes on disk violate the format; nothing was changed."""

    code: ClassVar[str] = "format"


class CorruptFileError(FormatError):
    """A data, deletion or index file is truncated or damaged."""

    code: ClassVar[str] = "corrupt-file"


class CorruptManifestError(FormatError):
    """A manifest or transaction is truncated, damaged or contradicts itself."""

    code: ClassVar[str] = "corrupt-manifest"


class UnreadableIndexError(FormatError):
    """Files of an index are missing, damaged or of an unknown layout; the rows are sound."""

    code: ClassVar[str] = "unreadable-index"


class PathEscapeError(FormatError):
    """A path in the metadata leads out of the dataset root or its declared base path."""

    code: ClassVar[str] = "path-escape"


class NotFoundError(LanceOpsError):
    """An object that the caller or the metadata names does not exist."""

    code: ClassVar[str] = "not-found"


class DatasetNotFoundError(NotFoundError):
    """There is no dataset at the URI."""

    code: ClassVar[str] = "dataset-not-found"


class VersionNotFoundError(NotFoundError):
    """The dataset has no such version or tag."""

    code: ClassVar[str] = "version-not-found"


class FileMissingError(NotFoundError):
    """A file that the metadata name is not in the store."""

    code: ClassVar[str] = "file-missing"


class DatasetExistsError(LanceOpsError):
    """There is a dataset at the URI already, and the mode is `create`."""

    code: ClassVar[str] = "dataset-exists"


class StorageError(LanceOpsError):
    """The store failed; nothing is known to have changed unless the message says so."""

    code: ClassVar[str] = "storage"


class AlreadyExistsError(StorageError):
    """A put-if-absent found an object at the path."""

    code: ClassVar[str] = "already-exists"


class PermissionDeniedError(StorageError):
    """The store refused access."""

    code: ClassVar[str] = "permission-denied"


class BucketMissingError(StorageError):
    """The bucket or container of the URI does not exist at this endpoint."""

    code: ClassVar[str] = "bucket-missing"


class StorageFullError(StorageError):
    """The store has no space left."""

    code: ClassVar[str] = "storage-full"


class NotFlushedError(StorageError):
    """Earlier files could not be flushed to disk, so no commit names them."""

    code: ClassVar[str] = "not-flushed"


class InconsistentStoreError(StorageError):
    """A listing names an object that reads do not find; a later attempt may find it."""

    code: ClassVar[str] = "inconsistent-store"


class CommitError(LanceOpsError):
    """A commit failed; the dataset is unchanged."""

    code: ClassVar[str] = "commit"


class CommitConflictError(CommitError):
    """The commit of another writer conflicts with this one.

    Args:
        message: What collides.
        ours: One line on the transaction that failed.
        theirs: One line on the committed transaction that it collides with (with its version).
        version: The version of the committed transaction, or the version that could not be read.

    `orphans` are the files, relative to the dataset root, that were written for this commit and that no
    version refers to: the writer may delete them.
    """

    code: ClassVar[str] = "commit-conflict"

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
    """A commit conflict that a new plan from the newest version may resolve."""

    code: ClassVar[str] = "retryable-commit-conflict"

    retryable = True


class IncompatibleCommitConflictError(CommitConflictError):
    """A commit conflict that a new plan cannot resolve: the other commit contradicts this operation."""

    code: ClassVar[str] = "incompatible-commit-conflict"


class CommitOutcomeUnknownError(CommitError):
    """The store did not confirm the manifest, and reading it back failed.

    Nothing that the commit refers to may be deleted while this is unknown.
    """

    code: ClassVar[str] = "commit-outcome-unknown"


class JobUnprovenError(CommitError):
    """Versions were removed without a record, so the commit of a job key cannot be found or ruled out."""

    code: ClassVar[str] = "job-unproven"


class StreamUnprovenError(JobUnprovenError):
    """An epoch of a streaming query may have been committed before, so it was not written."""

    code: ClassVar[str] = "stream-unproven"


class StreamGapError(NotFoundError):
    """Versions that a streaming query has not read were removed."""

    code: ClassVar[str] = "stream-gap"


class StreamChangeError(LanceOpsError):
    """A commit changed or deleted rows that a streaming query of appended rows has delivered."""

    code: ClassVar[str] = "stream-change"


class JobCancelledError(LanceOpsError):
    """The job was cancelled or taken over while it ran."""

    code: ClassVar[str] = "job-cancelled"


class CleanupRefusedError(LanceOpsError):
    """Cleanup found an unknown branch, clone or feature flag and removed nothing."""

    code: ClassVar[str] = "cleanup-refused"


class BranchInUseError(LanceOpsError):
    """A branch cannot be deleted: a tag, branch or operation in progress needs its versions."""

    code: ClassVar[str] = "branch-in-use"


class RowsLostError(LanceOpsError):
    """Rows that a finished job had committed were deleted later."""

    code: ClassVar[str] = "rows-lost"


class JavaNotFoundError(LanceOpsError):
    """Spark needs a Java runtime of version 17 or newer, and there is none."""

    code: ClassVar[str] = "java-not-found"


class SparkStartError(LanceOpsError):
    """Spark's JVM, master or worker process did not start."""

    code: ClassVar[str] = "spark-start"


class ProgramLostError(LanceOpsError):
    """A program on a cluster ended without reporting its result.

    Its commits remain, and a retry with the same job key finds them.
    """

    code: ClassVar[str] = "program-lost"


class TaskFailedError(LanceOpsError):
    """A task of an operation failed on its runner; nothing was committed."""

    code: ClassVar[str] = "task-failed"


class AlertNotDeliveredError(LanceOpsError):
    """A notifier could not deliver an alert."""

    code: ClassVar[str] = "alert-not-delivered"


@dataclass(frozen=True, slots=True)
class PolicyProblem:
    """A problem at one place of a fleet policy.

    Attributes:
        line: Line in the file, from 1; None for a policy without a file.
        where: Path of the value, such as `classes.hot.max_versions`.
        message: The problem and its fix.
    """

    line: int | None
    where: str
    message: str

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        return f"{place}{self.message}" if self.line is None else f"line {self.line}: {place}{self.message}"


class PolicyError(InvalidArgumentError):
    """A fleet policy is invalid; `problems` lists all errors by line."""

    code: ClassVar[str] = "policy"

    def __init__(self, problems: Sequence[PolicyProblem], *, path: str | None = None) -> None:
        self.problems = tuple(sorted(problems, key=lambda item: item.line or 0))
        head = "invalid fleet policy"
        super().__init__("\n  - ".join([head, *map(str, self.problems)]), path=path)


class FleetModeError(LanceOpsError):
    """The mode of the fleet forbids the operation, or a plan differs from the approved one."""

    code: ClassVar[str] = "fleet-mode"


class LeaseHeldError(LanceOpsError):
    """Another process maintains the dataset, or makes a clone or branch at the same place."""

    code: ClassVar[str] = "lease-held"


class UnreadableIndexWarning(UserWarning):
    """An index could not be read, so the query scans the rows instead: slower, same result."""


class SuspiciousInputWarning(UserWarning):
    """An input file was read in a valid way that is probably not intended."""
