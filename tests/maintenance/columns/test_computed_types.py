"""Columns that SQL adds have the types and the nullability that pylance gives them, and take rows of both."""

from decimal import Decimal

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import PredicateError
from lance_ops.filter import evaluate_values, parse_value

lance = pytest.importorskip("lance")
pytestmark = pytest.mark.peer

SCHEMA = pa.schema(
    [
        pa.field("nn", pa.int64(), nullable=False),
        *(pa.field(f"{kind}int{bits}", f"{kind}int{bits}") for bits in (8, 16, 32, 64) for kind in ("", "u")),
        *(pa.field(f"f{bits}", pa.type_for_alias(f"float{bits}")) for bits in (32, 64)),
        *(
            pa.field("dec", pa.decimal128(10, 2)),
            pa.field("money", pa.decimal128(21, 2)),
            pa.field("b", pa.bool_()),
        ),
        *(pa.field("s", pa.string()), pa.field("ls", pa.large_string()), pa.field("d", pa.date32())),
        pa.field("ds", pa.dictionary(pa.int32(), pa.string())),
        *(pa.field(f"t{unit}", pa.timestamp(unit)) for unit in ("s", "us", "ns")),
        pa.field("zoned", pa.timestamp("ns", "UTC")),
        pa.field("point", pa.struct([pa.field("x", pa.int32(), nullable=False)])),
        pa.field("place", pa.struct([pa.field("x", pa.int32(), nullable=False)]), nullable=False),
    ]
)
ROW = {
    **dict.fromkeys(SCHEMA.names[:11], 3),
    "dec": Decimal("1.50"),
    "money": Decimal("2.25"),
    "b": True,
    "s": "aé",
    "ls": "aß",
    "d": 1,
    "ds": "a",
    "ts": 5,
    "tus": 5_000_001,
    "tns": 5_000_000_001,
    "zoned": 5_000_000_001,
    "point": {"x": 1},
    "place": {"x": 1},
}
EMPTY = {name: None if SCHEMA.field(name).nullable else ROW[name] for name in SCHEMA.names}
STAMP = "TIMESTAMP '1960-01-01 00:00:00'"

SAME = [
    *(f"int{bits} {op} 2" for bits in (8, 16, 32, 64) for op in "+-*/%"),
    *(f"2 * uint{bits}" for bits in (8, 16, 32, 64)),
    *("int8 + int8", "int8 * int16", "int32 + int64", "int8 + (1 + 1)", "int8 + 1 + 1", "-int8", "nn + int8"),
    *("f32 * 2.5", "f32 + 1", "f32 + int32", "f64 / 3", "CAST(int8 AS INT) + 1"),
    *("dec + 1", "dec * 2", "dec / 3", "money + 1", "money / 3", "dec * dec", "dec - int32", "dec % 2"),
    *(
        "1",
        "1.5",
        "'x'",
        "TRUE",
        "NULL",
        "CAST(NULL AS INT)",
        "DATE '2024-01-01'",
        STAMP,
        "1 + 1",
        "upper('a')",
    ),
    *(
        "nn",
        "nn + 1",
        "-nn",
        "nn / 2",
        "nn = 1",
        "nn IS NULL",
        "int8 IS NULL",
        "nn IN (1, 2)",
        "nn IN (1, NULL)",
    ),
    *(
        "int8 = 1",
        "nn = int8",
        "nn > 1 AND nn < 5",
        "nn > 1 OR b",
        "NOT nn = 1",
        "nn BETWEEN 1 AND 2",
        "b IS TRUE",
    ),
    *("nn IS DISTINCT FROM 1", "int8 IS DISTINCT FROM 1", "s LIKE 'a%'", "is_valid(int8)"),
    *(
        "coalesce(nn, int8)",
        "coalesce(int8, nn)",
        "coalesce(int8, 0)",
        "coalesce(int8, int16)",
        "nvl(int8, 1)",
    ),
    *(
        "nvl2(nn, 1, 2)",
        "nullif(nn, 1)",
        "greatest(nn, 1)",
        "abs(nn)",
        "coalesce(dec, 1)",
        "coalesce(f32, 1.5)",
    ),
    "coalesce(CASE WHEN nn > 1 THEN nn ELSE 2 END)",
    "coalesce(CASE WHEN nn > 1 THEN nn END)",
    *(f"coalesce({name}, {STAMP})" for name in ("ts", "tus", "tns", "zoned")),
    *(f"nullif({name}, {STAMP})" for name in ("ts", "tus", "tns", "zoned")),
    *(
        "concat(s, '!')",
        "concat(ls, '!')",
        "concat(ls, ls)",
        "ls || '!'",
        "s || s",
        "upper(ls)",
        "left(ls, 1)",
    ),
    *(
        "regexp_replace(ls, 'a', 'b')",
        "replace(ls, 'a', 'b')",
        "lpad(ls, 5, 'x')",
        "reverse(ls)",
        "length(ls)",
    ),
    *(
        "CAST(nn AS STRING)",
        "CAST(ls AS STRING)",
        "TRY_CAST(nn AS INT)",
        "ds",
        "CAST(ds AS STRING)",
        "ds::string",
        "arrow_cast(ds, 'Utf8')",
        "CAST(int32 AS INT)",
        "CAST(nn AS BIGINT)",
        "point.x",
        "place.x",
        "sqrt(f32)",
    ),
    *(
        "tus - tus",
        "d - DATE '2024-01-01'",
        "date_part('year', d)",
        "date_trunc('month', tns)",
        "to_timestamp(int64)",
    ),
]


def table(row: dict) -> pa.Table:
    columns = {
        name: pa.array([row[name]], _storage(field.type))
        for name, field in zip(SCHEMA.names, SCHEMA, strict=True)
    }
    return pa.table(
        [column.cast(field.type) for column, field in zip(columns.values(), SCHEMA, strict=True)], SCHEMA
    )


def _storage(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return kind.value_type
    return kind if not pa.types.is_temporal(kind) else pa.int32() if kind.bit_width == 32 else pa.int64()


def test_types_nullability_and_values_are_the_peers(tmp_path):
    uri = {who: str(tmp_path / f"{who}.lance") for who in ("ours", "theirs")}
    columns = {f"c{place}": sql for place, sql in enumerate(SAME)}
    rows = pa.concat_tables([table(ROW), table(EMPTY)])
    for path in uri.values():
        lance.write_dataset(rows, path, data_storage_version="2.1")
    lo.add_columns(uri["ours"], columns)
    lance.dataset(uri["theirs"]).add_columns(columns)
    ours, theirs = (lance.dataset(path) for path in uri.values())
    found = {columns.get(f.name): (f.type, f.nullable) for f in ours.schema if f.name in columns}
    wanted = {columns.get(f.name): (f.type, f.nullable) for f in theirs.schema if f.name in columns}
    assert found == wanted
    assert ours.to_table() == theirs.to_table()
    # What one of the tables has is taken by the other, from both libraries.
    more = theirs.to_table()
    for path in uri.values():
        lo.append(path, more)
        lance.write_dataset(more, path, mode="append")
        lo.compact(path)
        assert lo.dataset(path).to_table() == pa.concat_tables([more, more, more])


@pytest.mark.parametrize(
    "sql", ["int8 + int8", "int8 * 100", "uint8 - 200", "int32 * 2000000000", "-int64", "uint64 - 1"]
)
def test_an_overflow_of_the_narrow_type_is_an_error_and_stores_nothing(tmp_path, sql):
    uri = str(tmp_path / "t.lance")
    lowest = {**ROW, "int8": 100, "uint8": 1, "int32": 2, "int64": -(2**63), "uint64": 0}
    lo.write_dataset(table(lowest), uri)
    with pytest.raises(PredicateError, match="overflow"):
        lo.add_columns(uri, {"c": sql})
    assert "c" not in lo.dataset(uri).schema.names
    assert lo.add_columns(uri, {"c": "CAST(int8 AS INT) + int8"}).columns == ("c",)


@pytest.mark.parametrize("name", ["ts", "tus", "tns", "zoned"])
@pytest.mark.parametrize(
    "stamp", [STAMP, "CAST('1960-01-01' AS TIMESTAMP)", "TIMESTAMP(3) '1960-01-01 00:00:00'", "tns"]
)
@pytest.mark.parametrize(
    "form",
    [
        *(
            "coalesce({0}, {1})",
            "nvl({0}, {1})",
            "ifnull({0}, {1})",
            "nvl2({0}, {0}, {1})",
            "nullif({0}, {1})",
        ),
        *(
            "greatest({0}, {1})",
            "least({0}, TIMESTAMP '2200-01-01 00:00:00', {1}, {0})",
            "coalesce({0}, DATE '1960-01-01')",
        ),
        "CASE WHEN nn > 0 THEN {0} ELSE {1} END",
    ],
)
def test_no_function_cuts_a_timestamp(name, stamp, form):
    rows = table(ROW)
    found = evaluate_values(parse_value(form.format(name, stamp), SCHEMA), rows)
    kept = found.cast(pa.timestamp("ns"), safe=True)[0].value
    exact = rows[name][0].cast(pa.timestamp("ns")).value
    if stamp == "tns" and form.startswith("nullif") and name in ("tns", "zoned"):
        assert kept is None
    elif form.startswith("least"):
        assert kept == (min(exact, rows["tns"][0].value) if stamp == "tns" else -315_619_200_000_000_000)
    elif form.startswith("greatest") and stamp == "tns":
        assert kept == max(exact, rows["tns"][0].value)
    else:
        assert kept == exact


@pytest.mark.parametrize("kind", ["int8", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize(
    ("sql", "expected"), [("x / 2.0", 1.5), ("2.0 / x", 2 / 3), ("x * 1.0", 3.0), ("x % 2.5", 0.5)]
)
def test_numbers_with_a_fraction_beside_whole_ones_are_not_cut(tmp_path, kind, sql, expected):
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(pa.table({"x": pa.array([3], kind)}), uri)
    assert lo.dataset(uri).to_table(columns={"y": sql})["y"].to_pylist() == [expected]
    lo.add_columns(uri, {"y": sql})
    found = lance.dataset(uri).to_table()["y"]
    assert (found.type, found.to_pylist()) == (pa.float64(), [expected])
