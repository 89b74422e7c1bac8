"""Paths into JSON documents: `$.user.tags[0]`, with or without the `$.` in front.

The grammar is the part of pylance's that names places: members (`.name`, `:name`, `."any name"`,
`["any name"]`, `.*`), elements (`[0]`, `[last]`, `[last - 1]`, `[0, 2 to last]`, `[*]`) and everything below
(`.**`). Its conditions (`?(@.x > 1)`, `$.x == 1`) are refused: a filter has words for them.
"""

import json
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from lance_ops.errors import PredicateError

Step = Callable[[Any], Iterator[Any]]
"""From one value to those that a step of a path leads to, in their order."""

_NAME = r"\w+"
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_INDEX = r"-?\d+|last(?:\s*[+-]\s*\d+)?"
_SLICE = rf"(?:{_INDEX})(?:\s+to\s+(?:{_INDEX}))?"
_STEP = re.compile(
    rf"""\s*(?:
        [.:]\s*(?P<name>{_NAME})
      | [.:]\s*(?P<quoted>{_QUOTED})
      | \[\s*(?P<member>{_QUOTED})\s*\]
      | (?P<below>\.\s*\*\*(?!\s*\{{))
      | (?P<members>\.\s*\*)
      | (?P<elements>\[\s*\*\s*\])
      | \[\s*(?P<slices>{_SLICE}(?:\s*,\s*{_SLICE})*)\s*\]
    )""",
    re.VERBOSE,
)
_START = re.compile(rf"\s*(?:\$|(?P<name>{_NAME}))?")
_MAX_INDEX = 2**31 - 1
_HINT = (
    'write other names as ["my name"], positions as [0] or [last]; conditions within a path are not supported'
)


@lru_cache(maxsize=256)
def parse_path(text: str) -> tuple[Step, ...]:
    """Return the steps of a path; none for the document itself.

    Raises:
        PredicateError: It is no path, or has a condition.
    """
    start = _START.match(text)
    assert start is not None
    steps = [] if start["name"] is None else [_member(start["name"])]
    position, stop = start.end(), len(text.rstrip())
    while position < stop:
        found = _STEP.match(text, position)
        if found is None:
            raise PredicateError(
                f"{text!r} is not a supported JSON path, from {text[position : position + 20]!r} on",
                hint=_HINT,
            )
        steps.append(_step(found, text))
        position = found.end()
    return tuple(steps)


def member_names(text: str) -> tuple[str, ...] | None:
    """Return the names in a path that leads from member to member; None if it has other steps.

    Raises:
        PredicateError: It is no path, or has a condition.
    """
    parse_path(text)
    start = _START.match(text)
    assert start is not None
    names = [] if start["name"] is None else [start["name"]]
    position, stop = start.end(), len(text.rstrip())
    while position < stop:
        found = _STEP.match(text, position)
        assert found is not None
        quoted = found["quoted"] or found["member"]
        if found["name"] is None and quoted is None:
            return None
        names.append(found["name"] if quoted is None else json.loads(quoted, strict=False))
        position = found.end()
    return tuple(names)


def follow(document: Any, steps: tuple[Step, ...]) -> list[Any]:
    """Return the values at a path, in the order of the document.

    Args:
        document: Result of `json.loads`.
        steps: Of the path.
    """
    values = [document]
    for step in steps:
        values = [found for value in values for found in step(value)]
    return values


def _step(found: re.Match[str], text: str) -> Step:
    quoted = found["quoted"] or found["member"]
    if found["name"] is not None:
        return _member(found["name"])
    if quoted is not None:
        try:
            return _member(json.loads(quoted, strict=False))
        except ValueError as error:
            raise PredicateError(
                f"{text!r} is not a valid JSON path: {quoted} cannot be parsed as a string"
            ) from error
    if found["below"]:
        return _below
    if found["members"]:
        return _members
    if found["elements"]:
        return _elements
    return _slices([_slice(part, text) for part in found["slices"].split(",")])


def _member(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _members(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        # In the order of the bytes of their names, as the format keeps them.
        yield from (value[name] for name in sorted(value, key=str.encode))


def _elements(value: Any) -> Iterator[Any]:
    """Yield the elements of an array; other values count as an array of one."""
    if isinstance(value, list):
        yield from value
    else:
        yield value


def _below(value: Any) -> Iterator[Any]:
    pending = [value]
    while pending:
        here = pending.pop()
        yield here
        if isinstance(here, list):
            pending.extend(reversed(here))
        else:
            pending.extend(reversed(list(_members(here))))


def _slice(text: str, path: str) -> tuple[tuple[bool, int], tuple[bool, int]]:
    first, *rest = re.split(r"\s+to\s+", text.strip())
    return _index(first, path), _index(rest[0] if rest else first, path)


def _index(text: str, path: str) -> tuple[bool, int]:
    """Return whether it counts from the last element, and the number."""
    from_last = text.startswith("last")
    digits = re.sub(r"\s", "", text.removeprefix("last")) or "0"
    number = int(digits) if len(digits) <= 11 else _MAX_INDEX + 1
    if abs(number) > _MAX_INDEX:
        raise PredicateError(f"{path!r} is not a valid JSON path: index {digits} is too large")
    return from_last, number


def _slices(wanted: list[tuple[tuple[bool, int], tuple[bool, int]]]) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if not isinstance(value, list):
            return
        last = len(value) - 1
        for (first_from_last, first), (stop_from_last, stop) in wanted:
            begin = first + last if first_from_last else first
            end = stop + last if stop_from_last else stop
            yield from value[max(begin, 0) : max(end + 1, 0)]

    return step
