"""Text parts of one-line descriptions of operations."""

from collections.abc import Iterable
from textwrap import shorten

from lance_ops.table.manifest.fragment import Fragment

_MANY = 8
_LONG = 200


def count(number: int, noun: str) -> str:
    """`1 row`, `2,000 rows`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(values: Iterable[object]) -> str:
    """Format the first values, and the number of the others."""
    texts = [str(value) for value in values]
    shown = ", ".join(texts[:_MANY])
    return shown if len(texts) <= _MANY else f"{shown} and {len(texts) - _MANY:,} more"


def fragment_list(ids: Iterable[int]) -> str:
    """`fragments 1, 4`, in order."""
    ordered = sorted(set(ids))
    return f"fragment{'' if len(ordered) == 1 else 's'} {listed(ordered) or 'none'}"


def rows_in(fragments: tuple[Fragment, ...], noun: str = "row") -> str:
    """`2,000 rows in 2 fragments`."""
    rows = sum(fragment.physical_rows for fragment in fragments)
    return f"{count(rows, noun)} in {count(len(fragments), 'fragment')}"


def condition(predicate: str) -> str:
    """Format a predicate after `where`; empty for none."""
    return f" where {shorten(predicate, _LONG, placeholder=' …')}" if predicate else ""
