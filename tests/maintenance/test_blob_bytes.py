"""Bytes of blobs beside data files count wherever bytes of a table are told, planned or bounded."""

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from tests.support.interop import our_dataset

pytestmark = pytest.mark.peer

SIZE = 100_000


def blobs(start: int, count: int) -> pa.Table:
    schema = pa.schema([pa.field("i", pa.int64()), lance.blob_field("b")])
    values = [bytes([number]) * SIZE for number in range(count)]
    return pa.table({"i": range(start, start + count), "b": lance.blob_array(values)}, schema=schema)


def on_disk(uri: Path) -> int:
    return sum(path.stat().st_size for path in (uri / "data").rglob("*") if path.is_file())


@pytest.fixture(params=[lo.write_dataset, lance.write_dataset])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Four fragments of three blobs each."""
    write: Callable = request.param
    uri = tmp_path / "t.lance"
    for number in range(4):
        options = {"mode": "append"} if number else {"data_storage_version": "2.2"}
        write(blobs(3 * number, 3), str(uri), **options)
    return uri


def test_health_history_and_looks_tell_what_is_on_disk(uri: Path) -> None:
    size = on_disk(uri)
    assert size > 12 * SIZE
    assert lo.measure_health(lo.dataset(uri)).data_bytes == size
    history = lo.dataset(uri).history()
    assert history[0].size.data_bytes == size
    assert history[0].size.data_bytes - history[1].size.data_bytes > 3 * SIZE
    assert lo.measure_health(lo.dataset(uri, version=2)).data_bytes == history[2].size.data_bytes


def test_a_plan_and_its_result_tell_what_is_read_and_written(uri: Path) -> None:
    size = on_disk(uri)
    plan = lo.compact(uri, dry_run=True)
    assert plan.data_bytes == size
    assert plan.estimate.bytes_written > 12 * SIZE
    result = lo.compact(uri)
    assert result.bytes_written == on_disk(uri) - size
    assert result.bytes_removed == size


def test_size_tiers_count_them(uri: Path) -> None:
    lo.compact(uri)
    lo.append(uri, blobs(12, 3))
    plan = lo.compact(uri, dry_run=True)
    # 1.2 MB and 0.3 MB; without their blobs both are among those that are always merged.
    assert plan.groups == ()
    assert [item.fragments for item in plan.left_alone] == [2]
    assert lo.measure_health(uri).small_fragments == 0
    assert len(lo.compact(uri, strategy="rows", dry_run=True).groups) == 1


@pytest.mark.parametrize(
    ("option", "least", "budget"), [("budget_bytes", 3, 14), ("max_source_bytes", 11, 13)]
)
def test_a_budget_of_bytes_bounds_what_is_written(uri: Path, option: str, least: int, budget: int) -> None:
    size = on_disk(uri)
    assert lo.compact(uri, options=lo.CompactionOptions(**{option: least * SIZE})).bytes_written == 0
    assert on_disk(uri) == size
    result = lo.compact(uri, options=lo.CompactionOptions(**{option: budget * SIZE}))
    assert 6 * SIZE < result.bytes_written == on_disk(uri) - size < budget * SIZE


def test_a_job_that_is_resumed_tells_bytes_of_blobs(uri: Path) -> None:
    size = on_disk(uri)
    result = lo.compact(uri, job_key="night")
    assert result.bytes_written == on_disk(uri) - size
    assert lo.dataset(uri).to_table()["i"].to_pylist() == list(range(12))
    assert lo.fsck(uri, deep=True).findings == ()


@pytest.mark.parametrize(
    "write",
    [
        lambda uri: lo.append(uri, blobs(12, 2)),
        lambda uri: lo.update(uri, {"i": "i + 100"}, "i < 2"),
        lambda uri: lo.merge_insert(uri, blobs(12, 2), on=["i"], when_not_matched="insert_all"),
        lambda uri: lo.write_dataset(blobs(12, 2), uri, mode="overwrite"),
    ],
    ids=["append", "update", "merge_insert", "overwrite"],
)
def test_results_of_writes_tell_what_was_written(uri: Path, write: Callable) -> None:
    size = on_disk(uri)
    result = write(uri)
    assert result.bytes_written == pytest.approx(on_disk(uri) - size, abs=1000)
    assert result.bytes_written > 2 * SIZE


def test_a_delete_tells_what_its_fragments_had(uri: Path) -> None:
    size = on_disk(uri)
    assert lo.delete(uri, "true").bytes_removed == size


def test_tables_without_blobs_are_not_listed_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    our_dataset(tmp_path / "t.lance", [5, 5])
    dataset = lo.dataset(tmp_path / "t.lance").snapshot()
    monkeypatch.setattr(type(dataset.store), "list", None)
    assert dataset.with_side_sizes() is dataset
