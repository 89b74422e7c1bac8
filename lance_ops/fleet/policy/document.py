"""YAML document: plain values, the line of each, and all problems at once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from lance_ops.errors import PolicyError, PolicyProblem


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file.

    Attributes:
        value: Mappings, lists and scalars.
        lines: Line of each value, from 1, by its path, such as `assign[0].match`.
        problems: Duplicate keys, and keys that are not strings.
    """

    value: Any
    lines: Mapping[str, int]
    problems: tuple[PolicyProblem, ...] = ()


_MOST_VALUES = 100_000
"""Aliases repeat values: a file of 500 bytes can expand to 10^9 values."""


_DEEPEST = 50
"""Maximum nesting of lists and mappings; the time of the parser is quadratic in it."""


class _TooDeepError(Exception):
    """Lists and mappings are nested too deeply."""


class _Loader(yaml.SafeLoader):
    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise _TooDeepError
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


class _TooManyValuesError(Exception):
    """The aliases of a file expand to too many values."""


@dataclass(slots=True)
class _Reader:
    most: int
    lines: dict[str, int] = field(default_factory=dict)
    problems: list[PolicyProblem] = field(default_factory=list)
    within: set[int] = field(default_factory=set)
    values: int = 0

    def read(self, loader: yaml.SafeLoader, node: yaml.Node, path: str) -> Any:
        self.lines[path] = node.start_mark.line + 1
        self.values += 1
        if self.values > self.most:
            raise _TooManyValuesError
        if id(node) in self.within:
            return self._wrong(node, path, "it contains itself")
        self.within.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(loader, node, path)
            if isinstance(node, yaml.SequenceNode):
                return [self.read(loader, item, f"{path}[{i}]") for i, item in enumerate(node.value)]
            return _scalar(loader, node)
        except (AttributeError, KeyError):
            # PyYAML raises these for a date or truth value that does not match its tag.
            return self._wrong(node, path, f"{node.value!r} is not valid for its tag {node.tag!r}")
        except ValueError as error:
            # An invalid date.
            return self._wrong(node, path, f"{node.value!r} is not valid: {error}")
        finally:
            self.within.discard(id(node))

    def _wrong(self, node: yaml.Node, path: str, message: str) -> None:
        self.problems.append(PolicyProblem(node.start_mark.line + 1, path, message))

    def _mapping(self, loader: yaml.SafeLoader, node: yaml.MappingNode, path: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            name = str(key_node.value)
            place = f"{path}.{name}" if path else name
            if not isinstance(key_node, yaml.ScalarNode):
                self.problems.append(PolicyProblem(line, path, "keys must be strings"))
                continue
            if name in found:
                self.problems.append(
                    PolicyProblem(line, place, f"duplicate key {name}, first in line {self.lines[place]}")
                )
                continue
            found[name] = self.read(loader, value_node, place)
            # A value may begin below its key: report the line of the key.
            self.lines[place] = line
        return found


def _scalar(loader: yaml.SafeLoader, node: yaml.Node) -> Any:
    """Return the value of a scalar.

    Raises:
        ValueError: It is invalid, or a number with more digits than Python prints, also in messages.
    """
    found = loader.construct_object(node, deep=True)
    if isinstance(found, int):
        _ = str(found)
    return found


def read_document(text: str, source: str) -> Document:
    """Parse YAML.

    Args:
        text: The file.
        source: Its name, for messages.

    Raises:
        PolicyError: It is not valid YAML, its aliases expand to too many values, or it is nested too deeply.
    """
    loader = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return Document({}, {"": 1})
        reader = _Reader(most=_MOST_VALUES + len(text))
        value = reader.read(loader, node, "")
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        said = error.problem or error.context or "it cannot be parsed"
        raise PolicyError([PolicyProblem(line, "", f"not valid YAML: {said}")], path=source) from error
    except _TooManyValuesError as error:
        message = (
            f"the aliases of this file expand to more than {_MOST_VALUES:,} values: write the values instead"
        )
        raise PolicyError([PolicyProblem(1, "", message)], path=source) from error
    except (_TooDeepError, RecursionError) as error:
        message = "nested too deeply for a policy"
        raise PolicyError([PolicyProblem(1, "", message)], path=source) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, int(error.position)) + 1
        message = f"not valid YAML: {error.reason}: {chr(error.character)!r}"
        raise PolicyError([PolicyProblem(line, "", message)], path=source) from error
    except (yaml.YAMLError, ValueError) as error:
        raise PolicyError([PolicyProblem(1, "", f"not valid YAML: {error}")], path=source) from error
    finally:
        if loader is not None:
            loader.dispose()
    return Document(value, reader.lines, tuple(reader.problems))
