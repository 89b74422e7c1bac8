"""Delegate: method of the dataset object that calls a function or a method of the snapshot."""

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, overload

if TYPE_CHECKING:
    from lance_ops.facade.dataset import Dataset


P = ParamSpec("P")
R = TypeVar("R")


class Delegate:
    """Descriptor of a method made from a function.

    Args:
        function: The function, whose first argument is the dataset; or its name in `lance_ops`, from where it
            is loaded on first use.
        moves: Move the dataset to the version of the result.
    """

    def __init__(self, function: str | Callable[..., Any], *, moves: bool) -> None:
        self._given = function
        self.moves = moves

    @functools.cached_property
    def function(self) -> Callable[..., Any]:
        """The function itself."""
        import lance_ops

        return getattr(lance_ops, self._given) if isinstance(self._given, str) else self._given

    @functools.cached_property
    def method(self) -> Callable[..., Any]:
        """The method of the dataset object, with the signature of the function."""
        function, moves = self.function, self.moves

        @functools.wraps(function)
        def call(self: "Dataset", *args: Any, **kwargs: Any) -> Any:
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

    def __get__(self, instance: "Dataset | None", owner: type) -> Any:
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
