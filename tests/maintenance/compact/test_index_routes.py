"""Routes of index segments in a compaction, by what they cost: planned, taken, measured."""

import json
import shutil

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.index.upkeep import routes as model
from lance_ops.index.upkeep.routes import Route
from lance_ops.maintenance.runner import LocalRunner
from tests.support.elsewhere import Elsewhere

ROWS, FRAGMENT = 4000, 500
KINDS = {
    "number": "BTREE",
    "group": "BITMAP",
    "labels": "LABEL_LIST",
    "zone": "ZONEMAP",
    "text": "INVERTED",
    "words": "NGRAM",
}
FILTERS = (
    "number = 4711 - 700",
    "group = 3",
    "array_has(labels, 'l2')",
    "zone < 300",
    "contains(words, 'w12')",
)


@pytest.fixture
def table(tmp_path):
    """Fragments under six kinds of the peer."""
    uri = str(tmp_path / "t.lance")
    numbers = np.arange(ROWS)
    rows = pa.table(
        {
            "id": numbers,
            "number": numbers[::-1].copy(),
            "group": [None if n % 11 == 0 else n % 7 for n in numbers.tolist()],
            "labels": [[f"l{n % 3}", f"l{n % 5}"] for n in numbers.tolist()],
            "zone": numbers,
            "text": [f"word w{n}" for n in numbers.tolist()],
            "words": [f"word w{n}" for n in numbers.tolist()],
        }
    )
    dataset = lance.write_dataset(rows, uri, max_rows_per_file=FRAGMENT)
    for column, kind in KINDS.items():
        dataset.create_scalar_index(column, kind)
    return uri


def both_answer_right(uri) -> None:
    dataset = lance.dataset(uri)
    for sql in FILTERS:
        scanned = dataset.to_table(filter=sql, columns=["id"], use_scalar_index=False)
        expected = sorted(scanned["id"].to_pylist())
        assert "ScalarIndexQuery" in dataset.scanner(filter=sql).explain_plan()
        assert sorted(dataset.to_table(filter=sql, columns=["id"])["id"].to_pylist()) == expected
        assert sorted(lo.dataset(uri).to_table(filter=sql, columns=["id"])["id"].to_pylist()) == expected
    left = dataset.to_table(columns=["text"])["text"][0].as_py().split()[1]
    assert dataset.to_table(full_text_query=left, columns=["id"]).num_rows == 1


@pytest.mark.parametrize("runner", [LocalRunner(), Elsewhere()], ids=["here", "elsewhere"])
def test_what_deletes_have_left_little_of_is_built_anew_where_that_is_cheaper(table, monkeypatch, runner):
    monkeypatch.setattr(model, "_SEGMENT_SECONDS", 0.0)
    monkeypatch.setattr(model, "BYTES_PER_SECOND", 1e12)
    lance.dataset(table).delete("id % 10 <> 5")
    plan = lo.compact(table, dry_run=True)
    routes = {item.segment.name: item.route for item in plan.indices}
    assert routes == {
        "number_idx": Route.BUILD,
        "group_idx": Route.BUILD,
        "labels_idx": Route.BUILD,
        "zone_idx": Route.LOOK,
        "text_idx": Route.MOVE,
        "words_idx": Route.MOVE,
    }
    assert "10% of the rows that it names are left: about" in str(plan)
    done = lo.compact(table, runner=runner)
    assert {item.index: item.route for item in done.index_segments} == {
        name: route.value for name, route in routes.items()
    }
    assert done.rows_indexed_after == done.rows_indexed_before == dict.fromkeys(routes, ROWS // 10)
    both_answer_right(table)
    assert lo.fsck(table, deep=True).ok
    lance.dataset(table).optimize.optimize_indices()
    both_answer_right(table)


def test_a_full_segment_is_moved_and_the_plan_tells_what_a_build_takes(table):
    plan = lo.compact(table, dry_run=True)
    moved = {item.segment.name: item for item in plan.indices if item.route is Route.MOVE}
    assert set(moved) == {"number_idx", "group_idx", "labels_idx", "text_idx", "words_idx"}
    assert all(", a build " in item.reason for item in moved.values())
    lines = {line["index"]: line for line in plan.to_dict()["indices"]}
    assert all(line["seconds"] > 0 and line["bytes"] > 0 for line in lines.values())
    assert plan.index_seconds == pytest.approx(sum(line["seconds"] for line in lines.values()))


def test_each_segment_is_measured_beside_what_was_foreseen(table):
    planned = {item.segment.name: item for item in lo.compact(table, dry_run=True).indices}
    done = lo.compact(table)
    assert {item.index for item in done.index_segments} == set(planned)
    for item in done.index_segments:
        assert item.seconds > 0
        assert item.seconds_planned == planned[item.index].cost.seconds
        assert item.segment == str(planned[item.index].segment.uuid)
    assert sum(item.bytes_written for item in done.index_segments) == done.index_bytes_written
    assert json.loads(json.dumps(done.to_dict()))["index_segments"][0].keys() >= {"index", "route", "seconds"}


def test_a_large_segment_of_which_little_moves_waits_where_that_is_allowed_and_cheaper(table, monkeypatch):
    monkeypatch.setattr(model, "_READER_SECONDS", 0.0)
    monkeypatch.setattr(model, "_SEGMENT_SECONDS", 1.0)
    kept = {"exclude_fragments": range(2, ROWS // FRAGMENT)}
    assert Route.DEFER not in {item.route for item in lo.compact(table, dry_run=True, **kept).indices}
    done = lo.compact(table, defer_where_cheaper=True, **kept)
    assert (done.remaps_deferred, done.indices_remapped) == (5, 1)
    both_answer_right(table)
    # All that is left of the segments moves: to wait would only put off what it costs.
    plan = lo.compact(table, dry_run=True, defer_where_cheaper=True)
    assert Route.DEFER not in {item.route for item in plan.indices}


def test_segments_are_the_same_whether_written_side_by_side_or_in_turn(table, tmp_path):
    answers = []
    for threads in (1, 4):
        uri = str(tmp_path / f"copy-{threads}.lance")
        shutil.copytree(table, uri)
        done = lo.compact(uri, runner=LocalRunner(threads))
        assert done.indices_remapped == len(KINDS)
        both_answer_right(uri)
        answers.append({item.name: item.size_bytes for item in lo.dataset(uri).indices})
    assert answers[0] == answers[1]
