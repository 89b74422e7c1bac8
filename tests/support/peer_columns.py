"""Columns that make the peer use each layout and compression of 2.1 and 2.2."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

import numpy as np
import pyarrow as pa

_ROWS = 6000
_COMPRESSION = "lance-encoding:compression"
_STRUCTURE = "lance-encoding:structural-encoding"
_PACKED = {"lance-encoding:packed": "true"}


@dataclass(frozen=True, slots=True)
class PeerColumn:
    """A column, and what its pages must contain for the test to be worth something.

    Attributes:
        name: For the test's id.
        build: Makes the values.
        encodings: Parts of page signatures, each of which some page has in every version.
        options: Field metadata.
        versions: Storage versions that can hold it.
        expect: Set when the peer reads something else than it was given, which is what is expected then.
    """

    name: str
    build: Callable[[], pa.Array]
    encodings: tuple[str, ...]
    options: dict[str, str] = field(default_factory=dict)
    versions: tuple[str, ...] = ("2.1", "2.2")
    expect: str | None = None


def _rng() -> np.random.Generator:
    return np.random.default_rng(11)


def _runs(bits: int = 60) -> pa.Array:
    return pa.array(np.repeat(_rng().integers(0, 2**bits, _ROWS // 50), 50))


def _some_null(array: pa.Array, share: float) -> pa.Array:
    missing = pa.array(_rng().random(len(array)) < share)
    return pa.array(
        [None if null else value for value, null in zip(array, missing.to_pylist(), strict=True)], array.type
    )


def _users(data_type: pa.DataType | None = None) -> pa.Array:
    return pa.array([f"user-{n:08d}" for n in _rng().integers(0, 10**8, _ROWS)], data_type or pa.string())


def _texts(count: int = 900) -> pa.Array:
    return pa.array([f"the quick brown fox {n * 7919} jumps " * 20 for n in range(count)])


def _vectors(rows: int, size: int, *, null: float = 0.0, null_items: float = 0.0) -> pa.Array:
    rng = _rng()
    items = pa.array(
        rng.random(rows * size, dtype=np.float32),
        mask=rng.random(rows * size) < null_items if null_items else None,
    )
    mask = pa.array(rng.random(rows) < null) if null else None
    return pa.FixedSizeListArray.from_arrays(items, size, mask=mask)


def _wide_bits(rows: int, size: int, *, null: float) -> pa.Array:
    rng = _rng()
    mask = rng.random(rows * size) < null if null else None
    bits = pa.array(rng.random(rows * size) < 0.5, mask=mask)
    return pa.FixedSizeListArray.from_arrays(bits, size, mask=pa.array(rng.random(rows) < null))


def _lists(
    item: Callable[[int], object], rows: int = _ROWS, data_type: pa.DataType | None = None
) -> pa.Array:
    return pa.array([[item(k) for k in range(n % 4)] if n % 11 else None for n in range(rows)], data_type)


def _text_lists() -> pa.Array:
    return _lists(lambda k: next(_numbered_texts), 500)


def _constant_lists(value: object) -> pa.Array:
    return pa.array([[value, value], [], None, [value]] * 500)


def _very_long_lists() -> pa.Array:
    return pa.array([[1], list(range(150_000)), [2], None, [], [3, 4]])


def _structs(
    data_type: pa.StructType, members: Callable[[int], dict[str, object]], null: bool = False
) -> pa.Array:
    return pa.array([None if null and n % 3 == 0 else members(n) for n in range(1500)], data_type)


_numbered_texts = (f"text {n * 7919} of many " * 25 for n in count())

_POINT = pa.struct([("a", pa.int32()), ("b", pa.float64())])
_NAMED = pa.struct([("a", pa.int32()), ("b", pa.string()), ("c", pa.large_binary())])

COLUMNS = [
    PeerColumn("sequence", lambda: pa.array(np.arange(_ROWS)), ("value=inline_bitpacking",)),
    PeerColumn("random", lambda: pa.array(_rng().integers(-(2**63), 2**63 - 1, _ROWS)), ("value=flat64",)),
    PeerColumn("few_integers", lambda: pa.array(_rng().integers(-100, 100, _ROWS)), ("mini_block",)),
    PeerColumn(
        "integer_dictionary",
        lambda: pa.array(_rng().integers(-100, 100, 20_000)),
        ("dictionary=general[flat64]",),
        versions=("2.2",),
    ),
    PeerColumn("runs", _runs, ("value=rle",)),
    PeerColumn(
        "constant",
        lambda: pa.array(np.full(_ROWS, 7, np.int32)),
        ("mini_block value=rle",),
        versions=("2.1",),
    ),
    PeerColumn(
        "constant_inline", lambda: pa.array(np.full(_ROWS, 7.5)), ("constant inline",), versions=("2.2",)
    ),
    PeerColumn("constant_bool", lambda: pa.array([True] * _ROWS), ("constant inline",), versions=("2.2",)),
    PeerColumn("constant_string", lambda: pa.array(["abc"] * _ROWS), ("constant",), versions=("2.2",)),
    PeerColumn("constant_or_null", lambda: pa.array([7, None] * 900), ("constant",), versions=("2.2",)),
    PeerColumn("constant_lists", lambda: _constant_lists(7), ("constant",), versions=("2.2",)),
    PeerColumn("constant_text_lists", lambda: _constant_lists("x"), ("constant",), versions=("2.2",)),
    PeerColumn(
        "constant_dictionary",
        lambda: pa.array(["a"] * _ROWS).dictionary_encode(),
        ("mini_block",),
        versions=("2.1",),
    ),
    PeerColumn(
        "null_and_empty_lists", lambda: pa.array([None, []] * 900, pa.list_(pa.int8())), ("constant",)
    ),
    PeerColumn("empty_lists", lambda: pa.array([[]] * 900, pa.list_(pa.string())), ("constant",)),
    PeerColumn(
        "lists_of_nulls", lambda: pa.array([[None, None], [None]] * 900, pa.list_(pa.int8())), ("constant",)
    ),
    PeerColumn(
        "null_structs",
        lambda: pa.nulls(900, pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])),
        ("constant",),
    ),
    PeerColumn(
        "null_dictionary", lambda: pa.nulls(900, pa.dictionary(pa.int32(), pa.string())), ("constant",)
    ),
    PeerColumn("mostly_null", lambda: pa.array([None if n % 500 else n for n in range(_ROWS)]), ("def=",)),
    PeerColumn(
        "floats", lambda: pa.array(_rng().random(_ROWS, dtype=np.float32)), ("value=inline_bitpacking",)
    ),
    PeerColumn("strings", _users, ("value=fsst[variable[flat32]]",)),
    PeerColumn("null_strings", lambda: _some_null(_users(), 0.3), ("fsst", "def=out_of_line_bitpacking")),
    PeerColumn("large_strings", lambda: _users(pa.large_string()), ("fsst[variable[flat64]]",)),
    PeerColumn("plain_strings", _users, ("value=variable[flat32]",), {_COMPRESSION: "none"}),
    PeerColumn("zstd_strings", _users, ("value=general[variable[flat32]]",), {_COMPRESSION: "zstd"}),
    PeerColumn("lz4_strings", _users, ("value=general[variable[flat32]]",), {_COMPRESSION: "lz4"}),
    PeerColumn("few_strings", lambda: pa.array([f"v{n % 5}" for n in range(_ROWS)]), ("dictionary=",)),
    PeerColumn(
        "arrow_dictionary",
        lambda: pa.array([f"v{n % 5}" for n in range(_ROWS)]).dictionary_encode(),
        ("dictionary=",),
    ),
    PeerColumn(
        "split_floats",
        lambda: pa.array(_rng().random(_ROWS, dtype=np.float32)),
        ("general[byte_stream_split[flat32]]",),
        {_COMPRESSION: "zstd", "lance-encoding:bss": "on"},
    ),
    PeerColumn(
        "lz4_integers",
        lambda: pa.array(_rng().integers(0, 5000, _ROWS)),
        ("value=general[",),
        {_COMPRESSION: "lz4"},
    ),
    PeerColumn("texts", _texts, ("full_zip value=fsst[variable[flat32]]",)),
    PeerColumn("null_texts", lambda: _some_null(_texts(), 0.2), ("full_zip value=fsst",)),
    PeerColumn("zstd_texts", _texts, ("full_zip value=general[variable[flat32]]",), {_COMPRESSION: "zstd"}),
    PeerColumn("lists_of_texts", _text_lists, ("full_zip value=fsst",)),
    PeerColumn(
        "long_lists_of_texts",
        lambda: pa.array([[next(_numbered_texts) for _ in range(1500)] for _ in range(3)]),
        ("full_zip value=",),
    ),
    PeerColumn(
        "binaries",
        lambda: pa.array([bytes([n]) * 40_000 + _rng().bytes(n) for n in range(20)], pa.large_binary()),
        ("full_zip value=general[variable[flat64]]",),
    ),
    PeerColumn("vectors", lambda: _vectors(200, 768), ("full_zip value=fixed_size_list[flat32]",)),
    PeerColumn(
        "null_vectors", lambda: _vectors(200, 768, null=0.2), ("full_zip value=fixed_size_list[flat32]",)
    ),
    PeerColumn(
        "vectors_with_null_items",
        lambda: _vectors(200, 769, null=0.2, null_items=0.1),
        ("full_zip value=fixed_size_list_with_validity",),
    ),
    PeerColumn(
        "nested_vectors",
        lambda: pa.FixedSizeListArray.from_arrays(_vectors(400, 200, null=0.2, null_items=0.2), 4),
        ("full_zip value=fixed_size_list",),
    ),
    PeerColumn("small_vectors", lambda: _vectors(_ROWS, 4), ("mini_block value=fixed_size_list[flat32]",)),
    PeerColumn(
        "small_vectors_with_null_items",
        lambda: _vectors(_ROWS, 4, null=0.1, null_items=0.1),
        ("value=fixed_size_list_with_validity",),
    ),
    *(
        PeerColumn(
            f"wide_bits{'_with_null_items' if null else ''}",
            lambda null=null: _wide_bits(300, 4096, null=null),
            ("mini_block", "fixed_size_list"),
        )
        for null in (0.0, 0.2)
    ),
    PeerColumn(
        "lists_of_vectors",
        lambda: _lists(
            lambda k: None if k == 2 else [float(k)] * 128, 600, pa.list_(pa.list_(pa.float32(), 128))
        ),
        ("full_zip value=fixed_size_list",),
    ),
    PeerColumn("lists", lambda: _lists(lambda k: k * 1000, _ROWS), ("rep=", "def=")),
    PeerColumn("long_lists", lambda: pa.array([list(range(n, n + 1000)) for n in range(60)]), ("rep=",)),
    PeerColumn("very_long_lists", _very_long_lists, ("rep=",)),
    PeerColumn("lists_of_lists", lambda: _lists(lambda k: [None, k] * k), ("rep=",)),
    PeerColumn(
        "lists_of_structs", lambda: _lists(lambda k: {"x": k, "y": f"s{k}"} if k != 1 else None), ("rep=",)
    ),
    *(
        PeerColumn(
            f"{kind}_{name}",
            build,
            (kind.replace("minib", "mini_b").replace("fullz", "full_z"),),
            {_STRUCTURE: kind},
        )
        for kind in ("miniblock", "fullzip")
        for name, build in {
            "integers": lambda: pa.array(_rng().integers(0, 5000, _ROWS)),
            "null_integers": lambda: _some_null(pa.array(_rng().integers(0, 5000, _ROWS)), 0.3),
            "null_strings": lambda: _some_null(_users(), 0.3),
            "booleans": lambda: pa.array(_rng().random(_ROWS) < 0.5),
        }.items()
    ),
    PeerColumn(
        "packed", lambda: _structs(_POINT, lambda n: {"a": n, "b": n / 2}), ("value=packed_struct",), _PACKED
    ),
    PeerColumn(
        "packed_with_nulls",
        lambda: _structs(_POINT, lambda n: {"a": n, "b": n / 2}, null=True),
        ("value=packed_struct",),
        _PACKED,
    ),
    *(
        PeerColumn(
            f"packed_strings{'_with_nulls' if null else ''}",
            lambda null=null: _structs(
                _NAMED, lambda n: {"a": n, "b": "x" * (n % 9), "c": b"y" * (n % 5)}, null=null
            ),
            ("full_zip value=variable_packed_struct",),
            _PACKED,
            versions=("2.2",),
        )
        for null in (False, True)
    ),
    PeerColumn(
        "blobs",
        lambda: pa.array([None if n % 5 == 0 else b"x" * (n * 10) for n in range(300)], pa.large_binary()),
        ("blob mini_block value=packed_struct",),
        {"lance-encoding:blob": "true"},
        expect="the values: the peer gives out positions and sizes",
    ),
]
"""At least one for each layout and compression that the peer writes."""
