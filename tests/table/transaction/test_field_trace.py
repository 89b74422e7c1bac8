"""Field traces: a drop, a cast, a rename and a field id that is used again are told apart."""

from dataclasses import replace

import pyarrow as pa
import pytest

from lance_ops.file.schema.model import Schema
from lance_ops.table.transaction.field_trace import FieldTrace
from lance_ops.table.transaction.operations import Append, Merge, Operation, Overwrite, Project
from tests.support.table_values import data_file, fragment

START = Schema.from_arrow(
    pa.schema(
        [
            ("i", pa.int64()),
            ("x", pa.float64()),
            ("s", pa.struct([("a", pa.int64()), ("b", pa.float64())])),
        ]
    )
)
# i 0, x 1, s 2, s.a 3, s.b 4
PART = replace(fragment(0), files=(data_file("f", fields=(0, 1, 2, 3, 4)),))


def without(*ids: int) -> Schema:
    keep = [node.id for node in START.walk() if not node.children and node.id not in ids]
    return START.project_ids(keep)


def with_field(schema: Schema, name: str, kind: pa.DataType, number: int, *, at: int | None = None) -> Schema:
    (made,) = Schema.from_arrow(pa.schema([(name, kind)]), first_id=number).fields
    fields = list(schema.fields)
    fields.insert(len(fields) if at is None else at, made)
    return Schema(tuple(fields))


def renamed(number: int, name: str) -> Schema:
    def change(node):
        children = tuple(change(child) for child in node.children)
        return replace(node, name=name if node.id == number else node.name, children=children)

    return Schema(tuple(change(top) for top in START.fields))


def merge(schema: Schema, part=PART) -> Merge:
    return Merge((part,), schema)


OTHER_FILE = replace(PART, files=(data_file("f", fields=(0, -2, 2, 3, 4)), data_file("g", fields=(1,))))
ALL = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4}
REST = {number: number for number in ALL if number != 1}
NESTED = {number: number for number in ALL if number != 4}

CASES: dict[str, tuple[list[Operation], dict[int, int], set[int]]] = {
    "rows": ([Append((PART,))], ALL, set(ALL)),
    "drop": ([Project(without(1))], REST, set(REST)),
    "nested drop": ([Project(without(4))], NESTED, set(NESTED)),
    "rename": ([Project(renamed(1, "z"))], ALL, set(ALL)),
    "nested rename": ([Project(renamed(4, "c"))], ALL, set(ALL)),
    "addition": ([merge(with_field(START, "y", pa.int64(), 5))], ALL, set(ALL)),
    "cast": ([merge(with_field(without(1), "x", pa.int32(), 5))], REST | {5: 1}, set(REST)),
    "cast and rename": ([merge(with_field(without(1), "z", pa.int32(), 5, at=1))], REST | {5: 1}, set(REST)),
    "id reused": (
        [Project(without(1)), merge(with_field(without(1), "salary", pa.float64(), 1))],
        REST,
        set(REST),
    ),
    "id and name reused": (
        [Project(without(1)), merge(with_field(without(1), "x", pa.float64(), 1))],
        REST,
        set(REST),
    ),
    "name reused": (
        [Project(without(1)), merge(with_field(without(1), "x", pa.float64(), 5))],
        REST,
        set(REST),
    ),
    "renamed by a merge": ([merge(renamed(1, "z"))], ALL, set(ALL)),
    "replaced by a merge under the same id": (
        [merge(with_field(without(1), "salary", pa.float64(), 1), OTHER_FILE)],
        REST,
        set(REST),
    ),
    "another type under the same id": (
        [merge(with_field(without(1), "x", pa.int32(), 1))],
        ALL,
        set(REST),
    ),
    "overwrite with other columns": (
        [Overwrite((), Schema.from_arrow(pa.schema([("x", pa.int32()), ("i", pa.int64())])))],
        {0: 1, 1: 0},
        set(),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_fields_are_followed_through_operations(case):
    operations, origins, kept = CASES[case]
    trace = FieldTrace.begin(START, (PART,))
    for operation in operations:
        trace = trace.follow(operation)
    assert dict(trace.origins) == origins
    assert trace.kept == kept
