"""Which tests answer while one works: `make check` runs those marked `unit`, a few milliseconds each.

All others need the peer, Spark, a server or a browser, start programs, or are campaigns: every cell of a
matrix, a crash at every call, damage at every place. `make test` runs both.
"""

import pytest

NOT_UNIT = (
    "tests/cli/",
    "tests/dagster/",
    "tests/demo/",
    "tests/docs/",
    "tests/file/matrix/",
    "tests/file/page_copy/",
    "tests/file/v2_1/compression/test_decode.py",
    "tests/file/io/test_pending_rows.py",
    "tests/file/v2_1/mini_block/test_pick.py",
    "tests/file/test_writer.py",
    "tests/file/v2_1/test_read_column.py",
    "tests/file/v2_1/test_read_batch.py",
    "tests/fuzz/",
    "tests/index/vector/",
    "tests/maintenance/cleanup/test_faults.py",
    "tests/maintenance/cleanup/test_growth.py",
    "tests/maintenance/cleanup/test_jobs.py",
    "tests/maintenance/cleanup/test_races.py",
    "tests/maintenance/test_crashes.py",
    "tests/maintenance/test_damaged_indices.py",
    "tests/maintenance/delete/test_search.py",
    "tests/maintenance/index/test_fragment_reuse.py",
    "tests/maintenance/test_model.py",
    "tests/maintenance/index/test_reuse_histories.py",
    "tests/maintenance/test_side_by_side.py",
    "tests/safety/",
    "tests/shadow/",
    "tests/spark/",
    "tests/storage/test_object_servers.py",
    "tests/table/manifest/test_absurd_numbers.py",
    "tests/table/commit/test_crash.py",
    "tests/table/commit/test_race.py",
    "tests/table/scan/test_small_fragments.py",
    "tests/table/commit/test_job_keys.py",
    "tests/table/commit/test_job_record.py",
    "tests/table/scan/test_memory.py",
    "tests/test_readme.py",
    "tests/tools/",
    "tests/ui/",
)
_MARKS = {"azurite", "peer", "slow", "spark", "ui"}


def is_unit(item: pytest.Item) -> bool:
    """Whether it is for `make check`."""
    return not item.nodeid.startswith(NOT_UNIT) and not any(
        mark.name in _MARKS for mark in item.iter_markers()
    )
