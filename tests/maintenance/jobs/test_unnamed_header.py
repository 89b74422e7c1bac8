"""A process that dies between writing and naming the first record of a job leaves nothing for ever."""

import os
import time

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.maintenance.jobs.folder import JOBS_DIRECTORY, mark_of
from lance_ops.storage.lease import LEASE
from lance_ops.storage.paths import temporary_name
from tests.maintenance.jobs.test_resume import ONE


@pytest.mark.parametrize("is_resumed", [True, False])
@pytest.mark.parametrize("is_old", [True, False])
def test_cleanup_removes_a_header_that_was_never_named_unless_somebody_may_be_writing_it(
    tmp_path, is_resumed, is_old
):
    root = tmp_path / "t.lance"
    lo.append(str(root), pa.table({"x": range(32)}), max_rows_per_file=4)
    folder = root / JOBS_DIRECTORY / mark_of("job")
    folder.mkdir(parents=True)
    left = folder / temporary_name("job")
    left.write_bytes(b"lance_ops job")
    if is_old:
        before = time.time() - 2 * LEASE.total_seconds()
        os.utime(left, (before, before))
    if is_resumed:
        lo.compact(str(root), job_key="job", target_rows_per_fragment=8, runner=ONE)
    lo.cleanup(str(root), retain_versions=100)
    assert left.exists() is not is_old
    assert lo.list_jobs(str(root)) == []
