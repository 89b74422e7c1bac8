"""A mirror of a change feed: after each epoch it has the rows of the dataset, deletions included."""

import random
import tempfile
from pathlib import Path
from unittest import mock

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, SchemaMismatchError, UnsupportedError
from lance_ops.maintenance.merge_insert import operation
from lance_ops.maintenance.merge_insert.plan import plan_merge
from lance_ops.spark.streaming.net_changes import net_changes
from lance_ops.spark.streaming.options import SinkOptions, sink_options
from lance_ops.spark.types import arrow_schema, spark_schema
from tests.safety.stream_crashes import changed
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
        assert net.gone.to_pylist() == [{"id": 2}]


KEYS = st.tuples(st.integers(0, 3), st.sampled_from(["", "it's", "b"]))
STEPS = st.lists(
    st.lists(st.tuples(KEYS, st.sampled_from(["put", "delete", "replace"]), st.integers(0, 99)), max_size=12),
    max_size=5,
)


@settings(max_examples=40)
@given(STEPS, st.booleans())
def test_keys_of_several_columns_end_as_a_dictionary_that_is_changed_in_turn(epochs, indexed):
    with tempfile.TemporaryDirectory() as folder:
        _follow(str(Path(folder, "t.lance")), epochs, indexed=indexed)


def _follow(uri, epochs, *, indexed):
    there = {(0, ""): 0, (1, "b"): 1, (9, "stays"): 2}
    lo.append(uri, _keyed(list(there.items())))
    if indexed:
        lo.create_index(uri, "a")
    version = 1
    for number, steps in enumerate(epochs):
        parts = []
        for key, kind, value in steps:
            version += 1
            former = there.pop(key, None)
            if kind == "put":
                there[key] = value
                if former is not None:
                    parts.append(_change(key, former, "update_preimage", version))
                parts.append(_change(key, value, "insert" if former is None else "update_postimage", version))
                continue
            # Also of keys that are not there: an epoch that comes again after a crash has such.
            parts.append(_change(key, former or 0, "delete", version))
            if kind == "replace":
                there[key] = value
                parts.append(_change(key, value, "insert", version))
        feed_ = pa.concat_tables([_change((0, ""), 0, "delete", 1).slice(0, 0), *parts])
        sink = SinkOptions(uri, merge_keys=("a", "b"), apply_changes=True, compact_every=0)
        stream = SinkQuery(sink, spark_schema(feed_.schema))
        for _ in range(2):
            stream.run(number, [feed_])
        found = lo.dataset(uri).to_table().to_pylist()
        assert {(row["a"], row["b"]): row["v"] for row in found} == there
        assert len(found) == len(there)


def _keyed(items):
    return pa.table(
        {
            "a": pa.array([a for (a, _), _ in items], pa.int64()),
            "b": pa.array([b for (_, b), _ in items], pa.string()),
            "v": pa.array([value for _, value in items], pa.int64()),
        }
    )


def _change(key, value, kind, version):
    return changed(_keyed([(key, value)]), kind, version)


def test_many_deletions_by_keys_of_several_columns_take_no_condition_for_each(tmp_path):
    uri = str(tmp_path / "t.lance")
    every = [((number, str(number % 7)), number) for number in range(20_000)]
    lo.append(uri, _keyed(every))
    leaving = _keyed(every[::2]).select(["a", "b"])
    with mock.patch.object(operation, "plan_merge", wraps=operation.plan_merge) as planned:
        done = operation.merge_changes(uri, _keyed(every[1:4:2]), leaving, ["a", "b"])
    assert (done.rows_deleted, done.rows_updated, done.rows_inserted) == (10_000, 2, 0)
    assert planned.call_args.args[4].when_not_matched_by_source is None
    assert lo.dataset(uri).count_rows() == 10_000
    assert operation.merge_changes(uri, _keyed([]), leaving, ["a", "b"]).changed is False


def test_a_key_that_stays_and_goes_is_refused(tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.append(uri, _keyed([((1, "a"), 1)]))
    with pytest.raises(InvalidArgumentError, match="have the same key"):
        operation.merge_changes(
            uri, _keyed([((1, "a"), 2)]), _keyed([((1, "a"), 0)]).select(["a", "b"]), ["a", "b"]
        )
    assert lo.dataset(uri).to_table().to_pylist() == [{"a": 1, "b": "a", "v": 1}]


def test_deletions_by_key_ask_an_index_of_a_large_dataset(tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.append(uri, pa.table({"id": range(5000), "v": range(5000)}))
    lo.create_index(uri, "id")
    plans = []

    def plan(*arguments, **named):
        plans.append(plan_merge(*arguments, **named))
        return plans[-1]

    with mock.patch.object(operation, "plan_merge", plan):
        done = operation.merge_changes(
            uri, pa.table({"id": [7], "v": [70]}), pa.table({"id": [3, 9, 9999]}), ["id"]
        )
    assert (done.rows_deleted, done.rows_updated) == (2, 1)
    assert plans[0].uses_index
    assert lo.dataset(uri).to_table(filter="id IN (3, 7, 9)").to_pylist() == [{"id": 7, "v": 70}]


def test_what_cannot_be_mirrored_is_refused(tmp_path):
    swapped = [(2, "update_preimage", 1, "a"), (2, "update_postimage", 2, "a")]
    with pytest.raises(UnsupportedError, match="changed the key"):
        net_changes(feed(*swapped), ["id"])
    back = [(2, "update_preimage", 2, "b"), (2, "update_postimage", 1, "b")]
    assert not net_changes(feed(*swapped, *back), ["id"]).gone.num_rows
    with pytest.raises(InvalidArgumentError, match="type of change"):
        net_changes(feed((1, "upsert", 1, "a")), ["id"])
    with pytest.raises(InvalidArgumentError, match="null in its key"):
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
