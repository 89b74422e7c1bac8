from dataclasses import replace
from functools import partial
from pathlib import Path

import dagster as dg
import numpy as np
import pyarrow as pa
import pytest

from lance_ops.dagster import LanceDatasetRef, build_asset_checks, evaluate_checks
from lance_ops.dagster.checks.catalog import own_name
from lance_ops.dagster.checks.definitions import build_check_specs
from lance_ops.maintenance.delete.operation import delete
from lance_ops.maintenance.health.policy import MaintenancePolicy
from lance_ops.maintenance.index.operation import create_index, optimize_indices
from lance_ops.maintenance.ingest.operation import write_dataset
from lance_ops.storage import open_store
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.listing import latest
from tests.support.dagster import STORE, WITHOUT_INDEX, write

POLICY = MaintenancePolicy(
    target_rows=100, max_small_fragments=2, max_deleted_ratio=0.2, min_index_coverage=0.9, max_versions=4
)


@pytest.fixture
def ref(tmp_path):
    return LanceDatasetRef("t", str(tmp_path / "t.lance"), policy=POLICY)


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


def outcomes(ref, **options):
    return {outcome.name: outcome for outcome in evaluate_checks(ref, Dataset.open(ref.uri), **options)}


def test_a_sound_dataset_passes_every_check(ref):
    write(ref.uri, 0, 10)
    found = outcomes(ref)
    assert set(found) == WITHOUT_INDEX
    assert all(outcome.passed for outcome in found.values())


def test_neglect_fails_the_checks_of_the_policy_as_warnings(ref):
    for start in range(4):
        write(ref.uri, start * 10, start * 10 + 10)
        if not start:
            create_index(ref.uri, "a")
    delete(ref.uri, "a % 3 = 0")

    found = outcomes(ref)

    failed = {name: outcome for name, outcome in found.items() if not outcome.passed}
    assert set(failed) == {"fragmentation", "deleted_ratio", "index_coverage", "version_backlog"}
    for outcome in failed.values():
        assert outcome.to_result(ref.key).severity is dg.AssetCheckSeverity.WARN
        assert "lance/limit" in outcome.to_result(ref.key).metadata
    # The first fragment is covered by the index, and no neighbour to merge with.
    assert found["fragmentation"].metadata["lance/small_fragments"] == 3


def test_a_missing_data_file_is_an_error(ref):
    write(ref.uri, 0, 10)
    (file,) = Dataset.open(ref.uri).fragments[0].files
    (Path(ref.uri) / "data" / file.path).unlink()

    outcome = outcomes(ref)["files_present"]

    assert not outcome.passed
    evaluation = outcome.to_evaluation(ref.key)
    assert evaluation.severity is dg.AssetCheckSeverity.ERROR
    assert evaluation.blocking is True
    assert file.path in evaluation.metadata["lance/finding_list"].value


def test_a_damaged_deletion_file_is_an_error(ref):
    write(ref.uri, 0, 10)
    delete(ref.uri, "a = 3")
    (fragment,) = Dataset.open(ref.uri).fragments
    path = Path(ref.uri) / fragment.deletion_file.path(fragment.id)
    path.write_bytes(path.read_bytes()[:-10])

    found = outcomes(ref)

    assert not found["deletion_vectors_valid"].passed
    assert found["manifest_readable"].passed


def lose_a_data_file(ref):
    (file,) = Dataset.open(ref.uri).fragments[0].files
    (Path(ref.uri) / "data" / file.path).unlink()


def damage_the_deletions(ref):
    delete(ref.uri, "a = 3")
    (fragment,) = Dataset.open(ref.uri).fragments
    (Path(ref.uri) / fragment.deletion_file.path(fragment.id)).write_bytes(b"no deletions")


def damage_the_manifest(ref):
    store = open_store(ref.uri)
    store.put(latest(store).path, b"no manifest")


@pytest.mark.parametrize(
    ("damage", "check"),
    [
        (lose_a_data_file, "files_present"),
        (damage_the_deletions, "deletion_vectors_valid"),
        (damage_the_manifest, "manifest_readable"),
    ],
)
def test_a_check_that_finds_damage_carries_the_commands_that_go_back(ref, instance, damage, check):
    write(ref.uri, 0, 10)
    damage(ref)

    (failed,) = [item for item in run_checks(ref, instance, [check]).values() if not item.passed]

    hint = failed.metadata["lance/error_hint"].value
    assert f"`lance-ops fsck {ref.uri} --deep`" in hint
    assert f"`lance-ops restore {ref.uri} VERSION`" in hint


def test_a_check_that_finds_neglect_or_nothing_offers_no_restore(ref):
    for start in range(5):
        write(ref.uri, start * 10, start * 10 + 10)
    found = outcomes(ref)
    assert {outcome.passed for outcome in found.values()} == {True, False}
    assert not any("lance/error_hint" in outcome.metadata for outcome in found.values())


def test_file_checks_are_left_out_of_a_hurry(ref):
    write(ref.uri, 0, 10)
    write(ref.uri, 10, 20)
    assert "files_present" not in outcomes(ref, max_files=1)
    assert "files_present" in outcomes(ref, max_files=2)


def test_a_check_that_breaks_has_failed(monkeypatch, ref):
    from lance_ops.dagster.checks import catalog

    def broken(_):
        raise RuntimeError("boom")

    monkeypatch.setattr(catalog, "check_files", broken)
    write(ref.uri, 0, 10)
    outcome = outcomes(ref)["files_present"]
    assert not outcome.passed
    assert "boom" in outcome.description


def run_checks(ref, instance, names=None):
    spec = dg.AssetSpec(ref.key)
    checks = build_asset_checks([ref])
    specs = build_check_specs(ref)
    keys = [spec.key for spec in specs if names is None or own_name(spec.name) in names]
    job = dg.Definitions(
        assets=[spec],
        asset_checks=checks,
        resources={"lance_store": STORE},
        jobs=[dg.define_asset_job("check", selection=dg.AssetSelection.checks(*keys))],
    ).resolve_job_def("check")
    result = job.execute_in_process(instance=instance, raise_on_error=False)
    return {own_name(item.check_name): item for item in result.get_asset_check_evaluations()}


def test_checks_run_from_the_ui(ref, instance):
    write(ref.uri, 0, 10)
    found = run_checks(ref, instance)
    assert set(found) == WITHOUT_INDEX
    assert all(item.passed for item in found.values())


def test_single_checks_run_alone(ref, instance):
    write(ref.uri, 0, 10)
    assert set(run_checks(ref, instance, ["fragmentation"])) == {"fragmentation"}


def test_every_selected_check_reports_when_the_manifest_is_damaged(ref, instance):
    write(ref.uri, 0, 10)
    store = open_store(ref.uri)
    store.put(latest(store).path, b"no manifest")

    found = run_checks(ref, instance, ["manifest_readable", "fragmentation"])

    assert set(found) == {"manifest_readable", "fragmentation"}
    assert not any(item.passed for item in found.values())


def test_blocking_checks_are_those_that_find_damage(ref):
    assert {own_name(spec.name) for spec in build_check_specs(ref) if spec.blocking} == {
        "manifest_readable",
        "files_present",
        "deletion_vectors_valid",
    }
    assert all(spec.description for spec in build_check_specs(ref))


def vectors(rows, center, seed):
    values = (center + np.random.default_rng(seed).normal(size=(rows, 4))).astype(np.float32)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), 4)
    return pa.table({"a": pa.array(range(rows), pa.int64()), "v": lists})


def test_worn_indices_and_recall_are_numbers_that_plot(ref):
    ingest = partial(write_dataset, uri=ref.uri, mode="append")
    ingest(vectors(17_000, 0, 1))
    create_index(ref.uri, "v", "IVF_FLAT", parameters={"num_partitions": 8})
    create_index(ref.uri, "a")
    sound = outcomes(ref)
    assert sound["index_wear"].passed
    assert sound["index_wear"].metadata["lance/index_dead_ratio"] == 0
    assert sound["vector_recall"].passed
    assert sound["vector_recall"].metadata["lance/vector_recall"] == 1.0

    delete(ref.uri, "a < 7000")
    ingest(vectors(8000, 30, 2))
    found = outcomes(ref)
    worn = found["index_wear"]
    assert not worn.passed
    assert worn.metadata["lance/worn_indices"] == 2
    assert worn.metadata["lance/index_dead_ratio"] == pytest.approx(7 / 17, abs=0.01)
    assert worn.metadata["lance/index_drift"] > 2
    assert "drift" in worn.description or "times that of older ones" in worn.description

    optimize_indices(ref.uri)
    mended = outcomes(ref)["index_wear"]
    assert mended.passed
    assert mended.metadata["lance/index_dead_ratio"] == 0


def test_recall_is_left_out_right_after_a_commit_where_there_is_a_vector_index(ref):
    write(ref.uri, 0, 10)
    write_dataset(vectors(300, 0, 1), ref.uri, mode="overwrite")
    create_index(ref.uri, "v", "IVF_FLAT")
    assert "vector_recall" not in outcomes(ref, max_files=100)
    assert "index_wear" in outcomes(ref, max_files=100)
    assert "index_wear" not in outcomes(ref, max_files=0)


def test_a_vector_index_that_finds_too_little_fails_its_check(ref):
    write_dataset(vectors(4000, 0, 1), ref.uri)
    create_index(ref.uri, "v", "IVF_PQ", parameters={"num_partitions": 4, "num_sub_vectors": 1})
    strict = replace(ref, policy=MaintenancePolicy(min_vector_recall=1.0))
    found = {item.name: item for item in evaluate_checks(strict, Dataset.open(ref.uri))}["vector_recall"]
    assert not found.passed
    assert 0 < found.metadata["lance/vector_recall"] < 1
    assert found.metadata["lance/limit"] == 1.0
