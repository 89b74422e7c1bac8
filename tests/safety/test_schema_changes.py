"""Operations beside a writer that changes the schema: no column ever shows the values of another one.

The other writer commits after the operation was planned and before its version is stored. Then the table is
what one of the two orders gives, or the operation failed with a typed conflict and changed nothing. Both
libraries read the same.
"""

import os
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import CommitConflictError, LanceOpsError, SchemaMismatchError

ALL = bool(os.environ.get("SIMULATE"))
X_TYPE = pa.float64()


def table(start: int, stop: int) -> pa.Table:
    numbers = range(start, stop)
    return pa.table(
        {
            "i": pa.array(numbers, pa.int64()),
            "x": pa.array([float(n) for n in numbers], X_TYPE),
            "s": pa.array([{"a": n, "b": n * 0.5} for n in numbers]),
        }
    )


class Late:
    """Lets others commit after the operation was judged, just before its version is stored."""

    def __init__(self, others: Callable[[], object]) -> None:
        self.others: Callable[[], object] | None = others

    def commit(self, store, location, manifest) -> None:
        others, self.others = self.others, None
        if others is not None:
            others()
        store.put(location.path, manifest, if_absent=True)


def peer(uri: str) -> lance.LanceDataset:
    return lance.dataset(uri)


def free_ids(uri: str, *columns: str) -> None:
    peer(uri).drop_columns(list(columns))
    peer(uri).optimize.compact_files()


def reuse(uri: str) -> None:
    free_ids(uri, "x")
    peer(uri).add_columns({"salary": "cast(i * 100 as double)"})


def reuse_name(uri: str) -> None:
    free_ids(uri, "x")
    peer(uri).add_columns({"x": "cast(i * 100 as double)"})


def reuse_nested(uri: str) -> None:
    free_ids(uri, "s")
    schema = pa.schema([pa.field("t", pa.struct([("c", pa.int64()), ("d", pa.float64())]))])

    @lance.batch_udf(output_schema=schema)
    def made(batch):
        values = [{"c": n + 1000, "d": 7.0} for n in batch["i"].to_pylist()]
        return pa.RecordBatch.from_arrays([pa.array(values, schema.field("t").type)], schema=schema)

    peer(uri).add_columns(made, read_columns=["i"])


CHANGES: dict[str, Callable[[str], object]] = {
    "id reused": reuse,
    "id and name reused": reuse_name,
    "ids of a struct reused": reuse_nested,
    "cast": lambda uri: peer(uri).alter_columns({"path": "x", "data_type": pa.float32()}),
    "cast by lance_ops": lambda uri: lo.alter_columns(uri, {"path": "x", "data_type": pa.int32()}),
    "cast and rename": lambda uri: peer(uri).alter_columns(
        {"path": "x", "name": "z", "data_type": pa.float32()}
    ),
    "rename": lambda uri: peer(uri).alter_columns({"path": "x", "name": "z"}),
    "nested rename": lambda uri: peer(uri).alter_columns({"path": "s.b", "name": "c"}),
    "drop": lambda uri: peer(uri).drop_columns(["x"]),
    "nested drop": lambda uri: peer(uri).drop_columns(["s.b"]),
    "drop and add": lambda uri: (lo.drop_columns(uri, ["x"]), lo.add_columns(uri, {"x": "i * 3"})),
    "names exchanged": lambda uri: (
        peer(uri).alter_columns({"path": "x", "name": "z"}),
        peer(uri).add_columns(pa.field("x", pa.int64())),
    ),
}


def commit_fragments(uri: str, **options) -> None:
    version = lo.dataset(uri).version
    fragments = lo.write_fragments(table(100, 103), uri, mode="append")
    lo.commit(uri, lo.operations.Append(fragments), read_version=version, **options)


OPERATIONS: dict[str, Callable[..., object]] = {
    "append": lambda uri, **o: lo.append(uri, table(100, 103), **o),
    "append of a stream": lambda uri, **o: lo.append(uri, table(100, 103).to_reader(), **o),
    "commit of fragments": commit_fragments,
    "replace where": lambda uri, **o: lo.replace_where(uri, table(2, 4), "i >= 2 AND i < 4", **o),
    "upsert": lambda uri, **o: lo.merge_insert(
        uri, table(8, 13), "i", when_matched="update_all", when_not_matched="insert_all", **o
    ),
    "update rows": lambda uri, **o: lo.update(uri, {"x": "x + 1"}, "i < 3", **o),
    "update in place": lambda uri, **o: lo.update(uri, {"x": "x + 1"}, rewrite="columns", **o),
    "delete": lambda uri, **o: lo.delete(uri, "x < 3", **o),
    "add columns": lambda uri, **o: lo.add_columns(uri, {"y": "x * 2"}, **o),
    "replace columns": lambda uri, **o: lo.replace_columns(uri, {"x": "x * 2"}, **o),
    "compact": lambda uri, **o: lo.compact(uri, **o),
    "deferred compact": lambda uri, **o: lo.compact(uri, defer_index_remap=True, **o),
    "create index": lambda uri, **o: lo.create_index(uri, "x", **o),
}

FIRST = {"append", "commit of fragments"}
CASES = [
    pair
    for number, pair in enumerate(product(OPERATIONS, CHANGES))
    if ALL or (pair[0] in FIRST and number % 2 == 0) or number % 5 == 0
]


def contents(uri: str) -> list[dict]:
    """The rows by both libraries, which have to agree."""
    ours = sorted(lo.dataset(uri).to_table().to_pylist(), key=lambda row: row["i"])
    theirs = sorted(peer(uri).to_table().to_pylist(), key=lambda row: row["i"])
    assert ours == theirs
    return ours


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("schema-changes") / "t.lance"
    for start in (0, 5):
        lance.write_dataset(table(start, start + 5), str(path), mode="append" if start else "create")
    return path


def outcome(steps: list[Callable[[str], object]], template: Path, path: Path) -> list[dict] | Exception:
    shutil.copytree(template, path)
    try:
        for step in steps:
            step(str(path))
    except (LanceOpsError, OSError, ValueError, RuntimeError) as error:
        return error
    return contents(str(path))


@pytest.mark.parametrize(("operation", "change"), CASES)
def test_an_operation_beside_a_schema_change_gives_one_of_both_orders(operation, change, template, tmp_path):
    ours, theirs = OPERATIONS[operation], CHANGES[change]
    uri = str(tmp_path / "t.lance")
    shutil.copytree(template, uri)
    error = None
    try:
        ours(uri, committer=Late(lambda: theirs(uri)))
    except LanceOpsError as caught:
        error = caught
    found = contents(uri)
    assert lo.fsck(uri, deep=True).ok
    expected = {
        "ours first": lambda: outcome([ours, theirs], template, tmp_path / "first.lance"),
        "theirs first": lambda: outcome([theirs, ours], template, tmp_path / "second.lance"),
        "theirs alone": lambda: outcome([theirs], template, tmp_path / "alone.lance"),
    }
    if error is None:
        assert any(expected[order]() == found for order in ("ours first", "theirs first"))
    else:
        # What the operation says when it runs after the change, or that the two collided.
        known = (CommitConflictError, SchemaMismatchError, type(expected["theirs first"]()))
        assert isinstance(error, known)
        assert found == expected["theirs alone"]()


def others() -> pa.Table:
    """Rows whose columns have the field ids of `x` and `s`."""
    numbers = range(50, 55)
    return pa.table(
        {
            "i": pa.array(numbers, pa.int64()),
            "salary": pa.array([n * 100.0 for n in numbers]),
            "t": pa.array([{"c": n + 1000, "d": 7.0} for n in numbers]),
        }
    )


def overwrite(uri: str) -> None:
    lo.write_dataset(others(), uri, mode="overwrite")


def overwrite_and_restore(uri: str) -> None:
    version = lo.dataset(uri).version
    lance.write_dataset(others(), uri, mode="overwrite")
    lo.restore(uri, version)


def overwrite_in_another_order(uri: str) -> None:
    overwrite(uri)
    lance.write_dataset(table(50, 55).select(["x", "i", "s"]), uri, mode="overwrite")


OVERWRITES = [overwrite, overwrite_and_restore, overwrite_in_another_order]
OVERWRITE_CASES = [
    pair
    for number, pair in enumerate(product(OPERATIONS, OVERWRITES))
    if ALL or pair[0] == "commit of fragments" or number % 5 == 0
]


@pytest.mark.parametrize(("operation", "others_do"), OVERWRITE_CASES)
def test_what_began_before_an_overwrite_is_refused(operation, others_do, template, tmp_path):
    """Its field ids begin at 0, as with pylance: files from before would show values of other columns."""
    uri, alone = str(tmp_path / "t.lance"), str(tmp_path / "alone.lance")
    shutil.copytree(template, uri)
    shutil.copytree(template, alone)
    with pytest.raises(CommitConflictError):
        OPERATIONS[operation](uri, committer=Late(lambda: others_do(uri)))
    others_do(alone)
    assert contents(uri) == contents(alone)
