"""A table with a column for every kind of index, and conditions on each of them."""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

WORDS = [
    "amber",
    "birch",
    "cedar",
    "delta",
    "ember",
    "falcon",
    "garnet",
    "harbor",
    "indigo",
    "juniper",
    "kestrel",
    "lagoon",
]
LABELS = ["red", "green", "blue", "grey", "pink"]
DIMENSION = 8


@dataclass(frozen=True)
class Indexed:
    """A column and the index on it.

    Attributes:
        column: Its name, by which it is found again when it is renamed.
        kind: Name of the kind here.
        theirs: How the peer builds it: the name of its call, and what it is given.
        type: Of its values.
        value: Makes a random value; nulls come on top.
        ours: Parameters here.
        conditions: Makes a random condition on the column, given its present name.
    """

    column: str
    kind: str
    theirs: tuple[str, dict[str, Any]]
    type: pa.DataType
    value: Callable[[random.Random], Any]
    ours: dict[str, Any] = field(default_factory=dict)
    conditions: Callable[[random.Random, str], str] | None = None


def _number(rng: random.Random, name: str) -> str:
    value = rng.randrange(-2, 33)
    return rng.choice(
        [
            f"{name} = {value}",
            f"{name} != {value}",
            f"{name} < {value}",
            f"{name} >= {value}",
            f"{name} IN ({value}, {value + 7}, 5)",
            f"{name} NOT IN ({value}, 5)",
            f"{name} BETWEEN {value} AND {value + 4}",
            f"{name} IS NULL",
            f"{name} IS NOT NULL",
        ]
    )


def _label(rng: random.Random, name: str) -> str:
    value = rng.choice([*LABELS, "none"])
    return rng.choice(
        [
            f"{name} = '{value}'",
            f"{name} != '{value}'",
            f"{name} < '{value}'",
            f"{name} IN ('{value}', 'red')",
            f"{name} NOT IN ('{value}')",
            f"{name} IS NULL",
            f"{name} IS NOT NULL",
            f"{name} LIKE '{value[:2]}%'",
        ]
    )


def _labels(rng: random.Random, name: str) -> str:
    one, other = rng.choice(LABELS), rng.choice([*LABELS, "none"])
    return rng.choice(
        [
            f"array_has({name}, '{one}')",
            f"array_has_any({name}, ['{one}', '{other}'])",
            f"array_has_all({name}, ['{one}', '{other}'])",
            f"{name} IS NULL",
        ]
    )


def _float(rng: random.Random, name: str) -> str:
    value = rng.randrange(-20, 20) / 4
    return rng.choice(
        [
            f"{name} = {value}",
            f"{name} < {value}",
            f"{name} >= {value}",
            f"{name} BETWEEN {value} AND {value + 1}",
            f"{name} IN ({value}, 0.25)",
            f"{name} IS NULL",
            f"{name} IS NOT NULL",
        ]
    )


def _user(rng: random.Random, name: str) -> str:
    value = f"user{rng.randrange(70)}"
    return rng.choice(
        [f"{name} = '{value}'", f"{name} IN ('{value}', 'user3')", f"{name} IS NULL", f"{name} != '{value}'"]
    )


def _text(rng: random.Random, name: str) -> str:
    word = rng.choice(WORDS)
    start = rng.randrange(2)
    part = word[start : start + rng.randrange(2, 6)]
    return rng.choice([f"contains({name}, '{part}')", f"contains({name}, '{word}')", f"{name} IS NULL"])


def _json(rng: random.Random, name: str) -> str:
    value = rng.randrange(12)
    return rng.choice(
        [
            f"json_get_int({name}, 'a') = {value}",
            f"json_get_int({name}, 'a') < {value}",
            f"json_get_int({name}, 'a') IN ({value}, 2)",
        ]
    )


def _text_value(rng: random.Random) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 7)))


def _list_value(rng: random.Random) -> list[str | None]:
    return [rng.choice([*LABELS, None]) for _ in range(rng.randrange(4))]


def _float_value(rng: random.Random) -> float:
    return float("nan") if rng.random() < 0.05 else rng.randrange(-20, 20) / 4


def _json_value(rng: random.Random) -> str:
    return json.dumps({"a": rng.randrange(10)} if rng.random() < 0.9 else {"b": 1})


def _vector_value(rng: random.Random) -> list[float]:
    return [float(np.float32(rng.gauss(0, 1))) for _ in range(DIMENSION)]


VECTOR = pa.list_(pa.float32(), DIMENSION)


def scalar(kind: str, **given: Any) -> tuple[str, dict[str, Any]]:
    """How the peer builds an index that conditions ask."""
    return "scalar", {"index_type": kind, **given}


def vector(kind: str, **given: Any) -> Indexed:
    """A column of vectors and an index of a kind on it."""
    options = {"metric": "l2", "num_partitions": 2, **given}
    return Indexed("v", kind, ("vector", {"index_type": kind, **options}), VECTOR, _vector_value, options)


ZONE = {"rows_per_zone": 16}
EVERY = (
    Indexed("i", "BTREE", scalar("BTREE"), pa.int64(), lambda rng: rng.randrange(30), conditions=_number),
    Indexed("s", "BITMAP", scalar("BITMAP"), pa.string(), lambda rng: rng.choice(LABELS), conditions=_label),
    Indexed("l", "LABEL_LIST", scalar("LABEL_LIST"), pa.list_(pa.string()), _list_value, conditions=_labels),
    Indexed("z", "ZONEMAP", scalar("ZONEMAP", **ZONE), pa.float64(), _float_value, ZONE, _float),
    Indexed(
        "f",
        "BLOOMFILTER",
        scalar("BLOOMFILTER"),
        pa.string(),
        lambda rng: f"user{rng.randrange(60)}",
        conditions=_user,
    ),
    Indexed("t", "NGRAM", scalar("NGRAM"), pa.string(), _text_value, conditions=_text),
    Indexed(
        "j",
        "JSON",
        ("json", {"path": "a", "target": "btree"}),
        pa.json_(),
        _json_value,
        {"path": "a", "target": "btree"},
        _json,
    ),
    Indexed("w", "INVERTED", scalar("INVERTED"), pa.string(), _text_value),
    vector("IVF_FLAT"),
)

APPROXIMATE = (
    vector("IVF_PQ", num_sub_vectors=DIMENSION, num_bits=4),
    vector("IVF_SQ"),
    vector("IVF_HNSW_FLAT"),
    vector("IVF_HNSW_PQ", num_sub_vectors=DIMENSION, num_bits=4),
    vector("IVF_HNSW_SQ"),
)
"""Kinds whose answers are near to those of a scan."""


def rows(first_id: int, count: int, seed: int, indexed: Sequence[Indexed]) -> pa.Table:
    """Random rows with ids from `first_id` on; every column but the id has nulls."""
    rng = random.Random(seed)
    columns: dict[str, pa.Array] = {"id": pa.array(range(first_id, first_id + count), pa.int64())}
    for item in indexed:
        values = [None if rng.random() < 0.1 else item.value(rng) for _ in range(count)]
        columns[item.column] = pa.array(values, item.type)
    return pa.table(columns)
