"""Fleets and datasets from YAML, as `dg` loads, lists and scaffolds them."""

import subprocess
import sys
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
import yaml

import lance_ops as lo
from lance_ops.dagster.components import LanceDatasetComponent, LanceFleetComponent

NAME = "shop"
_PYPROJECT = f"""
[project]
name = "{NAME}"
version = "0.1.0"
requires-python = ">=3.11"
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[tool.dg]
directory_type = "project"
[tool.dg.project]
root_module = "{NAME}"
"""


@pytest.fixture
def project(tmp_path):
    """A project as `create-dagster` makes it, without components yet."""
    root = tmp_path / NAME
    defs = root / "src" / NAME / "defs"
    defs.mkdir(parents=True)
    (root / "pyproject.toml").write_text(_PYPROJECT)
    for folder in (defs, defs.parent):
        (folder / "__init__.py").write_text("")
    (defs.parent / "definitions.py").write_text(
        "from pathlib import Path\nfrom dagster import definitions, load_from_defs_folder\n"
        "@definitions\ndef defs():\n"
        "    return load_from_defs_folder(path_within_project=Path(__file__).parent)\n"
    )
    return root


def dg_command(project: Path, *arguments: str) -> str:
    """Output of `dg` in a project."""
    dg_of_environment = Path(sys.executable).parent / "dg"
    done = subprocess.run(
        [str(dg_of_environment), *arguments],
        cwd=project,
        env={
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "PYTHONPATH": f"{project / 'src'}:{Path(lo.__file__).parents[1]}",
            "HOME": str(project.parent),
            "DAGSTER_HOME": "",
            "DG_CLI_DISABLE_VERSION_CHECK": "1",
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_dg_lists_scaffolds_and_loads_the_components(project, tmp_path):
    listed = dg_command(project, "list", "components", "--json")
    for name in ("LanceDatasetComponent", "LanceFleetComponent"):
        assert f"lance_ops.dagster.components.{name}" in listed
    dg_command(project, "scaffold", "defs", "lance_ops.dagster.components.LanceFleetComponent", "lake")
    made = project / "src" / NAME / "defs" / "lake"
    assert yaml.safe_load((made / "defs.yaml").read_text())["attributes"] == {"policy": "lance_fleet.yaml"}
    lake = tmp_path / "lake"
    for name in ("one", "two"):
        lo.write_dataset(pa.table({"id": [1]}), str(lake / f"{name}.lance"))
    policy = made / "lance_fleet.yaml"
    policy.write_text(policy.read_text().replace('"s3://bucket/lake"', f'"{lake}"'))
    dg_command(project, "utils", "refresh-defs-state")
    shown = dg_command(project, "list", "defs", "--json")
    for name in ("one", "two", "lance_fleet_run", "lance_fleet_when_due", "lance_manifest_sensor"):
        assert f'"{name}"' in shown


def test_what_dg_scaffolds_passes_its_check_and_both_components_fit_into_one_project(project, tmp_path):
    for name, folder in (("LanceDatasetComponent", "Shop-tables"), ("LanceFleetComponent", "lake")):
        dg_command(project, "scaffold", "defs", f"lance_ops.dagster.components.{name}", folder)
    dg_command(project, "check", "yaml")
    made = project / "src" / NAME / "defs" / "Shop-tables"
    text = (made / "defs.yaml").read_text()
    assert yaml.safe_load(text)["attributes"] == {
        "prefix": "Shop_tables",
        "datasets": [{"name": "Shop-tables/orders", "uri": "orders.lance"}],
    }
    # What stands there as a comment is understood as well.
    first, more = text.split("    # More of the first dataset; all of it may be left out:\n")
    of_dataset, of_component = more.split("    # and of the component, beside `datasets`:\n")
    (made / "defs.yaml").write_text(
        first + of_dataset.replace("    #   ", "      ") + of_component.replace("    #   ", "  ")
    )
    dg_command(project, "check", "yaml")
    policy = made.parent / "lake" / "lance_fleet.yaml"
    lo.write_dataset(pa.table({"id": [1]}), str(tmp_path / "lake" / "one.lance"))
    policy.write_text(policy.read_text().replace('"s3://bucket/lake"', f'"{tmp_path / "lake"}"'))
    (made / "defs.yaml").write_text(text)
    dg_command(project, "utils", "refresh-defs-state")
    shown = dg_command(project, "list", "defs", "--json")
    for name in (
        "Shop-tables/orders",
        "one",
        "Shop_tables_lance_compact",
        "lance_compact",
        "lance_fleet_run",
    ):
        assert f'"{name}"' in shown


def test_a_fleet_component_has_the_datasets_of_its_state(tmp_path):
    lo.write_dataset(pa.table({"id": [1]}), str(tmp_path / "lake" / "one.lance"))
    policy = tmp_path / "lance_fleet.yaml"
    policy.write_text(f"version: 1\nstores: {{lake: {{root: '{tmp_path / 'lake'}'}}}}\n")
    component = LanceFleetComponent(policy=str(policy))
    state = tmp_path / "state.json"
    component.write_state_to_path(state)
    lo.write_dataset(pa.table({"id": [1]}), str(tmp_path / "lake" / "later.lance"))
    definitions = component.build_defs_from_state(None, state)
    assert {spec.key.to_user_string() for spec in definitions.resolve_all_asset_specs()} == {
        "one",
        "lance_fleet/report",
    }
    assert component.build_defs_from_state(None, None).get_job_def("lance_fleet_run")


def test_a_fleet_that_cannot_be_listed_keeps_the_state_that_it_has(tmp_path, monkeypatch):
    policy = tmp_path / "lance_fleet.yaml"
    policy.write_text(
        "version: 1\nstores: {lake: {root: 's3://b/x', options: {aws_secret_access_key: '${NOT_SET}'}}}\n"
    )
    monkeypatch.delenv("NOT_SET", raising=False)
    state = tmp_path / "state.json"
    with pytest.raises(lo.errors.InvalidArgumentError, match=r"could not be listed.*NOT_SET"):
        LanceFleetComponent(policy=str(policy)).write_state_to_path(state)
    assert not state.exists()


def component_of(text: str) -> LanceDatasetComponent:
    return LanceDatasetComponent.resolve_from_yaml(text)


def test_datasets_have_the_thresholds_of_their_yaml(tmp_path):
    component = component_of(
        f"""
datasets:
  - name: sales/orders
    uri: {tmp_path / "orders.lance"}
    owners: ["team:sales"]
    policy: {{max_small_fragments: 7, older_than: 30d}}
    storage_options: {{fsync: "false"}}
"""
    )
    definitions = dg.build_defs_for_component(component)
    (spec,) = definitions.resolve_all_asset_specs()
    assert spec.key == dg.AssetKey(["sales", "orders"])
    assert "|max\\_small\\_fragments|7|" in spec.metadata["lance/policy"].value
    assert "|older\\_than|30 days, 0:00:00|" in spec.metadata["lance/policy"].value
    assert spec.owners == ["team:sales"]


@pytest.mark.parametrize(
    ("policy", "says"),
    [("{max_small_fragment: 7}", "no max_small_fragment"), ("{older_than: soon}", "soon")],
)
def test_thresholds_that_are_none_are_named(tmp_path, policy, says):
    component = component_of(f"datasets: [{{name: a, uri: '{tmp_path}/a.lance', policy: {policy}}}]")
    with pytest.raises(lo.errors.InvalidArgumentError, match=says):
        dg.build_defs_for_component(component)
