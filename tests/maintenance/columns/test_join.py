"""Columns of another table join those of the dataset by a key, as the peer merges them."""

import pickle

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, SchemaMismatchError, UnsupportedError
from tests.support.interop import data_files, our_dataset, peer_table, rows


@pytest.fixture
def uri(tmp_path):
    return str(tmp_path / "t.lance")


OTHER = pa.table(
    {"x": pa.array([8, 2, None, 0, 99], pa.int64()), "m": ["h", "c", "?", "a", "z"], "n": [8, 2, 3, 0, 9]}
)


@pytest.mark.peer
@pytest.mark.parametrize("stable", [False, True])
def test_a_left_join_as_with_the_peer(tmp_path, stable):
    tables, versions = [], []
    for side in ("ours", "peers"):
        uri = str(tmp_path / side)
        our_dataset(uri, [5, 4], enable_stable_row_ids=stable)
        lo.delete(uri, "x = 2")
        if side == "ours":
            done = lo.merge(uri, OTHER, "x", job_key="k")
            assert (done.columns, done.fragments_updated) == (("m", "n"), 2)
            assert lo.merge(uri, OTHER, "x", job_key="k").already_committed
        else:
            lance.dataset(uri).merge(OTHER, "x")
        tables.append(peer_table(uri))
        assert lo.dataset(uri).to_table().equals(tables[-1])
        if stable:
            versions.append(peer_table(uri, columns=["_row_last_updated_at_version"]).to_pylist())
        assert lo.fsck(uri, deep=True).ok
    assert tables[0].equals(tables[1])
    assert tables[0]["m"].to_pylist() == ["a", *[None] * 6, "h"]
    if stable:
        assert versions[0] == versions[1]


def test_keys_may_have_another_name_and_another_type(uri):
    our_dataset(uri, [4])
    plan = lo.merge(uri, pa.table({"k": ["0", "3"], "y": [1, 2]}), "x", "k", dry_run=True)
    assert "y (int64)" in str(plan)
    lo.merge(uri, pa.table({"k": ["0", "3"], "y": [1, 2]}), "x", "k")
    lo.merge(uri, pa.table({"k": pa.array([1], pa.uint8()), "z": [1]}), "x", "k")
    lo.merge(uri, pa.table({"s": pa.array(["row 1"]).dictionary_encode(), "q": [7]}), "s")
    lo.merge(uri, pa.schema([("x", pa.int64()), ("none", pa.int8())]).empty_table(), "x")
    found = lo.dataset(uri).to_table()
    assert found["y"].to_pylist() == [1, None, None, 2]
    assert found["z"].to_pylist() == [None, 1, None, None]
    assert found["q"].to_pylist() == [None, 7, None, None]
    assert found["none"].null_count == 4


@pytest.mark.parametrize(
    ("data", "keys", "error", "match"),
    [
        ({"x": [1, 5, 1], "y": [1, 2, 3]}, ("x",), SchemaMismatchError, "x: 1 in rows 0 and 2"),
        ({"x": [1.0, 2.5], "y": [1, 2]}, ("x",), SchemaMismatchError, "2.5 is no int64 in row 1"),
        ({"x": [[1]], "y": [1]}, ("x",), SchemaMismatchError, "cannot become"),
        ({"k": [1], "y": [1]}, ("x",), InvalidArgumentError, "no column 'x'"),
        ({"k": [1], "y": [1]}, ("nope", "k"), InvalidArgumentError, "nope"),
        ({"x": [1], "s": ["a"]}, ("x",), InvalidArgumentError, "cannot add"),
        ({"x": [1]}, ("x",), InvalidArgumentError, "cannot add"),
    ],
)
def test_what_cannot_be_joined_is_refused_by_name(uri, data, keys, error, match):
    our_dataset(uri, [4])
    before = data_files(uri)
    with pytest.raises(error, match=match):
        lo.merge(uri, pa.table(data), *keys)
    assert (lo.dataset(uri).version, data_files(uri)) == (1, before)


def test_a_nested_key_is_refused(uri):
    lo.append(uri, pa.table({"p": [{"a": 1}]}))
    with pytest.raises(UnsupportedError, match="top-level"):
        lo.merge(uri, pa.table({"a": [1], "y": [1]}), "p.a", "a")


def test_rows_that_others_append_meanwhile_are_joined_too(uri):
    our_dataset(uri, [4])
    acts = [lambda: lo.append(uri, rows(4, 9))]

    def other(event):
        if event.message == "committing" and acts:
            acts.pop()()

    assert lo.merge(uri, OTHER, "x", progress=other).conflicts
    assert lo.dataset(uri).to_table()["n"].to_pylist() == [0, None, 2, *[None] * 5, 8]


class TravellingRunner:
    """Takes tasks to another process and back, as far as one can tell, and notes what they weigh."""

    def __init__(self):
        self.sizes = []

    def map(self, function, tasks, *, on_done=None):
        results = []
        for number, task in enumerate(tasks):
            data = pickle.dumps(task)
            self.sizes.append(len(data))
            results.append(function(pickle.loads(data)))
            if on_done is not None:
                on_done(number, results[-1])
        return results


@pytest.mark.parametrize("job_key", [None, "k"])
def test_the_other_table_does_not_travel_with_the_tasks(uri, job_key):
    our_dataset(uri, [5, 4, 3])
    other = pa.table({"x": range(20_000), "key": [f"{n:08}" for n in range(20_000)]})
    runner = TravellingRunner()
    done = lo.merge(uri, other, "x", runner=runner, job_key=job_key)
    assert done.fragments_updated == len(runner.sizes) == 3
    assert max(runner.sizes) < 20_000
    found = lo.dataset(uri).to_table()
    assert found["key"].to_pylist() == [f"{n:08}" for n in range(12)]
    named = {file.path for fragment in lo.dataset(uri).fragments for file in fragment.files}
    assert {path.rpartition("/")[2] for path in data_files(uri)} == named
    # Another table of the same columns is not taken for this one.
    lo.drop_columns(uri, ["key"])
    lo.merge(uri, other.slice(0, 2), "x", runner=runner)
    assert lo.dataset(uri).to_table()["key"].null_count == 10
    lo.merge(uri, pa.table({"x": pa.array([], pa.int64()), "n": pa.array([], pa.int8())}), "x", runner=runner)
    assert lo.dataset(uri).to_table()["n"].null_count == 12


def test_a_merge_that_fails_elsewhere_leaves_nothing(uri):
    our_dataset(uri, [5])

    class Lost(TravellingRunner):
        def map(self, function, tasks, *, on_done=None):
            super().map(function, tasks, on_done=on_done)
            raise lo.errors.TaskFailedError("an executor was lost")

    before = data_files(uri)
    with pytest.raises(lo.errors.TaskFailedError):
        lo.merge(uri, OTHER, "x", runner=Lost())
    assert data_files(uri) == before


@pytest.mark.parametrize(
    "key",
    [
        pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32(), 2)),
        pa.nulls(2),
        pa.array([1, 2], pa.float32()).cast(pa.float16()),
        pa.array([[1], [2]]),
        pa.array([{"a": 1}, {"a": 2}]),
    ],
    ids=lambda key: str(key.type),
)
def test_a_column_that_cannot_be_a_key_is_refused_by_name(tmp_path, key):
    uri = str(tmp_path / "t.lance")
    lo.append(uri, pa.table({"id": [1, 2], "k": key}))
    with pytest.raises(UnsupportedError, match=r"'k'.*cannot be a key"):
        lo.merge(uri, pa.table({"k": key, "w": [1, 2]}), "k")
    assert lo.dataset(uri).version == 1
