"""A stream delivers what every version added or changed: once, in order of versions, and never over a gap."""

import shutil
from datetime import UTC, datetime, timedelta
from itertools import chain

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import (
    InvalidArgumentError,
    SchemaMismatchError,
    StreamChangeError,
    StreamGapError,
    VersionNotFoundError,
)
from lance_ops.spark.streaming.options import source_options
from tests.safety.stream_histories import check_history, query, rows
from tests.table.test_former_values import CHANGES as COLUMN_CHANGES
from tests.table.test_former_values import table as column_table


def ids(delivered) -> list[int]:
    return [row["id"] for row in delivered]


@pytest.fixture
def uri(tmp_path) -> str:
    uri = str(tmp_path / "t.lance")
    lo.append(uri, rows(0, 10), enable_stable_row_ids=True, max_rows_per_file=4)
    return uri


def test_a_query_begins_with_all_rows_and_goes_on_with_those_that_are_added(uri):
    lo.delete(uri, "id = 3")
    stream = query(uri)
    assert ids(stream.everything()) == [0, 1, 2, *range(4, 10)]
    lo.append(uri, rows(10, 5))
    lance.write_dataset(rows(15, 5), uri, mode="append")
    stream.restart()
    assert ids(stream.everything()) == list(range(10, 20))
    assert stream.everything() == []


def test_layout_gives_nothing(uri):
    stream = query(uri)
    stream.everything()
    lo.append(uri, rows(10, 1))
    lo.compact(uri)
    lo.create_index(uri, "id")
    lance.dataset(uri).optimize.compact_files()
    assert ids(stream.everything()) == [10]
    lo.append(uri, rows(11, 1))
    assert ids(stream.everything()) == [11]


@pytest.mark.parametrize("limit", [{"max_rows": 3}, {"max_bytes": 1}, {"max_versions": 1}, {}])
def test_limits_cut_epochs_and_lose_no_row(uri, limit):
    for number in range(3):
        lo.append(uri, rows(10 + 5 * number, 5))
    stream = query(uri, starting_version=1, **limit)
    epochs = stream.drain()
    assert ids(list(chain(*epochs))) == list(range(25))
    sizes = [len(epoch) for epoch in epochs]
    if "max_rows" in limit:
        assert max(sizes) == 3
    elif "max_versions" in limit:
        assert sizes == [10, 5, 5, 5]
    elif "max_bytes" in limit:
        assert set(sizes) == {1}
    else:
        assert sizes == [25]


def test_a_restart_in_the_middle_of_a_version_reads_the_same_epoch_again(uri):
    stream = query(uri, max_rows=4)
    assert stream.plan()
    first = stream.read()
    stream.commit()
    assert stream.plan()
    second = stream.read()
    lo.append(uri, rows(10, 5))
    stream.restart()
    assert stream.plan()
    assert stream.read() == second
    stream.commit()
    assert ids(first + second) + ids(list(chain(*stream.drain()))) == list(range(15))


def test_where_a_query_begins(uri):
    lo.append(uri, rows(10, 1))
    lo.dataset(uri).versions()
    between = lo.dataset(uri).versions()[-1].timestamp + timedelta(microseconds=1)
    lo.append(uri, rows(11, 1))
    lo.create_tag(uri, "mark", 2)
    assert ids(query(uri, starting_version=2).everything()) == [10, 11]
    assert ids(query(uri, starting_tag="mark").everything()) == [10, 11]
    assert ids(query(uri, starting_timestamp=between).everything()) == [11]
    assert ids(query(uri, starting_timestamp=datetime(2000, 1, 1, tzinfo=UTC)).everything()) == list(
        range(12)
    )
    latest = query(uri, starting_version="latest")
    assert latest.everything() == []
    lo.append(uri, rows(12, 1))
    assert ids(latest.everything()) == [12]
    with pytest.raises(VersionNotFoundError, match="version 99 does not exist"):
        query(uri, starting_version=99).everything()


def test_a_change_of_delivered_rows_is_an_error_or_passed_over(uri):
    stream, skipping = query(uri), query(uri, skip_change_commits=True)
    stream.everything(), skipping.everything()
    lo.append(uri, rows(10, 1))
    lo.delete(uri, "id = 1")
    lo.update(uri, {"v": "'new'"}, where="id = 2")
    lo.append(uri, rows(11, 1))
    with pytest.raises(StreamChangeError, match="version 3"):
        stream.everything()
    assert ids(skipping.everything()) == [10, 11]


def test_an_upsert_that_only_adds_is_an_append(uri):
    stream = query(uri)
    stream.everything()
    lo.merge_insert(uri, rows(10, 3), "id", when_matched="update_all", when_not_matched="insert_all")
    assert ids(stream.everything()) == [10, 11, 12]


def test_changes_tell_rows_as_they_were_and_as_they_are(uri):
    stream = query(uri, mode="changes", starting_version="latest")
    assert stream.everything() == []
    lo.append(uri, rows(10, 1))
    lo.update(uri, {"v": "'new'"}, where="id = 2")
    lo.delete(uri, "id = 1")
    lo.compact(uri)
    restored = lo.restore(uri, 2).version
    told = [(row["_commit_version"], row["_change_type"], row["id"], row["v"]) for row in stream.everything()]
    assert told == [
        (2, "insert", 10, "v0"),
        (3, "update_preimage", 2, "v2"),
        (3, "update_postimage", 2, "new"),
        (4, "delete", 1, "v1"),
        (restored, "update_preimage", 2, "new"),
        (restored, "update_postimage", 2, "v2"),
        (restored, "insert", 1, "v1"),
    ]


def test_an_updated_row_is_not_cut_in_two(uri):
    lo.update(uri, {"v": "'new'"}, where="id < 5")
    epochs = query(uri, mode="changes", starting_version=2, max_rows=1).drain()
    assert [len(epoch) for epoch in epochs] == [2] * 5
    assert all(epoch[0]["id"] == epoch[1]["id"] for epoch in epochs)


# Gaps


def clean(uri: str, by: str) -> None:
    if by == "ours":
        lo.cleanup(uri, retain_versions=1, delete_unverified=True)
    else:
        lance.dataset(uri).cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)


@pytest.mark.peer
@pytest.mark.parametrize("by", ["ours", "theirs"])
@pytest.mark.parametrize("mode", ["append", "changes"])
def test_a_version_that_was_cleaned_away_is_an_error_and_never_a_gap(uri, by, mode):
    stream = query(uri, mode=mode)
    stream.everything()
    lo.append(uri, rows(10, 1))
    lo.append(uri, rows(11, 1))
    clean(uri, by)
    with pytest.raises(StreamGapError, match="version 2 was removed") as caught:
        stream.everything()
    assert "new checkpoint" in str(caught.value.hint)


@pytest.mark.parametrize("mode", ["append", "changes"])
def test_versions_that_changed_no_row_may_be_cleaned_away(uri, mode):
    stream = query(uri, mode=mode)
    stream.everything()
    lo.compact(uri)
    lo.create_index(uri, "id")
    clean(uri, "ours")
    assert stream.everything() == []
    lo.append(uri, rows(10, 1))
    clean(uri, "ours")
    assert ids(stream.everything()) == [10]


def test_a_dataset_that_was_made_anew_is_noticed(uri):
    lo.append(uri, rows(10, 1))
    stream = query(uri)
    stream.everything()
    shutil.rmtree(uri)
    for number in range(4):
        lo.append(uri, rows(100 + number, 1))
    stream.restart()
    with pytest.raises(StreamGapError, match="recreated"):
        stream.everything()
    shutil.rmtree(uri)
    lo.append(uri, rows(100, 1))
    stream.restart()
    with pytest.raises(StreamGapError, match="recreated"):
        stream.everything()


# Columns


def test_columns_may_come_and_a_column_of_the_stream_may_not_go(uri):
    stream = query(uri, mode="changes", columns=("id", "v"), starting_version=1)
    assert stream.plan()
    lo.add_columns(uri, {"w": "id + 1"})
    lo.append(uri, rows(10, 1).append_column("w", pa.array([0], pa.int64())))
    assert len(stream.everything()) == 11
    wide = query(uri, starting_version=1)
    told = wide.everything()
    assert [row["w"] for row in told] == [None] * 10 + [0]
    lo.drop_columns(uri, ["v"])
    lo.append(uri, rows(20, 1).drop_columns(["v"]).append_column("w", pa.array([0], pa.int64())))
    with pytest.raises(SchemaMismatchError, match="v: not found with this type in version"):
        wide.everything()


DIFFERENT_COLUMNS = sorted(set(COLUMN_CHANGES) - {"id and name reused", "restore", "compaction"})


@pytest.mark.peer
@pytest.mark.parametrize("change", DIFFERENT_COLUMNS)
def test_rows_of_older_versions_have_the_values_of_what_their_columns_became(tmp_path, change):
    """Cast where the type changed, and none of a column that was dropped, whatever has its id or name now."""
    alter, column, expected = COLUMN_CHANGES[change]
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(column_table(), uri, enable_stable_row_ids=True, max_rows_per_file=4)
    lo.update(uri, {"i": "i + 0"}, "i < 2")
    alter(uri)
    told = query(uri, mode="changes", starting_version=1, columns=(column, "i")).everything()
    older = [row for row in told if row["_commit_version"] <= 2]
    assert {row["_change_type"] for row in older} == {"insert", "update_preimage", "update_postimage"}
    assert all(row[column] == expected(row["i"]) for row in older)
    assert {row["i"] for row in older} == set(range(8))


@pytest.mark.peer
@pytest.mark.parametrize(
    ("change", "goes_on"),
    [
        ("rename", True),
        ("compaction", True),
        ("cast", False),
        ("two casts", True),
        ("id reused", False),
        ("name and type reused", False),
    ],
)
def test_a_stream_goes_on_over_what_leaves_its_columns_what_they_are(tmp_path, change, goes_on):
    changes = {
        **COLUMN_CHANGES,
        "name and type reused": (
            lambda uri: (lo.drop_columns(uri, ["x"]), lo.add_columns(uri, {"x": "i * 2.5"})),
            "x",
            None,
        ),
    }
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(column_table(), uri, max_rows_per_file=4)
    stream = query(uri, starting_version=1, columns=("i", "x"), skip_change_commits=True)
    assert len(stream.everything()) == 8
    changes[change][0](uri)
    lo.append(uri, lo.dataset(uri).to_table().slice(0, 3))
    if goes_on:
        assert [row["x"] for row in stream.everything()] == [0.0, 0.5, 1.0]
    else:
        with pytest.raises(SchemaMismatchError, match="x: not found with this type in version"):
            stream.everything()


def test_an_older_type_that_nothing_tells_of_any_more_is_an_error_and_not_null(tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(column_table(), uri)
    lo.alter_columns(uri, {"path": "x", "data_type": pa.float32()})
    stream = query(uri, starting_version=1, columns=("i", "x"), max_versions=1)
    assert stream.plan()
    lo.append(uri, lo.dataset(uri).to_table())
    dataset = lo.dataset(uri)
    dataset.store.delete(dataset.checkout_version(2).location.path)
    with pytest.raises(SchemaMismatchError, match="x: not found with this type in version 1"):
        stream.read()


# Options


def test_options_are_checked():
    both = {"path": "t", "startingVersion": "1", "startingTag": "x"}
    with pytest.raises(InvalidArgumentError, match="one start"):
        source_options(both)
    with pytest.raises(InvalidArgumentError, match="maxRowsPerTrigger"):
        source_options({"path": "t", "maxrowspertriger": "1"})
    with pytest.raises(InvalidArgumentError, match="mode"):
        source_options({"path": "t", "mode": "news"})
    assert source_options({"path": "t", "max_rows_per_trigger": "7"}).max_rows == 7


# Random histories by both writers


@pytest.mark.peer
@pytest.mark.parametrize("seed", range(6))
def test_what_is_delivered_is_the_difference_of_the_snapshots(tmp_path, seed):
    check_history(tmp_path, seed, 14)
