"""Fields by name: values that can be read as `value["field"]` too, as the mappings that pylance returns."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar


class ByName:
    """Mixin of dataclasses.

    Attributes:
        other_names: Fields by the names that pylance gives them.
    """

    __slots__ = ()

    other_names: ClassVar[Mapping[str, str]] = {}

    def __getitem__(self, name: str) -> Any:
        """Return a field by its name here or in pylance.

        Raises:
            KeyError: There is no such field.
        """
        ours = self.other_names.get(name, name)
        if ours not in self.keys():
            raise KeyError(name)
        return getattr(self, ours)

    def keys(self) -> list[str]:
        """Return the names of the fields."""
        return [field.name for field in fields(self)]  # type: ignore[arg-type]  # of a dataclass
