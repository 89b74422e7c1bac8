"""Pages are copied although columns came and went since their files were written."""

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.maintenance.compact.groups import Method

pytestmark = pytest.mark.peer

ROWS = 700


def table(start: int, extra: dict[str, pa.Array] | None = None) -> pa.Table:
    rng = np.random.default_rng(start)
    columns = {
        "id": np.arange(start, start + ROWS),
        "name": [f"customer {value:08d}" for value in rng.integers(0, 10**8, ROWS)],
        "value": rng.random(ROWS),
        "pair": pa.array([{"a": n, "b": [str(n)] * (n % 3)} for n in range(ROWS)]),
    }
    return pa.table(columns | (extra or {}))


def append(uri: str, rows: pa.Table) -> None:
    schema = lance.dataset(uri).schema
    lance.write_dataset(rows.select(schema.names).cast(schema), uri, mode="append")


def create(path: Path, **options) -> str:
    for number in range(2):
        lance.write_dataset(table(number * ROWS), str(path), mode="append" if number else "create", **options)
    return str(path)


def check(uri: str, *, copied: bool = True) -> None:
    """Compact by copying; both sides read the same rows as before, and go on with the table."""
    stable = lance.dataset(uri).has_stable_row_ids
    before = lance.dataset(uri).to_table(with_row_id=stable)
    result = lo.compact(uri, method="copy", materialize_deletions_threshold=0.0)
    assert (result.groups_copied == result.groups) == copied, result.notes
    assert not result.notes
    for reader in (lance, lo):
        assert reader.dataset(uri).to_table(with_row_id=stable).equals(before)
    assert lo.fsck(uri, deep=True).ok
    lance.dataset(uri).delete("id % 97 = 1")
    left = lance.dataset(uri).to_table()
    lance.dataset(uri).optimize.compact_files(materialize_deletions_threshold=0.0)
    assert lo.dataset(uri).to_table().equals(left)


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("column", ["value", "pair", "name"])
def test_what_was_dropped_is_left_behind(tmp_path: Path, version: str, column: str) -> None:
    uri = create(tmp_path / "t.lance", data_storage_version=version)
    lance.dataset(uri).drop_columns([column])
    append(uri, table(2 * ROWS))
    lance.dataset(uri).delete("id % 5 = 3")
    check(uri)
    (fragment,) = lo.dataset(uri).fragments
    known = {node.id for node in lo.dataset(uri).lance_schema.walk()}
    assert {field for file in fragment.files for field in file.fields} <= known


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("stable", [False, True])
def test_what_came_later_is_null_before(tmp_path: Path, version: str, stable: bool) -> None:
    uri = create(tmp_path / "t.lance", data_storage_version=version, enable_stable_row_ids=stable)
    lance.dataset(uri).add_columns(
        pa.schema([("more", pa.string()), ("number", pa.int32()), ("never", pa.date32())])
    )
    extra = {
        "more": pa.array([f"more of it {n * 7919}" for n in range(ROWS)]),
        "number": pa.array(np.arange(ROWS), pa.int32()),
        "never": pa.nulls(ROWS, pa.date32()),
    }
    append(uri, table(2 * ROWS, extra))
    lance.dataset(uri).delete("id % 5 = 3")
    check(uri)


def test_a_column_of_another_type_takes_the_place_of_its_old_one(tmp_path: Path) -> None:
    uri = create(tmp_path / "t.lance", data_storage_version="2.2")
    lance.dataset(uri).alter_columns({"path": "value", "data_type": pa.float32()})
    check(uri)


@pytest.mark.parametrize(
    ("version", "field"),
    [("2.0", pa.field("more", pa.int32())), ("2.2", pa.field("more", pa.list_(pa.int32())))],
)
def test_what_cannot_be_null_without_data_is_rewritten(tmp_path: Path, version: str, field: pa.Field) -> None:
    uri = create(tmp_path / "t.lance", data_storage_version=version)
    lance.dataset(uri).add_columns(pa.schema([field]))
    append(uri, table(2 * ROWS, {"more": pa.nulls(ROWS, field.type)}))
    (group,) = lo.compact(uri, dry_run=True, method="copy").groups
    assert group.method.method is Method.REWRITE
    assert group.method.reason == "column 'more' is not in all of its fragments"
    check(uri, copied=False)


@settings(max_examples=8, deadline=None)
@given(
    version=st.sampled_from(["2.0", "2.1", "2.2"]),
    steps=st.lists(st.sampled_from(["drop", "null", "computed", "append", "delete"]), min_size=2, max_size=6),
    method=st.sampled_from(["copy", "auto", "rewrite"]),
)
def test_rows_are_the_same_after_any_evolution(tmp_path_factory, version, steps, method) -> None:
    uri = create(tmp_path_factory.mktemp("evolved") / "t.lance", data_storage_version=version)
    for number, step in enumerate(steps):
        names = lance.dataset(uri).schema.names
        if step == "drop" and len(names) > 2:
            lance.dataset(uri).drop_columns([names[-1 - number % (len(names) - 1)]])
        elif step == "null":
            lance.dataset(uri).add_columns(pa.schema([(f"n{number}", pa.int64())]))
        elif step == "computed":
            lance.dataset(uri).add_columns({f"c{number}": "id * 2"})
        elif step == "append":
            schema = lance.dataset(uri).schema
            first = ROWS * (number + 2)
            rows = table(first)
            for name in schema.names:
                if name not in rows.schema.names:
                    rows = rows.append_column(name, pa.array(np.arange(ROWS), pa.int64()))
            append(uri, rows)
        elif step == "delete":
            lance.dataset(uri).delete(f"id % 11 = {number}")
    before = lance.dataset(uri).to_table()
    result = lo.compact(uri, method=method, materialize_deletions_threshold=0.0)
    assert not result.notes
    for reader in (lance, lo):
        assert reader.dataset(uri).to_table().equals(before)
    assert lo.fsck(uri).ok
