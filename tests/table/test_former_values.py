"""Former values: a change feed shows the columns of the older version by what became of them."""

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.file.schema.model import Schema
from lance_ops.table.former_values import FormerColumn

ROWS = range(8)


def table() -> pa.Table:
    return pa.table(
        {
            "i": pa.array(ROWS, pa.int64()),
            "x": pa.array([n * 0.5 for n in ROWS]),
            "s": pa.array([{"a": n, "b": f"b{n}"} for n in ROWS]),
            "l": pa.array([[{"c": n}] * (n % 3) if n != 4 else None for n in ROWS]),
        }
    )


@pytest.fixture
def uri(tmp_path) -> str:
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(table(), uri, enable_stable_row_ids=True, max_rows_per_file=4)
    return uri


def peer(uri: str) -> lance.LanceDataset:
    return lance.dataset(uri)


def reuse(uri: str, name: str) -> None:
    peer(uri).drop_columns(["x", "s", "l"])
    peer(uri).optimize.compact_files()
    peer(uri).add_columns({name: "cast(i * 100 as double)"})


def others(name: str) -> pa.Table:
    """Rows with another column at the place, and so under the field id, of `x`."""
    numbers = range(100, 108)
    return pa.table({"i": pa.array(numbers, pa.int64()), name: pa.array([n * 9.0 for n in numbers])})


def overwrite(uri: str, name: str) -> None:
    lance.write_dataset(others(name), uri, mode="overwrite")


CHANGES = {
    "id reused": (lambda uri: reuse(uri, "salary"), "salary", lambda n: None),
    "id and name reused": (lambda uri: reuse(uri, "x"), "x", lambda n: None),
    "name reused": (
        lambda uri: (lo.drop_columns(uri, ["x"]), lo.add_columns(uri, {"x": "i * 100"})),
        "x",
        lambda n: None,
    ),
    "rename": (lambda uri: peer(uri).alter_columns({"path": "x", "name": "z"}), "z", lambda n: n * 0.5),
    "cast": (
        lambda uri: peer(uri).alter_columns({"path": "x", "data_type": pa.float32()}),
        "x",
        lambda n: n * 0.5,
    ),
    "cast that loses what is deleted": (
        lambda uri: (
            lo.delete(uri, "i % 2 = 1"),
            lo.alter_columns(uri, {"path": "x", "data_type": pa.int32()}),
        ),
        "x",
        lambda n: None if n % 2 else n // 2,
    ),
    "cast and rename": (
        lambda uri: lo.alter_columns(uri, {"path": "x", "name": "z", "data_type": pa.float32()}),
        "z",
        lambda n: n * 0.5,
    ),
    "two casts": (
        lambda uri: [
            lo.alter_columns(uri, {"path": "x", "data_type": kind}) for kind in (pa.float32(), pa.float64())
        ],
        "x",
        lambda n: n * 0.5,
    ),
    "nested rename": (
        lambda uri: peer(uri).alter_columns({"path": "s.b", "name": "c"}),
        "s",
        lambda n: {"a": n, "c": f"b{n}"},
    ),
    "nested drop": (lambda uri: peer(uri).drop_columns(["s.a"]), "s", lambda n: {"b": f"b{n}"}),
    "restore": (
        lambda uri: (reuse(uri, "salary"), lo.restore(uri, 1)),
        "x",
        lambda n: n * 0.5,
    ),
    "compaction": (lo.compact, "x", lambda n: n * 0.5),
    "overwrite with other columns": (lambda uri: overwrite(uri, "salary"), "salary", lambda n: None),
    "overwrite by lance_ops": (
        lambda uri: lo.write_dataset(others("salary"), uri, mode="overwrite"),
        "salary",
        lambda n: None,
    ),
    "overwrite and restore": (
        lambda uri: (overwrite(uri, "salary"), lo.restore(uri, 1)),
        "x",
        lambda n: n * 0.5,
    ),
}


@pytest.mark.peer
@pytest.mark.parametrize("history", ["kept", "cleaned"])
@pytest.mark.parametrize("change", CHANGES)
def test_the_older_side_shows_what_its_columns_became(change, history, uri):
    alter, column, expected = CHANGES[change]
    alter(uri)
    lo.delete(uri, "i >= 4")
    lo.update(uri, {"i": "i + 0"}, "i < 2")
    dataset = lo.dataset(uri)
    if history == "cleaned":
        for version in range(2, dataset.version):
            dataset.store.delete(dataset.checkout_version(version).location.path)
        dataset = lo.dataset(uri)
    feed = dataset.changes(1).read_all()
    old = [row for row in feed.to_pylist() if row["_change_type"] in ("delete", "update_preimage")]
    assert {row["i"] for row in old} >= {0, 4, 5, 6, 7}
    found = {row["i"]: row[column] for row in old}
    if history == "kept":
        assert found == {n: expected(n) for n in found}
    else:
        # Only id, path and shared data files are left to tell: nothing is shown without them.
        proven = {n: expected(n) for n in found}
        nothing = dict.fromkeys(found)
        same = {n: n * 0.5 for n in found} if change == "id and name reused" else proven
        assert found in (proven, nothing, same)


def field_of(kind: pa.DataType, first: int):
    return Schema.from_arrow(pa.schema([("c", kind)]), first_id=first).fields[0]


@pytest.mark.parametrize("wide", [False, True])
def test_members_in_lists_are_matched_and_cast(wide):
    listed = pa.large_list if wide else pa.list_
    before = field_of(listed(pa.struct([("a", pa.int64()), ("b", pa.string())])), 0)
    now = field_of(listed(pa.struct([("n", pa.int64()), ("a", pa.int16())])), 10)
    # c, item, then the members.
    column = FormerColumn(before, now, {10: 0, 11: 1, 13: 2})
    values = pa.chunked_array(
        [[[{"a": 1, "b": "x"}, {"a": 1 << 40, "b": "y"}], None, [], [None]]], before.arrow_type
    )
    found = column.convert(values.slice(0), now.arrow_type)
    assert found.to_pylist() == [[{"n": None, "a": 1}, {"n": None, "a": None}], None, [], [None]]
    assert column.convert(values.slice(1, 3), now.arrow_type).to_pylist() == [None, [], [None]]
