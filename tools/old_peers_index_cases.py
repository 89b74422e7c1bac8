"""What is indexed in the tables that `old_peers_indices.py` exchanges, and what is asked about it."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

Row = dict[str, Any]

LATE = "twice"
"""A column that is added to tables which exist already."""
DIMENSION = 8
NEAR = 10
WORDS = ("amber", "birch", "cedar", "delta", "falcon", "garnet", "harbor", "indigo", "juniper", "kestrel")
LABELS = ("red", "green", "blue", "grey", "pink")


@dataclass(frozen=True)
class Question:
    """Something to ask about a table.

    Attributes:
        ask: As both sides take it: `filter`, or `text` and `column`, or `nearest` and `column`.
        answer: The ids, given the rows that are live; those of nearest vectors in their order.
    """

    ask: Mapping[str, Any]
    answer: Callable[[Sequence[Row]], list[int]]

    @property
    def name(self) -> str:
        """For messages."""
        return str(self.ask.get("filter") or self.ask.get("text") or "the nearest vectors")


@dataclass(frozen=True)
class ColumnCase:
    """An indexed column.

    Attributes:
        type: Of its values.
        value: That of a row, by its number.
        questions: What is asked about it.
    """

    type: pa.DataType
    value: Callable[[int], Any]
    questions: tuple[Question, ...]


@dataclass(frozen=True)
class Variant:
    """A table under indices of one kind.

    Attributes:
        name: In the document.
        kind: Of its indices.
        columns: The indexed columns.
        parameters: Of the index, as both sides take them.
        stable: Whether the table has stable row ids.
        ours: Parameters that lance_ops takes besides, for what most releases read.
    """

    name: str
    kind: str
    columns: Mapping[str, ColumnCase]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    stable: bool = False
    ours: Mapping[str, Any] = field(default_factory=dict)

    @property
    def schema(self) -> pa.Schema:
        """Of the table."""
        fields: dict[str, pa.DataType] = {"id": pa.int64()}
        fields.update({name: column.type for name, column in self.columns.items()})
        return pa.schema({**fields, LATE: pa.int64()})

    def rows(self, start: int, stop: int) -> list[Row]:
        """Rows by their numbers."""
        return [
            {"id": row, LATE: row * 2} | {name: column.value(row) for name, column in self.columns.items()}
            for row in range(start, stop)
        ]

    def table(self, rows: Sequence[Row]) -> pa.Table:
        """The rows in the types of `schema`."""
        arrays = []
        for one in self.schema:
            values = [row[one.name] for row in rows]
            days = one.type == pa.date32()
            arrays.append(pa.array(values, pa.int32()).cast(one.type) if days else pa.array(values, one.type))
        return pa.table(arrays, self.schema)


def _filter(sql: str, matches: Callable[[Row], Any]) -> Question:
    return Question({"filter": sql}, lambda rows: sorted(row["id"] for row in rows if matches(row)))


def _text(column: str, words: str) -> Question:
    wanted = set(words.split())

    def answer(rows: Sequence[Row]) -> list[int]:
        texts = ((row["id"], row[column]) for row in rows)
        return sorted(number for number, text in texts if text and not wanted.isdisjoint(text.split()))

    return Question({"text": words, "column": column}, answer)


def _nearest(column: str, seed: int) -> Question:
    query = np.array(_vector(seed), np.float32)

    def answer(rows: Sequence[Row]) -> list[int]:
        there = [row for row in rows if row[column] is not None]
        vectors = np.array([row[column] for row in there], np.float32)
        order = np.argsort(((vectors - query) ** 2).sum(axis=1), kind="stable")[:NEAR]
        return [there[int(number)]["id"] for number in order]

    return Question({"nearest": [float(value) for value in query], "column": column}, answer)


@cache
def _vector(seed: int) -> list[float]:
    return [float(value) for value in np.random.default_rng(seed).normal(size=DIMENSION).astype(np.float32)]


def _words(row: int) -> str | None:
    # Of three words in ten each text has two: neighbours in the list, and one from elsewhere.
    return None if row % 11 == 0 else f"{WORDS[row % 10]} {WORDS[row * 7 // 3 % 10]}"


def _number(row: int) -> int | None:
    return None if row % 7 == 0 else row * 7919 % 1000 - 500


def _user(row: int) -> str | None:
    return None if row % 11 == 0 else "" if row % 5 == 0 else f"k{row * 13 % 900:03d}"


def _labels(row: int) -> list[str] | None:
    return None if row % 9 == 0 else [LABELS[row % 5], LABELS[row // 5 % 5]][: row % 3]


def _has(name: str, *values: str) -> Callable[[Row], bool]:
    return lambda row: row[name] is not None and set(values) <= set(row[name])


_I = ColumnCase(
    pa.int64(),
    _number,
    (
        _filter("i = 0", lambda row: row["i"] == 0),
        _filter("i < -450", lambda row: row["i"] is not None and row["i"] < -450),
        _filter("i IS NULL", lambda row: row["i"] is None),
    ),
)
_S = ColumnCase(
    pa.string(),
    _user,
    (
        _filter("s = ''", lambda row: row["s"] == ""),
        _filter("s = 'k013'", lambda row: row["s"] == "k013"),
        _filter("s IS NULL", lambda row: row["s"] is None),
    ),
)
SORTED = {
    "i": _I,
    "n": ColumnCase(
        pa.int32(),
        lambda row: row * 31 % 5000,
        (_filter("n = 31", lambda row: row["n"] == 31), _filter("n >= 4990", lambda row: row["n"] >= 4990)),
    ),
    "s": _S,
    "f": ColumnCase(
        pa.float64(),
        lambda row: None if row % 13 == 0 else (row * 17 % 4000) / 4 - 500,
        (
            _filter("f < -495.5", lambda row: row["f"] is not None and row["f"] < -495.5),
            _filter("f IS NULL", lambda row: row["f"] is None),
        ),
    ),
    "b": ColumnCase(
        pa.bool_(),
        lambda row: None if row % 9 == 0 else row % 17 == 0,
        (
            _filter("b = true", lambda row: row["b"] is True),
            _filter("b IS NULL", lambda row: row["b"] is None),
        ),
    ),
    "ts": ColumnCase(
        pa.timestamp("us"),
        lambda row: None if row % 10 == 0 else row * 1000,
        (
            _filter(
                "ts < timestamp '1970-01-01 00:00:00.200'",
                lambda row: row["ts"] is not None and row["ts"] < 200_000,
            ),
            _filter("ts IS NULL", lambda row: row["ts"] is None),
        ),
    ),
    "d": ColumnCase(
        pa.date32(),
        lambda row: None if row % 10 == 1 else row % 300,
        (
            _filter("d = date '1970-02-10'", lambda row: row["d"] == 40),
            _filter("d IS NULL", lambda row: row["d"] is None),
        ),
    ),
    LATE: ColumnCase(
        pa.int64(),
        lambda row: row * 2,
        (
            _filter(f"{LATE} = 5002", lambda row: row[LATE] == 5002),
            _filter(f"{LATE} >= 10390", lambda row: row[LATE] >= 10_390),
        ),
    ),
}
_LISTS = ColumnCase(
    pa.list_(pa.string()),
    _labels,
    (
        _filter("array_has_all(l, ['red', 'blue'])", _has("l", "red", "blue")),
        _filter("array_has_any(l, ['pink'])", _has("l", "pink")),
    ),
)
_TEXTS = ColumnCase(pa.string(), _words, (_text("w", "amber"), _text("w", "falcon juniper")))
_GRAMS = ColumnCase(
    pa.string(),
    _words,
    (
        _filter("contains(g, 'arnet')", lambda row: row["g"] is not None and "arnet" in row["g"]),
        _filter("contains(g, 'nothing')", lambda row: "nothing" in (row["g"] or "")),
    ),
)
_JSON = ColumnCase(
    pa.json_(),
    lambda row: None if row % 11 == 0 else json.dumps({"a": row * 13 % 900}),
    (
        _filter("json_get_int(j, 'a') = 13", lambda row: row["j"] == '{"a": 13}'),
        _filter("json_get_int(j, 'a') < 5", lambda row: row["j"] and json.loads(row["j"])["a"] < 5),
    ),
)
_VECTORS = ColumnCase(
    pa.list_(pa.float32(), DIMENSION),
    lambda row: None if row % 50 == 7 else _vector(row),
    (_nearest("v", 1_000_001), _nearest("v", 1_000_002), _nearest("v", 1_000_003)),
)
_IVF: Mapping[str, Any] = {"num_partitions": 2}

VARIANTS = (
    Variant("BTREE", "BTREE", SORTED),
    Variant("BTREE, stable row ids", "BTREE", SORTED, stable=True),
    Variant("BITMAP", "BITMAP", SORTED),
    Variant("LABEL_LIST", "LABEL_LIST", {"l": _LISTS}),
    Variant("INVERTED", "INVERTED", {"w": _TEXTS}, ours={"format_version": 1}),
    Variant("NGRAM", "NGRAM", {"g": _GRAMS}),
    Variant("ZONEMAP", "ZONEMAP", {"i": _I, "s": _S}),
    Variant("BLOOMFILTER", "BLOOMFILTER", {"i": _I, "s": _S}),
    Variant("JSON", "JSON", {"j": _JSON}, {"path": "a", "target": "btree"}),
    Variant("IVF_FLAT", "IVF_FLAT", {"v": _VECTORS}, _IVF),
    Variant("IVF_PQ", "IVF_PQ", {"v": _VECTORS}, {**_IVF, "num_sub_vectors": DIMENSION}),
    Variant("IVF_HNSW_SQ", "IVF_HNSW_SQ", {"v": _VECTORS}, _IVF),
)
