from dataclasses import replace

import dagster as dg
import lance
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lance_ops as lo
from lance_ops.dagster import LanceDatasetRef, keys
from lance_ops.dagster.checks.records import check_key
from lance_ops.dagster.jobs.operations import (
    ADD_COLUMNS,
    APPEND,
    CLEANUP,
    COMPACT,
    COMPACT_WAL,
    DELETE,
    INDEX,
    MAINTAIN,
    build_jobs,
)
from lance_ops.dagster.jobs.run_report import RunNotes
from lance_ops.errors import (
    IncompatibleCommitConflictError,
    InvalidArgumentError,
    RetryableCommitConflictError,
    StorageError,
)
from lance_ops.maintenance.cleanup import execute
from lance_ops.maintenance.health.policy import MaintenancePolicy
from lance_ops.maintenance.maintain import perform
from lance_ops.maintenance.metadata.actions import restore
from lance_ops.storage import retry
from lance_ops.storage.local.store import LocalStore
from lance_ops.table.dataset import Dataset
from tests.support import mem_wal
from tests.support.dagster import (
    STORE,
    WITHOUT_INDEX,
    evaluations,
    failure_of,
    materializations,
    output_metadata,
    published_versions,
    run_job,
    tell,
    write,
)
from tests.support.tables import rows
from tests.support.unknown_index import forget_kind


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def ref(tmp_path):
    return LanceDatasetRef("warehouse/numbers", str(tmp_path / "numbers.lance"))


def parquet(tmp_path, start, stop):
    path = tmp_path / f"{start}-{stop}.parquet"
    pq.write_table(rows(start, stop), path)
    return str(path)


def test_append_creates_the_dataset_and_reports_its_first_version(tmp_path, ref, instance):
    result = run_job(ref, APPEND, instance, paths=[parquet(tmp_path, 0, 10)])

    assert result.success
    (event,) = materializations(instance, ref)
    dataset = Dataset.open(ref.uri)
    assert event.asset_key == dg.AssetKey(["warehouse", "numbers"])
    assert event.tags["lance/version"] == "1"
    assert event.tags["dagster/data_version"] == dataset.data_version
    assert event.metadata["dagster/row_count"].value == 10
    # The numbers of a run are on its page, and would be single points among the plots of the dataset.
    assert output_metadata(result)["lance/rows_added"].value == 10
    assert "lance/rows_added" not in event.metadata
    assert set(evaluations(result)) == WITHOUT_INDEX
    assert all(item.passed for item in evaluations(result).values())


def test_every_commit_notes_the_run_that_made_it(tmp_path, ref, instance):
    result = run_job(ref, APPEND, instance, paths=[parquet(tmp_path, 0, 10)])

    properties = Dataset.open(ref.uri).read_transaction().properties
    assert properties["dagster.run_id"] == result.run_id
    assert properties["dagster.job"] == APPEND
    assert properties["dagster.step"] == "append"
    assert properties["dagster.partition"] == "warehouse/numbers"


def test_reexecuting_an_append_adds_nothing_unless_it_has_a_new_token(monkeypatch, tmp_path, ref, instance):
    paths = [parquet(tmp_path, 0, 10)]
    first = run_job(ref, APPEND, instance, paths=paths)
    notes = RunNotes.of
    # What Dagster sets when a person re-executes the first run.
    monkeypatch.setattr(
        RunNotes, "of", classmethod(lambda _, context: replace(notes(context), root_run_id=first.run_id))
    )

    again = run_job(ref, APPEND, instance, paths=paths)
    assert again.success
    assert output_metadata(again)["lance/already_committed"].value is True
    assert Dataset.open(ref.uri).count_rows() == 10

    assert run_job(ref, APPEND, instance, paths=paths, rerun_token="once more").success
    assert Dataset.open(ref.uri).count_rows() == 20
    assert published_versions(instance, ref) == [1, 2]


def test_delete_is_a_dry_run_by_default(ref, instance):
    write(ref.uri, 0, 10)

    result = run_job(ref, DELETE, instance, predicate="a < 4")

    assert result.success
    assert Dataset.open(ref.uri).version == 1
    metadata = output_metadata(result)
    assert metadata["lance/dry_run"].value is True
    assert "4 rows of 10 (40.0%)" in metadata["lance/plan"].value
    assert published_versions(instance, ref) == []


def test_delete_moves_the_data_version(ref, instance):
    write(ref.uri, 0, 10)
    tell(ref, instance)

    result = run_job(ref, DELETE, instance, predicate="a < 4", dry_run=False)

    assert result.success
    before, after = materializations(instance, ref)
    assert before.tags["dagster/data_version"] != after.tags["dagster/data_version"]
    assert after.metadata["dagster/row_count"].value == 6
    assert after.metadata["lance/deleted_rows"].value == 4
    assert evaluations(result)["deleted_ratio"].passed is False


def test_delete_refuses_to_delete_more_than_the_guard_allows(ref, instance):
    write(ref.uri, 0, 10)

    result = run_job(ref, DELETE, instance, predicate="a < 6", dry_run=False)

    assert not result.success
    description, metadata = failure_of(result)
    assert "6 of 10 rows match" in description
    assert metadata["lance/error_field"] == "max_fraction"
    assert Dataset.open(ref.uri).version == 1


def test_compaction_keeps_the_data_version_and_reports_each_of_its_versions(ref, instance):
    for start in range(0, 30, 10):
        write(ref.uri, start, start + 10)
    tell(ref, instance)

    result = run_job(ref, COMPACT, instance)

    assert result.success
    events = materializations(instance, ref)
    assert [event.tags["lance/operation"] for event in events] == [
        "Overwrite",
        "Append",
        "Append",
        "ReserveFragments",
        "Rewrite",
    ]
    assert len({event.tags["dagster/data_version"] for event in events[2:]}) == 1
    assert [event.metadata["lance/fragments"].value for event in events] == [1, 2, 3, 3, 1]
    assert events[-1].metadata["lance/summary"].value.startswith("compact: ")
    assert "lance/summary" not in events[-2].metadata


def test_generations_of_mem_wal_are_folded_by_a_run(tmp_path, instance):
    ref = LanceDatasetRef("t", str(tmp_path / "t.lance"))
    mem_wal.create(tmp_path / "t.lance", {1: 1})
    with mem_wal.writer(tmp_path / "t.lance", mem_wal.new_shard()) as opened:
        opened.put(mem_wal.table({1: 2, 3: 4}))
    planned = run_job(ref, COMPACT_WAL, instance, dry_run=True)
    assert planned.success
    assert Dataset.open(ref.uri).count_rows() == 1

    result = run_job(ref, COMPACT_WAL, instance)

    assert output_metadata(result)["lance/generations_merged"].value == 1
    assert mem_wal.as_rows(lo.dataset(ref.uri).to_table()) == {1: 2, 3: 4}


def test_compaction_aims_at_the_policy_of_the_dataset(tmp_path, instance):
    ref = LanceDatasetRef("t", str(tmp_path / "t.lance"), policy=MaintenancePolicy(target_rows=20))
    for start in range(0, 40, 10):
        write(ref.uri, start, start + 10)

    assert run_job(ref, COMPACT, instance).success
    assert [fragment.num_rows for fragment in Dataset.open(ref.uri).fragments] == [20, 20]


def test_compaction_without_anything_to_do_makes_no_version(ref, instance):
    write(ref.uri, 0, 10)

    result = run_job(ref, COMPACT, instance)

    assert result.success
    assert Dataset.open(ref.uri).version == 1
    assert published_versions(instance, ref) == []
    assert evaluations(result) == {}


def test_a_removed_budget_names_what_replaces_it(ref, instance):
    write(ref.uri, 0, 10)

    description, _ = failure_of(run_job(ref, COMPACT, instance, budget_money=1.0))

    assert "budget_requests" in description


def test_index_builds_and_then_refreshes(ref, instance):
    write(ref.uri, 0, 10)
    tell(ref, instance)
    assert run_job(ref, INDEX, instance, column="a").success
    write(ref.uri, 10, 20)
    tell(ref, instance)

    result = run_job(ref, INDEX, instance)

    assert result.success
    events = materializations(instance, ref)
    unindexed = [event.metadata.get("lance/unindexed_rows") for event in events]
    assert [item and item.value for item in unindexed] == [None, 0, 10, 0]
    assert [event.tags["lance/operation"] for event in events] == [
        "Overwrite",
        "CreateIndex",
        "Append",
        "CreateIndex",
    ]
    assert evaluations(result)["index_coverage"].passed


def test_several_indices_are_built_in_one_run_and_refreshed_in_the_next(ref, instance):
    write(ref.uri, 0, 10)
    tell(ref, instance)
    wanted = [
        {"column": "a", "parameters": {}},
        {"column": "a", "kind": "zonemap", "name": "zones", "parameters": {"rows_per_zone": 4}},
    ]
    plan = run_job(ref, INDEX, instance, indices=wanted, dry_run=True)
    assert plan.success
    assert lo.dataset(ref.uri).indices == ()
    assert run_job(ref, INDEX, instance, indices=wanted).success
    assert {item.name: item.index_type for item in lo.describe_indices(lo.dataset(ref.uri))} == {
        "a_idx": "BTree",
        "zones": "ZoneMap",
    }
    write(ref.uri, 10, 20)
    tell(ref, instance)

    result = run_job(ref, INDEX, instance, indices=wanted, merge_segments=0)

    assert result.success
    described = lo.describe_indices(lo.dataset(ref.uri))
    assert [(item.coverage, item.num_segments) for item in described] == [(1.0, 2), (1.0, 2)]
    assert evaluations(result)["index_upkeep"].metadata["lance/index_segments"].value == 2


def test_indices_of_one_name_are_refused_and_one_of_another_kind_is_told(ref, instance):
    write(ref.uri, 0, 10)
    tell(ref, instance)
    twice = [{"column": "a"}, {"column": "a", "kind": "BITMAP"}]
    refused = run_job(ref, INDEX, instance, indices=twice, replace=True)
    assert "duplicate index names a_idx" in str(failure_of(refused))
    assert lo.dataset(ref.uri).indices == ()
    # A name may be any word, the one of the last step of the job among them.
    assert run_job(ref, INDEX, instance, indices=[{"column": "a", "name": "refresh"}, *twice[:1]]).success
    write(ref.uri, 10, 20)
    wanted = [{"column": "a", "name": "refresh", "kind": "BITMAP"}, {"column": "a", "name": "more"}]
    result = run_job(ref, INDEX, instance, indices=wanted)
    described = {
        item.name: (item.index_type, item.coverage) for item in lo.describe_indices(lo.dataset(ref.uri))
    }
    assert described == {"a_idx": ("BTree", 0.5), "more": ("BTree", 1.0), "refresh": ("BTree", 1.0)}
    assert "refresh is a BTREE, not a BITMAP" in str(output_metadata(result))


def test_a_refresh_merges_segments_down_to_the_limit_of_the_policy(ref, instance):
    few = replace(ref, policy=MaintenancePolicy(max_index_segments=1))
    write(ref.uri, 0, 10)
    lo.create_index(ref.uri, "a")
    write(ref.uri, 10, 20)
    lo.optimize_indices(ref.uri, merge_segments=0)
    assert len(lo.dataset(ref.uri).indices) == 2
    result = run_job(few, INDEX, instance)
    assert len(lo.dataset(ref.uri).indices) == 1
    assert evaluations(result)["index_upkeep"].passed


def test_a_compaction_defers_the_remap_and_the_refresh_follows(ref, instance):
    for start in range(3):
        write(ref.uri, start, start + 1)
    tell(ref, instance)
    assert run_job(ref, INDEX, instance, column="a").success
    deferred = run_job(ref, COMPACT, instance, defer_index_remap=True, on_unknown_index="defer")
    assert deferred.success
    upkeep = evaluations(deferred)["index_upkeep"]
    assert (upkeep.passed, upkeep.metadata["lance/deferred_compactions"].value) == (True, 1)
    assert run_job(ref, INDEX, instance).success
    assert lo.dataset(ref.uri).fragment_reuse is None


def test_cleanup_is_a_dry_run_by_default(ref, instance):
    for start in range(3):
        write(ref.uri, start, start + 1)

    result = run_job(ref, CLEANUP, instance, older_than_days=0, retain_versions=1)

    assert result.success
    assert len(Dataset.open(ref.uri).versions()) == 3
    assert "2 versions of 3" in output_metadata(result)["lance/plan"].value


def test_cleanup_observes_and_leaves_the_newest_event_in_force(ref, instance):
    for start in range(3):
        write(ref.uri, start, start + 1)

    result = run_job(ref, CLEANUP, instance, older_than_days=0, retain_versions=1, dry_run=False)

    assert result.success
    assert len(Dataset.open(ref.uri).versions()) == 1
    (record,) = instance.fetch_observations(ref.key, limit=10).records
    assert record.asset_observation.metadata["lance/versions_removed"].value == 2
    assert published_versions(instance, ref) == []


def test_a_cleanup_that_could_not_remove_all_is_no_success(ref, instance, monkeypatch):
    for start in range(3):
        write(ref.uri, start, start + 1)
    delete_many = LocalStore.delete_many

    def failing(self, paths):
        paths = list(paths)
        if any(path.endswith(".txn") for path in paths):
            raise StorageError("injected")
        delete_many(self, paths)

    monkeypatch.setattr(LocalStore, "delete_many", failing)
    for module in (retry, execute):
        monkeypatch.setattr(module, "STORE_PAUSES", (0.0, 0.0))
    result = run_job(ref, CLEANUP, instance, older_than_days=0, retain_versions=1, dry_run=False)
    assert not result.success
    description, metadata = failure_of(result)
    assert "injected" in description
    assert metadata["lance/files_failed"] == 2
    monkeypatch.undo()
    assert run_job(ref, CLEANUP, instance, older_than_days=0, retain_versions=1, dry_run=False).success


def test_a_long_plan_is_cut_in_the_event_log(ref, instance):
    for start in range(120):
        write(ref.uri, start, start + 1, storage_options={"fsync": "false"})

    result = run_job(ref, CLEANUP, instance, older_than_days=0, retain_versions=1)

    plan = output_metadata(result)["lance/plan"].value
    assert len(plan.splitlines()) < 210
    assert any(line.startswith("... and") for line in plan.splitlines())


def test_a_run_publishes_what_it_committed_and_nothing_else(tmp_path, ref, instance):
    assert run_job(ref, APPEND, instance, paths=[parquet(tmp_path, 0, 10)]).success
    write(ref.uri, 10, 20)
    restore(ref.uri, 1)

    result = run_job(ref, APPEND, instance, paths=[parquet(tmp_path, 20, 30)])

    # Versions 2 and 3 come before it, and they are not this run's.
    assert published_versions(instance, ref) == [1]
    assert set(evaluations(result)) == WITHOUT_INDEX
    tell(ref, instance)
    assert published_versions(instance, ref) == [1, 2, 3, 4]
    runs = [
        record.run_id for record in instance.fetch_materializations(ref.key, limit=9, ascending=True).records
    ]
    assert [bool(run_id) for run_id in runs] == [True, False, False, False]
    assert run_job(ref, APPEND, instance, paths=[parquet(tmp_path, 40, 50)]).success
    assert published_versions(instance, ref) == [1, 2, 3, 4, 5]


def test_a_cleanup_tells_the_checks_that_it_cures(instance, tmp_path):
    ref = LanceDatasetRef("t", str(tmp_path / "t.lance"), policy=MaintenancePolicy(max_versions=2))
    for start in range(4):
        write(ref.uri, start, start + 1)
    tell(ref, instance)
    key = check_key(ref, "version_backlog")
    assert instance.get_latest_asset_check_evaluation_record(key).evaluation.passed is False

    plan = run_job(ref, CLEANUP, instance, older_than_days=0, retain_versions=1)
    assert evaluations(plan) == {}
    result = run_job(ref, CLEANUP, instance, older_than_days=0, retain_versions=1, dry_run=False)

    assert set(evaluations(result)) == WITHOUT_INDEX
    assert instance.get_latest_asset_check_evaluation_record(key).evaluation.passed


def test_a_wrong_predicate_fails_at_once_and_says_where(ref, instance):
    write(ref.uri, 0, 10)

    result = run_job(ref, DELETE, instance, predicate="nothing < 4")

    description, metadata = failure_of(result)
    assert "no column 'nothing'" in description
    assert metadata["dagster/uri"] == ref.uri
    assert not [event for event in result.all_events if event.event_type_value == "STEP_UP_FOR_RETRY"]


def fail_first(monkeypatch, times, error):
    """Make the first calls of delete end with an error."""
    from lance_ops.spark.submitted import operations as jobs

    original, calls = jobs.delete, []

    def delete(*args, **options):
        calls.append(options["job_key"])
        if len(calls) <= times:
            raise error
        return original(*args, **options)

    monkeypatch.setattr(jobs, "delete", delete)
    return calls


def test_a_retryable_conflict_is_retried_under_the_same_job_key(monkeypatch, ref, instance):
    write(ref.uri, 0, 10)
    conflict = RetryableCommitConflictError("in the way", ours="Delete", theirs="Rewrite", version=2)
    calls = fail_first(monkeypatch, 2, conflict)

    result = run_job(ref, DELETE, instance, predicate="a < 4", dry_run=False)

    assert result.success
    assert len(calls) == 3
    assert len(set(calls)) == 1
    assert Dataset.open(ref.uri).count_rows() == 6


def test_a_conflict_that_does_not_go_away_names_both_transactions(monkeypatch, ref, instance):
    write(ref.uri, 0, 10)
    conflict = RetryableCommitConflictError(
        "in the way", ours="Delete where a < 4", theirs="Rewrite of 1", version=2
    )
    calls = fail_first(monkeypatch, 99, conflict)

    result = run_job(ref, DELETE, instance, predicate="a < 4", dry_run=False, conflict_retries=2)

    assert len(calls) == 3
    _, metadata = failure_of(result)
    assert metadata["lance/conflict_kind"] == "retryable"
    assert metadata["lance/conflict_ours"] == "Delete where a < 4"
    assert metadata["lance/conflict_theirs"] == "Rewrite of 1"
    assert metadata["lance/conflict_version"] == 2
    assert metadata["lance/dataset"] == ref.name


def test_an_incompatible_conflict_is_not_retried(monkeypatch, ref, instance):
    write(ref.uri, 0, 10)
    calls = fail_first(
        monkeypatch, 99, IncompatibleCommitConflictError("no", ours="Delete", theirs="Overwrite", version=2)
    )

    result = run_job(ref, DELETE, instance, predicate="a < 4", dry_run=False)

    assert len(calls) == 1
    assert failure_of(result)[1]["lance/conflict_kind"] == "incompatible"


def test_runs_carry_the_tag_that_limits_concurrency(ref, instance):
    write(ref.uri, 0, 10)
    result = run_job(ref, COMPACT, instance)
    assert result.dagster_run.tags[keys.DATASET_TAG] == "warehouse/numbers"


def test_jobs_are_partitioned_by_dataset(tmp_path):
    refs = [LanceDatasetRef(name, str(tmp_path / name)) for name in ("a", "b/c")]
    for job in build_jobs(refs):
        assert job.partitions_def.get_partition_keys() == ["a", "b/c"]


def test_destructive_jobs_have_a_dry_run_that_is_on(ref):
    jobs = {job.name: job for job in build_jobs([ref])}
    for name in (DELETE, CLEANUP):
        schema = jobs[name].graph.node_defs[0].config_schema.config_type
        assert schema.fields["dry_run"].default_value is True


def test_datasets_that_cannot_be_told_apart_are_refused(tmp_path):
    refs = [LanceDatasetRef("a/b", str(tmp_path / "1")), LanceDatasetRef("a_b", str(tmp_path / "2"))]
    with pytest.raises(InvalidArgumentError, match="two datasets"):
        build_jobs(refs)


def test_a_commit_that_cannot_be_reported_does_not_fail_the_run(monkeypatch, tmp_path, ref, instance):
    from lance_ops.dagster.jobs import run_report

    def broken(*args, **options):
        raise RuntimeError("the event log is away")

    monkeypatch.setattr(run_report, "last_published", broken)

    assert run_job(ref, APPEND, instance, paths=[parquet(tmp_path, 0, 10)]).success
    assert Dataset.open(ref.uri).version == 1


@pytest.mark.peer
def test_runs_that_can_do_nothing_say_why(ref, instance, monkeypatch):
    forget_kind(monkeypatch, "BITMAP")
    for start in (0, 50):
        write(ref.uri, start, start + 50)
    lance.dataset(ref.uri).create_scalar_index("a", "BITMAP")
    write(ref.uri, 100, 116)

    compacted = output_metadata(run_job(ref, COMPACT, instance))
    refreshed = output_metadata(run_job(ref, INDEX, instance))

    assert (
        "because of index 'a_idx' (bitmapindexdetails): its row addresses cannot be remapped"
        in compacted["lance/summary"].value
    )
    assert "a_idx covers 86.2% of rows and is left unchanged" in refreshed["lance/summary"].value


@pytest.mark.parametrize("name", [COMPACT, CLEANUP])
def test_a_launch_without_a_dataset_says_what_to_choose(ref, instance, name):
    jobs = {job.name: job for job in build_jobs([ref])}
    result = jobs[name].execute_in_process(
        instance=instance, resources={"lance_store": STORE}, raise_on_error=False
    )
    description, metadata = failure_of(result)
    assert ref.name in description
    assert "choose" in description
    assert metadata["lance/error_field"] == "partition"


def shout(batch):
    """A function over batches that a job names."""
    return pa.record_batch([pa.array([text.upper() for text in batch["b"].to_pylist()])], ["loud"])


def test_columns_are_added_by_sql_and_by_a_function(instance, ref):
    lo.append(ref.uri, rows(0, 6), max_rows_per_file=2)
    tell(ref, instance)
    assert run_job(ref, ADD_COLUMNS, instance, values={"twice": "a * 2"}).success
    assert run_job(ref, ADD_COLUMNS, instance, function=f"{__name__}:shout").success
    assert published_versions(instance, ref)[-1] == 3
    found = lo.dataset(ref.uri).to_table(filter="a = 4").to_pylist()
    assert found == [{"a": 4, "b": "row 4", "twice": 8, "loud": "ROW 4"}]
    assert lo.list_jobs(ref.uri) == []
    assert run_job(ref, ADD_COLUMNS, instance, values={"more": "1"}, dry_run=True).success
    assert lo.dataset(ref.uri).version == 3


@pytest.mark.parametrize(
    "config", [{}, {"values": {"y": "1"}, "function": "a:b"}, {"function": "nowhere:x"}], ids=str
)
def test_columns_that_nothing_tells_are_refused(instance, ref, config):
    lo.append(ref.uri, rows(0, 6))
    assert not run_job(ref, ADD_COLUMNS, instance, **config).success
    assert lo.dataset(ref.uri).version == 1


def test_maintenance_does_what_is_due_by_the_policy_and_reports_its_versions(ref, instance):
    ref = replace(ref, policy=MaintenancePolicy(max_small_fragments=2))
    for start in range(0, 40, 10):
        write(ref.uri, start, start + 10)
    tell(ref, instance)
    planned = run_job(ref, MAINTAIN, instance, dry_run=True)
    assert planned.success
    assert Dataset.open(ref.uri).version == 4
    done = run_job(ref, MAINTAIN, instance)
    assert done.success
    assert len(Dataset.open(ref.uri).fragments) == 1
    assert "4 -> 1 fragments" in output_metadata(done)["lance/summary"].value
    assert published_versions(instance, ref)[-1] == Dataset.open(ref.uri).version
    assert all(item.passed for item in evaluations(done).values())
    assert run_job(ref, MAINTAIN, instance).success


def test_a_failed_operation_of_maintenance_fails_the_run(monkeypatch, ref, instance):
    ref = replace(ref, policy=MaintenancePolicy(max_small_fragments=2))
    for start in range(0, 40, 10):
        write(ref.uri, start, start + 10)

    def broken(*_, **__):
        raise InvalidArgumentError("no such option", field="method")

    monkeypatch.setattr(perform, "compact", broken)
    result = run_job(ref, MAINTAIN, instance)
    assert not result.success
    assert "no such option" in failure_of(result)[0]
