"""The kinds of columns that `columns.py` measures: one for each way in which values are stored."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

ALL_VERSIONS = ("2.0", "2.1", "2.2")
SINCE_2_1 = ("2.1", "2.2")


@dataclass(frozen=True, slots=True)
class Kind:
    """A column.

    Attributes:
        name: For the report and for `--kinds`.
        build: Makes the values, given how many.
        share: Rows in proportion to those of a narrow column.
        versions: Storage versions that both sides can write it at.
        options: Field metadata.
        several: The values are structs, and each member is a column.
    """

    name: str
    build: Callable[[int], pa.Array]
    share: float = 1.0
    versions: tuple[str, ...] = ALL_VERSIONS
    options: dict[str, str] = field(default_factory=dict)
    several: bool = False

    def table(self, rows: int) -> pa.Table:
        """The values, always the same, for so many rows of a narrow column."""
        if self.several:
            struct = self.build(rows)
            return pa.Table.from_batches([pa.RecordBatch.from_struct_array(struct)])
        array = self.build(max(2, round(rows * self.share) // 2 * 2))
        return pa.table([array], schema=pa.schema([pa.field("c", array.type, metadata=self.options)]))


def _rng() -> np.random.Generator:
    return np.random.default_rng(29)


def _mask(rows: int, share: float) -> np.ndarray:
    return np.random.default_rng(31).random(rows) < share


def _integers(low: int, high: int, dtype: type = np.int64) -> Callable[[int], pa.Array]:
    return lambda rows: pa.array(_rng().integers(low, high, rows, dtype=dtype))


def _nullable(build: Callable[[int], pa.Array], share: float = 0.1) -> Callable[[int], pa.Array]:
    def apply(rows: int) -> pa.Array:
        values = build(rows)
        return pa.compute.if_else(pa.array(~_mask(rows, share)), values, pa.scalar(None, values.type))

    return apply


def _fixed(data_type: pa.DataType, width: int) -> Callable[[int], pa.Array]:
    return lambda rows: pa.Array.from_buffers(
        data_type, rows, [None, pa.py_buffer(_rng().integers(0, 256, rows * width, dtype=np.uint8))]
    )


def _decimals(data_type: pa.DataType, words: int) -> Callable[[int], pa.Array]:
    def build(rows: int) -> pa.Array:
        values = np.zeros((rows, words), dtype=np.int64)
        values[:, 0] = _rng().integers(0, 10**9, rows)
        return pa.Array.from_buffers(data_type, rows, [None, pa.py_buffer(values)])

    return build


def _names(rows: int) -> pa.Array:
    return pa.array([f"user-{value:08d}@example.org" for value in _rng().integers(0, 10**8, rows).tolist()])


def _few_names(rows: int) -> pa.Array:
    words = pa.array(["alpha", "beta", "gamma", "delta", "epsilon"])
    return words.take(pa.array(_rng().integers(0, 5, rows)))


def _uuids(rows: int) -> pa.Array:
    digits = _rng().bytes(16 * rows).hex()
    return pa.array([digits[at : at + 32] for at in range(0, len(digits), 32)])


_WORDS = ("the", "of", "maintenance", "table", "column", "reads", "writes", "quick", "brown", "fox", "and")


def _texts(words: int) -> Callable[[int], pa.Array]:
    def build(rows: int) -> pa.Array:
        picked = _rng().integers(0, len(_WORDS), (rows, words))
        return pa.array([" ".join([_WORDS[number] for number in row]) for row in picked.tolist()])

    return build


_ACCENTED = [
    "voilà",
    "l'été",
    "naïve",
    "größer",
    "Änderung",
    "über",
    "señor",
    "œuvre",
    "and",
    "plain",
    "words",
]


def _sentences(rows: int) -> pa.Array:
    rng = _rng()
    lengths = rng.integers(3, 20, rows).tolist()
    picked = iter(rng.integers(0, len(_ACCENTED), sum(lengths)).tolist())
    return pa.array([" ".join([_ACCENTED[next(picked)] for _ in range(length)]) for length in lengths])


def _urls(rows: int) -> pa.Array:
    numbers = _rng().integers(0, 10**6, (rows, 2)).tolist()
    return pa.array([f"https://example.org/catalogue/{a % 97}/item?id={a}&ref={b:x}" for a, b in numbers])


def _documents(rows: int) -> pa.Array:
    numbers = _rng().integers(0, 10**5, (rows, 2)).tolist()
    return pa.array([f'{{"user": {a}, "tags": ["a", "b{a % 7}"], "score": {b / 100}}}' for a, b in numbers])


def _records(rows: int) -> pa.Array:
    """Members of a table as it is in practice, which is written as columns of their own."""
    members = {
        "id": pa.array(np.arange(rows)),
        "user": _integers(0, 10**6, np.int32)(rows),
        "kind": _few_names(rows),
        "mail": _names(rows),
        "price": pa.array(_rng().integers(0, 10**5, rows) / 100),
        "count": _nullable(_integers(0, 300, np.int16))(rows),
        "seen": pa.array(1_700_000_000_000_000 + np.arange(rows) * 1_000, pa.timestamp("us")),
        "good": pa.array(_rng().random(rows) < 0.9),
        "note": _nullable(_sentences, 0.5)(rows),
    }
    return pa.StructArray.from_arrays(list(members.values()), list(members))


def _blobs(size: int, *, zeros: float = 0.0) -> Callable[[int], pa.Array]:
    def build(rows: int) -> pa.Array:
        data = _rng().integers(0, 256, (rows, size), dtype=np.uint8)
        data[:, size - int(size * zeros) :] = 0
        offsets = np.arange(rows + 1, dtype=np.int32) * size
        return pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)])

    return build


def _vectors(size: int, *, null: float = 0.0, null_items: float = 0.0) -> Callable[[int], pa.Array]:
    def build(rows: int) -> pa.Array:
        mask = _mask(rows * size, null_items) if null_items else None
        items = pa.array(_rng().random(rows * size, dtype=np.float32), mask=mask)
        rows_mask = pa.array(_mask(rows, null)) if null else None
        return pa.FixedSizeListArray.from_arrays(items, size, mask=rows_mask)

    return build


def _lists(
    items: Callable[[int], pa.Array], *, null: float = 0.0, most: int = 5
) -> Callable[[int], pa.Array]:
    def build(rows: int) -> pa.Array:
        mask = _mask(rows, null)
        lengths = np.where(mask, 0, _rng().integers(0 if null else 1, most, rows))
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        values = items(int(offsets[-1]))
        return pa.ListArray.from_arrays(pa.array(offsets), values, mask=pa.array(mask) if null else None)

    return build


def _structs(rows: int) -> pa.Array:
    members = [_integers(0, 5000)(rows), pa.array(_rng().random(rows)), _few_names(rows)]
    return pa.StructArray.from_arrays(members, ["a", "b", "c"])


def _null_structs(rows: int) -> pa.Array:
    members = [_nullable(_integers(0, 5000))(rows), pa.array(_rng().random(rows))]
    return pa.StructArray.from_arrays(members, ["a", "b"], mask=pa.array(_mask(rows, 0.1)))


def _points(rows: int) -> pa.Array:
    return pa.StructArray.from_arrays(
        [_integers(0, 5000, np.int32)(rows), pa.array(_rng().random(rows))], ["a", "b"]
    )


def _named_points(rows: int) -> pa.Array:
    return pa.StructArray.from_arrays([_integers(0, 5000)(rows), _few_names(rows)], ["a", "b"])


def _maps(rows: int) -> pa.Array:
    offsets = np.arange(rows + 1, dtype=np.int32) * 2
    return pa.MapArray.from_arrays(offsets, _few_names(2 * rows), _integers(0, 5000)(2 * rows))


def _dictionary(rows: int) -> pa.Array:
    indices = pa.array(_rng().integers(0, 500, rows), pa.int32())
    return pa.DictionaryArray.from_arrays(indices, pa.array([f"category {n:04d}" for n in range(500)]))


_COMPRESSION = "lance-encoding:compression"
_PACKED = {"lance-encoding:packed": "true"}

KINDS = [
    Kind("int64 sequential", lambda rows: pa.array(np.arange(rows))),
    Kind("int64 full range", _integers(-(2**63), 2**63 - 1)),
    Kind("int64 0..5000", _integers(0, 5000)),
    Kind("int64 -100..100", _integers(-100, 100)),
    Kind("int64 runs of 50", lambda rows: pa.array(np.repeat(_rng().integers(0, 2**60, rows // 50), 50))),
    Kind("int32 constant", lambda rows: pa.array(np.full(rows, 7, np.int32))),
    Kind("int32 all null", lambda rows: pa.nulls(rows, pa.int32())),
    Kind("int32 nullable", _nullable(_integers(0, 5000, np.int32))),
    Kind("int64 mostly null", _nullable(_integers(0, 5000), 0.999)),
    Kind("int8", _integers(-128, 127, np.int8)),
    Kind("float16", lambda rows: pa.array(_rng().random(rows).astype(np.float16))),
    Kind("float32", lambda rows: pa.array(_rng().random(rows, dtype=np.float32))),
    Kind("float64", lambda rows: pa.array(_rng().random(rows))),
    Kind(
        "timestamp",
        lambda rows: pa.array(1_700_000_000_000_000 + _rng().integers(0, 10**14, rows), pa.timestamp("us")),
    ),
    Kind("bool", lambda rows: pa.array(_rng().random(rows) < 0.5)),
    Kind("bool nullable", _nullable(lambda rows: pa.array(_rng().random(rows) < 0.5))),
    Kind("decimal128", _decimals(pa.decimal128(12, 2), 2)),
    Kind("decimal256", _decimals(pa.decimal256(40, 2), 4)),
    Kind("fixed binary 16", _fixed(pa.binary(16), 16)),
    Kind("string", _names),
    Kind("string nullable", _nullable(_names)),
    Kind("string constant", lambda rows: pa.array(["abc"] * rows)),
    Kind("string few values", _few_names),
    Kind("string uuid", _uuids),
    Kind("string 64 B", _texts(10)),
    Kind("large_string", lambda rows: _names(rows).cast(pa.large_string())),
    Kind("string zstd", _names, options={_COMPRESSION: "zstd"}),
    Kind("dictionary", _dictionary),
    Kind("text 1 kB", _texts(170), 0.04),
    Kind("binary 4 kB", _blobs(4096), 0.02),
    Kind("binary 64 kB", _blobs(1 << 16, zeros=0.5), 0.001),
    Kind(
        "float32 split zstd",
        lambda rows: pa.array(_rng().random(rows, dtype=np.float32)),
        versions=SINCE_2_1,
        options={_COMPRESSION: "zstd", "lance-encoding:bss": "on"},
    ),
    Kind("vector 768", _vectors(768), 0.04),
    Kind("vector 768 nullable", _vectors(768, null=0.1), 0.04),
    Kind("vector 4", _vectors(4)),
    Kind("vector 4 null items", _vectors(4, null=0.1, null_items=0.1), versions=SINCE_2_1),
    Kind("list<int32>", _lists(_integers(0, 5000, np.int32))),
    Kind("list<int32> nullable", _lists(_integers(0, 5000, np.int32), null=0.1)),
    Kind("list<string>", _lists(_names), 0.3),
    Kind("list<list<int32>>", _lists(_lists(_integers(0, 5000, np.int32), most=4), null=0.1, most=4)),
    Kind("list<struct>", _lists(_structs, null=0.1), 0.3),
    Kind("list<vector 128>", _lists(_vectors(128)), 0.05),
    Kind("list null or empty", lambda rows: pa.array([None, []] * (rows // 2), pa.list_(pa.int32()))),
    Kind("struct", _structs),
    Kind("struct nullable", _null_structs, versions=SINCE_2_1),
    Kind("map", _maps, 0.3, ("2.2",)),
    Kind("struct packed", _points, options=_PACKED),
    Kind("struct packed with strings", _named_points, versions=("2.2",), options=_PACKED),
    Kind("uint16", _integers(0, 2**16 - 1, np.uint16)),
    Kind("date", lambda rows: pa.array(_rng().integers(0, 20_000, rows, dtype=np.int32), pa.date32())),
    Kind("int64 sorted with gaps", lambda rows: pa.array(np.cumsum(_rng().integers(1, 100, rows)))),
    Kind("float64 of two digits", lambda rows: pa.array(_rng().integers(0, 10**5, rows) / 100)),
    Kind("text with accents", _sentences, 0.3),
    Kind("text with accents, nullable", _nullable(_sentences, 0.3), 0.3),
    Kind("urls", _urls),
    Kind("documents", _documents, 0.3),
    Kind("list<float64>", _lists(lambda rows: pa.array(_rng().random(rows)), most=20), 0.3),
    Kind("table of nine columns", _records, 0.3, several=True),
]
