"""Renaming an index: the same segments under another name, for us and for the peer."""

from pathlib import Path

import lance
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError
from tests.support.interop import data_files, peer_dataset, rows


@pytest.mark.peer
@pytest.mark.parametrize("defer", [False, True])
@pytest.mark.parametrize("kind", ["BTREE", "INVERTED"])
def test_a_renamed_index_is_used_refreshed_and_moved_by_both(tmp_path: Path, kind: str, defer: bool) -> None:
    path = tmp_path / "t.lance"
    peer_dataset(path, [60, 60])
    column = "x" if kind == "BTREE" else "s"
    lance.dataset(str(path)).create_scalar_index(column, kind, name="before")
    lo.append(path, rows(120, 150))
    lo.optimize_indices(path, merge_segments=0)
    lo.delete(path, "x % 10 = 0")
    lo.compact(path, defer_index_remap=defer)
    files = data_files(path)
    ids = {item.uuid for item in lo.dataset(path).manifest.indices if not item.is_system}

    result = lo.rename_index(path, "before", "after")
    assert str(result.summary()) == "renamed before to after"
    assert result.coverage_before == result.coverage_after == 1.0
    assert data_files(path) == files
    entries = [item for item in lo.dataset(path).manifest.indices if not item.is_system]
    assert ({item.uuid for item in entries}, {item.name for item in entries}) == (ids, {"after"})

    def check() -> None:
        peer = lance.dataset(str(path))
        if kind == "BTREE":
            assert "after" in peer.scanner(filter="x >= 100").explain_plan()
            wanted = [x for x in range(100, 150) if x % 10]
            assert sorted(peer.to_table(filter="x >= 100")["x"].to_pylist()) == wanted
            assert sorted(lo.dataset(path).to_table(filter="x >= 100")["x"].to_pylist()) == wanted
        else:
            words = {"columns": ["s"], "query": "121"}
            assert peer.to_table(full_text_query=words)["x"].to_pylist() == [121]
            assert lo.dataset(path).to_table(full_text_query=words)["x"].to_pylist() == [121]

    check()
    lo.optimize_indices(path)
    check()
    lance.dataset(str(path)).optimize.optimize_indices()
    lo.rename_index(path, "after", "before")
    assert "before" in {item.name for item in lance.dataset(str(path)).describe_indices()}


def test_names_that_are_taken_reserved_or_nobodys_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    lo.write_dataset(rows(0, 10), path)
    lo.create_index(path, "x")
    lo.create_index(path, "s", "BITMAP")
    for name, new, message in (
        ("nope", "a", "no index 'nope'"),
        ("x_idx", "s_idx", "index 's_idx' already exists"),
        ("x_idx", "x_idx", "index 'x_idx' already exists"),
        ("x_idx", "__lance_mine", "is reserved"),
        ("x_idx", "", "empty"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            lo.rename_index(path, name, new)


def test_a_compaction_meanwhile_is_planned_around(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    for start in (0, 10, 20):
        lo.append(path, rows(start, start + 10))
    lo.create_index(path, "x", name="before")
    compacted = []

    def compact_once(event: object) -> None:
        if not compacted:
            compacted.append(lo.compact(path))

    lo.rename_index(path, "before", "after", progress=compact_once)
    lo.rename_index(path, "after", "last", job_key="once")
    assert lo.rename_index(path, "after", "last", job_key="once").already_committed
    (segment,) = lo.dataset(path).indices
    assert segment.name == "last"
    assert sorted(lo.dataset(path).to_table(filter="x >= 15")["x"].to_pylist()) == list(range(15, 30))
