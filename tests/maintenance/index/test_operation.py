"""Building, refreshing, rebuilding and dropping indices."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError
from lance_ops.index.coverage import coverage
from lance_ops.maintenance.index.plan import IndexPlan
from tests.support.interop import data_files, our_dataset, peer_dataset, rows
from tests.support.unknown_index import forget_kind


def peer_xs(path: Path, sql: str) -> list[int]:
    return sorted(lance.dataset(str(path)).to_table(columns=["x"], filter=sql)["x"].to_pylist())


def test_a_dry_run_says_what_it_would_read_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, [100, 50])
    before = data_files(path)
    plan = lo.create_index(path, "x", dry_run=True)
    assert isinstance(plan, IndexPlan)
    assert plan.segments[0].rows == 150
    assert "x_idx" in str(plan)
    assert data_files(path) == before


def test_an_existing_name_is_refused_unless_it_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, [100])
    lo.create_index(path, "x")
    with pytest.raises(InvalidArgumentError, match="index 'x_idx' already exists"):
        lo.create_index(path, "x")
    result = lo.create_index(path, "x", replace=True)
    assert result.segments_removed == 1
    assert len(lo.dataset(path).indices) == 1


@pytest.mark.parametrize(
    ("column", "kind", "message"),
    [("nope", "BTREE", "no column 'nope'"), ("x", "HASH", "no index kind 'HASH'")],
)
def test_wrong_columns_and_kinds_are_named(tmp_path: Path, column: str, kind: str, message: str) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, [10])
    with pytest.raises(InvalidArgumentError, match=message):
        lo.create_index(path, column, kind)


@pytest.mark.parametrize("rows_per_task", [30, 1000])
def test_shares_of_tasks_become_one_segment(tmp_path: Path, rows_per_task: int) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, [40, 40, 40])
    lo.create_index(path, "f", rows_per_task=rows_per_task)
    (segment,) = lo.dataset(path).indices
    assert {file.path for file in segment.files} == {"page_data.lance", "page_lookup.lance"}
    assert {name for name in data_files(path) if "_indices" in name} == {
        f"{segment.directory}/{file.path}" for file in segment.files
    }
    assert peer_xs(path, "f IS NULL") == [x for x in range(120) if x % 5 == 4]


@pytest.mark.peer
@pytest.mark.parametrize("merge_segments", [0, 1])
@pytest.mark.parametrize("first", ["ours", "peer"])
def test_a_refresh_covers_appended_fragments(tmp_path: Path, first: str, merge_segments: int) -> None:
    path = tmp_path / "t.lance"
    peer_dataset(path, [100, 100])
    if first == "ours":
        lo.create_index(path, "x")
    else:
        lance.dataset(str(path)).create_scalar_index("x", "BTREE")
    lo.append(path, rows(200, 260))
    assert coverage(lo.dataset(path))[0].unindexed_rows == 60
    result = lo.optimize_indices(path, merge_segments=merge_segments)
    assert result.rows_indexed == 60
    assert (result.coverage_before, result.coverage_after) == pytest.approx((200 / 260, 1.0))
    assert len(lo.dataset(path).indices) == (2 if merge_segments == 0 else 1)
    assert peer_xs(path, "x >= 195") == list(range(195, 260))
    lance.dataset(str(path)).optimize.optimize_indices()
    assert peer_xs(path, "x >= 195") == list(range(195, 260))


def test_nothing_to_refresh_makes_no_version(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, [100])
    lo.create_index(path, "x")
    result = lo.optimize_indices(path)
    assert not result.changed
    assert lo.dataset(path).version == result.version


def test_a_rebuild_reads_everything_again(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, [100, 100])
    lo.create_index(path, "x")
    lo.delete(path, "x < 50")
    result = lo.optimize_indices(path, rebuild=True)
    assert result.rows_indexed == 150
    assert peer_xs(path, "x < 60") == list(range(50, 60))


@pytest.mark.peer
def test_indices_of_other_kinds_are_kept_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forget_kind(monkeypatch, "BITMAP")
    path = tmp_path / "t.lance"
    peer_dataset(path, [100])
    lance.dataset(str(path)).create_scalar_index("s", "BITMAP")
    lo.append(path, rows(100, 120))
    result = lo.optimize_indices(path)
    assert not result.changed
    assert "bitmap" in result.skipped[0]
    assert [index.name for index in lo.dataset(path).indices] == ["s_idx"]


def test_the_same_job_builds_once(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, [100])
    first = lo.create_index(path, "x", job_key="nightly")
    second = lo.create_index(path, "x", job_key="nightly")
    assert second.already_committed
    assert second.version == first.version


def test_a_dropped_index_is_gone_for_both(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, [100])
    lo.create_index(path, "x")
    lo.drop_index(path, "x_idx")
    assert lo.dataset(path).indices == ()
    assert "ScalarIndexQuery" not in lance.dataset(str(path)).scanner(filter="x = 1").explain_plan()


@pytest.mark.peer
@pytest.mark.parametrize("builder", ["ours", "peer"])
def test_compaction_moves_the_index_along(tmp_path: Path, builder: str) -> None:
    path = tmp_path / "t.lance"
    peer_dataset(path, [100, 100, 100])
    if builder == "ours":
        lo.create_index(path, "x")
    else:
        lance.dataset(str(path)).create_scalar_index("x", "BTREE")
    lo.delete(path, "x % 10 = 0")
    result = lo.compact(path)
    assert result.indices_remapped == 1
    assert coverage(lo.dataset(path))[0].ratio == 1.0
    assert "ScalarIndexQuery" in lance.dataset(str(path)).scanner(filter="x = 1").explain_plan()
    assert peer_xs(path, "x >= 95 AND x < 205") == [x for x in range(95, 205) if x % 10]


def test_an_index_that_is_not_trained_is_there_and_covers_nothing_yet(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    our_dataset(path, [10, 5])
    result = lo.create_index(path, "x", train=False)
    assert (result.segments_added, result.rows_indexed, result.coverage_after) == (1, 0, 0.0)
    assert peer_xs(path, "x >= 12") == rows_of(path, "x >= 12") == [12, 13, 14]
    assert lo.compact(path).fragments_added == 1
    assert rows_of(path, "x >= 12") == [12, 13, 14]
    assert lo.optimize_indices(path).coverage_after == 1.0
    assert peer_xs(path, "x >= 12") == rows_of(path, "x >= 12") == [12, 13, 14]
    # What is not trained takes the place of what is, too, as the caller says.
    assert lo.create_index(path, "x", replace=True, train=False).segments_removed == 1
    assert [item.ratio for item in coverage(lo.dataset(path))] == [0.0]


def rows_of(path: Path, sql: str) -> list[int]:
    return sorted(lo.dataset(path).to_table(["x"], sql)["x"].to_pylist())


def test_lists_of_any_length_become_vectors_as_the_message_says(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lo.append(uri, pa.table({"v": pa.array([[0.0, 1.0], [2.0, 3.0]], pa.list_(pa.float32()))}))
    for refused in (
        lambda: lo.create_index(uri, "v", "IVF_FLAT"),
        lambda: lo.dataset(uri).to_table(nearest={"column": "v", "q": [0.0, 1.0]}),
    ):
        with pytest.raises(InvalidArgumentError) as caught:
            refused()
        assert "'data_type': pyarrow.list_(pyarrow.float32(), N)" in str(caught.value.hint)
    lo.alter_columns(uri, {"path": "v", "data_type": pa.list_(pa.float32(), 2)})
    lo.create_index(uri, "v", "IVF_FLAT", parameters={"num_partitions": 1})
    assert lo.describe_indices(lo.dataset(uri))[0].num_rows_indexed == 2
