"""Several partitions in one run: each is loaded for itself, in its own commit, as if the run were its own."""

import dagster as dg
import pytest

from lance_ops.dagster import LanceDatasetRef, LanceIngest, build_ingest_asset
from lance_ops.dagster.jobs import failures
from lance_ops.maintenance.delete.operation import delete
from lance_ops.table.dataset import Dataset
from tests.support.dagster import STORE, failure_of, published_versions
from tests.support.tables import rows

# Dagster calls the parameter beta; who chooses a policy reads so.
pytestmark = pytest.mark.filterwarnings("ignore:Parameter .backfill_policy. of function")

MONTHS = dg.MonthlyPartitionsDefinition(start_date="2013-01-01", end_date="2014-01-01")
LETTERS = dg.StaticPartitionsDefinition(["1", "2", "3", "4"])
FIRST, LAST = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def ref(tmp_path):
    return LanceDatasetRef("numbers", str(tmp_path / "numbers.lance"))


def load(ingest, instance, first=None, last=None, *, partition=None):
    tags = {} if first is None else {FIRST: first, LAST: last}
    return dg.materialize(
        [build_ingest_asset(ingest)],
        partition_key=partition,
        instance=instance,
        resources={"lance_store": STORE},
        tags=tags,
        raise_on_error=False,
    )


def ten_of(request):
    number = int(request.partition_key)
    return rows(number * 10, number * 10 + 10)


def appended(ref, **options):
    return LanceIngest(
        ref, ten_of, partitions=LETTERS, backfill_policy=dg.BackfillPolicy.single_run(), **options
    )


def values(ref):
    return sorted(Dataset.open(ref.uri).to_table()["a"].to_pylist())


def events_of(instance, ingest):
    found = instance.fetch_materializations(ingest.key, limit=100, ascending=True).records
    return [record.asset_materialization for record in found]


def verdict(result):
    (found,) = [item for item in result.get_asset_check_evaluations() if item.check_name == "rows_loaded"]
    return found


def test_a_range_is_one_run_and_a_commit_for_each_partition(ref, instance):
    ingest = appended(ref)
    result = load(ingest, instance, "1", "3")
    assert result.success
    assert values(ref) == list(range(10, 40))
    assert published_versions(instance, ref) == [1, 2, 3]
    # Dagster stores those of one run in any order.
    events = sorted(events_of(instance, ingest), key=lambda event: event.partition)
    told = [event.metadata for event in events]
    assert [event.partition for event in events] == ["1", "2", "3"]
    assert [metadata["lance/version"].value for metadata in told] == [1, 2, 3]
    assert [metadata["dagster/partition_row_count"].value for metadata in told] == [10, 10, 10]
    assert verdict(result).passed
    noted = [Dataset.open(ref.uri, version).read_transaction().properties for version in (1, 2, 3)]
    assert [properties["dagster.partition"] for properties in noted] == ["1", "2", "3"]


def test_what_a_range_and_single_launches_have_in_common_is_appended_once(ref, instance):
    ingest = appended(ref)
    assert load(ingest, instance, partition="2").success
    result = load(ingest, instance, "1", "3")
    assert result.success
    assert values(ref) == list(range(10, 40))
    assert not verdict(result).passed
    assert "2: nothing was written" in verdict(result).description
    assert "1: " not in verdict(result).description
    again = load(ingest, instance, "1", "4")
    assert again.success
    assert load(ingest, instance, partition="3").success
    assert values(ref) == list(range(10, 50))


def test_rows_of_one_partition_that_were_lost_fail_the_range(ref, instance):
    ingest = appended(ref)
    load(ingest, instance, "1", "3")
    delete(ref.uri, "a = 25")
    result = load(ingest, instance, "2", "3")
    description, _ = failure_of(result)
    assert "partition 2" in description
    assert len(values(ref)) == 29


def test_a_forgotten_partition_of_a_range_is_refused_as_one_of_its_own_run_is(ref, instance, monkeypatch):
    from lance_ops.dagster.ingest import asset as module
    from lance_ops.dagster.ingest import proof as ingest_proof

    ingest = appended(ref)
    load(ingest, instance, "1", "2")
    monkeypatch.setattr(module, "find_job", lambda head, key: None)
    monkeypatch.setattr(ingest_proof, "KEEP_JOB_KEYS", -ingest_proof.KEEP_JOB_KEYS)

    def gone(*args):
        raise ingest_proof.NotFoundError("gone")

    monkeypatch.setattr(ingest_proof, "locate", gone)
    description, _ = failure_of(load(ingest, instance, partition="2"))
    assert "partition 2 was appended by version 2, which was removed" in description
    assert values(ref) == list(range(10, 30))


def test_a_range_replaces_each_month_by_its_own_predicate_and_window(ref, instance):
    windows = []

    def source(request):
        windows.append(request.time_window)
        return ten_of_month(request.time_window.start.month, len(windows) > 12)

    def ten_of_month(month, later):
        return rows(month * 10, month * 10 + (5 if later else 10))

    ingest = LanceIngest(
        ref,
        source,
        partitions=MONTHS,
        replace_where=lambda request: (
            f"a >= {request.time_window.start.month * 10} AND a < {request.time_window.start.month * 10 + 10}"
        ),
    )
    assert load(ingest, instance, "2013-01-01", "2013-12-01").success
    assert values(ref) == list(range(10, 130))
    assert [window.start.month for window in windows] == list(range(1, 13))
    assert load(ingest, instance, "2013-02-01", "2013-03-01").success
    expected = set(range(10, 130)) - set(range(25, 30)) - set(range(35, 40))
    assert values(ref) == sorted(expected)


def test_a_range_that_failed_in_the_middle_goes_on_where_it_was(ref, instance, monkeypatch):
    monkeypatch.setattr(failures, "TRANSIENT_RETRIES", dg.RetryPolicy(max_retries=1))
    asked = []

    def source(request):
        asked.append(request.partition_key)
        if asked.count("2") == 1 and request.partition_key == "2":
            raise OSError("for a moment")
        return ten_of(request)

    ingest = LanceIngest(ref, source, partitions=LETTERS)
    assert load(ingest, instance, "1", "3").success
    assert asked == ["1", "2", "2", "3"]
    assert values(ref) == list(range(10, 40))
    assert published_versions(instance, ref) == [1, 2, 3]


def test_a_launch_without_a_partition_says_what_to_choose(ref, instance):
    result = load(LanceIngest(ref, ten_of, partitions=LETTERS), instance)
    description, metadata = failure_of(result)
    assert "choose one, or a range" in description
    assert metadata["lance/error_field"] == "partition"
