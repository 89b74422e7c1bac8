"""Indices that look at rows: a rewrite notes these while it writes them, and nobody reads them again."""

import pickle

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.index.watch import Noted, Watch
from lance_ops.index.zones import kind as zones
from lance_ops.maintenance.compact import rewrite
from lance_ops.maintenance.compact.rewrite import decode_notes, encode_notes
from tests.maintenance.jobs.test_resume import crash_after
from tests.support.elsewhere import Elsewhere

pytestmark = pytest.mark.peer

ROWS, FRAGMENT = 1000, 100
FILTERS = {
    "n": ("n = 17", "n BETWEEN 100 AND 140", "n IS NULL", "n > 900 OR n IS NULL"),
    "f": ("f >= 4.0 AND f < 5.0", "f IS NULL"),
    "s": ("s = 's0123'", "s IN ('s0007', 's0600', 'no')", "s IS NULL"),
    "d": ("d = 'd3'", "d IS NULL"),
    "r.x": ("r.x < 40", "r.x IS NULL"),
}
KINDS = {"n": "ZONEMAP", "f": "ZONEMAP", "s": "BLOOMFILTER", "d": "ZONEMAP", "r.x": "ZONEMAP"}


def table() -> pa.Table:
    numbers = np.arange(ROWS)
    x = pa.array([None if n % 13 == 5 else n for n in range(ROWS)], pa.int32())
    struct = pa.StructArray.from_arrays([x], ["x"], mask=pa.array(numbers % 31 == 3))
    return pa.table(
        {
            "id": numbers,
            "n": pa.array([None if n % 7 == 0 else n for n in range(ROWS)]),
            "f": pa.array(
                [float("nan") if n % 50 == 0 else None if n % 3 == 0 else n / 8 for n in range(ROWS)]
            ),
            "s": pa.array([None if n % 11 == 0 else f"s{n:04d}" for n in range(ROWS)]),
            "d": pa.array([None if n % 17 == 0 else f"d{n // 100}" for n in range(ROWS)]),
            "r": struct,
        }
    )


def create(path, *, stable: bool = False) -> str:
    uri = str(path / "t.lance")
    lo.write_dataset(table(), uri, max_rows_per_file=FRAGMENT, enable_stable_row_ids=stable)
    for column, kind in KINDS.items():
        size = {"number_of_items": 16} if kind == "BLOOMFILTER" else {"rows_per_zone": 16}
        lo.create_index(uri, column, kind, parameters=size)
    return uri


@pytest.fixture
def read_again(monkeypatch) -> list[tuple[str, tuple[int, ...]]]:
    """Columns and fragments that an index looked at by itself."""
    seen: list[tuple[str, tuple[int, ...]]] = []
    real = zones.column_values

    def column_values(dataset, column, fragment_ids, **options):
        seen.append((column, tuple(fragment_ids)))
        return real(dataset, column, fragment_ids, **options)

    monkeypatch.setattr(zones, "column_values", column_values)
    return seen


def answers_are_those_of_a_scan(uri: str) -> None:
    ours, peer = lo.dataset(uri), lance.dataset(uri)
    for sql in (sql for column in FILTERS.values() for sql in column):
        expected = peer.to_table(filter=sql, columns=["id"], use_scalar_index=False)["id"].to_pylist()
        assert sorted(peer.to_table(filter=sql, columns=["id"])["id"].to_pylist()) == sorted(expected), sql
        assert ours.to_table(filter=sql, columns=["id"])["id"].to_pylist() == expected, sql
        assert "ScalarIndexQuery" in peer.scanner(filter=sql).explain_plan(), sql
    assert lo.fsck(uri, deep=True).ok


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("target", [250, 10_000])
def test_no_row_is_read_twice_and_every_row_stays_covered(tmp_path, read_again, stable, target):
    uri = create(tmp_path, stable=stable)
    lance.dataset(uri).delete("id % 9 = 4 OR id BETWEEN 300 AND 420")
    live = lance.dataset(uri).count_rows()
    read_again.clear()
    done = lo.compact(uri, method="rewrite", target_rows_per_fragment=target)
    assert all(not fragments for _, fragments in read_again)
    assert len(done.index_segments) == len(KINDS)
    assert set(done.rows_indexed_after.values()) == {live}
    answers_are_those_of_a_scan(uri)


def test_what_was_noted_says_the_same_as_what_is_read(tmp_path, monkeypatch):
    """Byte for byte."""
    files = []
    for notes in (True, False):
        folder = tmp_path / str(notes)
        folder.mkdir()
        uri = create(folder)
        lance.dataset(uri).delete("id % 9 = 4")
        if not notes:
            monkeypatch.setattr(rewrite, "_CARRIED_BYTES", 0)
        lo.compact(uri, method="rewrite", target_rows_per_fragment=ROWS)
        of_index = {index.name: index for index in lo.dataset(uri).indices}
        files.append(
            {
                name: [
                    (folder / "t.lance" / "_indices" / str(index.uuid) / file.path).read_bytes()
                    for file in index.files
                ]
                for name, index in of_index.items()
            }
        )
    assert files[0] == files[1]


def test_copied_pages_show_no_rows_and_are_looked_at_afterwards(tmp_path, read_again):
    uri = create(tmp_path)
    read_again.clear()
    done = lo.compact(uri, method="copy")
    assert done.groups_copied == done.groups == 1
    assert {column for column, fragments in read_again if fragments} == set(KINDS)
    assert set(done.rows_indexed_after.values()) == {ROWS}
    answers_are_those_of_a_scan(uri)


def test_a_fragment_that_the_cap_on_bytes_cuts_is_looked_at_afterwards(tmp_path, read_again, monkeypatch):
    """Small rows wait in buffers that the cap does not count: a cap on rows cuts them as well."""
    uri = create(tmp_path)
    real = rewrite.write_data_files
    monkeypatch.setattr(
        rewrite,
        "write_data_files",
        lambda *arguments, **options: real(*arguments, **{**options, "max_rows_per_file": 400}),
    )
    read_again.clear()
    done = lo.compact(uri, method="rewrite")
    assert done.fragments_added == 3
    assert {column for column, fragments in read_again if fragments} == set(KINDS)
    answers_are_those_of_a_scan(uri)


def test_rows_that_are_deleted_meanwhile_change_no_answer(tmp_path, read_again, monkeypatch):
    uri = create(tmp_path)
    real = rewrite.write_data_files

    def write_data_files(*arguments, **options):
        written = real(*arguments, **options)
        lance.dataset(uri).delete("n BETWEEN 110 AND 120 OR id % 77 = 0")
        return written

    monkeypatch.setattr(rewrite, "write_data_files", write_data_files)
    read_again.clear()
    done = lo.compact(uri, method="rewrite")
    assert done.groups == 1
    assert all(not fragments for _, fragments in read_again)
    answers_are_those_of_a_scan(uri)


def test_an_index_that_was_made_anew_meanwhile_looks_at_the_rows(tmp_path, read_again, monkeypatch):
    """Zones of another length are no use to it."""
    uri = create(tmp_path)
    real = rewrite.write_data_files

    def write_data_files(*arguments, **options):
        written = real(*arguments, **options)
        lo.create_index(uri, "n", "ZONEMAP", replace=True, parameters={"rows_per_zone": 50})
        read_again.clear()
        return written

    monkeypatch.setattr(rewrite, "write_data_files", write_data_files)
    done = lo.compact(uri, method="rewrite")
    assert done.groups == 1
    assert {column for column, fragments in read_again if fragments} == {"n"}
    answers_are_those_of_a_scan(uri)


def test_notes_outlive_a_crash_with_the_results_of_their_tasks(tmp_path, read_again):
    uri = create(tmp_path)
    store = lo.dataset(uri).store
    asked = {"target_rows_per_fragment": 250, "method": "rewrite"}
    crash_after(store, 2, **asked)
    read_again.clear()
    done = lo.compact(store, job_key="job", **asked)
    assert done.groups_resumed == 2
    assert all(not fragments for _, fragments in read_again)
    answers_are_those_of_a_scan(uri)


def test_a_long_index_is_left_to_look_at_the_rows(tmp_path, read_again, monkeypatch):
    """What waits on the driver is bounded."""
    uri = create(tmp_path)
    monkeypatch.setattr(rewrite, "_CARRIED_BYTES", 0)
    read_again.clear()
    lo.compact(uri, method="rewrite")
    assert {column for column, fragments in read_again if fragments} == set(KINDS)
    answers_are_those_of_a_scan(uri)


def test_the_plan_counts_no_second_read(tmp_path):
    uri = create(tmp_path)
    seconds = [lo.compact(uri, dry_run=True, method=method).index_seconds for method in ("rewrite", "copy")]
    assert seconds[0] < seconds[1]


@pytest.mark.parametrize("noted", [True, False])
def test_rows_are_looked_at_on_other_machines(tmp_path, read_again, monkeypatch, noted):
    """While they pass, or afterwards, in a dataset that no version has."""
    uri = create(tmp_path)
    lance.dataset(uri).delete("id % 9 = 4")
    read_again.clear()
    if not noted:
        monkeypatch.setattr(rewrite, "_CARRIED_BYTES", 0)
    done = lo.compact(uri, method="rewrite", target_rows_per_fragment=250, runner=Elsewhere())
    assert done.groups > 1
    assert {column for column, fragments in read_again if fragments} == (set() if noted else set(KINDS))
    assert set(done.rows_indexed_after.values()) == {lance.dataset(uri).count_rows()}
    answers_are_those_of_a_scan(uri)


def test_notes_travel():
    noted = (Noted(Watch("ZONEMAP", 3, (("rows_per_zone", 7),)), (b"\0zones", None)),)
    assert decode_notes(encode_notes(noted)) == pickle.loads(pickle.dumps(noted)) == noted
