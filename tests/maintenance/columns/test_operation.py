"""Columns are added beside the others, as the peer adds them, also over deleted rows and dropped columns."""

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, PredicateError
from tests.support.interop import data_files, our_dataset, peer_table, rows


@pytest.fixture
def uri(tmp_path):
    return str(tmp_path / "t.lance")


@pytest.mark.peer
@pytest.mark.parametrize("stable", [False, True])
def test_computed_columns_are_those_of_the_peer(tmp_path, stable):
    sql = {"y": "x * 2 + 1", "u": "upper(s)", "one": "1"}
    tables = []
    for side in ("ours", "peers"):
        uri = str(tmp_path / side)
        our_dataset(uri, [7, 5, 4], enable_stable_row_ids=stable)
        lo.delete(uri, "x in (3, 9) or x = 12")
        if side == "ours":
            result = lo.add_columns(uri, sql)
            assert (result.columns, result.fragments_updated, result.version) == (("y", "u", "one"), 3, 5)
        else:
            lance.dataset(uri).add_columns(sql)
        tables.append(peer_table(uri))
        assert lo.dataset(uri).to_table().equals(tables[-1])
    assert tables[0].to_pylist() == tables[1].to_pylist()
    assert tables[0].schema.types == tables[1].schema.types
    lo.append(uri, peer_table(uri).slice(0, 2))
    lo.compact(uri)
    assert lo.fsck(uri, deep=True).ok


def test_deleted_rows_are_not_computed(uri):
    our_dataset(uri, [6])
    with pytest.raises(PredicateError, match="division by zero"):
        lo.add_columns(uri, {"y": "10 / x"})
    before = data_files(uri)
    lo.delete(uri, "x = 0")
    lo.add_columns(uri, {"y": "10 / x"})
    assert lo.dataset(uri).to_table()["y"].to_pylist() == [10, 5, 3, 2, 2]
    assert before <= data_files(uri)


@pytest.mark.peer
def test_columns_of_nulls_write_no_file(uri):
    our_dataset(uri, [4, 3])
    before = data_files(uri)
    result = lo.add_columns(uri, pa.schema([("n", pa.list_(pa.int8())), ("v", pa.list_(pa.float32(), 3))]))
    assert "all null, no file" in str(result)
    assert data_files(uri) == before
    for found in (lo.dataset(uri).to_table(), peer_table(uri)):
        assert found["v"].null_count == found["n"].null_count == 7
    assert lo.add_columns(uri, pa.field("again", pa.int8())).columns == ("again",)


def test_a_dropped_column_does_not_come_back_under_the_id_of_a_new_one(uri):
    our_dataset(uri, [4])
    lo.drop_columns(uri, ["f"])
    lo.add_columns(uri, [pa.field("f", pa.float64())])
    assert lo.dataset(uri).to_table()["f"].null_count == 4
    assert peer_table(uri)["f"].null_count == 4


def test_a_job_is_done_once_and_a_dry_run_changes_nothing(uri):
    our_dataset(uri, [4])
    plan = lo.add_columns(uri, {"y": "x"}, dry_run=True)
    assert (plan.fragments, lo.dataset(uri).version) == (1, 1)
    assert "add y (int64)" in str(plan)
    lo.add_columns(uri, {"y": "x"}, job_key="k")
    assert lo.add_columns(uri, {"y": "x"}, job_key="k").already_committed


def test_rows_that_others_append_meanwhile_get_the_column_too(uri):
    our_dataset(uri, [4])
    acts = [lambda: lo.append(uri, rows(4, 6))]

    def other(event):
        if event.message == "committing" and acts:
            acts.pop()()

    result = lo.add_columns(uri, {"y": "x"}, progress=other)
    assert result.conflicts
    assert lo.dataset(uri).to_table()["y"].to_pylist() == list(range(6))


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({}, InvalidArgumentError),
        ({"x": "1"}, InvalidArgumentError),
        (pa.field("y", pa.int8(), nullable=False), InvalidArgumentError),
        ({"y": "nope"}, PredicateError),
        ({"y": 1}, InvalidArgumentError),
    ],
    ids=str,
)
def test_what_cannot_be_added_is_refused(uri, columns, error):
    our_dataset(uri, [4])
    before = data_files(uri)
    with pytest.raises(error):
        lo.add_columns(uri, columns)
    assert (lo.dataset(uri).version, data_files(uri)) == (1, before)
