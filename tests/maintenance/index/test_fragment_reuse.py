"""Tables on which the peer compacts without moving the indices along (`defer_index_remap`)."""

import shlex
import uuid
from dataclasses import replace
from datetime import timedelta

import lance
import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

import lance_ops as lo
from lance_ops.cli import main
from lance_ops.errors import (
    RetryableCommitConflictError,
    StorageError,
    UnreadableIndexWarning,
    UnsupportedError,
)
from lance_ops.index.btree.pages import PageWriter
from lance_ops.index.btree.segment import BTreeSegment
from lance_ops.index.coverage import coverage
from lance_ops.index.upkeep import row_check
from lance_ops.maintenance.fsck.findings import Severity
from lance_ops.maintenance.health.measure import measure_health
from lance_ops.pb import table_pb2
from lance_ops.table.manifest.base_paths import Bases
from lance_ops.table.manifest.file.write import encode_manifest
from lance_ops.table.manifest.fragment_reuse import write as fragment_reuse_write
from lance_ops.table.manifest.fragment_reuse.read import with_moved_coverage
from lance_ops.table.manifest.index_metadata import FRAGMENT_REUSE_INDEX
from lance_ops.table.transaction.operations import CreateIndex
from tests.support.faulty_store import FaultyStore
from tests.support.table_actions import commit
from tests.support.unknown_index import forget_kind

FILTERS = (
    "i = 100",
    "i >= 10 and i < 20",
    "i in (0, 49, 50, 101, 149, 299, 2003)",
    "i is null",
    "i > 250",
    "i != 7 and i < 60",
    "i < 0",
)


def rows(start: int, stop: int) -> pa.Table:
    numbers = [None if n % 23 == 5 else n for n in range(start, stop)]
    return pa.table({"i": pa.array(numbers, pa.int64()), "s": [f"{n % 7}" for n in range(start, stop)]})


def peer(uri) -> lance.LanceDataset:
    return lance.dataset(str(uri))


def append(uri, start: int, stop: int) -> None:
    lance.write_dataset(rows(start, stop), str(uri), mode="append")


def defer(uri, target: int = 100) -> None:
    peer(uri).optimize.compact_files(target_rows_per_fragment=target, defer_index_remap=True)


def table(uri, *, deleted: str | None = "i % 9 = 0", fragments: int = 6):
    """Some fragments of 50 rows under a BTREE."""
    for number in range(fragments):
        lance.write_dataset(
            rows(number * 50, number * 50 + 50), str(uri), mode="append" if number else "create"
        )
    peer(uri).create_scalar_index("i", "BTREE")
    if deleted is not None:
        peer(uri).delete(deleted)
    return uri


def generations(uri) -> int | None:
    reuse = lo.dataset(uri).fragment_reuse
    return None if reuse is None else len(reuse.generations)


def covered(uri, name: str = "i_idx") -> set[int]:
    (item,) = [item for item in coverage(lo.dataset(uri)) if item.name == name]
    return set(item.covered)


def check(uri) -> None:
    """Answers with the index are those of a scan and of the peer."""
    ours, theirs = lo.dataset(uri), peer(uri)
    for sql in FILTERS:
        scanned = ours.to_table(filter=sql, pruners=())
        assert ours.to_table(filter=sql) == scanned, sql
        assert theirs.to_table(filter=sql, scan_in_order=True) == scanned, sql
        assert ours.count_rows(sql) == theirs.count_rows(sql) == scanned.num_rows, sql
    live = {fragment.id for fragment in ours.fragments}
    assert covered(uri) <= live
    assert lo.fsck(uri, deep=True).ok


@pytest.fixture
def deferred(tmp_path):
    """The order of events that matters: an index, a deferred compaction, then any commit of the peer."""
    uri = table(tmp_path / "t.lance")
    defer(uri)
    append(uri, 2000, 2010)
    return uri


def test_a_search_follows_the_rows(deferred):
    assert lo.dataset(deferred).manifest.indices[0].fragment_ids == {6, 7}
    assert covered(deferred) == {6, 7}
    check(deferred)
    assert lo.dataset(deferred).count_rows("i = 100") == 1


def test_an_index_that_lists_the_old_fragments_covers_the_new_ones(tmp_path):
    uri = table(tmp_path / "t.lance")
    defer(uri)
    assert lo.dataset(uri).manifest.indices[0].fragment_ids == {0, 1, 2, 3, 4, 5}
    assert covered(uri) == {6, 7}
    check(uri)
    assert measure_health(lo.dataset(uri)).index_coverage == 1.0
    lo.write_dataset(rows(2000, 2010), uri, mode="append")
    assert covered(uri) == {6, 7}
    assert measure_health(lo.dataset(uri)).unindexed_rows == 10
    check(uri)


def test_upkeep_moves_the_index_and_drops_what_nobody_needs(deferred):
    plan = lo.optimize_indices(deferred, dry_run=True)
    assert "deferred remaps of 1 compaction are applied to all indices, none remaining" in str(plan)
    assert plan.to_dict()["compactions_caught_up"] == 1
    result = lo.optimize_indices(deferred)
    assert result.rows_indexed == 10
    assert result.compactions_caught_up == 1
    assert "no index has a deferred remap of 1 compaction any more" in result.summary()
    assert generations(deferred) is None
    assert covered(deferred) == {6, 7, 8}
    check(deferred)
    peer(deferred).optimize.optimize_indices()
    check(deferred)
    append(deferred, 3000, 3010)
    peer(deferred).optimize.compact_files()
    check(deferred)
    assert not lo.optimize_indices(deferred).changed or covered(deferred)
    defer(deferred, 1000)
    append(deferred, 4000, 4010)
    check(deferred)


def test_an_index_that_covers_everything_is_moved_as_well(tmp_path):
    uri = table(tmp_path / "t.lance")
    defer(uri)
    result = lo.optimize_indices(uri, merge_segments=0)
    assert (result.rows_indexed, result.segments_added, result.segments_removed) == (0, 1, 1)
    assert generations(uri) is None
    check(uri)
    assert not lo.optimize_indices(uri).changed


def test_new_rows_stay_apart_when_no_segments_are_to_be_merged(deferred):
    result = lo.optimize_indices(deferred, merge_segments=0)
    assert (result.segments_added, result.segments_removed, result.indices) == (2, 1, ("i_idx",))
    assert sorted(len(index.fragment_ids) for index in lo.dataset(deferred).indices) == [1, 2]
    assert generations(deferred) is None
    check(deferred)


@pytest.mark.parametrize("by_peer", [False, True])
def test_rows_deleted_before_between_and_after_two_compactions(tmp_path, by_peer):
    uri = table(tmp_path / "t.lance")

    def delete(sql: str) -> None:
        if by_peer:
            peer(uri).delete(sql)
        else:
            lo.delete(uri, sql)
        check(uri)

    delete("i = 101 or i = 149")
    defer(uri)
    delete("i >= 12 and i < 15")
    append(uri, 2000, 2010)
    defer(uri, 1000)
    check(uri)
    delete("i = 17 or i > 290 and i < 2000")
    append(uri, 2010, 2020)
    assert generations(uri) == 2
    check(uri)
    lo.optimize_indices(uri)
    assert generations(uri) is None
    check(uri)


def test_compaction_goes_on_upon_a_deferred_one(deferred):
    append(deferred, 2010, 2020)
    result = lo.compact(deferred, target_rows_per_fragment=1000)
    assert result.fragments_removed == 4
    assert result.indices_remapped == 1
    assert len(covered(deferred)) == 1
    check(deferred)
    append(deferred, 3000, 3010)
    check(deferred)
    peer(deferred).optimize.optimize_indices()
    check(deferred)
    lo.optimize_indices(deferred)
    assert generations(deferred) is None
    assert len(lo.dataset(deferred).indices) == 1
    check(deferred)


def test_compaction_ignores_what_no_index_needs(deferred):
    lo.create_index(deferred, "i", replace=True)
    assert generations(deferred) is None
    defer(deferred, 1000)
    # The peer builds it anew and keeps what nobody needs.
    peer(deferred).create_scalar_index("i", "BTREE", replace=True)
    assert generations(deferred) == 1
    append(deferred, 2010, 2020)
    append(deferred, 2020, 2030)
    assert lo.compact(deferred).fragments_removed == 2
    check(deferred)
    assert lo.optimize_indices(deferred).changed
    assert generations(deferred) is None
    check(deferred)


def test_a_compaction_that_kept_nothing_of_a_group(tmp_path):
    uri = table(tmp_path / "t.lance", deleted="i < 150 or i is null")
    defer(uri)
    append(uri, 2000, 2010)
    check(uri)
    lo.optimize_indices(uri)
    check(uri)


def test_delta_segments_follow_one_by_one(tmp_path):
    uri = table(tmp_path / "t.lance", fragments=2)
    append(uri, 100, 150)
    append(uri, 150, 200)
    peer(uri).optimize.optimize_indices(num_indices_to_merge=0)
    assert len(lo.dataset(uri).indices) == 2
    append(uri, 200, 250)
    append(uri, 250, 300)
    defer(uri)
    append(uri, 2000, 2010)
    check(uri)
    lo.optimize_indices(uri)
    assert generations(uri) is None
    check(uri)


def test_an_index_that_cannot_be_moved_keeps_what_it_needs(tmp_path, monkeypatch):
    forget_kind(monkeypatch, "BITMAP")
    uri = table(tmp_path / "t.lance")
    peer(uri).create_scalar_index("s", "BITMAP")
    defer(uri)
    append(uri, 2000, 2010)
    defer(uri, 1000)
    append(uri, 2010, 2020)
    result = lo.optimize_indices(uri)
    assert "s_idx" in result.skipped[0]
    assert result.compactions_caught_up == 0
    assert generations(uri) == 2

    def bitmap() -> None:
        sql = "s = '3'"
        assert peer(uri).count_rows(sql) == lo.dataset(uri).count_rows(sql)
        assert "ScalarIndexQuery" in peer(uri).scanner(filter=sql).explain_plan(verbose=True)

    check(uri)
    bitmap()
    # Drained as far as it goes: nothing is written a second time.
    assert not lo.optimize_indices(uri).changed
    # Built anew, it needs none of them any more, and its version tells.
    peer(uri).create_scalar_index("s", "BITMAP", replace=True)
    result = lo.optimize_indices(uri)
    assert result.compactions_caught_up == 2
    assert generations(uri) is None
    check(uri)
    bitmap()


def test_only_the_generations_that_a_kept_index_needs_are_kept(tmp_path, monkeypatch):
    forget_kind(monkeypatch, "BITMAP")
    uri = table(tmp_path / "t.lance")
    defer(uri)
    peer(uri).create_scalar_index("s", "BITMAP")
    append(uri, 2000, 2010)
    defer(uri, 1000)
    append(uri, 2010, 2020)
    assert generations(uri) == 2
    assert lo.optimize_indices(uri).compactions_caught_up == 1
    (entry,) = [index for index in lo.dataset(uri).indices if index.name == FRAGMENT_REUSE_INDEX]
    assert generations(uri) == 1
    check(uri)
    assert peer(uri).count_rows("s = '3'") == lo.dataset(uri).count_rows("s = '3'")
    assert "ScalarIndexQuery" in peer(uri).scanner(filter="s = '3'").explain_plan(verbose=True)
    # The peer goes on from the entry that is left.
    peer(uri).delete("i > 20 and i < 95")
    defer(uri)
    append(uri, 2030, 2040)
    assert generations(uri) == 2
    assert entry.uuid != lo.dataset(uri).fragment_reuse.entry.uuid
    check(uri)
    assert peer(uri).count_rows("s = '3'") == lo.dataset(uri).count_rows("s = '3'")
    peer(uri).optimize.optimize_indices()
    check(uri)
    assert peer(uri).count_rows("s = '3'") == lo.dataset(uri).count_rows("s = '3'")


def test_an_index_built_on_the_old_fragments_and_committed_after_them(tmp_path):
    uri = table(tmp_path / "t.lance")
    peer(uri).create_scalar_index("s", "BTREE")
    stale = peer(uri)
    defer(uri)
    stale.create_scalar_index("i", "BTREE", name="other")
    check(uri)
    append(uri, 2000, 2010)
    assert covered(uri, "other") == {6, 7}
    check(uri)
    assert lo.optimize_indices(uri, ["i_idx"]).compactions_caught_up == 0
    check(uri)
    assert lo.optimize_indices(uri).compactions_caught_up == 1
    check(uri)


def test_a_trim_and_a_deferred_compaction_at_the_same_time(deferred):
    append(deferred, 2010, 2020)
    stale = peer(deferred)
    lo.optimize_indices(deferred)
    # The peer's plan is older than our trim.
    with pytest.raises(OSError, match="Retryable commit conflict"):
        stale.optimize.compact_files(target_rows_per_fragment=1000, defer_index_remap=True)
    append(deferred, 2020, 2030)
    check(deferred)
    interrupted = []

    def compact_meanwhile(_event) -> None:
        if not interrupted:
            interrupted.append(True)
            append(deferred, 5000, 5010)
            defer(deferred, 100_000)

    with pytest.raises(RetryableCommitConflictError):
        lo.optimize_indices(deferred, max_replans=0, progress=compact_meanwhile)
    check(deferred)
    interrupted.clear()
    assert lo.optimize_indices(deferred, progress=compact_meanwhile).compactions_caught_up == 2
    check(deferred)


def test_a_restore_brings_back_what_the_index_needed(deferred):
    before = lo.dataset(deferred).version
    peer(deferred).tags.create("kept", before)
    lo.optimize_indices(deferred)
    append(deferred, 3000, 3010)
    lo.restore(deferred, before)
    assert generations(deferred) == 1
    check(deferred)
    lo.compact(deferred, target_rows_per_fragment=1000)
    check(deferred)
    lo.optimize_indices(deferred)
    lo.cleanup(deferred, retain_versions=1, older_than=timedelta(0), delete_unverified=True)
    check(deferred)
    assert lo.dataset(deferred, "kept").count_rows("i = 100") == 1


def test_without_indices_nothing_needs_it(deferred):
    lo.drop_index(deferred, "i_idx")
    assert generations(deferred) == 1
    plan = lo.optimize_indices(deferred, dry_run=True)
    assert (plan.segments, plan.trim.kept, plan.trim.dropped) == ((), (), 1)
    result = lo.optimize_indices(deferred)
    assert result.summary() == "no index has a deferred remap of 1 compaction any more"
    assert generations(deferred) is None
    assert "drops __lance_frag_reuse" in lo.dataset(deferred).history(1)[0].description
    peer(deferred).validate()
    assert not lo.optimize_indices(deferred).changed


@pytest.mark.parametrize("sample", [row_check.SMALL_ROWS, 0])
def test_an_index_of_row_ids_is_compared_as_well(tmp_path, monkeypatch, sample):
    monkeypatch.setattr(row_check, "SMALL_ROWS", sample)
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(rows(0, 50), uri, enable_stable_row_ids=True)
    append(uri, 50, 100)
    lo.create_index(uri, "i")
    peer(uri).update({"i": "i + 1000"}, where="i % 10 = 3")
    lo.delete(uri, "i % 9 = 0")
    assert lo.fsck(uri).ok
    lo.optimize_indices(uri)
    lo.compact(uri)
    assert lo.fsck(uri).ok
    break_index(uri)
    (finding,) = lo.fsck(uri).findings
    assert finding.check == "index_rows_match"
    lo.create_index(uri, "i", replace=True)
    assert lo.fsck(uri).ok


def break_index(uri) -> None:
    """What earlier releases of ours made of such a table: a merge dropped all rows with an old address."""
    dataset = lo.dataset(uri)
    (old,) = [index for index in dataset.manifest.indices if index.name == "i_idx"]
    lo.create_index(uri, "i", name="tmp")
    head = lo.dataset(uri)
    (fresh,) = [index for index in head.indices if index.name == "tmp"]
    segment_id = uuid.uuid4()
    with PageWriter(head.store, f"_indices/{segment_id}", pa.int64(), "2.0") as writer:
        newest = max(fragment.id for fragment in head.fragments)
        for table_ in BTreeSegment.open(head.store, fresh.directory).rows():
            owners = table_["ids"].to_numpy() >> np.uint64(32)
            writer.write(table_.filter(pa.array(owners == newest)))
        files = writer.finish()
    ids = frozenset(fragment.id for fragment in head.fragments)
    stale = replace(old, uuid=segment_id, fragment_ids=ids, files=files, dataset_version=head.version)
    commit(head, CreateIndex((stale,), (fresh, old)))


@pytest.mark.parametrize("repair", ["create", "rebuild", "command"])
def test_an_index_that_lost_its_rows_is_found_and_repaired(deferred, repair, monkeypatch):
    break_index(deferred)
    assert lo.dataset(deferred).count_rows("i = 100") == 0
    assert peer(deferred).count_rows("i = 100") == 0
    for sample in (row_check.SMALL_ROWS, 0):
        monkeypatch.setattr(row_check, "SMALL_ROWS", sample)
        for deep in (False, True):
            result = lo.fsck(deferred, deep=deep)
            (finding,) = result.findings
            assert (finding.check, finding.severity) == ("index_rows_match", Severity.ERROR)
            assert "index 'i_idx' covers fragments 6-7" in finding.message
            assert finding.message.endswith("lance-ops index URI i --replace")
            assert not result.ok
    if repair == "create":
        lo.create_index(deferred, "i", replace=True)
    elif repair == "rebuild":
        lo.optimize_indices(deferred, rebuild=True)
    else:
        command = shlex.split(finding.message.split("lance-ops ", 1)[1].replace("URI", str(deferred)))
        assert CliRunner().invoke(main, command).exit_code == 0
    check(deferred)
    assert generations(deferred) is None
    assert lo.dataset(deferred).count_rows("i = 100") == 1


def test_a_sample_finds_nothing_wrong_with_sound_indices(tmp_path, monkeypatch):
    monkeypatch.setattr(row_check, "SMALL_ROWS", 0)
    uri = table(tmp_path / "t.lance", deleted="i % 9 = 0 or i < 40")
    peer(uri).create_scalar_index("s", "BTREE")
    defer(uri)
    append(uri, 2000, 2010)
    assert lo.fsck(uri).ok
    lo.optimize_indices(uri)
    assert lo.fsck(uri).ok


def test_an_index_moved_without_its_rows_is_not_believed(tmp_path):
    uri = table(tmp_path / "t.lance")
    defer(uri)
    # The peer moves the coverage of the index once more, and not its rows, as fsck would find without a hint.
    peer(uri).optimize.compact_files(target_rows_per_fragment=10_000)
    assert peer(uri).count_rows("i = 100") == 0
    with pytest.warns(UnreadableIndexWarning, match="before a compaction that is older"):
        assert lo.dataset(uri).count_rows("i = 100") == 1
    result = lo.fsck(uri)
    assert not result.ok
    assert "--replace" in result.findings[0].message
    # Nothing makes it worse, and what is needed to notice is kept.
    assert "skipped: i_idx" in str(lo.optimize_indices(uri))
    assert generations(uri) == 1
    append(uri, 2000, 2010)
    append(uri, 2010, 2020)
    lo.optimize_indices(uri)
    with pytest.warns(UnreadableIndexWarning):
        assert lo.dataset(uri).count_rows("i = 100") == 1
    lo.compact(uri)
    with pytest.warns(UnreadableIndexWarning):
        assert lo.dataset(uri).count_rows("i = 100") == 1
    lo.create_index(uri, "i", replace=True)
    check(uri)
    assert generations(uri) is None


def _damage(uri, change) -> None:
    """Replace the fragment reuse index by one with other details."""
    dataset = lo.dataset(uri)
    entry = dataset.fragment_reuse.entry
    details = table_pb2.FragmentReuseIndexDetails.FromString(entry.details)
    change(details)
    damaged = replace(entry, uuid=uuid.uuid4(), details=details.SerializeToString())
    commit(dataset, CreateIndex((damaged,), (entry,)))


def _count_wrongly(details) -> None:
    details.inline.versions[0].groups[0].new_fragments[0].physical_rows += 1


def _lose_file(details) -> None:
    details.external.path, details.external.size = "gone.binpb", 300_000


def _mixed(details) -> None:
    """Transitions, which an index of version 0 has none of."""
    details.inline.transitions.add()


def _newer(details) -> None:
    details.inline.transitions.add().MergeFromString(b"\x8a\x01\x01x")


@pytest.mark.parametrize("change", [_count_wrongly, _lose_file, _mixed])
def test_moves_that_cannot_be_told_leave_all_to_scans(deferred, change):
    append(deferred, 2010, 2020)
    _damage(deferred, change)
    assert covered(deferred) == set()
    assert measure_health(lo.dataset(deferred)).index_coverage == 0
    for sql in FILTERS:
        dataset = lo.dataset(deferred)
        assert dataset.to_table(filter=sql) == dataset.to_table(filter=sql, pruners=())
    assert "their moved rows are unknown" in str(lo.compact(deferred, dry_run=True))
    assert not lo.compact(deferred).changed
    result = lo.optimize_indices(deferred)
    assert not result.changed
    assert "rebuild the index" in result.skipped[0]
    (finding,) = lo.fsck(deferred).of("index_rows_match")
    assert finding.severity is Severity.ERROR
    lo.optimize_indices(deferred, rebuild=True)
    assert generations(deferred) is None
    check(deferred)
    assert lo.compact(deferred).changed


def test_a_table_with_moves_of_a_newer_kind_is_read_without_indices_and_not_written(deferred):
    _damage(deferred, _newer)
    dataset = lo.dataset(deferred)
    (entry,) = [index for index in dataset.manifest.indices if index.name == FRAGMENT_REUSE_INDEX]
    newer = replace(entry, index_version=1)
    indices = tuple(newer if index is entry else index for index in dataset.manifest.indices)
    flags = dataset.manifest.reader_flags | 1024, dataset.manifest.writer_flags | 1024
    marked = dataset.manifest.replace(indices=indices, reader_flags=flags[0], writer_flags=flags[1])
    dataset.store.put(dataset.location.path, encode_manifest(marked))
    now = lo.dataset(deferred)
    assert [now.count_rows(sql) for sql in FILTERS] == [
        dataset.count_rows(sql, pruners=()) for sql in FILTERS
    ]
    assert covered(deferred) == set()
    (finding,) = lo.fsck(deferred).findings
    assert (finding.check, finding.severity) == ("index_rows_match", Severity.WARNING)
    for write in (
        lambda: lo.write_dataset(rows(0, 5), deferred, mode="append"),
        lambda: lo.delete(deferred, "i = 4"),
        lambda: lo.optimize_indices(deferred, rebuild=True),
        lambda: lo.compact(deferred),
        lambda: lo.restore(deferred, 1),
    ):
        with pytest.raises(UnsupportedError, match="row maps of a newer kind"):
            write()
    lo.cleanup(deferred, older_than=timedelta(0), retain_versions=1)
    assert lo.dataset(deferred).version == now.version
    assert lo.dataset(deferred).fragment_reuse.problem is not None


def test_a_damaged_one_stays_while_an_index_may_be_older_than_it(deferred, monkeypatch):
    forget_kind(monkeypatch, "BITMAP")
    peer(deferred).create_scalar_index("s", "BITMAP")
    _damage(deferred, _count_wrongly)
    lo.optimize_indices(deferred, rebuild=True)
    assert lo.dataset(deferred).fragment_reuse is not None
    lo.drop_index(deferred, "s_idx")
    lo.create_index(deferred, "i", replace=True)
    assert generations(deferred) is None
    check(deferred)


def test_content_of_the_peer_in_a_file_of_its_own(tmp_path):
    uri = str(tmp_path / "t.lance")
    numbers = pa.table({"i": pa.array(np.arange(2_000_000), pa.int32())})
    lance.write_dataset(numbers, uri, max_rows_per_file=1_000_000)
    peer(uri).create_scalar_index("i", "BTREE")
    peer(uri).delete("i % 3 = 0")
    defer(uri, 1 << 20)
    lance.write_dataset(numbers.slice(0, 9), uri, mode="append")
    entry = lo.dataset(uri).fragment_reuse.entry
    assert list((tmp_path / "t.lance" / "_indices" / str(entry.uuid)).iterdir())
    clone = str(tmp_path / "clone.lance")
    peer(uri).shallow_clone(clone, peer(uri).version)
    for place in (uri, clone):
        for sql in ("i = 100", "i in (5, 6, 1999999)", "i > 1999990"):
            assert lo.dataset(place).count_rows(sql) == peer(place).count_rows(sql)
        assert covered(place) == {2}
        assert lo.fsck(place).ok
    lo.cleanup(uri, older_than=timedelta(0), retain_versions=1, delete_unverified=True, clones=[clone])
    assert covered(uri) == {2}
    assert lo.optimize_indices(uri).compactions_caught_up == 1
    assert lo.fsck(uri, deep=True).ok
    assert peer(uri).count_rows("i in (5, 6, 1999999)") == 4


def test_content_of_ours_in_a_file_of_its_own(deferred, tmp_path, monkeypatch):
    monkeypatch.setattr(fragment_reuse_write, "INLINE_BYTES", 10)
    forget_kind(monkeypatch, "BITMAP")
    peer(deferred).create_scalar_index("s", "BITMAP")
    append(deferred, 2010, 2020)
    defer(deferred, 1000)
    append(deferred, 2020, 2030)
    # The first of two generations goes with the BTREE.
    assert lo.optimize_indices(deferred).compactions_caught_up == 1
    entry = lo.dataset(deferred).fragment_reuse.entry
    assert (deferred / "_indices" / str(entry.uuid) / "details.binpb").exists()
    clone = str(tmp_path / "clone.lance")
    lo.shallow_clone(deferred, clone)
    for place in (deferred, clone):
        check(place)
        assert peer(place).count_rows("s = '3'") == lo.dataset(place).count_rows("s = '3'")
        assert "ScalarIndexQuery" in peer(place).scanner(filter="s = '3'").explain_plan(verbose=True)
        append(place, 3000, 3010)
        assert lo.optimize_indices(place).changed
        check(place)


def test_a_store_that_fails_is_no_reason_to_commit_as_if_nothing_had_moved(deferred, monkeypatch):
    monkeypatch.setattr(fragment_reuse_write, "INLINE_BYTES", 10)
    lo.optimize_indices(deferred)
    append(deferred, 2010, 2020)
    lo.optimize_indices(deferred)
    lo.compact(deferred, defer_index_remap=True)
    dataset = lo.dataset(deferred)
    store = FaultyStore(
        dataset.store, lambda call: call.path.endswith("details.binpb"), mode="error", count="any"
    )
    with pytest.raises(StorageError):
        with_moved_coverage(Bases(store, dataset.manifest.base_paths), dataset.manifest)


def test_rows_that_a_commit_replaces_are_not_found_in_the_index(deferred):
    lo.replace_where(deferred, rows(90, 95), "i >= 90 and i < 110")
    check(deferred)
    assert lo.dataset(deferred).count_rows("i = 100") == 0
    lo.optimize_indices(deferred)
    check(deferred)
