"""Words of JSON documents, as pylance has them: the path of each value, its type, and a word of it.

`{"a": {"b": "red apples", "n": [1, true]}}` has the words `a.b,str,red`, `a.b,str,appl`, `a.n,number,1` and
`a.n,bool,true`. Items of arrays have the path of the array. Strings are cut into words as those of other
columns; positions count the words of a document that are kept. A query is made of such triples, with `;`
between them, and its strings are cut into words, too: `a.b,str,red apples;a.n,number,1`.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from lance_ops.encoding.values.jsonb import number_text
from lance_ops.errors import InvalidArgumentError

TEXT, JSON = "text", "json"
"""Values of `lance_tokenizer`: what the values of a column are."""

_STRING = "str"
_WHOLE = ("number", "bool", "null")
_BETWEEN, _PARTS = ";", 3
_GREATEST_POWER = 308


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value in a document, or a part of a query.

    Attributes:
        document: Number of the document.
        prefix: Path and type, with a comma behind each.
        value: The value as text.
        is_text: True if it is cut into words; other values are words.
    """

    document: int
    prefix: str
    value: str
    is_text: bool


def document_leaves(documents: pa.Array) -> list[Leaf]:
    """Return the values of documents, in their order.

    Args:
        documents: JSON as strings; nulls have none.

    Raises:
        InvalidArgumentError: A document is no JSON, or nested too deep.
    """
    found = []
    for number, text in enumerate(documents.to_pylist()):
        if text is None:
            continue
        try:
            value = _DECODER.decode(text)
        except (ValueError, RecursionError) as error:
            raise InvalidArgumentError(f"a JSON document cannot be read: {error}", field="column") from error
        found += [Leaf(number, *leaf) for leaf in _leaves(value)]
    return found


def query_leaves(text: str) -> list[Leaf]:
    """Return the parts of a query.

    Raises:
        InvalidArgumentError: A part has no path or type.
    """
    found = []
    for part in text.split(_BETWEEN):
        path, *rest = part.split(",", _PARTS - 1)
        if len(rest) != _PARTS - 1 or rest[0] not in (_STRING, *_WHOLE):
            raise InvalidArgumentError(
                f"{part!r} is not a query for JSON documents",
                field="full_text_query",
                hint="write path,type,words with str, number, bool or null as the type, "
                "such as 'a.b,str,red apple;a.n,number,1'",
            )
        kind, value = rest
        found.append(Leaf(0, f"{path},{kind},", value, kind == _STRING))
    return found


def prefix_of(word: str) -> str:
    """Return path and type of a word of a document, with the commas behind them."""
    path, kind, _ = word.split(",", _PARTS - 1)
    return f"{path},{kind},"


def _leaves(value: object) -> Iterator[tuple[str, str, bool]]:
    """Prefix and text of each value, and whether it is a text."""
    open_values = [("", value)]
    while open_values:
        path, value = open_values.pop()
        match value:
            case dict():
                inner = [(f"{path}.{name}" if path else name, member) for name, member in value.items()]
                open_values += reversed(inner)
            case list():
                open_values += [(path, item) for item in reversed(value)]
            case str():
                yield f"{path},{_STRING},", value, True
            case bool():
                yield f"{path},bool,", "true" if value else "false", False
            case None:
                yield f"{path},null,", "null", False
            case int() | float():
                yield f"{path},number,", number_text(value), False


def _float(literal: str) -> float:
    """Number that pylance takes a literal for: the digits as one number, times a power of ten.

    The product is rounded, so that it may be a neighbour of the number that is closest to the literal.
    """
    digits, _, exponent = literal.removeprefix("-").lower().partition("e")
    whole, _, decimals = digits.partition(".")
    value, power = float(int(whole + decimals)), int(exponent or 0) - len(decimals)
    while power < -_GREATEST_POWER and value:
        value /= float(f"1e{_GREATEST_POWER}")
        power += _GREATEST_POWER
    value = value * float(f"1e{power}") if power >= 0 else value / float(f"1e{-power}")
    return -value if literal.startswith("-") else value


def _integer(literal: str) -> float:
    number = int(literal)
    return number if -(1 << 63) <= number < 1 << 64 and literal != "-0" else _float(literal)


_DECODER = json.JSONDecoder(parse_float=_float, parse_int=_integer)
