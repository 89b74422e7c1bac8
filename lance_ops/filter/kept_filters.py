"""Kept filters: those that were parsed last, and their shapes, for texts that differ in constants alone.

Programs ask the same question of other values again and again. What of a text are its constants is told
without a parser, where it is plain; the rest is its shape. Of a shape that was parsed it is known where in
the tree its constants stand, as far as their values change nothing but themselves: whole numbers and texts
that a column or a call of their very type is compared with, and those that a few functions look for. The
tree of another text of the shape is then made by putting its constants there.
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
"""Templates of one shape: they differ in constants that have to stay, such as paths in documents."""

_PLAIN_TEXT = re.compile(r"[\w\s.,()<>=!\[\]+*%-]*", re.ASCII)
"""What may stand around constants: no other quotes, no comments, no signs of templates."""
_NUMBER = re.compile(r"(?<![\w.])\d{1,18}(?![\w.])", re.ASCII)
_HOLE = "\0"
_LOOKING = {"contains", "starts_with", "ends_with", "array_has", "array_has_any", "array_has_all"}
"""Functions whose last argument is a value to look for, whatever it is."""

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
        """The tree of a text of this shape; None when another constant would change more than itself."""
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
        """The template of a shape; None when it is of no use, or a second text shows it to be wrong."""
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
    """The shape of a filter, and its whole numbers and texts in order; None where that takes a parser."""
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
        # A quote behind a letter has another meaning, and two quotes are one inside of a text.
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
    """The text of a shape with some constants; numbers without a sign, texts without quotes."""
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
    """For each of some constants another one of its kind, none twice: numbers that every type has."""
    numbers = (number for number in range(1, 127) if number not in constants)
    texts = (text for text in (f"t{number}" for number in range(1 << 10)) if text not in constants)
    return (next(numbers) if isinstance(constants[place], int) else next(texts) for place in places)


def _maker(node: Expression, slots: list[_Slot]) -> _Maker:
    """What makes a tree like this one of the constants of its slots, which are added in their order."""
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
        # Beside anything but a column, a number is of 64 bits, and what is beside it converted if need be.
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
