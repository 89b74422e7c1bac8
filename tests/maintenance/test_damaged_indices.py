"""Damage of every kind in the files of an index, met by every operation: right answers, and nothing stops.

Two BTREEs of the same type and size, one of them damaged: what it says must never count, and whatever is done
to the table must be done to the sound one as ever.
"""

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import UnreadableIndexWarning
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter
from lance_ops.index.coverage import coverage
from lance_ops.index.search.pruner import IndexPruner
from lance_ops.maintenance.fsck.findings import Severity
from lance_ops.maintenance.health.measure import measure_health
from lance_ops.storage import open_store
from tests.support.commands import lance_ops

ROWS, FRAGMENT_ROWS, MORE = 9000, 3000, 60
FILES = ("page_data.lance", "page_lookup.lance")
FILTERS = ("i = 4321", "i >= 8950", "i = -5", "i IS NULL", "i = 4321 AND j = 14985")


def rows(start: int, stop: int) -> pa.Table:
    ids = np.arange(start, stop)
    i = (ids * 7919) % 9001
    j = ids * 31 % 17_011
    return pa.table({"id": ids, "i": pa.array(i, mask=ids % 13 == 0), "j": pa.array(j, mask=ids % 13 == 1)})


def write_other_schema(file: Path, _: Path) -> None:
    table = pa.table({"a": [1.5, 2.5], "b": ["x", "y"]})
    file.unlink()
    with FileWriter(
        open_store(str(file.parent)), file.name, Schema.from_arrow(table.schema), version="2.0"
    ) as writer:
        writer.write(table)
        writer.finish()


def swap(file: Path, other: Path) -> None:
    assert file.read_bytes() != other.read_bytes()
    file.write_bytes(other.read_bytes())


def flip(file: Path, position: int) -> None:
    content = bytearray(file.read_bytes())
    content[position] ^= 0xFF
    file.write_bytes(content)


DAMAGES: dict[str, Callable[[Path, Path], object]] = {
    "cut": lambda file, _: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    "emptied": lambda file, _: file.write_bytes(b""),
    "zeroed": lambda file, _: file.write_bytes(bytes(file.stat().st_size)),
    "removed": lambda file, _: file.unlink(),
    "flipped at the front": lambda file, _: flip(file, 0),
    "flipped in the footer": lambda file, _: flip(file, -1),
    "of another schema": write_other_schema,
    "of another index": swap,
    "a folder": lambda file, _: (file.unlink(), file.mkdir()),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three fragments under two indices, some rows deleted, and a fragment that no index covers."""
    path = tmp_path_factory.mktemp("sound") / "t.lance"
    lo.write_dataset(rows(0, ROWS), path, max_rows_per_file=FRAGMENT_ROWS, data_storage_version="2.0")
    lo.create_index(path, "i")
    lo.create_index(path, "j")
    lo.delete(path, "id % 10 = 3")
    lo.append(path, rows(ROWS, ROWS + MORE))
    return path


def index_folder(path: Path, name: str) -> Path:
    (segment,) = (index for index in lo.dataset(path).indices if index.name == name)
    return path / segment.directory


@pytest.fixture(params=[(file, damage) for file in FILES for damage in DAMAGES], ids="-".join)
def damaged(request: pytest.FixtureRequest, sound: Path, tmp_path: Path) -> Path:
    file, damage = request.param
    path = tmp_path / f"{file[5:11]}-{damage}"
    shutil.copytree(sound, path)
    DAMAGES[damage](index_folder(path, "i_idx") / file, index_folder(path, "j_idx") / file)
    return path


def truth(path: Path, sql: str) -> list[int]:
    return sorted(lo.dataset(path).scanner(["id"], sql, pruners=()).to_table()["id"].to_pylist())


def check_answers(path: Path, *, peer: bool = True) -> None:
    """Ours are right with and without the indices, and the peer's where it gives one."""
    dataset = lo.dataset(path)
    by_peer = lance.dataset(str(path))
    for sql in FILTERS:
        wanted = truth(path, sql)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnreadableIndexWarning)
            found = sorted(dataset.scanner(["id"], sql).to_table()["id"].to_pylist())
            assert dataset.count_rows(sql) == len(wanted)
        assert found == wanted, sql
        scanned = by_peer.to_table(columns=["id"], filter=sql, use_scalar_index=False)
        assert sorted(scanned["id"].to_pylist()) == wanted, sql
        if peer:
            assert sorted(by_peer.to_table(columns=["id"], filter=sql)["id"].to_pylist()) == wanted, sql


def check_sound_index(path: Path, ratio: float) -> None:
    (item,) = (item for item in coverage(lo.dataset(path)) if item.name == "j_idx")
    assert item.ratio == pytest.approx(ratio)
    dataset = lo.dataset(path)
    pruning = IndexPruner().prune(dataset, dataset.parse_filter("j = 8642"))
    assert pruning is not None
    assert pruning.covered_fragment_ids == item.covered


def before() -> float:
    live = ROWS - ROWS // 10
    return live / (live + MORE)


def test_queries_scan_and_say_so(damaged: Path) -> None:
    check_answers(damaged, peer=False)
    check_sound_index(damaged, before())
    dataset = lo.dataset(damaged)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert IndexPruner().prune(dataset, dataset.parse_filter("i < 40")) is None
    messages = [str(warning.message) for warning in caught if warning.category is UnreadableIndexWarning]
    # A lookup that lost its bounds, and nothing else, has the query scan before it reads a page.
    assert messages or damaged.name == "lookup-flipped at the front"
    assert all("index 'i_idx' cannot be read: " in text and "--replace" in text for text in messages)


def test_deletes_find_their_rows(damaged: Path) -> None:
    wanted = set(truth(damaged, "i < 1000"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreadableIndexWarning)
        result = lo.delete(damaged, "i < 1000 AND i IS NOT NULL", pruners=[IndexPruner()])
    assert result.rows_deleted == len(wanted)
    assert not wanted & set(truth(damaged, "id >= 0"))
    check_answers(damaged, peer=False)


def test_compaction_goes_on_without_it(damaged: Path) -> None:
    ids = truth(damaged, "id >= 0")
    result = lo.compact(damaged, strategy="rows")
    assert result.groups == 1
    assert result.indices_remapped == 1
    (line,) = result.skipped
    assert "index 'i_idx' cannot be read" in line
    assert "skipped: index 'i_idx' cannot be read" in str(result)
    assert result.to_dict()["skipped"] == [line]
    assert truth(damaged, "id >= 0") == ids
    check_sound_index(damaged, before())
    # Nothing is left for the damaged index to answer, so that nobody asks it any more.
    check_answers(damaged, peer=True)
    (finding,) = lo.fsck(damaged).of("indices_readable")
    assert finding.severity is Severity.WARNING


def test_upkeep_goes_on_with_the_others(damaged: Path) -> None:
    result = lo.optimize_indices(damaged)
    assert result.indices == ("j_idx",)
    (line,) = result.skipped
    assert line.startswith("i_idx covers 99.3% of rows and is left unchanged: index 'i_idx' cannot be read")
    assert line in str(result)
    assert result.coverage_after == 1.0
    check_sound_index(damaged, 1.0)
    check_answers(damaged, peer=False)
    again = lo.optimize_indices(damaged)
    assert not again.changed
    assert again.coverage_after < 1.0
    assert again.skipped
    plan = lo.optimize_indices(damaged, dry_run=True)
    assert len(plan.skipped) == 1
    assert not plan.segments


def test_fsck_names_it_and_what_repairs_it(damaged: Path) -> None:
    for deep in (False, True):
        result = lo.fsck(damaged, deep=deep)
        assert not result.ok
        (finding,) = result.of("indices_readable")
        assert "'i_idx'" in finding.message
        assert "lance-ops index URI i --replace" in finding.message
    assert measure_health(lo.dataset(damaged)).indices == 2


def test_building_it_anew_repairs_it(damaged: Path) -> None:
    check_repair(damaged)


@pytest.mark.parametrize("first", [lo.compact, lo.optimize_indices, lambda path: lo.delete(path, "i < 90")])
def test_building_it_anew_repairs_it_whatever_came_before(copies: Path, first: Callable[..., object]) -> None:
    (index_folder(copies, "i_idx") / "page_data.lance").unlink()
    first(copies)
    check_repair(copies)


def check_repair(damaged: Path) -> None:
    lo.create_index(damaged, "i", replace=True)
    assert lo.fsck(damaged, deep=True).findings == ()
    dataset = lo.dataset(damaged)
    assert IndexPruner().prune(dataset, dataset.parse_filter("i = 4321")) is not None
    assert "ScalarIndexQuery" in lance.dataset(str(damaged)).scanner(filter="i = 4321").explain_plan()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_answers(damaged)


def test_the_command_that_fsck_names_repairs_it(copies: Path) -> None:
    (index_folder(copies, "i_idx") / "page_lookup.lance").unlink()
    damaged = lance_ops("fsck", copies, code=1).stdout
    assert "rebuild it: lance-ops index URI i --replace" in damaged
    assert "skipped: i_idx covers 99.3% of rows" in lance_ops("index", copies).stdout
    lance_ops("index", copies, "i", "--replace")
    assert "is sound" in lance_ops("fsck", copies, "--deep").stdout


def test_a_rebuild_of_all_repairs_it(damaged: Path) -> None:
    result = lo.optimize_indices(damaged, rebuild=True)
    assert (result.skipped, result.coverage_after) == ((), 1.0)
    assert lo.fsck(damaged, deep=True).findings == ()
    check_answers(damaged)


@pytest.fixture
def copies(sound: Path, tmp_path: Path) -> Path:
    path = tmp_path / "t.lance"
    shutil.copytree(sound, path)
    return path


@pytest.mark.parametrize("file", FILES)
def test_no_flipped_byte_of_a_footer_makes_a_wrong_answer(copies: Path, file: str) -> None:
    damaged = index_folder(copies, "i_idx") / file
    content = damaged.read_bytes()
    dataset = lo.dataset(copies)
    wanted = {sql: truth(copies, sql) for sql in ("i = 4321", "i < 40", "i IS NULL")}
    for position in range(1, 41):
        flip(damaged, -position)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnreadableIndexWarning)
            for sql, ids in wanted.items():
                assert sorted(dataset.scanner(["id"], sql).to_table()["id"].to_pylist()) == ids, (
                    position,
                    sql,
                )
        damaged.write_bytes(content)


def test_the_other_segments_of_a_damaged_index_are_used_on(copies: Path) -> None:
    lo.optimize_indices(copies, ["i_idx"], merge_segments=0)
    segments = [index for index in lo.dataset(copies).indices if index.name == "i_idx"]
    old, new = sorted(segments, key=lambda segment: -len(segment.fragment_ids or ()))
    (copies / old.directory / "page_lookup.lance").write_bytes(b"")
    dataset = lo.dataset(copies)
    with pytest.warns(UnreadableIndexWarning):
        pruning = IndexPruner().prune(dataset, dataset.parse_filter("i = 4321"))
    assert pruning is not None
    assert pruning.covered_fragment_ids == new.fragment_ids
    check_answers(copies, peer=False)
    lo.append(copies, rows(ROWS + MORE, ROWS + MORE + 30))
    # The newest segment is sound, and takes the new rows in.
    assert set(lo.optimize_indices(copies).indices) == {"i_idx", "j_idx"}
    check_answers(copies, peer=False)


def test_damage_behind_the_first_page_is_met_while_merging(copies: Path) -> None:
    """Planning looks at the beginning only; what shows later must not stop the others either."""
    data = index_folder(copies, "i_idx") / "page_data.lance"
    content = bytearray(data.read_bytes())
    for position in range(64, len(content) // 2):
        content[position] ^= 0x5A
    data.write_bytes(content)
    result = lo.optimize_indices(copies)
    assert result.indices == ("j_idx",)
    assert len(result.skipped) == 1
    check_answers(copies, peer=False)
    assert {folder.name for folder in (copies / "_indices").iterdir()} >= {
        str(segment.uuid) for segment in lo.dataset(copies).indices
    }
