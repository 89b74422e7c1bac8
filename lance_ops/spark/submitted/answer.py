"""Answer of a submitted program: a result, a plan, or an error."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from lance_ops import errors
from lance_ops.errors import LanceOpsError, TaskFailedError
from lance_ops.maintenance.progress import ProgressEvent
from lance_ops.maintenance.results import AppendResult, OperationResult

KIND = "lance_ops"
"""Key of each message of lance_ops; its value is the type of the message."""

RESULT, PLAN, ERROR, PROGRESS = "result", "plan", "error", "progress"

_VALUES = "values"
_MOST_TEXT = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedResult(OperationResult):
    """Result of an operation in another process: numbers and text.

    Attributes:
        values: Result of its `to_dict`.
        text: Its printed form.
        complete: True if all work was done.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""
    complete: bool = True

    @property
    def operation(self) -> str:
        """The name of the operation."""
        return str(self.values["operation"])

    def to_dict(self) -> dict[str, object]:
        """Return the numbers."""
        return dict(self.values)

    def summary(self) -> str:
        """See `OperationResult.summary`."""
        return self.text

    def __str__(self) -> str:
        return self.text


def is_outcome(message: object) -> bool:
    """Return whether a message of a program is its final result."""
    return isinstance(message, dict) and message.get(KIND) in (RESULT, PLAN, ERROR)


def pack_outcome(outcome: object) -> dict[str, Any]:
    """Convert the return value of an operation: a result, values by name, or a plan as text."""
    if isinstance(outcome, Mapping):
        return {KIND: RESULT, "type": _VALUES, "values": _plain(outcome)}
    if not isinstance(outcome, OperationResult):
        return {KIND: PLAN, "text": str(outcome)[:_MOST_TEXT]}
    return {
        KIND: RESULT,
        "type": type(outcome).__name__,
        "values": {name: _plain(value) for name, value in outcome.to_dict().items()},
        "text": str(outcome)[:_MOST_TEXT],
        "complete": bool(getattr(outcome, "complete", True)),
    }


def unpack_outcome(message: Mapping[str, Any]) -> OperationResult | str | dict[str, Any]:
    """Read a value of `pack_outcome`; raises an error of `pack_error`.

    Raises:
        LanceOpsError: The work ended with this error.
    """
    if message[KIND] == ERROR:
        raise unpack_error(message)
    if message[KIND] == PLAN:
        return str(message["text"])
    values = dict(message["values"])
    if message["type"] == _VALUES:
        return values
    if message["type"] == AppendResult.__name__:
        known = {item.name for item in fields(AppendResult)}
        return AppendResult(**{name: _tupled(value) for name, value in values.items() if name in known})
    shared = {
        item.name: _tupled(values[item.name]) for item in fields(OperationResult) if item.name in values
    }
    return SubmittedResult(
        **shared, values=values, text=str(message["text"]), complete=bool(message["complete"])
    )


def pack_error(error: BaseException) -> dict[str, Any]:
    """Convert an error with its attributes and the cause of a failed task."""
    packed: dict[str, Any] = {KIND: ERROR, "type": type(error).__name__, "text": str(error)[:_MOST_TEXT]}
    if not isinstance(error, LanceOpsError):
        return packed
    packed["values"] = {
        name: _plain(value) for name, value in vars(error).items() if not name.startswith("_")
    }
    if isinstance(error.__cause__, LanceOpsError):
        packed["cause"] = pack_error(error.__cause__)
    return packed


def unpack_error(message: Mapping[str, Any]) -> LanceOpsError:
    """Read an error of `pack_error`; one of other libraries is a failed task."""
    kind = getattr(errors, str(message["type"]), None)
    text = str(message["text"])
    if not (isinstance(kind, type) and issubclass(kind, LanceOpsError)) or "values" not in message:
        return TaskFailedError(f"{message['type']}: {text}")
    error: LanceOpsError = kind.__new__(kind)
    error.args = (text,)
    error.__dict__.update({name: _tupled(value) for name, value in message["values"].items()})
    if "cause" in message:
        error.__cause__ = unpack_error(message["cause"])
    return error


def pack_progress(event: ProgressEvent) -> dict[str, Any]:
    """Convert a progress event."""
    return {KIND: PROGRESS, **{item.name: getattr(event, item.name) for item in fields(event)}}


def unpack_progress(message: Mapping[str, Any]) -> ProgressEvent:
    """Read a progress event of `pack_progress`."""
    return ProgressEvent(**{item.name: message[item.name] for item in fields(ProgressEvent)})


def _plain(value: object) -> Any:
    """Return a JSON value; other values become text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return str(value)


def _tupled(value: Any) -> Any:
    return tuple(_tupled(item) for item in value) if isinstance(value, list) else value
