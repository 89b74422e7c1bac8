"""Random sequences of calls on our dataset and on pylance's give equal results and equal tables.

Both objects follow their own copy of one table; now and then the copies change hands, so that each library
continues what the other has written.
"""

import datetime as dt
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError

pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

CONDITIONS = (
    "id > 5",
    "id % 3 = 0",
    "k = 'a'",
    "k IS NULL",
    "f > 0.5",
    "st.x = 1",
    "id IN (1, 2, 9)",
    "id BETWEEN 3 AND 8 OR k = 'b'",
    "NOT b",
    "l IS NULL",
    "u > 5",
)
EXPRESSIONS = (
    pc.field("id") > 4,
    pc.field("id").isin([1, 5, 30]),
    pc.field("k") != "b",
    pc.field("k").is_null(),
    pc.field("f") > 0.5,
    pc.field("d") >= dt.date(2000, 1, 1),
    pc.field("st", "x") == 1,
    (pc.field("id") + 1) > 10,
)


def data(rng: random.Random, first: int, count: int) -> pa.Table:
    def some(values: list[Any], kind: pa.DataType) -> pa.Array:
        return pa.array([rng.choice(values) for _ in range(count)], kind)

    return pa.table(
        {
            "id": pa.array(range(first, first + count), pa.int64()),
            "k": some(["a", "b", "", None, "é'q"], pa.string()),
            "f": some([0.0, -0.0, 1.5, float("nan"), None], pa.float64()),
            "d": some([dt.date(2024, 1, 1), dt.date(1960, 1, 1), None], pa.date32()),
            "st": some([{"x": 1}, {"x": None}], pa.struct([("x", pa.int32())])),
            "l": some([[1], [], None], pa.list_(pa.int64())),
            "b": some([True, False, None], pa.bool_()),
            "u": some([0, 2**63, None], pa.uint64()),
        }
    )


def fitting(table: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = [
        table[item.name].cast(item.type)
        if item.name in table.column_names
        else pa.nulls(len(table), item.type)
        for item in schema
    ]
    return pa.table(columns, schema=schema)


Call = Callable[[Any, Any, random.Random, str, int], Any]
"""Of the library, its dataset, a generator with one seed for both, a new name, and the first new id."""


def merged(ds: Any, rng: random.Random, first: int) -> list[int]:
    builder = ds.merge_insert("id")
    clauses = ("when_matched_update_all", "when_not_matched_insert_all", "when_not_matched_by_source_delete")
    for clause in rng.sample(clauses, rng.randint(1, 2)):
        builder = getattr(builder, clause)()
    done = builder.execute(fitting(data(rng, max(0, first - 4), 7), ds.schema))
    return [done[name] for name in ("num_inserted_rows", "num_updated_rows", "num_deleted_rows")]


def appended(lib: Any, ds: Any, rng: random.Random, first: int) -> int:
    done = lib.write_dataset(fitting(data(rng, first, 7), ds.schema), ds.uri, mode="append")
    ds.checkout_latest()
    return int(done.count_rows())


def read(ds: Any, rng: random.Random) -> list[Any]:
    columns = rng.sample(ds.schema.names, rng.randint(1, len(ds.schema.names)))
    condition, limit, offset = (
        rng.choice([None, *CONDITIONS]),
        rng.choice([None, 0, 3]),
        rng.choice([None, 2]),
    )
    return [
        shown(ds.to_table(columns=columns, filter=condition, limit=limit, offset=offset)),
        shown(ds.to_table(columns={"a": "id * 2", "b": "upper(k)"}, filter=condition)),
        ds.count_rows(filter=condition),
        [(item.fragment_id, item.count_rows(), item.physical_rows) for item in ds.get_fragments()],
    ]


CHANGES: dict[str, Call] = {
    "append": lambda lib, ds, rng, name, first: appended(lib, ds, rng, first),
    "insert": lambda lib, ds, rng, name, first: ds.insert(fitting(data(rng, first, 3), ds.schema)) and None,
    "delete": lambda lib, ds, rng, name, first: ds.delete(rng.choice(CONDITIONS[:7])) and None,
    "update": lambda lib, ds, rng, name, first: ds.update(
        {"k": rng.choice(["'zz'", "upper(k)", "NULL"])}, where=rng.choice(CONDITIONS)
    )["num_rows_updated"],
    "merge": lambda lib, ds, rng, name, first: merged(ds, rng, first),
    "add columns": lambda lib, ds, rng, name, first: ds.add_columns(
        {name: rng.choice(["id * 2", "k", "st.x", "CAST(id AS STRING)"])}
    ),
    "add a null column": lambda lib, ds, rng, name, first: ds.add_columns(pa.field(name, pa.int8())),
    "rename": lambda lib, ds, rng, name, first: rename_last(ds, name),
    "index": lambda lib, ds, rng, name, first: (
        ds.create_scalar_index(rng.choice(["id", "k", "f"]), rng.choice(["BTREE", "BITMAP"]), replace=True)
        and None
    ),
    "optimize": lambda lib, ds, rng, name, first: ds.optimize.optimize_indices() and None,
    "compact": lambda lib, ds, rng, name, first: (
        ds.optimize.compact_files(target_rows_per_fragment=rng.choice([10, 1000])) and None
    ),
    "restore": lambda lib, ds, rng, name, first: restored(ds),
}
READS: dict[str, Call] = {
    "read": lambda lib, ds, rng, name, first: read(ds, rng),
    "expression": lambda lib, ds, rng, name, first: by_expression(ds, rng),
    "take": lambda lib, ds, rng, name, first: taken(ds, rng),
}
CALLS = {**CHANGES, **READS}


def rename_last(ds: Any, name: str) -> list[str]:
    if len(ds.schema.names) > 8:
        ds.alter_columns({"path": ds.schema.names[-1], "name": name})
    return list(ds.schema.names)


def restored(ds: Any) -> int:
    ds.checkout_version(1).restore()
    ds.checkout_latest()
    return int(ds.count_rows())


def by_expression(ds: Any, rng: random.Random) -> list[Any]:
    one, other = rng.choice(EXPRESSIONS), rng.choice(EXPRESSIONS)
    whole = rng.choice([one, ~one, one & other, one | other])
    return [shown(ds.to_table(columns=["id"], filter=whole)), ds.count_rows(filter=whole)]


def taken(ds: Any, rng: random.Random) -> list[Any]:
    count = ds.count_rows()
    return shown(ds.take([rng.randrange(count) for _ in range(5)])) if count else []


def shown(table: pa.Table) -> list[Any]:
    return [table.schema.names, [str(item) for item in table.schema.types], repr(table.to_pylist())]


def state(ds: Any) -> list[Any]:
    return shown(ds.to_table().sort_by("id"))


@pytest.mark.parametrize("seed", range(8))
def test_random_calls_give_what_pylance_gives(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    first = rng.choice([1, 10, 40])
    rows = data(rng, 0, first)
    options = {
        "data_storage_version": rng.choice(["2.0", "2.1", "2.2"]),
        "enable_stable_row_ids": rng.random() < 0.4,
        "max_rows_per_file": rng.choice([5, 1000]),
    }
    places = [str(tmp_path / "a.lance"), str(tmp_path / "b.lance")]
    theirs, ours = (
        lance.write_dataset(rows, places[0], **options),
        lo.write_dataset(rows, places[1], **options),
    )
    done = []
    for number in range(12):
        if rng.random() < 0.1:
            places.reverse()
            theirs, ours = lance.dataset(places[0]), lo.dataset(places[1])
        name, choice = rng.choice(list(CALLS)), rng.randrange(1 << 30)
        done.append(name)
        call = CALLS[name]
        expected = call(lance, theirs, random.Random(choice), f"n{number}", first)
        got = call(lo, ours, random.Random(choice), f"n{number}", first)
        if name in READS or isinstance(expected, (int, list)):
            assert got == expected, done
        first += 7
        states = [state(lib.dataset(place)) for lib in (lance, lo) for place in places]
        assert all(item == states[0] for item in states), done
    assert lo.fsck(places[1]).ok


def test_alter_columns_without_a_change_is_refused(tmp_path: Path) -> None:
    made = lo.write_dataset({"id": [1]}, tmp_path / "t.lance")
    with pytest.raises(InvalidArgumentError, match="nothing would change"):
        made.alter_columns({"path": "id", "nullable": True})
