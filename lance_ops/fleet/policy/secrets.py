"""Secrets: store options with `${VARIABLE}`, expanded when a store is opened and never shown."""

from collections.abc import Iterator, Mapping

from lance_ops.storage.options import is_secret
from lance_ops.storage.variables import VARIABLE, expand

HIDDEN = "***"


def _masked(text: str) -> str:
    """Return the printable part of a secret: the name of its variable."""
    whole = VARIABLE.fullmatch(text)
    if whole is None:
        return HIDDEN
    return text if whole[2] is None else f"${{{whole[1]}:-{HIDDEN}}}"


class Options(Mapping[str, str]):
    """Options of a store as in the file; `repr` shows no secret, `expanded` opens the store.

    Args:
        templates: Options by name, with `${VARIABLE}`.
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
        """Return a printable form: names of variables, and values that are known not to be secret."""
        return {
            name: _masked(text) if is_secret(name, text) else text for name, text in self._templates.items()
        }

    def expanded(self, environment: Mapping[str, str] | None = None) -> dict[str, str] | None:
        """Return the options that open the store; None without any.

        Raises:
            InvalidArgumentError: A variable is not set.
        """
        found = {name: expand(text, environment) for name, text in self._templates.items()}
        return found or None
