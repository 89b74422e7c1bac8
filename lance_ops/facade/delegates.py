"""Delegate: method of the dataset object that calls a function or a method of the snapshot."""

import functools
import inspect
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, overload

from lance_ops.table.dataset import Dataset as Snapshot
from lance_ops.table.dataset import DatasetHandle

if TYPE_CHECKING:
    from lance_ops.maintenance.results import Result

P = ParamSpec("P")
R = TypeVar("R")


class MovingHandle(DatasetHandle):
    """A version of a dataset that moves to what operations commit.

    Args:
        snapshot: The version; another handle at it; or a function that opens it when it is first asked for.
    """

    def __init__(self, snapshot: Snapshot | DatasetHandle | Callable[[], Snapshot]) -> None:
        self._version: Snapshot | Callable[[], Snapshot] = (
            snapshot.snapshot() if isinstance(snapshot, DatasetHandle) else snapshot
        )
        self.result: Result | None = None
        """Result of the last operation of this object; of the write that made it."""

    def snapshot(self) -> Snapshot:
        """Return the version at which the dataset is, as a value that never moves."""
        version = self._version
        if not isinstance(version, Snapshot):
            version = self._version = version()
        return version

    def move_to(self, result: object) -> None:
        """Move to the version that an operation has committed; nowhere for a plan."""
        from lance_ops.maintenance.results import OperationResult

        if isinstance(result, OperationResult):
            self.result = result
            if result.version != self.snapshot().version:
                self._version = self.snapshot().checkout_version(result.version)


class Delegate:
    """Descriptor of a method made from a function.

    Args:
        function: The function, whose first argument is the dataset; or its path in `lance_ops`, from where it
            is loaded on first use.
        moves: Move the dataset to the version of the result.
    """

    def __init__(self, function: str | Callable[..., Any], *, moves: bool) -> None:
        self._given = function
        self.moves = moves

    @functools.cached_property
    def function(self) -> Callable[..., Any]:
        """The function itself."""
        if not isinstance(self._given, str):
            return self._given
        home, _, name = self._given.rpartition(".")
        function: Callable[..., Any] = getattr(import_module(f"lance_ops.{home}"), name)
        return function

    @functools.cached_property
    def method(self) -> Callable[..., Any]:
        """The method of the dataset object, with the signature of the function."""
        function, moves = self.function, self.moves

        @functools.wraps(function)
        def call(self: MovingHandle, *args: Any, **kwargs: Any) -> Any:
            result = function(self.snapshot(), *args, **kwargs)
            if moves:
                self.move_to(result)
            return result

        signature = inspect.signature(function)
        first, *others = signature.parameters.values()
        own = first.replace(name="self", annotation=inspect.Parameter.empty)
        call.__signature__ = signature.replace(parameters=[own, *others])  # type: ignore[attr-defined]
        del call.__wrapped__
        return call

    def __get__(self, instance: MovingHandle | None, owner: type) -> Any:
        """Return the method, bound to an instance."""
        return self.method if instance is None else self.method.__get__(instance, owner)


@overload
def operation(function: str) -> Any: ...
@overload
def operation(function: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]: ...
def operation(function: str | Callable[..., Any]) -> Any:
    """Return a method that does an operation on the newest version, and moves the dataset to its result."""
    return Delegate(function, moves=True)


@overload
def read(function: str) -> Any: ...
@overload
def read(function: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]: ...
def read(function: str | Callable[..., Any]) -> Any:
    """Return a method that reads the version at which the dataset is."""
    return Delegate(function, moves=False)


class Same:
    """Descriptor of a method of the snapshot, which reads the version at which the dataset is.

    Args:
        function: The method as the class of snapshots has it.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __get__(self, instance: MovingHandle | None, owner: type) -> Any:
        """Return the method bound to the snapshot; of the class, the method itself."""
        return self.function if instance is None else getattr(instance.snapshot(), self.function.__name__)


def same(function: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Return a method that is one of the snapshot."""
    return Same(function)  # type: ignore[return-value]
