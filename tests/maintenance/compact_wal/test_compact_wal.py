"""MemWAL compaction: exactly once, beside pylance's writer and other compactors, removed after readers."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import lance
import pytest
from lance.mem_wal import CompactedSsTable

import lance_ops as lo
from lance_ops.cli.main import main
from lance_ops.errors import FileMissingError, InvalidArgumentError
from lance_ops.storage import open_store
from lance_ops.table.mem_wal.shards import bit_reversed
from lance_ops.table.transaction.apply_mem_wal import merged_generations
from tests.support.mem_wal import (
    as_rows,
    create,
    has_key_indices,
    keys,
    new_shard,
    peer_agrees,
    read_all,
    settle,
    shards,
    table,
    writer,
)

pytestmark = pytest.mark.peer

BASE = {key: key for key in range(6)}
NOW = {0: 0, 1: 10, 2: 30, 4: 4, 5: 5, 9: 31}


@pytest.fixture
def uri(tmp_path: Path) -> Path:
    """Three generations: updates, updates of updates, and a delete with a key that is nowhere."""
    uri = tmp_path / "t.lance"
    create(uri, BASE)
    with writer(uri, new_shard(), rows=3) as opened:
        opened.put(table({1: 10, 2: 20, 3: 30}))
        opened.put(table({2: 30, 9: 31}))
        settle(opened)
        opened.delete(keys([3, 77]))
    assert [len(shard.generations) for shard in shards(uri)] == [3]
    return uri


def merged(uri: Path) -> list[int]:
    """Recorded progress of the shards."""
    return sorted(merged_generations(lo.dataset(uri).snapshot().manifest.indices).values())


@pytest.mark.parametrize("max_bytes", [1, 1 << 20])
def test_generations_are_folded_in_order_with_their_progress(uri: Path, max_bytes: int) -> None:
    plan = lo.compact_wal(uri, dry_run=True)
    assert (plan.generations, plan.removable, plan.is_empty) == (3, 0, False)
    assert lo.dataset(uri).version == 2
    result = lo.compact_wal(uri, max_bytes=max_bytes)
    assert (result.generations_merged, result.commits) == (3, 3 if max_bytes == 1 else 1)
    assert as_rows(lance.dataset(str(uri)).to_table()) == NOW
    assert merged(uri) == [3]
    assert read_all(uri) == NOW
    assert peer_agrees(uri, NOW)
    assert lo.compact_wal(uri).generations_merged == 0
    assert "MemWAL up to generation 3" in lo.dataset(uri).history(limit=1)[0].description
    assert lo.compact_wal(uri, dry_run=True).generations == 0


def test_a_generation_that_changes_no_row_is_recorded_all_the_same(tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    create(uri, BASE)
    with writer(uri, new_shard()) as opened:
        opened.delete(keys([77]))
    result = lo.compact_wal(uri)
    assert (result.generations_merged, result.rows_deleted, merged(uri)) == (1, 0, [1])
    assert as_rows(lance.dataset(str(uri)).to_table()) == BASE


def test_the_peer_refuses_to_fold_again_what_is_folded(uri: Path) -> None:
    lo.compact_wal(uri)
    (shard,) = shards(uri)
    merge = lance.dataset(str(uri)).merge_insert("id").when_not_matched_insert_all()
    merge.mark_sstables_as_compacted([CompactedSsTable(str(shard.id), 3)])
    with pytest.raises(OSError, match="Stale SSTable compaction"):
        merge.execute(table({100: 1}))


def test_what_the_peer_folded_is_not_folded_again(uri: Path) -> None:
    (shard,) = shards(uri)
    merge = lance.dataset(str(uri)).merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.mark_sstables_as_compacted([CompactedSsTable(str(shard.id), 1)])
    merge.execute(lance.dataset(f"{uri}/{shard.generations[0].path}").to_table(columns=["id", "v", "s"]))
    assert read_all(uri) == NOW
    assert lo.compact_wal(uri).generations_merged == 2
    assert as_rows(lance.dataset(str(uri)).to_table()) == NOW


def test_two_compactors_at_once_fold_each_generation_once(uri: Path) -> None:
    with ThreadPoolExecutor(3) as pool:
        done = list(pool.map(lambda _: lo.compact_wal(uri, max_bytes=1), range(3)))
    assert sum(result.generations_merged for result in done) == 3
    assert as_rows(lance.dataset(str(uri)).to_table()) == NOW
    assert merged(uri) == [3]


def test_a_job_is_done_once(uri: Path) -> None:
    first = lo.compact_wal(uri, job_key="night", max_bytes=1)
    again = lo.compact_wal(uri, job_key="night")
    assert (first.generations_merged, again.already_committed) == (3, True)
    assert again.version == first.version


def test_generations_stay_as_long_as_a_version_lacks_them(uri: Path) -> None:
    lo.create_tag(uri, "before", 2)
    result = lo.compact_wal(uri)
    assert (result.generations_removed, result.generations_kept) == (0, 3)
    old = lo.dataset(uri, version=2)
    assert as_rows(old.to_table(mem_wal=True)) == NOW
    lo.cleanup(uri, retain_versions=1)
    assert lo.compact_wal(uri, remove_after=timedelta(0)).generations_removed == 0, "it has a tag"
    lo.delete_tag(uri, "before")
    assert lo.compact_wal(uri, remove=False).generations_removed == 0
    lo.cleanup(uri, retain_versions=1)
    assert lo.compact_wal(uri, dry_run=True).removable == 3
    result = lo.compact_wal(uri)
    assert (result.generations_removed, result.generations_kept) == (3, 0)
    assert not list(uri.glob("_mem_wal/*/*_gen_*/**/*.*"))
    assert read_all(uri) == NOW
    assert peer_agrees(uri, NOW)


def test_a_version_without_its_generations_is_refused_with_mem_wal(uri: Path) -> None:
    lo.compact_wal(uri, remove_after=timedelta(0))
    with pytest.raises(FileMissingError, match="folded into a later version"):
        lo.dataset(uri, version=2).to_table(mem_wal=True)
    assert as_rows(lo.dataset(uri, version=2).to_table()) == BASE
    lo.restore(uri, 2)
    with pytest.raises(FileMissingError, match="folded into a later version"):
        read_all(uri)


def test_a_restore_of_a_version_brings_its_generations_back(uri: Path) -> None:
    lo.compact_wal(uri)
    lo.restore(uri, 2)
    assert read_all(uri) == NOW
    assert lo.compact_wal(uri).generations_merged == 3
    assert as_rows(lance.dataset(str(uri)).to_table()) == NOW


def test_generations_stay_until_maintained_indices_have_them(tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    lance.write_dataset(table(BASE), str(uri))
    lance.dataset(str(uri)).create_scalar_index("v", "BTREE", name="v_idx")
    lance.dataset(str(uri)).initialize_mem_wal(unsharded=True, maintained_indexes=["v_idx"])
    with writer(uri, new_shard()) as opened:
        opened.put(table({1: 10, 9: 9}))
    lo.compact_wal(uri)
    lo.cleanup(uri, retain_versions=1)
    assert lo.compact_wal(uri).generations_removed == 0
    lo.optimize_indices(uri)
    lo.cleanup(uri, retain_versions=1)
    assert lo.compact_wal(uri).generations_removed == 1
    assert read_all(uri) == {**BASE, 1: 10, 9: 9}


def test_files_that_an_interrupted_removal_left_are_removed(uri: Path, tmp_path: Path) -> None:
    shutil.copytree(uri / "_mem_wal", tmp_path / "before")
    lo.compact_wal(uri, remove_after=timedelta(0))
    for folder in (tmp_path / "before").glob("*/*_gen_*"):
        shutil.copytree(folder, uri / "_mem_wal" / folder.parent.name / folder.name, dirs_exist_ok=True)
    (shard,) = shards(uri)
    unfinished = uri / shard.folder / "0badcafe_gen_4" / "data"
    unfinished.mkdir(parents=True)
    (unfinished / "x.lance").write_bytes(b"of a flush that goes on")
    assert lo.compact_wal(uri, remove_after=timedelta(0)).files_removed > 0
    assert [path.name for path in uri.glob("_mem_wal/*/*_gen_*") if any(path.rglob("*.*"))] == [
        "0badcafe_gen_4"
    ]
    assert read_all(uri) == NOW


def test_a_live_writer_goes_on_after_its_generations_are_removed(tmp_path: Path) -> None:
    uri, model = tmp_path / "t.lance", dict(BASE)
    create(uri, BASE)
    shard = new_shard()
    with writer(uri, shard, rows=4) as opened:
        for step in range(8):
            rows = {step: 100 + step, step + 1: 200 + step, 50 + step: step}
            opened.put(table(rows))
            model |= rows
            settle(opened)
            lo.compact_wal(uri, remove_after=timedelta(0))
            assert read_all(uri) == model
    # The writer was not fenced, and nothing is replayed twice.
    (found,) = shards(uri)
    assert found.writer_epoch == 1
    lo.compact_wal(uri, remove_after=timedelta(0))
    with writer(uri, shard) as opened:
        if has_key_indices(uri):
            assert as_rows(opened.lsm_scanner().to_table()) == model
    assert as_rows(lance.dataset(str(uri)).to_table()) == model
    assert read_all(uri) == model


def test_a_sealed_shard_is_folded(uri: Path) -> None:
    (shard,) = shards(uri)
    message = shard.message
    message.version, message.status = shard.version + 1, 1
    path = uri / shard.folder / "manifest" / f"{bit_reversed(message.version)}.binpb"
    path.write_bytes(message.SerializeToString())
    assert shards(uri)[0].is_sealed
    lo.compact_wal(uri, remove_after=timedelta(0))
    assert shards(uri)[0].is_sealed
    assert as_rows(lance.dataset(str(uri)).to_table()) == NOW


def test_many_shards_are_folded_in_one_commit(tmp_path: Path) -> None:
    uri, model = tmp_path / "t.lance", dict(BASE)
    create(uri, BASE)
    for number in range(4):
        with writer(uri, new_shard()) as opened:
            opened.put(table({100 + number: number, number: -number}))
        model |= {100 + number: number, number: -number}
    result = lo.compact_wal(uri)
    assert (result.shards, result.generations_merged, result.commits) == (4, 4, 1)
    assert merged(uri) == [1, 1, 1, 1]
    assert as_rows(lance.dataset(str(uri)).to_table()) == model


def test_memory_stores_and_bad_arguments(uri: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="max_bytes"):
        lo.compact_wal(uri, max_bytes=0)
    with pytest.raises(InvalidArgumentError, match="remove_after"):
        lo.compact_wal(uri, remove_after=timedelta(-1))
    store = open_store("memory://wal-test/t.lance")
    disk = open_store(str(uri))
    for item in disk.list(""):
        store.put(item.path, disk.read(item.path))
    assert lo.compact_wal(store, remove_after=timedelta(0)).generations_merged == 3
    assert as_rows(lo.dataset(store).to_table()) == NOW


def test_the_command_reads_plans_and_folds(uri: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: str) -> str:
        with pytest.raises(SystemExit) as left:
            main([*arguments])
        assert not left.value.code
        return capsys.readouterr().out

    rows = json.loads(run("query", str(uri), "--mem-wal", "--json"))["rows"]
    assert {row["id"]: row["v"] for row in rows} == NOW
    assert "3 generations to fold" in run("compact-wal", str(uri), "--dry-run")
    assert "7 rows" in run("query", str(uri), "--explain")
    assert "7 rows are not in the table" in run("health", str(uri))
    assert json.loads(run("compact-wal", str(uri), "--json"))["generations_merged"] == 3
    assert "MemWAL up to generation 3" in run("history", str(uri))
