"""A table with a column for every kind of index, and conditions on each of them."""

import json
import random
from collections.abc import Callable
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
        ours: Parameters here.
        theirs: How the peer builds it: the name of its call, and what it is given.
        conditions: Makes a random condition on the column, given its present name.
        version_with_ids: Whether the peer can build it over stable row ids.
    """

    column: str
    kind: str
    theirs: tuple[str, dict[str, Any]]
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


EVERY = (
    Indexed("i", "BTREE", ("scalar", {"index_type": "BTREE"}), conditions=_number),
    Indexed("s", "BITMAP", ("scalar", {"index_type": "BITMAP"}), conditions=_label),
    Indexed("l", "LABEL_LIST", ("scalar", {"index_type": "LABEL_LIST"}), conditions=_labels),
    Indexed(
        "z",
        "ZONEMAP",
        ("scalar", {"index_type": "ZONEMAP", "rows_per_zone": 16}),
        {"rows_per_zone": 16},
        _float,
    ),
    Indexed("f", "BLOOMFILTER", ("scalar", {"index_type": "BLOOMFILTER"}), conditions=_user),
    Indexed("t", "NGRAM", ("scalar", {"index_type": "NGRAM"}), conditions=_text),
    Indexed("j", "JSON", ("json", {"path": "a", "target": "btree"}), {"path": "a", "target": "btree"}, _json),
    Indexed("w", "INVERTED", ("scalar", {"index_type": "INVERTED"})),
    Indexed(
        "v",
        "IVF_FLAT",
        ("vector", {"index_type": "IVF_FLAT", "metric": "l2", "num_partitions": 2}),
        {"metric": "l2", "num_partitions": 2},
    ),
)


def rows(first_id: int, count: int, seed: int) -> pa.Table:
    """Random rows with ids from `first_id` on; every column but the id has nulls."""
    rng = random.Random(seed)

    def maybe(make: Callable[[], Any], share: float = 0.1) -> list[Any]:
        return [None if rng.random() < share else make() for _ in range(count)]

    def text() -> str:
        return " ".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 7)))

    floats = maybe(lambda: float("nan") if rng.random() < 0.05 else rng.randrange(-20, 20) / 4)
    vectors = maybe(lambda: np.array([rng.gauss(0, 1) for _ in range(DIMENSION)], np.float32).tolist())
    return pa.table(
        {
            "id": pa.array(range(first_id, first_id + count), pa.int64()),
            "i": pa.array(maybe(lambda: rng.randrange(30)), pa.int64()),
            "s": pa.array(maybe(lambda: rng.choice(LABELS)), pa.string()),
            "l": pa.array(
                maybe(lambda: [rng.choice([*LABELS, None]) for _ in range(rng.randrange(4))]),
                pa.list_(pa.string()),
            ),
            "z": pa.array(floats, pa.float64()),
            "f": pa.array(maybe(lambda: f"user{rng.randrange(60)}"), pa.string()),
            "t": pa.array(maybe(text), pa.string()),
            "j": pa.array(
                maybe(lambda: json.dumps({"a": rng.randrange(10)} if rng.random() < 0.9 else {"b": 1})),
                pa.json_(),
            ),
            "w": pa.array(maybe(text), pa.string()),
            "v": pa.array(vectors, pa.list_(pa.float32(), DIMENSION)),
        }
    )
