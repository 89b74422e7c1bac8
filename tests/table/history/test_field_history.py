"""Field history: transactions are read only where schemas and data files leave open what a column was."""

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.table.history.field_history import find_origins


@pytest.fixture
def uri(tmp_path) -> str:
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(pa.table({"i": range(6), "x": [0.5] * 6}), uri, max_rows_per_file=3)
    return uri


def origins(uri: str, read: list[int]) -> dict[int, int]:
    new = lo.dataset(uri)

    def operation_of(version: int):
        read.append(version)
        return new.read_transaction(version).operation

    return dict(find_origins(lo.dataset(uri, 1), new, operation_of))


@pytest.mark.parametrize(
    "change",
    [lambda uri: lo.append(uri, lo.dataset(uri).to_table()), lambda uri: lo.delete(uri, "i = 1")],
    ids=["append", "delete"],
)
def test_a_shared_fragment_proves_that_columns_are_the_same(uri, change):
    change(uri)
    read: list[int] = []
    assert origins(uri, read) == {0: 0, 1: 1}
    assert read == []


def test_transactions_tell_where_all_fragments_are_new(uri):
    lo.compact(uri)
    read: list[int] = []
    assert origins(uri, read) == {0: 0, 1: 1}
    assert read == list(range(2, lo.dataset(uri).version + 1))


def test_an_overwrite_is_followed_by_name(uri):
    lo.write_dataset(pa.table({"x": ["a"], "y": [1]}), uri, mode="overwrite")
    # x got the id that i had.
    assert origins(uri, []) == {0: 1}
