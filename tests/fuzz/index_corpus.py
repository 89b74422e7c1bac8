"""Small tables, each under one index: every kind there is, built by us and by the peer."""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
from lance.indices import IndexConfig

import lance_ops as lo
from tests.support import geometries

FIRST, COVERED, ROWS = 24, 48, 56
"""Ends of the two fragments that the indices cover, and of the one that none covers."""
_DIMENSION = 8

Question = Mapping[str, Any]
"""Arguments of a scan."""


@dataclass(frozen=True, slots=True)
class Case:
    """How an index is made and asked.

    Attributes:
        kind: Of the index.
        column: What is indexed.
        questions: What is asked.
        parameters: How it is made.
        exact: Whether what it answers is believed without a look at the rows.
        ours: Whether we can build it.
        theirs: How the peer builds it; None where what it writes is in no way different.
        stable: Whether rows have stable ids.
    """

    kind: str
    column: str
    questions: tuple[Question, ...]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    exact: bool = True
    ours: bool = True
    theirs: Callable[[lance.LanceDataset], object] | None = None
    stable: bool = False


@dataclass(frozen=True, slots=True)
class IndexSample:
    """An undamaged table with an index.

    Attributes:
        name: Kind and builder.
        files: All objects, by their path.
        index_files: Paths of those that are the index's.
        questions: What is asked.
        exact: See `Case`.
    """

    name: str
    files: Mapping[str, bytes]
    index_files: tuple[str, ...]
    questions: tuple[Question, ...]
    exact: bool


def build_index_corpus() -> list[IndexSample]:
    """All of them."""
    with tempfile.TemporaryDirectory() as folder:
        return list(_build(Path(folder)))


def rows_of(numbers: Sequence[int]) -> pa.Table:
    maybe = [None if n % 13 == 4 else n * 7 % 40 for n in numbers]
    vectors = np.array(
        [[n * step % 11 + step for step in range(1, _DIMENSION + 1)] for n in numbers], np.float32
    )
    documents = [None if n % 9 == 4 else json.dumps({"a": n % 10}) for n in numbers]
    columns = {
        "id": pa.array(numbers, pa.int64()),
        "n": pa.array(maybe, pa.int64()),
        "s": [None if n is None else f"k{n:02d}" for n in maybe],
        "labels": [None if n % 11 == 3 else [f"l{n % 4}", f"l{n % 3}"] for n in numbers],
        "words": [f"word{n % 9} alpha{n % 6} beta{n % 2} word{n % 9}" for n in numbers],
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), _DIMENSION),
        "doc": pa.array(documents, pa.json_()),
    }
    table = pa.table(columns)
    places = geometries.values(numbers)
    return table.append_column(places.schema.field("p"), places["p"])


def _filters(*texts: str) -> tuple[Question, ...]:
    return tuple({"filter": text} for text in texts)


_NUMBERS = _filters("n = 14", "n >= 5 and n < 12", "n is null", "n in (0, 7, 14)")
_TEXTS = _filters("s = 'k14'", "s >= 'k10' and s < 'k30'", "s is null")
_NEAREST = tuple(
    {
        "nearest": {
            "column": "vector",
            "q": [float(n * step % 11) for step in range(1, 9)],
            "k": 5,
            "nprobes": 2,
        }
    }
    for n in (3, 17)
)
_WORDS: tuple[Question, ...] = (
    {"full_text_query": "alpha3"},
    {"full_text_query": "word2 beta1 alpha5", "limit": 4},
    {"full_text_query": {"phrase": {"terms": "word4 alpha4", "column": "words"}}},
    {"full_text_query": {"match": {"terms": "alpha", "column": "words", "fuzziness": 1}}},
)
_JSON = _filters("json_get_int(doc, 'a') = 3", "json_get_int(doc, 'a') is null")


def _scalar(column: str, kind: str, **options: Any) -> Callable[[lance.LanceDataset], object]:
    return lambda dataset: dataset.create_scalar_index(column, kind, **options)


def _config(column: str, kind: str, **parameters: Any) -> Callable[[lance.LanceDataset], object]:
    config = IndexConfig(index_type=kind, parameters=parameters)
    return lambda dataset: dataset.create_scalar_index(column, config)


def _vectors(kind: str, **options: Any) -> Callable[[lance.LanceDataset], object]:
    return lambda dataset: dataset.create_index("vector", kind, num_partitions=2, **options)


_PQ: dict[str, Any] = {"num_sub_vectors": 2, "num_bits": 4}
_HNSW: dict[str, Any] = {"m": 4, "ef_construction": 20}
CASES = (
    Case("BTREE", "n", _NUMBERS, theirs=_scalar("n", "BTREE")),
    Case("BTREE", "n", _NUMBERS, stable=True),
    Case("BTREE", "s", _TEXTS),
    Case("BITMAP", "n", _NUMBERS, theirs=_scalar("n", "BITMAP")),
    Case("BITMAP", "s", _TEXTS, stable=True),
    Case(
        "LABEL_LIST",
        "labels",
        _filters("array_has(labels, 'l2')", "array_has_any(labels, ['l0', 'l3'])"),
        theirs=_scalar("labels", "LABEL_LIST"),
    ),
    Case(
        "NGRAM", "words", _filters("contains(words, 'alpha3')"), exact=False, theirs=_scalar("words", "NGRAM")
    ),
    Case(
        "RTREE",
        "p",
        _filters("st_intersects(p, st_point(37, 53))", "p is null"),
        {"page_size": 4},
        theirs=_config("p", "rtree", page_size=4),
    ),
    Case("ZONEMAP", "n", _NUMBERS, {"rows_per_zone": 4}, theirs=_config("n", "zonemap", rows_per_zone=4)),
    Case("ZONEMAP", "s", _TEXTS, {"rows_per_zone": 4}),
    Case(
        "BLOOMFILTER",
        "s",
        _filters("s = 'k14'", "s is null"),
        {"number_of_items": 8},
        theirs=_config("s", "bloomfilter", number_of_items=8),
    ),
    Case(
        "INVERTED",
        "words",
        _WORDS,
        {"with_position": True},
        theirs=_scalar("words", "INVERTED", with_position=True),
    ),
    Case("INVERTED", "words", _WORDS[:2], stable=True),
    Case("MINHASHLSH", "words", (), ours=False, theirs=_scalar("words", "MINHASHLSH")),
    Case("JSON", "doc", _JSON, {"path": "a", "target_index_type": "btree"}),
    Case("JSON", "doc", _JSON, {"path": "a", "target_index_type": "bitmap"}),
    Case("IVF_FLAT", "vector", _NEAREST, {"num_partitions": 2}, theirs=_vectors("IVF_FLAT")),
    Case("IVF_PQ", "vector", _NEAREST, {"num_partitions": 2, **_PQ}, theirs=_vectors("IVF_PQ", **_PQ)),
    Case("IVF_SQ", "vector", _NEAREST, {"num_partitions": 2}, theirs=_vectors("IVF_SQ")),
    Case("IVF_RQ", "vector", _NEAREST, {"num_partitions": 2}, theirs=_vectors("IVF_RQ", num_bits=1)),
    Case(
        "IVF_HNSW_FLAT",
        "vector",
        _NEAREST,
        {"num_partitions": 2, **_HNSW},
        theirs=_vectors("IVF_HNSW_FLAT", **_HNSW),
    ),
    Case("IVF_HNSW_PQ", "vector", _NEAREST, {"num_partitions": 2, **_PQ, **_HNSW}),
    Case(
        "IVF_HNSW_SQ",
        "vector",
        _NEAREST,
        {"num_partitions": 2, **_HNSW},
        theirs=_vectors("IVF_HNSW_SQ", **_HNSW),
    ),
)


def _build(folder: Path) -> Iterator[IndexSample]:
    for number, case in enumerate(CASES):
        for by_peer in (False, True):
            if case.theirs is None if by_peer else not case.ours:
                continue
            uri = folder / f"{number}-{by_peer}"
            columns = ["id", case.column]
            options = {"enable_stable_row_ids": case.stable, "data_storage_version": "2.2"}
            rows = rows_of(range(ROWS)).select(columns)
            lo.write_dataset(rows.slice(0, COVERED), uri, max_rows_per_file=FIRST, **options)
            if by_peer and case.theirs is not None:
                case.theirs(lance.dataset(str(uri)))
            else:
                lo.create_index(uri, case.column, case.kind, parameters=dict(case.parameters))
            lo.delete(uri, "id % 10 = 3")
            lo.append(uri, rows.slice(COVERED))
            files = {
                str(path.relative_to(uri)): path.read_bytes() for path in uri.rglob("*") if path.is_file()
            }
            used = tuple(sorted(path for path in files if path.startswith("_indices/")))
            held, builder = ", row ids" * case.stable, "the peer" if by_peer else "us"
            name = f"{case.kind} on {case.column}{held}, by {builder}"
            yield IndexSample(name, files, used, case.questions, case.exact)
