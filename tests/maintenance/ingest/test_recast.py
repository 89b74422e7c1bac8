"""Recast of written rows: an append that lost to a schema change writes its rows again for the new schema."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import CommitConflictError, SchemaMismatchError


class Late:
    """Lets others commit just before the version is stored; each of them once."""

    def __init__(self, *others) -> None:
        self.others = list(others)

    def commit(self, store, location, manifest) -> None:
        if self.others:
            self.others.pop(0)()
        store.put(location.path, manifest, if_absent=True)


def rows(start: int, stop: int) -> pa.Table:
    numbers = range(start, stop)
    return pa.table({"i": pa.array(numbers, pa.int64()), "x": pa.array([n * 0.5 for n in numbers])})


@pytest.fixture
def uri(tmp_path) -> str:
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(rows(0, 4), uri)
    return uri


def data_files(uri: str) -> set[str]:
    return {path.name for path in Path(uri, "data").iterdir()}


def used_files(uri: str) -> set[str]:
    dataset = lo.dataset(uri)
    return {
        file.path
        for version in dataset.versions()
        for fragment in dataset.checkout_version(version.version).fragments
        for file in fragment.files
    }


def cast(uri: str, kind: pa.DataType, **more) -> None:
    lo.alter_columns(uri, {"path": "x", "data_type": kind, **more})


@pytest.mark.parametrize("job_key", [None, "nightly"])
@pytest.mark.parametrize("rows_per_file", [1, 100])
def test_rows_are_cast_and_their_first_files_removed(uri, job_key, rows_per_file):
    late = Late(lambda: cast(uri, pa.float32()))
    data = rows(10, 14).to_reader()
    done = lo.append(uri, data, committer=late, job_key=job_key, max_rows_per_file=rows_per_file)
    assert (done.rows_added, done.version) == (4, 3)
    assert lo.dataset(uri).to_table(filter="i >= 10")["x"] == pa.chunked_array(
        [[5, 5.5, 6, 6.5]], pa.float32()
    )
    assert data_files(uri) == used_files(uri)
    if job_key is not None:
        assert lo.append(uri, rows(10, 14), job_key=job_key).already_committed


def test_rows_follow_a_schema_that_changes_twice(uri):
    late = Late(lambda: cast(uri, pa.float32()), lambda: cast(uri, pa.float64(), name="z"))
    lo.append(uri, rows(10, 12), committer=late)
    assert lo.dataset(uri).to_table(filter="i >= 10").to_pydict() == {"i": [10, 11], "z": [5.0, 5.5]}
    assert data_files(uri) == used_files(uri)


@pytest.mark.parametrize("types", [(pa.int64(), pa.int64()), (pa.int64(), pa.int32())])
@pytest.mark.parametrize("by_peer", [False, pytest.param(True, marks=pytest.mark.peer)])
@pytest.mark.parametrize("names", [("y", "x"), ("y", "z"), ("z", "x")])
def test_rows_follow_columns_that_are_cast_and_take_names_of_each_other(tmp_path, types, by_peer, names):
    uri = str(tmp_path / "u.lance")
    data = pa.table({"x": pa.array([1, 2], types[0]), "y": pa.array([10, 20], types[1])})
    lo.write_dataset(data, uri)
    changed = [pa.int32(), pa.int32() if types[1] == pa.int64() else pa.int64()]
    steps = [
        {"path": path, "name": name, "data_type": kind}
        for path, name, kind in zip(("x", "y"), names, changed, strict=True)
    ]
    dataset = lance.dataset(uri)
    late = Late(lambda: dataset.alter_columns(*steps) if by_peer else lo.alter_columns(uri, *steps))
    lo.append(uri, data, committer=late)
    expected = {names[0]: [1, 2, 1, 2], names[1]: [10, 20, 10, 20]}
    assert lance.dataset(uri).to_table().to_pydict() == expected


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda uri: cast(uri, pa.int32()), SchemaMismatchError, "5.5 is no int32"),
        (
            lambda uri: (lo.drop_columns(uri, ["x"]), lo.add_columns(uri, {"y": "i"})),
            CommitConflictError,
            "column 'x' was dropped",
        ),
        (
            lambda uri: (lo.drop_columns(uri, ["x"]), lo.add_columns(uri, {"x": "i"})),
            CommitConflictError,
            "column 'x' was replaced by one of type int64",
        ),
    ],
    ids=["value that does not fit", "column gone", "column replaced"],
)
def test_rows_that_do_not_fit_the_new_schema_are_refused_and_removed(uri, change, error, words):
    if error is SchemaMismatchError:
        lo.delete(uri, "x % 1 > 0")
    with pytest.raises(error, match=words):
        lo.append(uri, rows(10, 12), committer=Late(lambda: change(uri)))
    assert lo.dataset(uri).count_rows("i >= 10") == 0
    assert data_files(uri) == used_files(uri)
