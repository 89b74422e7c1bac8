"""A mirror of a change feed: after each epoch it has the rows of the dataset, deletions included."""

import random

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, SchemaMismatchError, UnsupportedError
from lance_ops.spark.streaming.net_changes import net_changes
from lance_ops.spark.streaming.options import SinkOptions, sink_options
from lance_ops.spark.types import arrow_schema
from tests.safety.stream_histories import grow, query, rows
from tests.support.streams import SinkQuery, SourceQuery


class Mirror:
    """A stream of changes from one dataset, applied to another one."""

    def __init__(self, source: str, sink: str, **limits: int) -> None:
        self.stream: SourceQuery = query(source, mode="changes", starting_version=1, **limits)
        self.sink = sink
        self.number = 0

    def catch_up(self) -> None:
        """Epochs until there is nothing new; each is delivered twice, as after a crash."""
        while self.stream.plan():
            told = self.stream.read()
            assert self.stream.schema is not None
            table = pa.Table.from_pylist(told, schema=arrow_schema(self.stream.schema))
            writer = SinkQuery(
                SinkOptions(self.sink, merge_keys=("id",), apply_changes=True, compact_every=0),
                self.stream.schema,
                travels=1 << 20 if self.number % 2 else 0,
            )
            for _ in range(2):
                writer.run(self.number, [table.slice(0, 2), table.slice(2)])
            self.stream.commit()
            self.number += 1


def content(uri: str) -> list[dict]:
    return lo.dataset(uri).to_table().sort_by("id").to_pylist()


@pytest.mark.peer
@pytest.mark.parametrize("stable", [True, False])
@pytest.mark.parametrize("limits", [{}, {"max_rows": 3}, {"max_versions": 1}])
def test_a_mirror_follows_histories_of_both_writers(tmp_path, stable, limits):
    source, sink = str(tmp_path / "a.lance"), str(tmp_path / "b.lance")
    lo.append(source, rows(0, 10), enable_stable_row_ids=stable)
    mirror, dice, fresh = Mirror(source, sink, **limits), random.Random(7), 10
    for _ in range(12):
        for _ in range(dice.randint(1, 3)):
            fresh = grow(source, dice, fresh, changes=True)
        mirror.catch_up()
        assert content(sink) == content(source)
    assert lance.dataset(sink).count_rows() == lo.dataset(source).count_rows()
    assert not set(lo.dataset(sink).schema.names) - {"id", "v"}


def test_an_epoch_of_deletions_and_insertions_is_one_commit(tmp_path):
    source, sink = str(tmp_path / "a.lance"), str(tmp_path / "b.lance")
    lo.append(source, rows(0, 10), enable_stable_row_ids=True)
    mirror = Mirror(source, sink)
    mirror.catch_up()
    before = lo.dataset(sink).version
    lo.delete(source, "id < 3")
    lo.update(source, {"v": "'new'"}, where="id = 5")
    lo.append(source, rows(10, 2))
    lo.delete(source, "id = 10")
    mirror.catch_up()
    assert lo.dataset(sink).version == before + 1
    assert content(sink) == content(source)
    lo.delete(source, "id = 4")
    mirror.catch_up()
    assert content(sink) == content(source)


def feed(*changes: tuple[int, str, int, str]) -> pa.Table:
    """Rows of a feed: version, kind, key, value."""
    return pa.table(
        {
            "id": pa.array([key for _, _, key, _ in changes], pa.int64()),
            "v": [value for *_, value in changes],
            "_change_type": [kind for _, kind, *_ in changes],
            "_commit_version": pa.array([version for version, *_ in changes], pa.int64()),
        }
    )


def test_the_last_change_of_a_key_counts_in_whatever_order_rows_come():
    changes = [
        (1, "insert", 1, "a"),
        (2, "update_preimage", 1, "a"),
        (2, "update_postimage", 1, "b"),
        (3, "delete", 1, "b"),
        (3, "insert", 1, "c"),
        (1, "insert", 2, "a"),
        (4, "delete", 2, "a"),
        (4, "delete", 3, "z"),
        (5, "insert", 3, "y"),
    ]
    dice = random.Random(3)
    for _ in range(20):
        dice.shuffle(changes)
        net = net_changes(feed(*changes), ["id"])
        assert sorted(net.rows.to_pylist(), key=str) == [{"id": 1, "v": "c"}, {"id": 3, "v": "y"}]
        assert net.gone_sql() == "id IN (2)"


def test_keys_of_several_columns_are_deleted_as_such():
    table = feed((1, "delete", 1, "it's"), (1, "delete", 2, "b"))
    assert net_changes(table, ["id", "v"]).gone_sql() in (
        "(id = 1 AND v = 'it''s') OR (id = 2 AND v = 'b')",
        "(id = 2 AND v = 'b') OR (id = 1 AND v = 'it''s')",
    )


def test_what_cannot_be_mirrored_is_refused(tmp_path):
    swapped = [(2, "update_preimage", 1, "a"), (2, "update_postimage", 2, "a")]
    with pytest.raises(UnsupportedError, match="another one"):
        net_changes(feed(*swapped), ["id"])
    back = [(2, "update_preimage", 2, "b"), (2, "update_postimage", 1, "b")]
    assert net_changes(feed(*swapped, *back), ["id"]).gone_sql() is None
    with pytest.raises(InvalidArgumentError, match="kind of change"):
        net_changes(feed((1, "upsert", 1, "a")), ["id"])
    with pytest.raises(InvalidArgumentError, match="without a key"):
        net_changes(feed((1, "delete", None, "a")), ["id"])
    with pytest.raises(InvalidArgumentError, match="mergeKeys"):
        sink_options({"path": "x", "applyChanges": "true"})
    assert sink_options({"path": "x", "applyChanges": "true", "mergeKeys": "id"}).apply_changes
    plain = query(str(tmp_path / "a.lance"))
    lo.append(str(tmp_path / "a.lance"), rows(0, 2))
    plain.everything()
    with pytest.raises(SchemaMismatchError, match="mode=changes"):
        SinkQuery(
            SinkOptions("x", merge_keys=("id",), apply_changes=True),
            plain.schema,
        ).run(0, [rows(0, 1)])
