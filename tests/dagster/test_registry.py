import os

import dagster as dg
import pyarrow as pa
import pytest

from lance_ops.dagster import (
    LanceDatasetRef,
    LanceIngest,
    LanceIOManager,
    LanceStoreResource,
    build_lance_definitions,
)
from lance_ops.dagster.dataset_ref import index_refs
from lance_ops.dagster.registry import REGISTRY
from lance_ops.errors import InvalidArgumentError
from lance_ops.maintenance.health.policy import MaintenancePolicy
from tests.support.dagster import STORE, materializations

seen = []


class Spying(LanceStoreResource):
    def options_of(self, ref):
        seen.append(dict(ref.storage_options))
        return super().options_of(ref)


def test_an_io_manager_sees_the_policy_and_the_options_of_the_declared_dataset(tmp_path):
    ref = LanceDatasetRef(
        "v",
        str(tmp_path / "v.lance"),
        policy=MaintenancePolicy(max_small_fragments=1),
        storage_options={"fsync": "false"},
        owners=["team:search"],
    )

    @dg.asset(key=ref.key, metadata={"lance/mode": "append"})
    def v() -> pa.Table:
        return pa.table({"x": [1]})

    defs = dg.Definitions.merge(
        build_lance_definitions([ref], assets=[v], store=STORE),
        dg.Definitions(
            resources={"io_manager": LanceIOManager(root=str(tmp_path), store=Spying())},
            executor=dg.in_process_executor,
        ),
    )
    seen.clear()
    with dg.DagsterInstance.ephemeral() as instance:
        job = defs.resolve_implicit_global_asset_job_def()
        for _ in range(3):
            assert job.execute_in_process(asset_selection=[ref.key], instance=instance).success
        verdict = materializations(instance, ref)[-1].metadata["lance/verdict"].value

    assert verdict.startswith("due: compact: 3 small fragments (limit 1)")
    assert seen
    assert all(options == {"fsync": "false"} for options in seen)
    assert REGISTRY.find("v", str(tmp_path / "elsewhere.lance")) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("{}/a.lance", "{}/a.lance/"),
        ("{}/a.lance", "{}/link.lance"),
        ("{}/a.lance", "file://{}/a.lance"),
        ("{}/a.lance", "{}//x/../a.lance"),
        ("s3://b/a.lance", "s3a://b/a.lance/"),
        ("gs://b/a.lance", "gcs://b/a.lance"),
    ],
)
def test_two_names_for_one_place_are_refused(tmp_path, one, other):
    os.symlink(tmp_path / "a.lance", tmp_path / "link.lance")
    refs = [LanceDatasetRef(name, uri.format(tmp_path)) for name, uri in (("left", one), ("right/x", other))]
    with pytest.raises(InvalidArgumentError, match=r"'left' .* and 'right/x' .* are the same dataset"):
        index_refs(refs)


def test_buckets_of_one_name_on_two_servers_are_two_places():
    refs = [
        LanceDatasetRef(name, "s3://b/a.lance", storage_options={"aws_endpoint": f"https://{name}"})
        for name in ("one", "two")
    ]
    assert list(index_refs(refs)) == ["one", "two"]


def test_an_ingest_uses_the_declared_dataset(tmp_path):
    ref = LanceDatasetRef("o", str(tmp_path / "o.lance"), owners=["team:shop"])
    again = LanceDatasetRef("o", str(tmp_path / "o.lance") + "/")
    elsewhere = LanceDatasetRef("o", str(tmp_path / "p.lance"))

    defs = build_lance_definitions([ref], ingests=[LanceIngest(again, lambda _: None)])
    (ingest,) = [item for item in defs.assets if isinstance(item, dg.AssetsDefinition)]
    assert list(ingest.owners_by_key[dg.AssetKey("o_ingest")]) == ["team:shop"]

    with pytest.raises(InvalidArgumentError, match="which is declared at"):
        build_lance_definitions([ref], ingests=[LanceIngest(elsewhere, lambda _: None)])
