"""Primary keys of every type: two upserts of one new key give one row, whoever commits first."""

from datetime import date
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_ops as lo
from lance_ops.pb import transaction_pb2
from lance_ops.table.transaction.key_filter import KeyFilter

UPSERT: Any = {"when_matched": "update_all", "when_not_matched": "insert_all"}
DECLARED = "lance-schema:unenforced-primary-key"

KEYS: list[tuple[list[pa.DataType], list[Any], list[Any]]] = [
    *(([kind], [3], [-100]) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    *(([kind], [3], [200]) for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())),
    ([pa.uint64()], [3], [2**64 - 1]),
    *(([kind], ["a"], ["b"]) for kind in (pa.string(), pa.large_string())),
    *(([kind], [b"abc"], [b"ab\0"]) for kind in (pa.binary(), pa.large_binary(), pa.binary(3))),
    ([pa.dictionary(pa.int32(), pa.string())], ["a"], ["b"]),
    ([pa.dictionary(pa.int8(), pa.int64())], [1], [2]),
    ([pa.bool_()], [True], [False]),
    ([pa.float64()], [1.0], [2.0]),
    ([pa.date32()], [date(2000, 1, 1)], [date(2020, 1, 1)]),
    ([pa.timestamp("us")], [1], [5]),
    ([pa.decimal128(10, 2)], [1], [2]),
    ([pa.int32(), pa.string()], [3, "b"], [-7, "x"]),
    ([pa.binary(), pa.int16()], [b"b", 3], [b"x\0", -7]),
    ([pa.uint8(), pa.int64()], [1, 1], [0, 0]),
    ([pa.int64(), pa.dictionary(pa.int32(), pa.string())], [1, "a"], [2, "b"]),
]


def case_name(case) -> str:
    return "+".join(str(kind).partition(", indices")[0] for kind in case[0]) + f" {case[2]!r}"


class Table:
    """A dataset with one row, whose primary key is of some types; upserts of one other key."""

    def __init__(self, uri: str, case):
        self.uri, (self.kinds, first, self.key) = uri, case
        self.on = [f"k{number}" for number in range(len(self.kinds))]
        lance.write_dataset(self.rows(first, 0), uri)

    def rows(self, key: list[Any], x: int) -> pa.Table:
        fields = [
            pa.field(name, kind, False, {DECLARED: "true", f"{DECLARED}:position": str(number + 1)})
            for number, (name, kind) in enumerate(zip(self.on, self.kinds, strict=True))
        ]
        columns = [pa.array([value], kind) for value, kind in zip(key, self.kinds, strict=True)]
        return pa.table([*columns, pa.array([x])], schema=pa.schema([*fields, pa.field("x", pa.int64())]))

    def by_us(self, x: int, **run: Any) -> lo.MergeResult:
        return lo.merge_insert(self.uri, self.rows(self.key, x), self.on, **UPSERT, **run)

    def by_peer(self, x: int, dataset: lance.LanceDataset | None = None) -> None:
        merge = (dataset or lance.dataset(self.uri)).merge_insert(self.on)
        merge.when_matched_update_all().when_not_matched_insert_all().execute(self.rows(self.key, x))

    def check(self, x: int) -> None:
        for found in (lo.dataset(self.uri).to_table(), lance.dataset(self.uri).to_table()):
            assert sorted(found["x"].to_pylist()) == [0, x]
            assert found.filter(pc.equal(found["x"], x)).to_pylist() == self.rows(self.key, x).to_pylist()


@pytest.mark.peer
@pytest.mark.parametrize("case", KEYS, ids=case_name)
def test_a_key_that_the_peer_adds_while_ours_commits_is_that_of_one_row(tmp_path, case):
    made = Table(str(tmp_path / "t"), case)
    acts = [lambda: made.by_peer(1)]

    def progress(event):
        if event.message == "committing" and acts:
            acts.pop()()

    result = made.by_us(2, progress=progress)
    assert (result.rows_inserted, result.rows_updated) == (0, 1)
    assert result.conflicts
    made.check(2)


@pytest.mark.peer
@pytest.mark.parametrize("case", KEYS, ids=case_name)
def test_a_key_that_ours_adds_before_the_peer_commits_is_that_of_one_row(tmp_path, case):
    made = Table(str(tmp_path / "t"), case)
    read = lance.dataset(made.uri)
    made.by_us(1)
    made.by_peer(2, read)
    made.check(2)


@pytest.mark.peer
@pytest.mark.parametrize("kind", [pa.int16(), pa.uint32()], ids=str)
def test_a_filter_without_keys_tells_nothing(tmp_path, kind):
    made = Table(str(tmp_path / "t"), ([kind], [3], [7]))
    made.by_peer(1)
    message = transaction_pb2.Transaction.FromString(lo.dataset(made.uri).manifest.transaction)
    theirs = KeyFilter.decode(message.update.inserted_rows)
    # The peer knows no bytes for the smaller numbers, and yet says which keys it added: none.
    assert theirs.is_empty == (kind.bit_width < 32)
    assert theirs.meets(theirs)
    assert KeyFilter(theirs.field_ids, frozenset()).meets(KeyFilter(theirs.field_ids, frozenset({1})))
