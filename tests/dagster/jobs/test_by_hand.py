"""Jobs by hand: restore, tag, drop an index, look for damage; what destroys something is a dry run first."""

import dagster as dg
import pytest

import lance_ops as lo
from lance_ops.dagster import LanceDatasetRef, build_lance_definitions
from lance_ops.dagster.jobs.operations import DROP_INDEX, FSCK, RESTORE, TAG
from tests.support.dagster import failure_of, output_metadata, published_versions, run_job, tell
from tests.support.fleets import rows


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def ref(tmp_path):
    ref = LanceDatasetRef("warehouse/numbers", str(tmp_path / "numbers.lance"))
    lo.append(ref.uri, rows(0, 10))
    lo.append(ref.uri, rows(10, 30))
    return ref


def test_a_version_is_restored_once_it_is_no_dry_run_and_is_published(ref, instance):
    tell(ref, instance)
    assert run_job(ref, RESTORE, instance, version=1).success
    assert lo.dataset(ref.uri).count_rows() == 30
    done = run_job(ref, RESTORE, instance, version=1, dry_run=False)
    assert done.success
    assert lo.dataset(ref.uri).count_rows() == 10
    assert lo.dataset(ref.uri).version == 3
    assert published_versions(instance, ref)[-1] == 3


def test_a_tag_says_what_is_restored(ref, instance):
    assert run_job(ref, TAG, instance, name="good", version=1).success
    assert run_job(ref, RESTORE, instance, tag="good", dry_run=False).success
    assert lo.dataset(ref.uri).count_rows() == 10


@pytest.mark.parametrize("config", [{}, {"version": 1, "tag": "x"}, {"version": 77}, {"tag": "none"}])
def test_a_version_that_is_not_named_or_not_there_is_an_error(ref, instance, config):
    assert not run_job(ref, RESTORE, instance, dry_run=False, **config).success
    assert lo.dataset(ref.uri).version == 2


def test_an_index_is_dropped_once_it_is_no_dry_run(ref, instance):
    lo.create_index(ref.uri, "id")
    tell(ref, instance)
    assert run_job(ref, DROP_INDEX, instance, name="id_idx").success
    assert len(lo.dataset(ref.uri).indices) == 1
    assert not run_job(ref, DROP_INDEX, instance, name="nope").success
    assert run_job(ref, DROP_INDEX, instance, name="id_idx", dry_run=False).success
    assert not lo.dataset(ref.uri).indices
    assert published_versions(instance, ref)[-1] == 4


def test_damage_fails_the_run_and_is_listed(ref, instance, tmp_path):
    sound = run_job(ref, FSCK, instance, deep=True)
    assert sound.success
    assert "is sound" in output_metadata(sound)["lance/summary"].value
    next((tmp_path / "numbers.lance" / "data").glob("*.lance")).unlink()
    damaged = run_job(ref, FSCK, instance)
    assert not damaged.success
    description, metadata = failure_of(damaged)
    assert "is damaged" in description
    assert any(record.data["severity"] == "error" for record in metadata["lance/findings"].records)


def test_schedules_run_from_the_start_when_the_code_says_so(ref):
    for running in (False, True):
        defs = build_lance_definitions([ref], schedules_running=running)
        statuses = {schedule.default_status.value for schedule in defs.schedules or ()}
        assert statuses == {"RUNNING" if running else "STOPPED"}
