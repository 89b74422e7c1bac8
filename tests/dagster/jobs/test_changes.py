"""Jobs that change rows and columns: what they ask for, what they publish, and what their launchpads say."""

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lance_ops as lo
from lance_ops.dagster import LanceDatasetRef, build_jobs, build_manifest_sensor
from lance_ops.dagster.jobs import operations as jobs
from lance_ops.dagster.jobs import run_report
from lance_ops.dagster.sensor import survey
from tests.support.dagster import Daemon, failure_of, output_metadata, published_versions, run_job, tell


@pytest.fixture(scope="module")
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def ref(tmp_path, request):
    """A dataset of three orders, with a name of its own: tests share an instance."""
    name = "".join(letter if letter.isalnum() else "_" for letter in request.node.name)
    found = LanceDatasetRef(name, str(tmp_path / "orders.lance"))
    lo.write_dataset(pa.table({"id": [1, 2, 3], "price": [1, 2, 3]}), found.uri)
    return found


def parquet(tmp_path, **columns) -> str:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table(columns), path)
    return str(path)


def content(ref) -> dict[str, list]:
    return lo.dataset(ref.uri).to_table().sort_by("id").to_pydict()


def test_an_upsert_updates_by_the_key_and_adds_what_is_new(tmp_path, ref, instance):
    paths = [parquet(tmp_path, id=[3, 4], price=[30, 40])]
    assert run_job(ref, jobs.UPSERT, instance, paths=paths, on=["id"]).success
    assert content(ref) == {"id": [1, 2, 3, 4], "price": [1, 2, 30, 40]}
    conditional = {"when_matched": "update_if", "condition": "source.price > target.price"}
    assert run_job(
        ref,
        jobs.UPSERT,
        instance,
        paths=[parquet(tmp_path, id=[1, 2], price=[0, 20])],
        on=["id"],
        **conditional,
    ).success
    assert content(ref)["price"] == [1, 20, 30, 40]
    whole = {"insert_new": False, "when_not_matched_by_source": "delete"}
    paths = [parquet(tmp_path, id=[1, 9], price=[1, 9])]
    assert run_job(ref, jobs.UPSERT, instance, paths=paths, on=["id"], **whole).success
    assert content(ref) == {"id": [1], "price": [1]}


def test_an_update_is_a_dry_run_until_it_is_told_otherwise(ref, instance):
    looked = run_job(ref, jobs.UPDATE, instance, values={"price": "price * 10"}, where="id > 1")
    assert looked.success
    assert output_metadata(looked)["lance/dry_run"].value is True
    assert lo.dataset(ref.uri).version == 1
    done = run_job(ref, jobs.UPDATE, instance, values={"price": "price * 10"}, where="id > 1", dry_run=False)
    assert done.success
    assert content(ref)["price"] == [1, 20, 30]


def test_columns_are_altered_and_dropped(ref, instance):
    lo.create_index(ref.uri, "price", "BTREE")
    asked = {"alterations": [{"path": "id", "name": "order_id"}]}
    assert run_job(ref, jobs.ALTER_COLUMNS, instance, **asked).success
    assert lo.dataset(ref.uri).schema.names == ["id", "price"]
    assert run_job(ref, jobs.ALTER_COLUMNS, instance, **asked, dry_run=False).success
    cast = {"alterations": [{"path": "order_id", "data_type": "int32", "nullable": True}], "dry_run": False}
    assert run_job(ref, jobs.ALTER_COLUMNS, instance, **cast).success
    assert lo.dataset(ref.uri).schema.field("order_id").type == pa.int32()
    looked = run_job(ref, jobs.DROP_COLUMNS, instance, columns=["price"])
    assert (
        "price would be dropped, and the indices price_idx; 1 column of 2"
        in output_metadata(looked)["lance/plan"].value
    )
    assert run_job(ref, jobs.DROP_COLUMNS, instance, columns=["price"], dry_run=False).success
    assert lo.dataset(ref.uri).schema.names == ["order_id"]


def test_a_type_that_is_none_is_named(ref, instance):
    done = run_job(ref, jobs.ALTER_COLUMNS, instance, alterations=[{"path": "id", "data_type": "bigint"}])
    description, metadata = failure_of(done)
    assert "unknown type 'bigint'" in description
    assert metadata["lance/error_field"] == "data_type"


DRY_RUNS = {
    jobs.UPDATE,
    jobs.DELETE,
    jobs.ALTER_COLUMNS,
    jobs.DROP_COLUMNS,
    jobs.CLEANUP,
    jobs.RESTORE,
    jobs.DROP_INDEX,
}


def test_the_launchpad_of_what_destroys_something_shows_that_the_default_is_a_dry_run(ref):
    for job in build_jobs([ref]):
        step = job.name.removeprefix("lance_")
        shown = job.partitioned_config.get_run_config_for_partition_key(ref.name)
        assert shown == ({"ops": {step: {"config": {"dry_run": True}}}} if job.name in DRY_RUNS else {})
        assert ("The default is a dry run" in job.description) is (job.name in DRY_RUNS)
        if job.name in DRY_RUNS:
            (node,) = job.nodes
            field = node.definition.config_schema.config_type.fields["dry_run"]
            assert field.default_value is True
            assert field.description.endswith("Default: true. Set false to run the operation.")


def _every_job(tmp_path) -> list[tuple[str, dict]]:
    """A run of each job that makes a version, in an order in which each has something to do."""
    return [
        (jobs.APPEND, {"paths": [parquet(tmp_path, id=[4], price=[4])]}),
        (jobs.UPSERT, {"paths": [parquet(tmp_path, id=[4], price=[4])], "on": ["id"]}),
        (jobs.UPDATE, {"values": {"price": "price + 1"}, "dry_run": False}),
        (jobs.DELETE, {"predicate": "id = 4", "dry_run": False}),
        (jobs.ADD_COLUMNS, {"values": {"double": "price * 2"}}),
        (jobs.ALTER_COLUMNS, {"alterations": [{"path": "double", "name": "twice"}], "dry_run": False}),
        (jobs.DROP_COLUMNS, {"columns": ["twice"], "dry_run": False}),
        (jobs.INDEX, {"column": "id"}),
        (jobs.COMPACT, {}),
        (jobs.DROP_INDEX, {"name": "id_idx", "dry_run": False}),
        (jobs.RESTORE, {"version": 1, "dry_run": False}),
    ]


@pytest.mark.parametrize("sensor", ["on", "off", "started later"])
def test_each_version_is_one_event_whether_the_sensor_is_on_off_or_started_later(
    tmp_path, ref, instance, sensor, monkeypatch
):
    """A job publishes its own version; the sensor adds what others committed, and nothing twice."""
    for module in (run_report, survey):
        monkeypatch.setattr(module, "evaluate_checks", lambda *_, **__: [])
    daemon = Daemon(build_manifest_sensor([ref]), instance)
    if sensor == "off":
        tell(ref, instance)
    for name, config in _every_job(tmp_path):
        if sensor == "on":
            daemon.tick()
        assert run_job(ref, name, instance, **config).success, name
        if sensor == "off":
            head = lo.dataset(ref.uri).version
            assert published_versions(instance, ref)[-1] == head, name
    versions = [item.version for item in lo.dataset(ref.uri).versions()]
    if sensor != "off":
        daemon.tick()
    assert published_versions(instance, ref) == versions
    assert len(versions) >= len(_every_job(tmp_path)) + 1
