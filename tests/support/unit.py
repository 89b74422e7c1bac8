"""Which tests answer while one works: `make check` runs those marked `unit`, a few milliseconds each.

All others need the peer, Spark, a server or a browser, start programs, or are campaigns: every cell of a
matrix, a crash at every call, damage at every place. `make test` runs both.
"""

import pytest

NOT_UNIT = (
    "tests/cli/test_terminated.py",
    "tests/cli/test_warmup.py",
    "tests/dagster/",
    "tests/demo/",
    "tests/docs/",
    "tests/encoding/pages/test_levels.py",
    "tests/file/io/test_pending_rows.py",
    "tests/file/matrix/",
    "tests/file/page_copy/",
    "tests/file/test_writer.py",
    "tests/file/v2_1/compression/test_decode.py",
    "tests/file/v2_1/mini_block/test_pick.py",
    "tests/file/v2_1/test_levels.py",
    "tests/file/v2_1/test_read_batch.py",
    "tests/file/v2_1/test_take_column.py",
    "tests/filter/parse/test_chains.py",
    "tests/fleet/run/test_run.py",
    "tests/fuzz/",
    "tests/index/bitmap/",
    "tests/index/test_damaged_segments.py",
    "tests/index/zone_map/test_zone_map_floats.py",
    "tests/index/zones/",
    "tests/index/inverted/test_packing.py",
    "tests/maintenance/cleanup/test_faults.py",
    "tests/maintenance/cleanup/test_growth.py",
    "tests/maintenance/cleanup/test_jobs.py",
    "tests/maintenance/cleanup/test_left_over_histories.py",
    "tests/maintenance/cleanup/test_races.py",
    "tests/maintenance/compact/test_deferred.py",
    "tests/maintenance/compact/test_index_routes.py",
    "tests/maintenance/compact/test_tiers.py",
    "tests/maintenance/delete/test_search.py",
    "tests/maintenance/index/test_all_kinds_histories.py",
    "tests/maintenance/index/test_fragment_reuse.py",
    "tests/maintenance/index/test_rebuilt_as_made.py",
    "tests/maintenance/index/test_reuse_histories.py",
    "tests/maintenance/jobs/test_ending.py",
    "tests/maintenance/jobs/test_operation.py",
    "tests/maintenance/jobs/test_resume.py",
    "tests/maintenance/merge_insert/test_processes.py",
    "tests/maintenance/metadata/test_branches.py",
    "tests/maintenance/metadata/test_manifest_paths.py",
    "tests/maintenance/test_crashes.py",
    "tests/maintenance/test_damaged_indices.py",
    "tests/maintenance/test_model.py",
    "tests/maintenance/test_side_by_side.py",
    "tests/packaging/",
    "tests/safety/",
    "tests/shadow/",
    "tests/spark/programs/",
    "tests/spark/test_daemon.py",
    "tests/spark/test_imports.py",
    "tests/spark/test_scan.py",
    "tests/storage/objects/test_aws_credentials.py",
    "tests/storage/test_conditional_put.py",
    "tests/storage/test_fork_safe.py",
    "tests/storage/test_fsspec_store.py",
    "tests/storage/test_object_servers.py",
    "tests/storage/objects/test_store.py",
    "tests/storage/test_store_model.py",
    "tests/table/commit/test_crash.py",
    "tests/table/commit/jobs/test_job_keys.py",
    "tests/table/commit/jobs/test_job_record.py",
    "tests/table/commit/test_race.py",
    "tests/table/commit/test_requests.py",
    "tests/table/manifest/test_absurd_numbers.py",
    "tests/table/manifest/test_newest.py",
    "tests/table/scan/test_memory.py",
    "tests/table/scan/test_small_fragments.py",
    "tests/test_checkout.py",
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
