"""Names of rows that an update in place took from a segment mislead no reader of the others."""

import lance
import pyarrow as pa
import pytest
from lance.query import MatchQuery

import lance_ops as lo
from lance_ops.index.upkeep.routes import Route

WORDS = ["apple", "pear", "plum", "cherry", "quick", "runs", "fuzzy"]
SOME, ALL = "id < 40 AND id % 3 = 1", "id % 3 = 1"


def table(start: int, stop: int) -> pa.Table:
    texts = [" ".join(WORDS[(i * i + k * i) % 4] for k in range(2 + i % 6)) for i in range(start, stop)]
    return pa.table({"id": range(start, stop), "t": texts, "n": [i % 10 for i in range(start, stop)]})


def wrong_answers(uri: str) -> list[object]:
    dataset = lance.dataset(uri)
    rows = dataset.to_table(columns=["id", "t", "n"]).to_pylist()
    wrong: list[object] = []
    for word in WORDS:
        there = {row["id"] for row in rows if word in row["t"].split()}
        for limit in (1, 3, 10, 1000):
            query = MatchQuery(word, "t")
            found = dataset.to_table(columns=["id", "_score"], full_text_query=query, limit=limit)["id"]
            ids = found.to_pylist()
            if len(ids) != min(limit, len(there)) or len({*ids} & there) != len(ids):
                wrong.append((word, limit, len(ids), len(there)))
    for number in range(12):
        found = dataset.to_table(columns=["id"], filter=f"n = {number}")["id"].to_pylist()
        if sorted(found) != sorted(row["id"] for row in rows if row["n"] == number):
            wrong.append((number, len(found)))
    return wrong


def updated(path, *, stable: bool, where: str) -> str:
    uri = str(path / "t.lance")
    lo.write_dataset(table(0, 120), uri, max_rows_per_file=40, enable_stable_row_ids=stable)
    lo.create_index(uri, "t", "INVERTED")
    lo.create_index(uri, "n", "BTREE")
    lo.update(uri, {"t": "'quick runs fuzzy'", "n": "11"}, where, rewrite="columns")
    lo.delete(uri, "id < 40 AND id % 10 = 7")
    return uri


def compact(uri: str, by: str, **more: bool) -> None:
    options = {"materialize_deletions_threshold": 0.0, "target_rows_per_fragment": 30, **more}
    if by == "ours":
        lo.compact(uri, **options)
    elif by == "peer":
        lance.dataset(uri).optimize.compact_files(**options)


@pytest.mark.peer
@pytest.mark.parametrize("compacted_by", ["nobody", "ours", "peer"])
@pytest.mark.parametrize("where", [SOME, ALL])
@pytest.mark.parametrize("stable", [False, True])
def test_a_delta_segment_leaves_no_lost_rows_in_those_before_it(tmp_path, stable, where, compacted_by):
    uri = updated(tmp_path, stable=stable, where=where)
    compact(uri, compacted_by)
    lo.append(uri, table(120, 129))
    lo.optimize_indices(uri, merge_segments=0)
    assert wrong_answers(uri) == []


@pytest.mark.peer
@pytest.mark.parametrize("where", [SOME, ALL])
@pytest.mark.parametrize("defer", [False, True])
def test_a_compaction_leaves_nothing_that_a_delta_segment_of_the_peer_makes_wrong(tmp_path, where, defer):
    uri = updated(tmp_path, stable=False, where=where)
    compact(uri, "ours", defer_index_remap=defer)
    lo.append(uri, table(120, 129))
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    assert wrong_answers(uri) == []


@pytest.mark.parametrize("where", [SOME, ALL])
@pytest.mark.parametrize("defer", [False, True])
def test_the_plan_of_a_compaction_has_what_taking_such_names_out_costs(tmp_path, where, defer):
    uri = updated(tmp_path, stable=False, where=where)
    options = {"materialize_deletions_threshold": 0.0, "defer_index_remap": defer}
    plan = lo.compact(uri, dry_run=True, **options)
    (text,) = (item for item in plan.indices if item.segment.name == "t_idx")
    assert "names rows that it does not cover" in text.reason or not defer
    assert text.route in (Route.PURGE, Route.MOVE)
    assert text.cost.written_bytes == text.segment.size_bytes
    assert plan.estimate.bytes_written > text.segment.size_bytes


@pytest.mark.peer
@pytest.mark.parametrize("compacted_by", ["nobody", "peer"])
@pytest.mark.parametrize("where", [SOME, ALL])
@pytest.mark.parametrize("stable", [False, True])
def test_a_plain_refresh_mends_what_a_delta_segment_of_the_peer_left(tmp_path, stable, where, compacted_by):
    uri = updated(tmp_path, stable=stable, where=where)
    compact(uri, compacted_by)
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    lo.optimize_indices(uri)
    assert wrong_answers(uri) == []
    assert not lo.optimize_indices(uri).changed
