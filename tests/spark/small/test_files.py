"""Small files of a write become one before the commit, with the same rows in the same order."""

from itertools import pairwise
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.errors import StorageError, TaskFailedError
from lance_ops.maintenance.ingest.operation import abandon_write, commit_write
from lance_ops.maintenance.ingest.options import WriteOptions
from lance_ops.maintenance.ingest.plan import WritePlan, WriteTaskResult, plan_write, write_task
from lance_ops.spark import append_dataframe
from lance_ops.spark.small import files as small_files
from lance_ops.spark.small.files import group_small, join_small_files
from lance_ops.spark.small.parts import SMALL_BYTES
from lance_ops.table.manifest.data_file import DataFile
from lance_ops.table.manifest.fragment import Fragment


def rows(start: int, count: int) -> pa.Table:
    ids = np.arange(start, start + count)
    lists = pa.array([[n, n + 1][: n % 3] for n in ids], pa.list_(pa.int32()))
    words = pa.array([f"w{n % 7}" if n % 5 else None for n in ids], pa.string())
    return pa.table({"id": ids, "word": words, "pair": lists})


def written(uri: str, counts: list[int], **options) -> tuple[WritePlan, list[WriteTaskResult]]:
    """A plan, and the files of partitions."""
    plan = plan_write(rows(0, 1).schema, uri, WriteOptions(**options))
    starts = np.cumsum([0, *counts])
    parts = [write_task(plan.task, rows(s, n).to_batches()) for s, n in zip(starts, counts, strict=False)]
    return plan, parts


def data_files(uri: str) -> int:
    return len(list((Path(uri) / "data").glob("*.lance")))


@pytest.mark.peer
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_neighbours_become_one_file_up_to_the_limits_and_nothing_is_left(tmp_path, version):
    uri = str(tmp_path / "t.lance")
    counts = [100, 0, 2000, 1, 900, 3000, 50]
    plan, parts = written(uri, counts, data_storage_version=version, max_rows_per_file=3050)
    joined = join_small_files(plan.task, parts)
    assert [fragment.physical_rows for part in joined for fragment in part.fragments] == [3001, 3050]
    assert data_files(uri) == 2
    commit_write(plan, joined)
    expected = rows(0, sum(counts))
    assert lo.dataset(uri).to_table().equals(expected)
    assert lance.dataset(uri).to_table().equals(expected)
    assert lo.fsck(uri).ok


def test_files_of_blobs_stay_as_they_are(tmp_path):
    blob = pa.field("data", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([blob])
    uri = str(tmp_path / "t.lance")
    plan = plan_write(schema, uri, WriteOptions(data_storage_version="2.1"))
    batch = pa.record_batch([pa.array([b"a" * 10], pa.large_binary())], schema=schema)
    parts = [write_task(plan.task, [batch]) for _ in range(3)]
    joined = join_small_files(plan.task, parts)
    assert [len(part.fragments) for part in joined] == [3]
    commit_write(plan, joined)
    assert lo.dataset(uri).count_rows() == 3


def test_a_failure_removes_what_was_made_and_leaves_what_was_written(tmp_path, monkeypatch):
    uri = str(tmp_path / "t.lance")
    plan, parts = written(uri, [10] * 6, max_rows_per_file=20)
    really, calls = small_files.copy_fragments, []

    def fail_at_the_second(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise StorageError("the disk is gone")
        return really(*arguments)

    monkeypatch.setattr(small_files, "copy_fragments", fail_at_the_second)
    with pytest.raises(TaskFailedError, match="the disk is gone"):
        join_small_files(plan.task, parts, lo.LocalRunner(1))
    assert data_files(uri) == 6
    abandon_write(plan, parts)
    assert data_files(uri) == 0


def test_one_process_copies_no_more_than_its_share(tmp_path, monkeypatch):
    uri = str(tmp_path / "t.lance")
    plan, parts = written(uri, [10] * 6, max_rows_per_file=20)
    size = parts[0].bytes_written
    monkeypatch.setattr(small_files, "MOST_BYTES", 3 * size)
    (few,) = join_small_files(plan.task, parts)
    assert [fragment.physical_rows for fragment in few.fragments] == [20, 10, 10, 10, 10]
    (all_of_them,) = join_small_files(plan.task, [few], lo.LocalRunner())
    assert [fragment.physical_rows for fragment in all_of_them.fragments] == [20, 20, 20]


def fragment(rows: int, size: int) -> Fragment:
    return Fragment(id=0, files=(DataFile("x", (0,), (0,), 2, 1, size),), physical_rows=rows)


SIZES = st.sampled_from([0, 1, 20 << 20, small_files.SMALL_FILE_BYTES - 1, small_files.SMALL_FILE_BYTES])


@given(st.lists(st.tuples(st.integers(1, 600_000), SIZES), max_size=20))
def test_groups_keep_the_order_and_the_limits_and_hold_small_files_only(tmp_path_factory, given_files):
    task = plan_write(rows(0, 1).schema, str(tmp_path_factory.getbasetemp() / "none.lance")).task
    fragments = [fragment(count, size) for count, size in given_files]
    groups = group_small(fragments, task)
    assert [item for group in groups for item in group] == fragments
    for group in groups:
        if len(group) > 1:
            assert all(item.data_bytes < small_files.SMALL_FILE_BYTES for item in group)
            assert sum(item.physical_rows for item in group) <= task.max_rows_per_file
            assert sum(item.data_bytes for item in group) <= small_files.JOINED_BYTES
    for left, right in pairwise(groups):
        together = (*left, right[0])
        assert (
            any(item.data_bytes >= small_files.SMALL_FILE_BYTES for item in together)
            or sum(item.physical_rows for item in together) > task.max_rows_per_file
            or sum(item.data_bytes for item in together) > small_files.JOINED_BYTES
        ), "two groups that would have fitted into one"


@pytest.mark.spark
def test_partitions_above_a_mebibyte_share_a_fragment_in_one_commit(spark, tmp_path):
    each = SMALL_BYTES // 8 + 10_000
    df = spark.range(0, 6 * each, 1, 6)
    for way in ("save", "append"):
        uri = str(tmp_path / f"{way}.lance")
        if way == "save":
            df.write.format("lance").mode("append").save(uri)
        else:
            append_dataframe(df, uri)
        found = lo.dataset(uri)
        assert (found.version, len(found.fragments), data_files(uri)) == (1, 1, 1)
        assert found.to_table()["id"].to_pylist() == list(range(6 * each))
