"""Random expressions over all types of numbers: type, nullability and values are those of pylance.

`LANCE_OPS_EXPRESSIONS=SEED:COUNT` takes other expressions, or more of them.
"""

import math
import os
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.filter import parse_value
from lance_ops.filter.computed import computed_field

lance = pytest.importorskip("lance")
pytestmark = pytest.mark.peer

SEED, COUNT = (int(part) for part in os.environ.get("LANCE_OPS_EXPRESSIONS", "7:160").split(":"))
TYPES = {
    **{
        f"{sign}{bits}": pa.type_for_alias(f"{sign}nt{bits}")
        for sign in ("i", "ui")
        for bits in (8, 16, 32, 64)
    },
    "f32": pa.float32(),
    "f64": pa.float64(),
    "d": pa.decimal128(10, 2),
    "m": pa.decimal128(21, 4),
}
NUMBERS = ("1", "2", "3", "2.5", "-2", "300")
FIXED = (
    "abs(1*i8)",
    "(2/i16)-(i16%3)",
    "nullif(ui32,d)/(f32/2.5)",
    "i8 + (i16 * 2)",
    "i8 + (1 + 1)",
    "(1 + 1) + i8",
    "f32 * (f32 + 2.5)",
    "d + (d * 2)",
    "i8 + CAST(2 AS SMALLINT)",
    "coalesce(i8 + 1, 2)",
    "i8 + 1 = 4",
    "s.x + 2",
    "s.x + (s.x * 2)",
    "i16 % ui64",
    "i8 / ui64",
    "round(ni8)",
)


def rows() -> pa.Table:
    fields, columns = [], []
    for name, kind in TYPES.items():
        values: list[Any] = [3, 7, 1, 5]
        if pa.types.is_decimal(kind):
            values = [Decimal(value) + Decimal("0.25") for value in values]
        elif pa.types.is_floating(kind):
            values = [value + 0.5 for value in values]
        fields += [pa.field(name, kind), pa.field(f"n{name}", kind, nullable=False)]
        columns += [pa.array([*values[:3], None], kind), pa.array(values, kind)]
    struct = pa.struct([pa.field("x", pa.int16())])
    columns.append(pa.array([{"x": 4}, {"x": 2}, None, {"x": 1}], struct))
    return pa.table(columns, pa.schema([*fields, pa.field("s", struct)]))


def expression(chance: random.Random, depth: int) -> str:
    """A random expression; without nvl, which pylance computes in floats that lose digits of decimals."""
    names = [*TYPES, *(f"n{name}" for name in TYPES), "s.x"]

    def part() -> str:
        return expression(chance, depth - chance.choice((1, 1, 2)))

    if depth <= 0:
        return chance.choice(names) if chance.random() < 0.65 else chance.choice(NUMBERS)
    forms = {
        "arithmetic": 10,
        "abs({})": 1,
        "-({})": 1,
        "nullif({}, {})": 2,
        "coalesce({}, {})": 2,
        "greatest({}, {})": 1,
        "least({}, {})": 1,
        "CASE WHEN {} > {} THEN {} ELSE {} END": 1,
        "CAST({} AS INT)": 1,
        "CAST({} AS DECIMAL(20,3))": 1,
        "sqrt(abs({}))": 1,
        "{} <= {}": 1,
    }
    (form,) = chance.choices(list(forms), list(forms.values()))
    if form == "arithmetic":
        sides = [side if side.replace(".", "").isalnum() else f"({side})" for side in (part(), part())]
        return f"{sides[0]} {chance.choice('+-*/%')} {sides[1]}"
    return form.format(*(part() for _ in range(form.count("{}"))))


def evaluated(dataset: Any, sql: str) -> pa.ChunkedArray | None:
    try:
        return dataset.to_table(columns={"x": sql})["x"]
    except (ValueError, OSError):
        return None


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-6) or (one != one and other != other)
    return bool(one == other)


def test_types_nullability_and_values_are_those_of_pylance(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    table = rows()
    lance.write_dataset(table, uri)
    theirs, ours = lance.dataset(uri), lo.dataset(uri)
    chance = random.Random(SEED)
    texts = [*FIXED, *(expression(chance, chance.choice((1, 2, 2, 3))) for _ in range(COUNT))]
    compared: dict[str, str] = {}
    for sql in dict.fromkeys(texts):
        expected = evaluated(theirs, sql)
        if expected is None:
            # pylance refuses numbers that do not fit the column beside them.
            continue
        found = ours.to_table(columns={"x": sql})["x"]
        assert found.type == expected.type, sql
        assert all(map(same, found.to_pylist(), expected.to_pylist())), sql
        compared[f"c{len(compared)}"] = sql
    assert len(compared) >= len(FIXED) + COUNT // 2
    theirs.add_columns(compared)
    schema = lance.dataset(uri).schema
    wanted = {sql: (schema.field(name).type, schema.field(name).nullable) for name, sql in compared.items()}
    declared = (
        computed_field("x", parse_value(sql, table.schema, narrow=True), table.schema) for sql in wanted
    )
    assert {sql: (field.type, field.nullable) for sql, field in zip(wanted, declared, strict=True)} == wanted
