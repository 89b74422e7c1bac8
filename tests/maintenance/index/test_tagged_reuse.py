"""Tagged fragment reuse (feature flag 1024): both libraries read and maintain one table in turns."""

import os
import random
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import LanceOpsError, UnsupportedError
from lance_ops.index.coverage import coverage
from lance_ops.maintenance.cleanup import row_maps
from tests.support.partitioned import partition
from tests.support.wire import edit_manifest, manifests

pytestmark = pytest.mark.peer

FLAG = 1024
FILTERS = (
    "i = 21",
    "i >= 10 and i < 20",
    "i in (0, 35, 51, 101)",
    "i is null",
    "i != 7 and i < 60",
    "s = '3'",
)
WORDS = ["red", "green", "blue", "white"]


def rows(start: int, stop: int) -> pa.Table:
    numbers = range(start, stop)
    vectors = np.array([[n % 13, n % 7] for n in numbers], np.float32).ravel()
    return pa.table(
        {
            "i": pa.array([None if n % 23 == 5 else n for n in numbers], pa.int64()),
            "s": [f"{n % 7}" for n in numbers],
            "t": [f"{WORDS[n % 4]} {WORDS[n % 3]}" for n in numbers],
            "v": pa.FixedSizeListArray.from_arrays(vectors, 2),
        }
    )


def peer(uri: Path) -> lance.LanceDataset:
    return lance.dataset(str(uri))


def set_flag(uri: Path) -> None:
    def change(manifest) -> None:
        manifest.reader_feature_flags |= FLAG
        manifest.writer_feature_flags |= FLAG

    edit_manifest(uri, change)


@pytest.fixture
def uri(tmp_path: Path) -> Path:
    """Four fragments of 20 rows, indices of four kinds, some rows deleted."""
    uri = tmp_path / "t.lance"
    for number in range(4):
        lance.write_dataset(
            rows(number * 20, number * 20 + 20), str(uri), mode="append" if number else "create"
        )
    set_flag(uri)
    peer(uri).create_scalar_index("i", "BTREE")
    peer(uri).create_scalar_index("s", "BITMAP")
    peer(uri).create_scalar_index("t", "INVERTED")
    peer(uri).create_index("v", "IVF_FLAT", num_partitions=2)
    peer(uri).delete("i % 9 = 0")
    return uri


def defer(uri: Path) -> None:
    """Compact without moving the indices along, by the official library."""
    peer(uri).optimize.compact_files(target_rows_per_fragment=40, defer_index_remap=True)


def found(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted(zip(*(table[name].to_pylist() for name in ("i", "s", "t")), strict=True), key=repr)


def check(uri: Path) -> None:
    """Both libraries answer with the indices as a scan does."""
    ours, theirs = lo.dataset(uri), peer(uri)
    every = ours.to_table(pruners=())
    assert found(theirs.to_table()) == found(every)
    for sql in FILTERS:
        scanned = found(ours.to_table(filter=sql, pruners=()))
        assert found(ours.to_table(filter=sql)) == scanned, sql
        assert found(theirs.to_table(filter=sql)) == scanned, sql
    for word in ("red", "blue"):
        expected = [row for row in found(every) if word in row[2].split()]
        search = {"query": word, "columns": ["t"]}
        assert found(theirs.to_table(full_text_query=search)) == expected, word
        assert found(ours.to_table(full_text_query=search)) == expected, word
    point = np.array([3, 3], np.float32)
    nearest = {"column": "v", "q": point, "k": 7, "nprobes": 2, "refine_factor": 2}
    distances = np.sort(((np.array(every["v"].to_pylist()) - point) ** 2).sum(axis=1))[:7]
    for table in (ours.to_table(nearest=nearest), theirs.to_table(nearest=nearest)):
        assert np.allclose(np.sort(np.array(table["_distance"])), distances)
    newest = max(manifests(uri).values(), key=lambda manifest: manifest.version)
    assert newest.reader_feature_flags & newest.writer_feature_flags & FLAG
    assert lo.fsck(uri, deep=True).ok


def covered(uri: Path) -> dict[str, set[int]]:
    return {item.name: set(item.covered) for item in coverage(lo.dataset(uri))}


def test_a_search_follows_the_rows_through_every_kind_of_index(uri: Path) -> None:
    defer(uri)
    live = {fragment.id for fragment in lo.dataset(uri).fragments}
    assert covered(uri) == dict.fromkeys(("i_idx", "s_idx", "t_idx", "v_idx"), live)
    assert "BTREE" in str(lo.dataset(uri).explain(filter="i = 21"))
    assert lo.measure_health(lo.dataset(uri)).index_coverage == 1.0
    check(uri)


STEPS: dict[str, Callable[[Path, int], object]] = {
    "their append": lambda uri, n: lance.write_dataset(rows(n, n + 6), str(uri), mode="append"),
    "our append": lambda uri, n: lo.append(uri, rows(n, n + 6)),
    "their delete": lambda uri, n: peer(uri).delete(f"i % 11 = {n % 11}"),
    "our delete": lambda uri, n: lo.delete(uri, f"i % 11 = {n % 11}"),
    "their update": lambda uri, n: peer(uri).update({"s": "'3'"}, where=f"i % 13 = {n % 13}"),
    "our update": lambda uri, n: lo.update(uri, {"s": "'3'"}, where=f"i % 13 = {n % 13}"),
    "their deferral": lambda uri, _: defer(uri),
    "our deferral": lambda uri, _: lo.compact(uri, target_rows_per_fragment=60, defer_index_remap=True),
    "our compaction": lambda uri, _: lo.compact(uri, target_rows_per_fragment=50),
    "their refresh": lambda uri, _: peer(uri).optimize.optimize_indices(),
    "our refresh": lambda uri, _: lo.optimize_indices(uri),
    "our column": lambda uri, n: lo.replace_columns(uri, {"s": f"concat(s, '{n % 2}')"}),
    "our cleanup": lambda uri, _: lo.cleanup(uri, older_than=timedelta(0), retain_versions=1),
    "their cleanup": lambda uri, _: peer(uri).cleanup_old_versions(timedelta(0)),
    "our restore": lambda uri, n: lo.restore(
        uri, max(lo.dataset(uri).version - 2, min(i.version for i in lo.dataset(uri).versions()))
    ),
}


@pytest.mark.parametrize("seed", range(int(os.environ.get("TAGGED_WALKS", "1"))))
def test_both_libraries_maintain_one_table_in_turns(seed: int, uri: Path) -> None:
    rng = random.Random(seed)
    defer(uri)
    done = []
    for number in range(8):
        name = rng.choice(sorted(STEPS))
        done.append(name)
        try:
            STEPS[name](uri, 100 + 10 * number)
            check(uri)
        except Exception as error:
            raise AssertionError(done) from error


@pytest.mark.parametrize("block_rows", [7])
def test_rows_that_a_partition_spread_are_found(uri: Path, block_rows: int) -> None:
    partition(uri, [2, 0, 1], 3, block_rows=block_rows)
    live = {fragment.id for fragment in lo.dataset(uri).fragments}
    assert covered(uri) == dict.fromkeys(("i_idx", "s_idx", "t_idx", "v_idx"), live)
    check(uri)
    defer(uri)
    check(uri)
    partition(uri, sorted(fragment.id for fragment in lo.dataset(uri).fragments), 2, seed=5)
    check(uri)
    lo.append(uri, rows(90, 95))
    lo.update(uri, {"s": "'3'"}, where="i < 9")
    lo.compact(uri, target_rows_per_fragment=200)
    check(uri)
    lo.optimize_indices(uri)
    check(uri)


@pytest.mark.parametrize("damage", ["gone", "cut", "counts"])
def test_a_row_map_that_cannot_be_read_leaves_all_to_scans(uri: Path, damage: str) -> None:
    path = partition(uri, [2, 0, 1], 3)
    data = path.read_bytes()
    if damage == "gone":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(data[:-1])
    else:
        place = data.index(b"LSPC") + 28
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    dataset = lo.dataset(uri)
    assert set().union(*covered(uri).values()) == set()
    for sql in FILTERS:
        assert found(dataset.to_table(filter=sql)) == found(dataset.to_table(filter=sql, pruners=())), sql
    assert not lo.fsck(uri).ok
    assert not lo.compact(uri).changed
    # A later look may find the map, and would believe what the indices say of the old values.
    with pytest.raises(LanceOpsError):
        lo.update(uri, {"s": "'3'"}, where="i = 7")
    lo.append(uri, rows(90, 92))
    lo.delete(uri, "i = 91")
    path.write_bytes(data)
    check(uri)


def test_a_cleanup_removes_the_row_maps_that_no_kept_version_names(uri: Path) -> None:
    first, second = partition(uri, [2, 0, 1], 3), None
    lo.create_tag(uri, "named", lo.dataset(uri).version)
    lo.optimize_indices(uri, rebuild=True)
    second = partition(uri, sorted(item.id for item in lo.dataset(uri).fragments), 2, seed=5)
    strange = uri / "_fri" / "notes.txt"
    strange.write_text("mine")
    lo.cleanup(uri, retain_versions=1, delete_unverified=True)
    assert first.exists()
    assert second.exists()
    check(uri)
    lo.delete_tag(uri, "named")
    lo.cleanup(uri, retain_versions=1)
    assert not first.exists()
    assert second.exists()
    check(uri)
    lo.optimize_indices(uri, rebuild=True)
    plan = lo.cleanup(uri, retain_versions=1, dry_run=True)
    assert {item.kind for item in plan.victims} >= {"row_map"}
    lo.cleanup(uri, retain_versions=1)
    assert [path.name for path in (uri / "_fri").rglob("*") if path.is_file()] == ["notes.txt"]
    check(uri)


def test_row_maps_stay_where_a_version_does_not_tell_which_it_needs(
    uri: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = partition(uri, [2, 0, 1], 3)
    lo.optimize_indices(uri, rebuild=True)
    later = partition(uri, sorted(item.id for item in lo.dataset(uri).fragments), 2, seed=5)

    def fail(bases: object, entries: object) -> None:
        raise UnsupportedError("moved otherwise")

    monkeypatch.setattr(row_maps, "named_row_maps", fail)
    plan = lo.cleanup(uri, retain_versions=1, delete_unverified=True, dry_run=True)
    assert any("moved otherwise" in item.reason for item in plan.kept)
    lo.cleanup(uri, retain_versions=1, delete_unverified=True)
    assert path.exists()
    assert later.exists()


def test_row_maps_go_with_deep_clones_and_hinder_shallow_ones(uri: Path, tmp_path: Path) -> None:
    path = partition(uri, [2, 0, 1], 3)
    for make in (
        lambda: lo.shallow_clone(uri, tmp_path / "c.lance"),
        lambda: lo.create_branch(uri, "side"),
    ):
        with pytest.raises(UnsupportedError, match="row maps"):
            make()
    assert lo.dataset(uri).tags == {}
    assert lo.dataset(uri).branches == {}
    clone = tmp_path / "d.lance"
    lo.deep_clone(uri, clone)
    path.unlink()
    check(clone)
    path.parent.mkdir(exist_ok=True)
    lo.optimize_indices(uri, rebuild=True)
    check(uri)
    lo.shallow_clone(uri, tmp_path / "c.lance")
