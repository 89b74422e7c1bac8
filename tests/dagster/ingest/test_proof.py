"""Green means that the rows are there: after a removed folder, a restore, a delete, and for corrected data.

Each case is tried with a partition column, where a materialization replaces the partition, and without one,
where it is appended once.
"""

import itertools
import shutil
from dataclasses import replace
from datetime import timedelta

import dagster as dg
import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.dagster import LanceDatasetRef, LanceIngest, build_ingest_asset
from lance_ops.dagster.ingest import proof as ingest_proof
from lance_ops.dagster.jobs import failures
from lance_ops.dagster.jobs.run_report import RunNotes
from lance_ops.errors import InvalidArgumentError
from tests.support.dagster import STORE, failure_of, published_versions

XYZ = dg.StaticPartitionsDefinition(["x", "y", "z"])


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def ref(tmp_path):
    return LanceDatasetRef("letters", str(tmp_path / "letters.lance"))


class Source:
    """Gives rows of the partition; `value` is what a correction changes."""

    def __init__(self) -> None:
        self.value = 1
        self.rows = 1
        self.calls = 0

    def __call__(self, request) -> pa.Table:
        self.calls += 1
        return pa.table(
            {
                "d": pa.array([request.partition_key] * self.rows, pa.string()),
                "v": pa.array([self.value] * self.rows, pa.int64()),
            }
        )


def ingest_of(ref, source, *, column=True, **options) -> LanceIngest:
    return LanceIngest(ref, source, partitions=XYZ, partition_column="d" if column else None, **options)


def load(ingest, instance, *partitions, token=""):
    results = []
    for partition in partitions:
        config = {"ops": {ingest.asset_name: {"config": {"rerun_token": token}}}}
        results.append(
            dg.materialize(
                [build_ingest_asset(ingest)],
                partition_key=partition,
                instance=instance,
                resources={"lance_store": STORE},
                run_config=config,
                raise_on_error=False,
            )
        )
    return results[-1]


def content(ref) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for item in lo.dataset(ref.uri).to_table().to_pylist():
        found.setdefault(item["d"], []).append(item["v"])
    return dict(sorted(found.items()))


def rows_loaded(result) -> dg.AssetCheckEvaluation:
    (found,) = [item for item in result.get_asset_check_evaluations() if item.check_name == "rows_loaded"]
    return found


MODES = pytest.mark.parametrize("column", [True, False], ids=["replaced", "appended"])


# The five cases


@MODES
@pytest.mark.parametrize("order", list(itertools.permutations("xyz")), ids="".join)
def test_a_removed_folder_is_filled_again_in_any_order(ref, instance, column, order):
    ingest = ingest_of(ref, Source(), column=column)
    load(ingest, instance, "x", "y", "z")
    shutil.rmtree(ref.uri)

    load(ingest, instance, *order)

    assert content(ref) == {"x": [1], "y": [1], "z": [1]}


@MODES
@pytest.mark.parametrize("peer", [False, True], ids=["ours", "peer"])
def test_what_a_restore_undid_is_loaded_again(ref, instance, column, peer):
    ingest = ingest_of(ref, Source(), column=column)
    load(ingest, instance, "x", "y", "z")
    if peer:
        lance.dataset(ref.uri, version=1).restore()
    else:
        lo.restore(ref.uri, 1)

    assert load(ingest, instance, "y", "z").success

    assert content(ref) == {"x": [1], "y": [1], "z": [1]}


def test_deleted_rows_are_loaded_again_where_the_partition_is_replaced(ref, instance):
    ingest = ingest_of(ref, Source())
    load(ingest, instance, "x", "y", "z")
    lo.delete(ref.uri, "d = 'y'")

    result = load(ingest, instance, "y")

    assert rows_loaded(result).passed
    assert content(ref) == {"x": [1], "y": [1], "z": [1]}


@pytest.mark.parametrize(
    "lose",
    [
        lambda uri: lo.delete(uri, "d = 'y'"),
        lambda uri: lo.delete(uri, "d = 'y' AND v = 1"),
        lambda uri: lance.dataset(uri).delete("d = 'y'"),
        lambda uri: (lo.compact(uri), lo.delete(uri, "d = 'y'")),
        lambda uri: lo.replace_where(uri, pa.table({"d": ["y"], "v": [5]}), "d = 'y'"),
        lambda uri: lo.write_dataset(pa.table({"d": ["q"], "v": [5]}), uri, mode="overwrite"),
    ],
    ids=["all", "some", "by the peer", "after a compaction", "replaced", "overwritten"],
)
def test_deleted_rows_of_an_appended_partition_fail_the_run_and_say_so(ref, instance, lose):
    source = Source()
    source.rows = 3
    ingest = ingest_of(ref, source, column=False)
    load(ingest, instance, "x", "y", "z")
    lose(ref.uri)
    version = lo.dataset(ref.uri).version

    result = load(ingest, instance, "y")

    assert not result.success
    description, metadata = failure_of(result)
    assert (
        "partition y was appended by version 2, and rows of it were or may have been deleted since"
        in description
    )
    assert f"by version {version}: " in description
    assert "partition column" in metadata["lance/error_hint"]
    assert lo.dataset(ref.uri).version == version


def test_rows_that_others_lost_are_no_reason_to_fail(ref, instance):
    ingest = ingest_of(ref, Source(), column=False)
    load(ingest, instance, "x", "y", "z")
    lo.compact(ref.uri)
    lo.restore(ref.uri, 3)
    lo.delete(ref.uri, "d = 'x'")
    assert load(ingest, instance, "y").success
    assert not load(ingest, instance, "x").success


def test_a_deletion_that_a_restore_undid_is_none(ref, instance):
    ingest = ingest_of(ref, Source(), column=False)
    load(ingest, instance, "x", "y")
    lo.delete(ref.uri, "d = 'y'")
    lo.restore(ref.uri, 2)
    assert load(ingest, instance, "y").success
    assert content(ref) == {"x": [1], "y": [1]}


def test_a_corrected_source_replaces_the_partition(ref, instance):
    source = Source()
    ingest = ingest_of(ref, source)
    load(ingest, instance, "x", "y")
    source.value = 2

    first = load(ingest, instance, "x")
    assert rows_loaded(first).passed
    assert content(ref) == {"x": [2], "y": [1]}
    source.value = 3
    # A token is not needed, and does no harm.
    assert load(ingest, instance, "x", token="correction").success
    assert content(ref) == {"x": [3], "y": [1]}
    operation = lance.dataset(ref.uri).read_transaction(4).operation
    assert isinstance(operation, lance.LanceOperation.Update)
    assert published_versions(instance, ref) == [1, 2, 3, 4]


def test_a_corrected_source_of_an_appended_partition_is_a_yellow_run(ref, instance):
    source = Source()
    ingest = ingest_of(ref, source, column=False)
    load(ingest, instance, "x")
    source.value = 2

    result = load(ingest, instance, "x")

    assert result.success
    assert content(ref) == {"x": [1]}
    check = rows_loaded(result)
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert check.description == (
        "nothing was written: version 1 was committed by an earlier run with the same job key"
    )
    assert source.calls == 1


# Once, and only once


def test_an_event_names_the_transaction_that_proves_it(ref, instance):
    ingest = ingest_of(ref, Source(), column=False)
    result = load(ingest, instance, "x")
    (event,) = result.asset_materializations_for_node("letters_ingest")[-1:]
    uuid = lo.dataset(ref.uri).read_transaction().uuid
    assert event.tags["lance/transaction_uuid"] == uuid
    assert rows_loaded(result).passed
    again = load(ingest, instance, "x")
    (event,) = again.asset_materializations_for_node("letters_ingest")[-1:]
    assert event.tags["lance/transaction_uuid"] == uuid


def execute_again(monkeypatch, first, ingest, instance, partition):
    """Load a partition in a run that re-executes another."""
    notes = RunNotes.of

    def of(context):
        return replace(notes(context), root_run_id=first.run_id, parent_run_id=first.run_id)

    with monkeypatch.context() as patch:
        patch.setattr(RunNotes, "of", of)
        return load(ingest, instance, partition)


@MODES
def test_a_run_that_died_and_is_executed_again_finds_its_commit(monkeypatch, ref, instance, column):
    source = Source()
    ingest = ingest_of(ref, source, column=column)
    with monkeypatch.context() as patch:
        patch.setattr("lance_ops.dagster.ingest.asset._outcome", lambda *_: 1 / 0)
        died = load(ingest, instance, "x")
    assert not died.success
    source.value = 2

    again = execute_again(monkeypatch, died, ingest, instance, "x")

    assert again.success
    assert content(ref) == {"x": [1]}
    assert not rows_loaded(again).passed


@pytest.mark.parametrize("lose", [True, False], ids=["rows_lost", "source_corrected"])
def test_a_run_that_succeeded_and_is_executed_again_replaces_again(monkeypatch, ref, instance, lose):
    source = Source()
    ingest = ingest_of(ref, source)
    first = load(ingest, instance, "x")
    if lose:
        lo.delete(ref.uri, "true")
    source.value = 2

    second = execute_again(monkeypatch, first, ingest, instance, "x")

    assert content(ref) == {"x": [2]}
    assert rows_loaded(second).passed
    source.value = 3
    assert rows_loaded(execute_again(monkeypatch, second, ingest, instance, "x")).passed
    assert content(ref) == {"x": [3]}


@pytest.mark.parametrize("clean", [True, False], ids=["cleaned", "kept"])
@MODES
def test_a_source_that_had_no_rows_yet_is_loaded_when_it_has_some(ref, instance, column, clean):
    """Be the dataset there or not: what gave no rows was not loaded."""
    source = Source()
    ingest = ingest_of(ref, source, column=column)
    for partition, other in (("x", "z"), ("y", "z")):
        source.rows = 0
        empty = load(ingest, instance, partition)
        assert empty.success
        assert not rows_loaded(empty).passed
        source.rows = 1
        load(ingest, instance, other, token=partition)
        if clean:
            lo.cleanup(ref.uri, older_than=timedelta(0), retain_versions=1)

        full = load(ingest, instance, partition)

        assert full.success, failure_of(full)[0]
        assert rows_loaded(full).passed
        assert content(ref)[partition] == [1]
        events = instance.fetch_materializations(
            dg.AssetRecordsFilter(asset_key=ingest.key, asset_partitions=[partition]), limit=9
        ).records
        # Other data: what is computed from the partition is stale now.
        assert len({item.asset_materialization.tags["dagster/data_version"] for item in events}) == 2


def test_rows_that_may_be_gone_without_a_trace_are_doubted(ref, instance):
    ingest = ingest_of(ref, Source(), column=False)
    load(ingest, instance, "x")
    lo.write_dataset(pa.table({"d": ["q"], "v": pa.array([1], pa.int64())}), ref.uri, mode="overwrite")
    lo.cleanup(ref.uri, older_than=timedelta(0), retain_versions=1)

    check = rows_loaded(load(ingest, instance, "x"))

    assert not check.passed
    assert "it is unknown whether rows of it were deleted since" in check.description


@MODES
def test_a_step_that_died_after_its_commit_is_no_warning(monkeypatch, ref, instance, column):
    from lance_ops.errors import StorageError
    from lance_ops.spark import row_writer as module

    original, calls = module.write_dataset, []

    def dies_once(*args, **options):
        result = original(*args, **options)
        calls.append(result)
        if len(calls) == 1:
            raise StorageError("the answer got lost")
        return result

    monkeypatch.setattr(module, "write_dataset", dies_once)
    monkeypatch.setattr(failures, "TRANSIENT_RETRIES", dg.RetryPolicy(max_retries=1))

    result = load(ingest_of(ref, Source(), column=column), instance, "x")

    assert result.success
    assert rows_loaded(result).passed
    assert rows_loaded(result).description == "version 1 was committed by an earlier attempt of this run"
    assert content(ref) == {"x": [1]}
    # The run tells its version although the step that does so is not the one that committed it.
    assert published_versions(instance, ref) == [1]


def test_an_appended_partition_outlives_the_cleanup_of_its_version(ref, instance):
    ingest = ingest_of(ref, Source(), column=False)
    load(ingest, instance, "x", "y", "z")
    lo.cleanup(ref.uri, older_than=timedelta(0), retain_versions=1)

    assert load(ingest, instance, "x").success
    assert content(ref) == {"x": [1], "y": [1], "z": [1]}


def test_what_nobody_can_tell_any_more_fails_the_run(monkeypatch, ref, instance):
    """The job key is forgotten, the version gone; Dagster alone remembers the partition."""
    from lance_ops.dagster.ingest import asset as module

    ingest = ingest_of(ref, Source(), column=False)
    load(ingest, instance, "x", "y")
    lo.cleanup(ref.uri, older_than=timedelta(0), retain_versions=1)
    monkeypatch.setattr(module, "find_job", lambda *_: None)
    monkeypatch.setattr(ingest_proof, "KEEP_JOB_KEYS", timedelta(0))

    result = load(ingest, instance, "x")

    assert not result.success
    assert "it is unknown whether its rows exist" in failure_of(result)[0]
    assert content(ref) == {"x": [1], "y": [1]}
    # A partition that was never loaded is none of this.
    assert load(ingest, instance, "z").success


def test_a_source_without_rows_does_not_empty_a_partition_unless_told_so(ref, instance):
    source = Source()
    ingest = ingest_of(ref, source)
    load(ingest, instance, "x", "y")
    source.rows = 0

    result = load(ingest, instance, "x")
    assert not result.success
    assert "would replace 1 row where d = 'x'; nothing was changed" in failure_of(result)[0]
    assert not rows_loaded(load(ingest, instance, "z")).passed

    emptied = load(ingest_of(ref, source, allow_empty=True), instance, "x")
    assert emptied.success
    assert rows_loaded(emptied).description.startswith("nothing was written and 1 row removed")
    assert content(ref) == {"y": [1]}


def test_rows_of_another_partition_are_refused(ref, instance):
    load(ingest_of(ref, Source()), instance, "x")
    wrong = ingest_of(ref, lambda request: pa.table({"d": ["q"], "v": pa.array([1], pa.int64())}))
    result = load(wrong, instance, "x")
    assert not result.success
    assert "do not match the predicate" in failure_of(result)[0]
    assert content(ref) == {"x": [1]}


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "replace_where"},
        {"partition_column": "d", "replace_where": lambda request: "true", "partitions": XYZ},
        {"partition_column": "d"},
        {"mode": "replace"},
        {"mode": "overwrite", "partitions": XYZ},
    ],
)
def test_ingests_that_make_no_sense_are_refused(ref, options):
    with pytest.raises(InvalidArgumentError):
        LanceIngest(ref, Source(), **options)


def test_a_function_may_say_which_rows_are_those_of_a_partition(ref, instance):
    source = Source()
    ingest = LanceIngest(
        ref,
        source,
        partitions=XYZ,
        replace_where=lambda request: f"upper(d) = '{request.partition_key.upper()}'",
    )
    load(ingest, instance, "x", "y")
    source.value = 2
    load(ingest, instance, "x")
    assert content(ref) == {"x": [2], "y": [1]}
