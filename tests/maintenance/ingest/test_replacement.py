"""Replacing what a predicate selects: one commit, once for each job, as the peer reads it."""

from datetime import UTC, datetime

import lance
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, PredicateError, SchemaMismatchError
from lance_ops.maintenance.ingest.replacement import PREDICATE_KEY
from lance_ops.maintenance.runner import LocalRunner
from lance_ops.table.transaction.operations import Update
from lance_ops.table.transaction.transaction import read_transaction


def days(*parts: str, value: int = 1, rows: int = 4) -> pa.Table:
    return pa.table(
        {
            "day": [part for part in parts for _ in range(rows)],
            "n": pa.array([n for _ in parts for n in range(rows)], pa.int64()),
            "value": pa.array([value] * rows * len(parts), pa.int64()),
        }
    )


@pytest.fixture(params=[False, True], ids=["addresses", "stable ids"])
def uri(request, tmp_path):
    """Days a, b, c of four rows each, day b in two fragments."""
    uri = str(tmp_path / "days.lance")
    lo.write_dataset(days("a", "b", "c"), uri, max_rows_per_file=6, enable_stable_row_ids=request.param)
    return uri


def content(uri: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for item in lo.dataset(uri).to_table().sort_by("day").to_pylist():
        found.setdefault(item["day"], []).append(item["value"])
    return found


def data_files(uri: str) -> set[str]:
    return {info.path for prefix in ("data", "_deletions") for info in lo.dataset(uri).store.list(prefix)}


@pytest.mark.peer
def test_the_peer_reads_the_new_rows_and_calls_it_an_update(uri):
    lo.delete(uri, "n = 0")
    lo.create_index(uri, "day")
    lance.dataset(uri).create_scalar_index("value", "BITMAP", name="value_bitmap")
    result = lo.replace_where(uri, days("b", value=2, rows=5), "day = 'b'")
    assert (result.mode, result.rows_deleted, result.rows_added) == ("replace_where", 3, 5)
    assert (result.fragments_updated, result.fragments_removed, result.fragments_added) == (2, 0, 1)
    peer = lance.dataset(uri)
    peer.validate()
    assert peer.to_table(scan_in_order=True) == lo.dataset(uri).to_table()
    assert content(uri) == {"a": [1] * 3, "b": [2] * 5, "c": [1] * 3}
    operation = peer.read_transaction(result.version).operation
    assert isinstance(operation, lance.LanceOperation.Update)
    assert [len(operation.updated_fragments), len(operation.new_fragments)] == [2, 1]
    for predicate in ("day = 'b'", "value = 2", "value = 1", "day = 'a'"):
        expected = lo.Dataset.open(uri).count_rows(predicate)
        assert peer.count_rows(predicate) == lo.dataset(uri).count_rows(predicate) == expected
    # The peer goes on from there.
    peer.delete("n = 4")
    peer.optimize.compact_files()
    peer.optimize.optimize_indices()
    lo.replace_where(uri, days("b", value=3, rows=2), "day = 'b'")
    assert content(uri) == {"a": [1] * 3, "b": [3] * 2, "c": [1] * 3}
    assert lance.dataset(uri).to_table(filter="day = 'b'").num_rows == 2


def test_new_rows_get_new_ids(tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(days("a", "b"), uri, enable_stable_row_ids=True)
    lo.replace_where(uri, days("b", value=2), "day = 'b'")
    ids = lo.dataset(uri).to_table(with_row_id=True)["_rowid"].to_pylist()
    assert ids == [0, 1, 2, 3, 8, 9, 10, 11]
    assert lo.dataset(uri).manifest.next_row_id == 12


def test_a_whole_day_in_fragments_of_its_own_empties_them(uri):
    lo.replace_where(uri, days("d"), "day = 'd'")
    result = lo.replace_where(uri, days("d", value=2), "day = 'd'")
    assert (result.fragments_updated, result.fragments_removed) == (0, 1)
    assert content(uri)["d"] == [2] * 4


def test_nothing_to_replace_is_an_update_all_the_same(uri):
    result = lo.replace_where(uri, days("d"), "day = 'd'", properties={"by": "me"})
    transaction = read_transaction(lo.dataset(uri).store, lo.dataset(uri).manifest)
    assert isinstance(transaction.operation, Update)
    assert transaction.properties == {"by": "me", PREDICATE_KEY: "day = 'd'"}
    assert result.rows_deleted == 0
    assert (
        "Update in fragments none with 4 new rows in 1 fragment" in lo.dataset(uri).history(1)[0].description
    )


def test_a_dataset_that_is_not_there_is_created(tmp_path):
    uri = str(tmp_path / "new.lance")
    assert "it is created" in str(lo.replace_where(uri, days("a"), "day = 'a'", dry_run=True))
    assert lo.replace_where(uri, days("a"), "day = 'a'").mode == "create"
    assert content(uri) == {"a": [1] * 4}


def test_a_job_replaces_once_and_the_next_one_again(uri):
    first = lo.replace_where(uri, days("b", value=2), "day = 'b'", job_key="b of monday")
    again = lo.replace_where(uri, days("b", value=7), "day = 'b'", job_key="b of monday")
    assert again.already_committed
    assert again.version == first.version
    lo.replace_where(uri, days("b", value=3), "day = 'b'", job_key="b of tuesday")
    assert content(uri)["b"] == [3] * 4


def test_rows_that_the_next_replacement_would_not_find_are_refused(uri):
    before = data_files(uri)
    with pytest.raises(InvalidArgumentError, match="4 rows of a batch of 8 do not match"):
        lo.replace_where(uri, days("b", "c", value=2), "day = 'b'")
    null = days("b").set_column(0, "day", pa.nulls(4, pa.string()))
    with pytest.raises(InvalidArgumentError, match="4 rows of a batch of 4"):
        lo.replace_where(uri, null, "day = 'b'")
    assert lo.dataset(uri).version == 1
    assert data_files(uri) == before


def test_no_rows_take_the_place_of_rows_only_when_told_so(uri):
    empty = days("b").slice(0, 0)
    with pytest.raises(InvalidArgumentError, match="would replace 4 rows where day = 'b'; nothing was"):
        lo.replace_where(uri, empty, "day = 'b'")
    assert not lo.replace_where(uri, empty, "day = 'z'").changed
    result = lo.replace_where(uri, empty, "day = 'b'", allow_empty=True)
    assert (result.rows_deleted, result.rows_added) == (4, 0)
    assert content(uri) == {"a": [1] * 4, "c": [1] * 4}
    assert lance.dataset(uri).count_rows() == 8


def test_a_dry_run_changes_nothing(uri):
    before = data_files(uri)
    plan = lo.replace_where(uri, days("b"), "day = 'b'", dry_run=True)
    assert "4 rows of 12 (33.3%)" in str(plan)
    assert plan.to_dict()["rows_matched"] == 4
    assert plan.to_dict()["mode"] == "replace_where"
    with pytest.raises(SchemaMismatchError):
        lo.replace_where(uri, days("b").drop(["n"]), "day = 'b'", dry_run=True)
    assert lo.dataset(uri).version == 1
    assert data_files(uri) == before


def test_what_makes_no_sense_is_refused(uri):
    with pytest.raises(PredicateError, match="dey"):
        lo.replace_where(uri, days("b"), "dey = 'b'")
    with pytest.raises(InvalidArgumentError, match="requires a predicate"):
        lo.write_dataset(days("b"), uri, mode="append", predicate="day = 'b'")
    with pytest.raises(InvalidArgumentError, match="requires a predicate"):
        lo.write_dataset(days("b"), uri, mode="replace_where")


def test_files_are_written_in_parts_and_replace_together(uri, tmp_path, monkeypatch):
    monkeypatch.setattr("lance_ops.maintenance.ingest.operation._BYTES_PER_TASK", 1)
    for number in range(3):
        pq.write_table(days("b", value=2, rows=number + 1), tmp_path / f"{number}.parquet")
    result = lo.replace_where(uri, str(tmp_path / "*.parquet"), "day = 'b'")
    assert (result.rows_deleted, result.rows_added, result.fragments_added) == (4, 6, 3)
    assert content(uri)["b"] == [2] * 6


def test_two_replacements_at_once_come_one_after_the_other(uri):
    """Both begin with the same version; the second looks again and replaces the rows of the first."""

    def late():
        lo.replace_where(uri, days("b", value=2), "day = 'b'")
        lo.append(uri, days("b", value=9, rows=1))
        yield from days("b", value=3).to_batches()

    reader = pa.RecordBatchReader.from_batches(days("b").schema, late())
    result = lo.replace_where(uri, reader, "day = 'b'")
    assert content(uri)["b"] == [3] * 4
    assert result.rows_deleted == 5


class Busy(LocalRunner):
    """Others append while it searches, a few times."""

    def __init__(self, meanwhile, times):
        super().__init__(1)
        self.meanwhile, self.times, self.searched = meanwhile, times, []

    def map(self, function, tasks, **options):
        found = super().map(function, tasks, **options)
        self.searched.append([fragment.id for task in tasks for fragment in task.fragments])
        if self.times:
            self.times -= 1
            self.meanwhile()
        return found


def test_rows_that_others_append_between_the_search_and_the_commit_are_replaced_too(uri):
    runner = Busy(lambda: lo.append(uri, days("b", "c", value=9, rows=1)), times=3)
    result = lo.replace_where(uri, days("b", value=3), "day = 'b'", runner=runner)
    assert content(uri) == {"a": [1] * 4, "b": [3] * 4, "c": [1] * 4 + [9] * 3}
    assert (result.rows_deleted, result.rows_added, len(result.conflicts)) == (7, 4, 3)
    # What was searched once is not searched again.
    assert runner.searched == [[0, 1], [2], [3], [4]]
    assert lo.fsck(uri, deep=True).ok


def test_fragments_that_others_deleted_from_meanwhile_are_searched_again(uri):
    def meanwhile():
        lo.delete(uri, "day = 'b' AND n = 3")
        lo.append(uri, days("a", value=9, rows=1))

    runner = Busy(meanwhile, times=1)
    result = lo.replace_where(uri, days("b", value=3), "day = 'b'", runner=runner)
    assert content(uri) == {"a": [1] * 4 + [9], "b": [3] * 4, "c": [1] * 4}
    assert result.rows_deleted == 3
    assert runner.searched == [[0, 1], [1, 2]]
    assert lo.fsck(uri, deep=True).ok


def test_the_day_that_a_predicate_meant_is_what_is_recorded(tmp_path):
    rows = pa.table({"day": pa.array([0, 1], pa.date32()), "n": [1, 2]})
    lo.write_dataset(rows, tmp_path)
    before = datetime.now(UTC).date()
    for predicate in ("day < current_date()", lambda _schema: "day < today()"):
        lo.write_dataset(rows, tmp_path, mode="replace_where", predicate=predicate)
        recorded = lo.dataset(tmp_path).read_transaction().properties[PREDICATE_KEY]
        assert recorded in {f"day < DATE '{day.isoformat()}'" for day in (before, datetime.now(UTC).date())}
    plan = lo.replace_where(tmp_path, rows, "day < current_date()", dry_run=True)
    assert "current_date" not in plan.predicate
