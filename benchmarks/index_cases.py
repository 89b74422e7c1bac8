"""The cases of indices: each kind built, refreshed, moved along with a compaction, and asked."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

import lance_ops as lo
from benchmarks.cases import write
from benchmarks.pairing import Case

ROWS = 1_000_000
VECTORS = 200_000
DIMENSION = 128
FRAGMENTS = 10
APPENDED = 0.05
WORDS = 20_000
QUESTIONS = 400
"""Different ones of a column, of which each run asks the next."""


@dataclass(frozen=True)
class IndexedColumn:
    """A column as it is indexed with one kind, on both sides with the same parameters.

    Attributes:
        kind: Name of the kind here.
        values: Makes the values, given how many and a seed.
        ours: Parameters here.
        theirs: What the peer's call is given.
        filter: A selective condition by the number of the question, so that no answer is one that was kept;
            None for what is not asked by one.
        search: Other arguments of `to_table` that ask the index, likewise.
        rows: How many.
        metadata: Of the field, where it says what the values are.
    """

    kind: str
    values: Callable[[int, int], pa.Array]
    ours: dict[str, Any] = field(default_factory=dict)
    theirs: dict[str, Any] = field(default_factory=dict)
    filter: Callable[[int], str] | None = None
    search: Callable[[int], dict[str, Any]] | None = None
    rows: int = ROWS
    metadata: dict[str, str] | None = None

    @property
    def name(self) -> str:
        """For `--only`."""
        return self.kind.lower().replace("_", "-")

    @property
    def is_vector(self) -> bool:
        """Whether the peer builds it with `create_index`."""
        return self.kind.startswith("IVF")


def _integers(rows: int, seed: int) -> pa.Array:
    return pa.array(np.random.default_rng(seed).permutation(rows))


def _categories(rows: int, seed: int) -> pa.Array:
    chosen = np.random.default_rng(seed).integers(0, 1000, rows)
    return pa.array([f"category {number:03d}" for number in chosen])


def _label_lists(rows: int, seed: int) -> pa.Array:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 5, rows)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    labels = pa.array([f"label {number}" for number in range(200)])
    items = labels.take(pa.array(rng.integers(0, 200, int(offsets[-1]))))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items)


def _times(rows: int, seed: int) -> pa.Array:
    """Ascending, as of events that arrive in order."""
    return pa.array(np.cumsum(np.random.default_rng(seed).integers(0, 20, rows)))


def _users(rows: int, seed: int) -> pa.Array:
    return pa.array([f"user-{number:09d}" for number in np.random.default_rng(seed).integers(0, 10**8, rows)])


@cache
def _words() -> tuple[str, ...]:
    """The same for all rows, and for what is asked."""
    rng = np.random.default_rng(2)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    return tuple("".join(rng.choice(letters, length)) for length in rng.integers(3, 10, WORDS))


def _texts(rows: int, seed: int) -> pa.Array:
    rng, words = np.random.default_rng(seed), _words()
    # Few words are frequent, most are rare.
    chosen = (WORDS * rng.random((rows, 12)) ** 3).astype(np.int64)
    return pa.array([" ".join([words[number] for number in line]) for line in chosen.tolist()])


def _documents(rows: int, seed: int) -> pa.Array:
    numbers = np.random.default_rng(seed).integers(0, 10**6, rows).tolist()
    return pa.array([f'{{"a": {number}, "b": "x"}}' for number in numbers], pa.json_())


def _points(rows: int, seed: int) -> pa.Array:
    """Anywhere in a square of 1,000 by 1,000."""
    places = np.random.default_rng(seed).random((2, rows)) * 1000
    fields = [pa.field(name, pa.float64(), nullable=False) for name in "xy"]
    return pa.StructArray.from_arrays([pa.array(line) for line in places], fields=fields)


def _between(number: int) -> str:
    low = (1000 + 4711 * number) % (ROWS - 100)
    return f"c BETWEEN {low} AND {low + 100}"


def _inside(number: int) -> str:
    """A square that holds about nine points."""
    x, y = 7 * number % 990, 11 * number % 990
    corners = ((x, y), (x + 3, y), (x + 3, y + 3), (x, y + 3), (x, y))
    ring = ", ".join(f"{across} {up}" for across, up in corners)
    return f"st_intersects(c, st_geomfromtext('POLYGON(({ring}))'))"


def _vectors(rows: int, seed: int) -> pa.Array:
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(1).normal(size=(200, DIMENSION))
    values = centers[rng.integers(0, 200, rows)] + rng.normal(size=(rows, DIMENSION)) * 0.6
    return pa.FixedSizeListArray.from_arrays(pa.array(values.astype(np.float32).ravel()), DIMENSION)


@cache
def _nearest(number: int) -> dict[str, Any]:
    vector = np.asarray(_vectors(1, 77 + number).values, np.float32)
    return {"nearest": {"column": "c", "q": vector, "k": 10, "nprobes": 20}}


@cache
def _full_text(number: int) -> dict[str, Any]:
    words = _texts(1, 5 + number)[0].as_py().split()
    return {"full_text_query": {"query": " ".join(words[:2]), "columns": ["c"]}, "limit": 10}


_VECTOR = {"metric": "l2", "num_partitions": 128}
_QUANTIZED = {**_VECTOR, "num_sub_vectors": 16}

COLUMNS = (
    IndexedColumn("BTREE", _integers, filter=_between),
    IndexedColumn("BITMAP", _categories, filter=lambda n: f"c = 'category {(17 + n) % 1000:03}'"),
    IndexedColumn(
        "LABEL_LIST",
        _label_lists,
        filter=lambda n: f"array_has_all(c, ['label {(7 + n) % 200}', 'label {(9 + 2 * n) % 200}'])",
    ),
    IndexedColumn(
        "ZONEMAP", _times, filter=lambda n: f"c BETWEEN {100_000 + 7001 * n} AND {101_000 + 7001 * n}"
    ),
    IndexedColumn("BLOOMFILTER", _users, filter=lambda n: f"c = 'user-{12345678 + n:09}'"),
    IndexedColumn(
        "NGRAM", _texts, filter=lambda n: f"contains(c, '{chr(97 + (16 + n // 26) % 26)}{chr(97 + n % 26)}x')"
    ),
    IndexedColumn(
        "JSON",
        _documents,
        {"path": "a", "target": "btree"},
        filter=lambda n: f"json_get_int(c, 'a') = {4711 + n}",
    ),
    IndexedColumn(
        "RTREE",
        _points,
        filter=_inside,
        metadata={"ARROW:extension:name": "geoarrow.point"},
    ),
    IndexedColumn("INVERTED", _texts, {"with_position": False}, {"with_position": False}, search=_full_text),
    IndexedColumn("IVF_FLAT", _vectors, _VECTOR, _VECTOR, search=_nearest, rows=VECTORS),
    IndexedColumn("IVF_PQ", _vectors, _QUANTIZED, _QUANTIZED, search=_nearest, rows=VECTORS),
    IndexedColumn("IVF_SQ", _vectors, _VECTOR, _VECTOR, search=_nearest, rows=VECTORS),
    IndexedColumn("IVF_RQ", _vectors, _VECTOR, _VECTOR, search=_nearest, rows=VECTORS),
    IndexedColumn("IVF_HNSW_SQ", _vectors, _VECTOR, _VECTOR, search=_nearest, rows=VECTORS),
)
SCALARS = ("BTREE", "BITMAP", "LABEL_LIST", "ZONEMAP", "BLOOMFILTER", "NGRAM", "JSON", "INVERTED")


def _table(column: IndexedColumn, rows: int, seed: int) -> pa.Table:
    values = column.values(rows, seed)
    fields = [pa.field("id", pa.int64()), pa.field("c", values.type, metadata=column.metadata)]
    return pa.table([pa.array(np.arange(rows)), values], schema=pa.schema(fields))


def build_ours(path: str, column: IndexedColumn, name: str = "c") -> None:
    """Build it with lance_ops."""
    lo.create_index(path, name, column.kind, parameters=column.ours)


def build_peer(path: str, column: IndexedColumn, name: str = "c") -> None:
    """Build it with pylance."""
    dataset = lance.dataset(path)
    if column.is_vector:
        dataset.create_index(name, column.kind, **column.theirs)
    elif column.kind == "JSON":
        parameters = {"target_index_type": column.ours["target"], "path": column.ours["path"]}
        dataset.create_scalar_index(name, lance.indices.IndexConfig("json", parameters))
    else:
        dataset.create_scalar_index(name, column.kind, **column.theirs)


@cache
def _numbers(kind: str, *, ours: bool) -> "count[int]":
    """Numbers of questions that a side was asked in no run before: filters stay parsed between them."""
    del kind, ours
    return count()


def _ask(path: str, column: IndexedColumn, *, ours: bool, times: int = 1) -> None:
    # The peer warns each time when a search is not asked for its scores.
    scores = [] if column.search is None else ["_distance" if column.is_vector else "_score"]
    dataset = lo.dataset(path) if ours else lance.dataset(path)
    numbers = _numbers(column.kind, ours=ours)
    for _ in range(times):
        number = next(numbers) % QUESTIONS
        asked = {"filter": column.filter(number)} if column.filter else column.search(number)  # type: ignore[misc]
        dataset.to_table(columns=["id", *scores], **asked)


def _of_column(column: IndexedColumn) -> list[Case]:
    @cache
    def plain(path: Path) -> None:
        write(path, _table(column, column.rows, 3), FRAGMENTS)

    @cache
    def indexed(path: Path) -> None:
        plain(path)
        build_peer(str(path), column)
        if column.search is not None:
            # To think of what to look for is nobody's work.
            for number in range(QUESTIONS):
                column.search(number)

    @cache
    def appended(path: Path) -> None:
        indexed(path)
        more = _table(column, int(column.rows * APPENDED), 4)
        lance.write_dataset(more, str(path), mode="append")

    kind, name = column.kind, column.name
    size = f"{column.rows:,} rows"
    return [
        Case(
            f"{name}-build",
            f"{kind}: build on {size}",
            plain,
            partial(build_ours, column=column),
            partial(build_peer, column=column),
        ),
        Case(
            f"{name}-refresh",
            f"{kind}: refresh after {APPENDED:.0%} more rows",
            appended,
            lambda path: lo.optimize_indices(path),
            lambda path: lance.dataset(path).optimize.optimize_indices(),
        ),
        Case(
            f"{name}-compact",
            f"{kind}: compact {FRAGMENTS} fragments into 1 under it",
            indexed,
            lambda path: lo.compact(path),
            lambda path: lance.dataset(path).optimize.compact_files(),
        ),
        Case(
            f"{name}-cold",
            f"{kind}: open and ask it once",
            indexed,
            partial(_ask, column=column, ours=True),
            partial(_ask, column=column, ours=False),
            reads_only=True,
        ),
        Case(
            f"{name}-warm",
            f"{kind}: ask it 20 questions",
            indexed,
            partial(_ask, column=column, ours=True, times=20),
            partial(_ask, column=column, ours=False, times=20),
            reads_only=True,
        ),
    ]


def _under_many(name: str, title: str, kinds: tuple[str, ...], rows: int) -> Case:
    columns = [column for column in COLUMNS if column.kind in kinds]

    def prepare(path: Path) -> None:
        table = {f"c{place}": column.values(rows, 3) for place, column in enumerate(columns)}
        write(path, pa.table(table), 10)
        for place, column in enumerate(columns):
            build_peer(str(path), column, f"c{place}")

    return Case(
        name,
        title,
        prepare,
        lambda path: lo.compact(path, target_rows_per_fragment=rows // 2),
        lambda path: lance.dataset(path).optimize.compact_files(target_rows_per_fragment=rows // 2),
    )


def cases() -> list[Case]:
    """All of them, kind by kind, and compactions under several indices at once."""
    found = [case for column in COLUMNS for case in _of_column(column)]
    found.append(
        _under_many(
            "compact-scalars",
            "compact 10 fragments of 2 M rows into 2 under eight scalar and text indices",
            SCALARS,
            2 * ROWS,
        )
    )
    found.append(
        _under_many(
            "compact-mixed",
            "compact 10 fragments of 200,000 rows into 2 under BTREE, INVERTED and IVF_PQ",
            ("BTREE", "INVERTED", "IVF_PQ"),
            VECTORS,
        )
    )
    return found


def index_bytes(column: IndexedColumn) -> tuple[int, int]:
    """Size of the index on equal rows, here and at the peer."""
    sizes = []
    with tempfile.TemporaryDirectory(prefix="lance-ops-bench-") as folder:
        for build in (build_ours, build_peer):
            path = Path(folder) / build.__name__
            write(path, _table(column, column.rows, 3), FRAGMENTS)
            build(str(path), column)
            sizes.append(
                sum(file.stat().st_size for file in (path / "_indices").rglob("*") if file.is_file())
            )
    return sizes[0], sizes[1]
