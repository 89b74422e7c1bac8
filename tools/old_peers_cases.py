"""Columns that `old_peers.py` exchanges: every type with every pattern of nulls, and every encoding."""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support.arrays import (
    ALL_2_0_TYPES,
    EXTENSION_TYPES,
    MORE_DICTIONARY_TYPES,
    ONLY_2_2_TYPES,
    STRUCT_TYPES,
    random_array,
)
from tests.support.peer_columns import COLUMNS

ROWS = 1500
NULLS = {"no nulls": 0.0, "only nulls": 1.0, "some nulls": 0.3}
PLAIN_TYPES = [
    pa.bool_(),
    pa.int16(),
    pa.uint64(),
    pa.float32(),
    pa.timestamp("us"),
    pa.string(),
    pa.large_binary(),
]


@dataclass(frozen=True, slots=True)
class Case:
    """What is exchanged.

    Attributes:
        name: For the report.
        table: The values.
        is_table: Exchanged as a dataset of several commits instead of a file.
    """

    name: str
    table: pa.Table
    is_table: bool = False


def build_cases() -> list[Case]:
    """One column each."""
    types = [*ALL_2_0_TYPES, *MORE_DICTIONARY_TYPES, *ONLY_2_2_TYPES, *EXTENSION_TYPES]
    cases = [
        Case(f"{data_type}, {label}", one_column(random_array(data_type, ROWS, nulls=nulls, seed=number)))
        for number, data_type in enumerate(types)
        # The extremes in turn: nothing but the patterns differs there.
        for label, nulls in (list(NULLS.items())[number % 2], list(NULLS.items())[2])
    ]
    cases += [
        Case(
            f"{data_type}, null structs",
            one_column(random_array(data_type, ROWS, nulls=0.3, null_structs=True)),
        )
        for data_type in STRUCT_TYPES
        if data_type.num_fields
    ]
    cases += [
        Case(f"{data_type}, {rows} rows", one_column(random_array(data_type, rows)))
        for data_type in PLAIN_TYPES
        for rows in (0, 1)
    ]
    return cases + [Case(column.name, one_column(column.build(), column.options)) for column in COLUMNS]


def one_column(array: pa.Array, options: dict[str, str] | None = None) -> pa.Table:
    """A table of one column with field metadata."""
    return pa.table([array], schema=pa.schema([pa.field("c", array.type, metadata=options)]))


def mixed_table(version: str) -> Case:
    """Many columns at once, for a dataset: those that a storage version keeps as they are."""
    types = {
        "string": pa.string(),
        "binary": pa.large_binary(),
        "vector": pa.list_(pa.float32(), 16),
        "strings": pa.list_(pa.string()),
    }
    if version != "0.1":
        types |= {str(data_type): data_type for data_type in PLAIN_TYPES}
        types |= {"structs": pa.list_(pa.struct([("x", pa.int32()), ("y", pa.string())]))}
    columns = {name: random_array(data_type, ROWS, seed=3) for name, data_type in types.items()}
    columns["code"] = pa.array([f"v{n % 5}" for n in range(ROWS)]).dictionary_encode()
    if version == "0.1":
        columns["vector"] = random_array(types["vector"], ROWS, nulls=0)
    return Case(
        "a table of two commits with deleted rows",
        pa.table({"id": np.arange(ROWS), **columns}),
        is_table=True,
    )
