"""Values of the types that conditions compare, with the kinds of index that take them."""

import datetime as dt
import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from tests.index.oracle.columns import ZONE, Indexed, scalar

DAY_ZERO = dt.date(1969, 12, 20)
TIME_ZERO = dt.datetime(1969, 12, 31, 23, 59, 50, tzinfo=dt.UTC)


@dataclass(frozen=True)
class ValueType:
    """A type of values.

    Attributes:
        type: Of Arrow.
        values: What a column holds.
        literal: A value as conditions write it.
        kinds: Kinds of index on it that both libraries build.
    """

    type: pa.DataType
    values: tuple[Any, ...]
    literal: Callable[[Any], str]
    kinds: tuple[str, ...] = ("BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER")


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


_SORTED = ("BTREE", "BITMAP", "ZONEMAP")
_BYTES = (b"", b"\0", b"a", b"ab", b"abc", b"b" * 40, b"\xff", b"\xff\xff")
_TIMES = tuple(TIME_ZERO + dt.timedelta(milliseconds=n * 1500) for n in range(20))
_TEXTS = ("", "a", "ab", "b", "B", "é", "z" * 60, "\U0001f600", "user's", "50%")

VALUES = {
    "decimals": ValueType(
        pa.decimal128(10, 2),
        tuple(Decimal(n) / 4 for n in range(-12, 12)),
        lambda value: f"CAST('{value:.2f}' AS DECIMAL(10, 2))",
        _SORTED,
    ),
    "days": ValueType(
        pa.date32(), tuple(DAY_ZERO + dt.timedelta(n) for n in range(25)), lambda value: f"date '{value}'"
    ),
    "timestamps": ValueType(
        pa.timestamp("us"),
        tuple(time.replace(tzinfo=None) for time in _TIMES),
        lambda value: f"timestamp '{value.isoformat(sep=' ')}'",
    ),
    "timestamps of a zone": ValueType(
        pa.timestamp("ms", "UTC"), _TIMES, lambda value: f"timestamp '{value.isoformat()}'"
    ),
    "half floats": ValueType(
        pa.float16(),
        (*(np.float16(n / 4) for n in range(-9, 9)), np.float16("nan"), np.float16("inf")),
        lambda value: str(float(value)),
        _SORTED,
    ),
    "large texts": ValueType(pa.large_string(), _TEXTS, _quoted),
    "bytes": ValueType(pa.binary(), _BYTES, lambda value: f"X'{value.hex()}'"),
    "bytes of one length": ValueType(
        pa.binary(2),
        (b"\0\0", b"\0a", b"a\0", b"ab", b"\xff\xff"),
        lambda value: f"X'{value.hex()}'",
        _SORTED,
    ),
    "booleans": ValueType(pa.bool_(), (True, False), lambda value: str(value).lower(), _SORTED),
    "small integers": ValueType(pa.int8(), tuple(range(-128, 128, 15)), str),
    "unsigned": ValueType(pa.uint64(), (0, 1, 2**31, 2**53, 2**53 + 1, 2**63 - 1), str),
    "floats": ValueType(
        pa.float32(), (*(n / 4 for n in range(-9, 9)), float("nan"), float("inf"), -0.0), str
    ),
}

FORMS = (
    "{c} = {a}",
    "{c} != {a}",
    "{c} < {a}",
    "{c} <= {a}",
    "{c} > {a}",
    "{c} >= {a}",
    "{c} IN ({a}, {b})",
    "{c} NOT IN ({a}, {b})",
    "{c} BETWEEN {a} AND {b}",
    "{c} = {a} OR {c} IS NULL",
    "NOT ({c} > {a}) AND {c} != {b}",
    "{c} IS NULL",
    "{c} IS NOT NULL",
)


def indexed(name: str, kind: str) -> Indexed:
    """A column of a type with an index of a kind."""
    chosen = VALUES[name]
    finite = [value for value in chosen.values if str(value) not in ("nan", "inf")]

    def condition(rng: random.Random, column: str) -> str:
        one, other = (chosen.literal(rng.choice(finite)) for _ in range(2))
        return rng.choice(FORMS).format(c=column, a=one, b=other)

    ours: dict[str, Any] = ZONE if kind == "ZONEMAP" else {}
    value = partial(_choose, chosen.values)
    return Indexed("x", kind, scalar(kind, **ours), chosen.type, value, ours, condition)


def _choose(values: tuple[Any, ...], rng: random.Random) -> Any:
    return rng.choice(values)
