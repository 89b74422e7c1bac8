"""Secrets: options of stores with `${VARIABLE}` in them, filled in when a store is opened and never shown."""

from collections.abc import Iterator, Mapping

from lance_ops.storage.options import is_secret
from lance_ops.storage.variables import VARIABLE, expand

HIDDEN = "***"


def _masked(text: str) -> str:
    """What of a secret may be shown: the variable that it comes from."""
    whole = VARIABLE.fullmatch(text)
    if whole is None:
        return HIDDEN
    return text if whole[2] is None else f"${{{whole[1]}:-{HIDDEN}}}"


class Options(Mapping[str, str]):
    """Options of a store as the file has them; `repr` shows no secret, `expanded` is what opens the store.

    Args:
        templates: By name, with `${VARIABLE}` in them.
    """

    __slots__ = ("_templates",)

    def __init__(self, templates: Mapping[str, str] | None = None) -> None:
        self._templates = dict(templates or {})

    def __getitem__(self, name: str) -> str:
        return self._templates[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._templates)

    def __len__(self) -> int:
        return len(self._templates)

    def __hash__(self) -> int:
        return hash(frozenset(self._templates.items()))

    def __repr__(self) -> str:
        return f"Options({self.shown()})"

    def shown(self) -> dict[str, str]:
        """What may be shown: names of variables, and values that are known to be no secrets."""
        return {
            name: _masked(text) if is_secret(name, text) else text for name, text in self._templates.items()
        }

    def expanded(self, environment: Mapping[str, str] | None = None) -> dict[str, str] | None:
        """Options that open the store; None without any.

        Raises:
            InvalidArgumentError: A variable is not set.
        """
        found = {name: expand(text, environment) for name, text in self._templates.items()}
        return found or None
