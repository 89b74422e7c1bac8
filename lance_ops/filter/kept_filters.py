"""Filter cache: recently parsed filters, and templates for strings that differ in constants only.

Programs repeat the same query with other values. Constants of simple filters are found without a parser; the
rest of the string is its shape. For a parsed shape, the positions of its constants in the tree are recorded
if the structure does not depend on their values: integers and strings compared with a column or call of the
same type, and search values of a few functions. The tree of another string of the same shape is made by
replacing its constants.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lance_ops.cache import Cache
from lance_ops.errors import PredicateError
from lance_ops.filter.expression import Column, Expression, Function, Literal
from lance_ops.filter.literals import INTEGER_LIMITS
from lance_ops.filter.parsing import depends_on_day, parse_filter
from lance_ops.filter.predicates import And, Comparison, Not, Or
from lance_ops.filter.types.coercion import INT64, UTF8, is_list

_MOST = 64
"""Filters of one schema that are kept parsed, and shapes."""
_LONGEST = 4096
"""Characters above which a filter is not kept."""
_MOST_CONSTANTS = 32
_CHARACTER_BYTES = 32
"""About what the tree of a filter takes for each of its characters."""
_MOST_OF_SHAPE = 4
"""Maximum templates of one shape: they differ in fixed constants, such as paths in documents."""

_PLAIN_TEXT = re.compile(r"[\w\s.,()<>=!\[\]+*%-]*", re.ASCII)
"""Characters allowed around constants: no other quotes, no comments, no template characters."""
_NUMBER = re.compile(r"(?<![\w.])\d{1,18}(?![\w.])", re.ASCII)
_HOLE = "\0"
_LOOKING = {"contains", "starts_with", "ends_with", "array_has", "array_has_any", "array_has_all"}
"""Functions whose last argument is an arbitrary search value."""

_Constant = int | str
_Values = Sequence[Any]
_Maker = Callable[[_Values], Expression]


@dataclass(frozen=True, slots=True)
class _Slot:
    """A place in a tree for a constant.

    Attributes:
        value: The constant that the parsed text has there.
        low: Least number that stays of the same type there; None for a text.
        high: The greatest.
    """

    value: _Constant
    low: int = 0
    high: int = 0


@dataclass(frozen=True, slots=True)
class _Template:
    """The tree of a shape without some of its constants.

    Attributes:
        make: The tree of the constants of all slots.
        slots: In the order in which `make` takes them.
        places: Which constant of a text each slot takes, ascending.
        fixed: Constants that have to be these: number and value.
    """

    make: _Maker
    slots: tuple[_Slot, ...]
    places: tuple[int, ...]
    fixed: tuple[tuple[int, _Constant], ...]

    def fill(self, constants: Sequence[_Constant]) -> Expression | None:
        """Return the tree of a filter of this shape; None if another constant would change its structure."""
        if any(constants[number] != value for number, value in self.fixed):
            return None
        values = [constants[place] for place in self.places]
        for slot, value in zip(self.slots, values, strict=True):
            if isinstance(value, int) and not slot.low <= value <= slot.high:
                return None
        return self.make(values)


@dataclass(frozen=True, slots=True)
class _Shape:
    """What is known of a shape.

    Attributes:
        templates: Those that were proved. None when it was seen once: it may be the only time, and a template
            costs a second parsing. Empty when nothing can be done: the shape is not looked at again.
    """

    templates: tuple[_Template, ...] | None


class KeptFilters:
    """Filters of one schema.

    Threads may share it: what two of them find out at once is the same.

    Args:
        schema: The columns that filters may name.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._parsed: Cache[str, Expression] = Cache("filters", _MOST)
        self._shapes: Cache[str, _Shape] = Cache("filter shapes", _MOST)

    def parse(self, sql: str) -> Expression:
        """See `parse_filter`; the same text gives the same object for a while.

        Raises:
            PredicateError: See there.
        """
        found = self._parsed.get(sql)
        if found is not None:
            return found
        if len(sql) > _LONGEST or depends_on_day(sql):
            return parse_filter(sql, self.schema)
        found = self._parse(sql)
        self._parsed.put(sql, found, _CHARACTER_BYTES * len(sql))
        return found

    def _parse(self, sql: str) -> Expression:
        plain = split_constants(sql)
        if plain is None:
            return parse_filter(sql, self.schema)
        shape, constants = plain
        known = self._shapes.get(shape)
        templates = () if known is None else known.templates
        for template in templates or ():
            filled = template.fill(constants)
            if filled is not None:
                return filled
        parsed = parse_filter(sql, self.schema)
        if known is None:
            self._shapes.put(shape, _Shape(None), _CHARACTER_BYTES * len(shape))
        elif templates is None or 0 < len(templates) < _MOST_OF_SHAPE:
            template_of = self._template(parsed, shape, constants)
            found = () if template_of is None else (*(templates or ()), template_of)
            self._shapes.put(shape, _Shape(found), _CHARACTER_BYTES * len(shape) * (1 + len(found)))
        return parsed

    def _template(self, parsed: Expression, shape: str, constants: Sequence[_Constant]) -> _Template | None:
        """Return the template of a shape; None if there is none, or a second filter proves it wrong."""
        slots: list[_Slot] = []
        make = _maker(parsed, slots)
        places: list[int] = []
        for slot in slots:
            first = places[-1] + 1 if places else 0
            same = (at for at in range(first, len(constants)) if _is_same(constants[at], slot.value))
            place = next(same, None)
            if place is None:
                return None
            places.append(place)
        if not places:
            return None
        fixed = tuple((at, value) for at, value in enumerate(constants) if at not in places)
        template = _Template(make, tuple(slots), tuple(places), fixed)
        others = [*constants]
        for place, other in zip(places, _others(constants, places), strict=True):
            others[place] = other
        try:
            proof = parse_filter(join_constants(shape, others), self.schema)
        except PredicateError:
            return None
        same_tree = template.fill(constants) == parsed and template.fill(others) == proof
        return template if same_tree else None


def split_constants(sql: str) -> tuple[str, list[_Constant]] | None:
    """Return the shape of a filter, and its integers and strings in order; None where that takes a parser."""
    if _HOLE in sql:
        return None
    parts = sql.split("'")
    if len(parts) % 2 == 0:
        return None
    constants: list[_Constant] = []
    around = []
    for number in range(0, len(parts), 2):
        text = parts[number]
        last = number + 1 == len(parts)
        # A quote after a letter has another meaning, and two quotes are one inside of a string.
        if not _PLAIN_TEXT.fullmatch(text) or "--" in text or (not last and _ends_in_word(text, number)):
            return None
        constants += map(int, _NUMBER.findall(text))
        around.append(_NUMBER.sub(_HOLE, text))
        if not last:
            if '"' in parts[number + 1] or "\\" in parts[number + 1]:
                return None
            constants.append(parts[number + 1])
    return ("'".join(around), constants) if len(constants) <= _MOST_CONSTANTS else None


def _ends_in_word(text: str, number: int) -> bool:
    return text[-1:].isalnum() or text[-1:] == "_" or (not text and number > 0)


def join_constants(shape: str, constants: Sequence[_Constant]) -> str:
    """Return the text of a shape with some constants; numbers without a sign, strings without quotes."""
    remaining = iter(constants)
    written = [
        re.sub(_HOLE, lambda _: str(next(remaining)), part) if number == 0 else part
        for number, part in enumerate(shape.split("'"))
    ]
    for number, part in enumerate(written[1:], 1):
        text = next(remaining)
        written[number] = f"'{text}'" + re.sub(_HOLE, lambda _: str(next(remaining)), part)
    return "".join(written)


def _is_same(one: _Constant, other: _Constant) -> bool:
    return type(one) is type(other) and one == other


def _others(constants: Sequence[_Constant], places: Sequence[int]) -> Iterator[_Constant]:
    """Return for each constant a different one of the same kind, all distinct, valid for every type."""
    numbers = (number for number in range(1, 127) if number not in constants)
    texts = (text for text in (f"t{number}" for number in range(1 << 10)) if text not in constants)
    return (next(numbers) if isinstance(constants[place], int) else next(texts) for place in places)


def _maker(node: Expression, slots: list[_Slot]) -> _Maker:
    """Return a function that builds this tree from the constants of its slots, which are added in order."""
    before = len(slots)
    make: _Maker | None = None
    if type(node) is And or type(node) is Or:
        make = _maker_of_parts(type(node), [_maker(part, slots) for part in node.operands])
    elif type(node) is Not:
        make = _maker_of_not(_maker(node.operand, slots))
    elif type(node) is Comparison and type(node.right) is Literal:
        make = _maker_of_comparison(node, node.right, slots)
    elif type(node) is Function and node.name in _LOOKING and type(node.arguments[-1]) is Literal:
        make = _maker_of_call(node, node.arguments[-1], slots)
    return (lambda _: node) if make is None or len(slots) == before else make


def _maker_of_parts(kind: type[And | Or], makers: Sequence[_Maker]) -> _Maker:
    return lambda values: kind(tuple([make(values) for make in makers]))


def _maker_of_not(make: _Maker) -> _Maker:
    return lambda values: Not(make(values))


def _maker_of_comparison(node: Comparison, constant: Literal, slots: list[_Slot]) -> _Maker | None:
    kind, value, operand = constant.type, constant.value, node.left
    if kind != operand.type or type(operand) is Literal:
        return None
    if kind == UTF8 and type(value) is str:
        slot = _Slot(value)
    elif type(value) is int and kind in INTEGER_LIMITS and (type(operand) is Column or kind == INT64):
        # Except next to a column, numbers have 64 bits, and the other operand is converted if needed.
        slot = _Slot(value, *INTEGER_LIMITS[kind])
    else:
        return None
    place, op = len(slots), node.op
    slots.append(slot)
    return lambda values: Comparison(op, operand, Literal(values[place], kind))


def _maker_of_call(node: Function, constant: Literal, slots: list[_Slot]) -> _Maker | None:
    value, kind, first = constant.value, constant.type, len(slots)
    rest = node.arguments[:-1]
    if any(type(argument) is Literal for argument in rest):
        return None
    if kind == UTF8 and type(value) is str:
        slots.append(_Slot(value))
        return lambda values: Function(node.name, (*rest, Literal(values[first], kind)), node.type)
    if is_list(kind) and kind.value_type == UTF8 and value and all(type(item) is str for item in value):
        slots += [_Slot(item) for item in value]
        last = len(slots)
        return lambda values: Function(
            node.name, (*rest, Literal(tuple(values[first:last]), kind)), node.type
        )
    return None
