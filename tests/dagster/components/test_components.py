"""Fleets and datasets from YAML, as `dg` loads, lists and scaffolds them."""

import sys
import warnings
from datetime import timedelta
from types import ModuleType

import dagster as dg
import pyarrow as pa
import pytest
import yaml
from click.testing import CliRunner
from dagster_dg_cli.cli import create_dg_cli

import lance_ops as lo
from lance_ops.dagster.components import LanceDatasetComponent, LanceFleetComponent
from lance_ops.dagster.components import fleet as fleet_component
from lance_ops.errors import InvalidArgumentError
from tests.support.dagster import Told
from tests.support.docs import DOCS

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


@pytest.fixture
def dg_command(project, monkeypatch):
    """Runs `dg` in a project and returns its output; in this process, since each start would take seconds."""
    monkeypatch.chdir(project)
    monkeypatch.syspath_prepend(str(project / "src"))
    monkeypatch.setenv("DG_CLI_DISABLE_VERSION_CHECK", "1")
    monkeypatch.setenv("HOME", str(project.parent))
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    runner = CliRunner()

    def run(*arguments: str) -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            done = runner.invoke(create_dg_cli(), list(arguments), catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    yield run
    for name in [name for name in sys.modules if name.split(".")[0] == NAME]:
        del sys.modules[name]


def test_what_dg_scaffolds_loads_and_both_components_fit_into_one_project(project, dg_command):
    """One project for all of it: each command of `dg` takes seconds."""
    for name, folder in (("LanceDatasetComponent", "Shop-tables"), ("LanceFleetComponent", "lake")):
        dg_command("scaffold", "defs", f"lance_ops.dagster.components.{name}", folder)
    made = project / "src" / NAME / "defs"
    fleet = yaml.safe_load((made / "lake" / "defs.yaml").read_text())
    assert fleet["attributes"] == {"policy": "lance_fleet.yaml"}
    text = (made / "Shop-tables" / "defs.yaml").read_text()
    assert yaml.safe_load(text)["attributes"] == {
        "prefix": "Shop_tables",
        "datasets": [{"name": "Shop-tables/orders", "uri": "orders.lance"}],
    }
    # What stands there as a comment is understood as well.
    first, more = text.split("    # More of the first dataset; all of it may be left out:\n")
    of_dataset, of_component = more.split("    # and of the component, beside `datasets`:\n")
    (made / "Shop-tables" / "defs.yaml").write_text(
        first + of_dataset.replace("    #   ", "      ") + of_component.replace("    #   ", "  ")
    )
    dg_command("check", "yaml")
    # The folder of the fleet, as scaffolded.
    lo.write_dataset(pa.table({"id": [1]}), str(made / "lake" / "lake" / "one.lance"))
    (made / "Shop-tables" / "defs.yaml").write_text(text)
    dg_command("utils", "refresh-defs-state")
    shown = dg_command("list", "defs", "--json")
    for name in (
        "Shop-tables/orders",
        "one",
        "Shop_tables_lance_compact",
        "lance_compact",
        "lance_fleet_run",
        "lance_fleet_when_due",
        "lance_manifest_sensor",
    ):
        assert f'"{name}"' in shown


def test_a_fleet_loads_as_it_is_scaffolded_before_there_is_a_dataset(tmp_path):
    policy = tmp_path / "lance_fleet.yaml"
    policy.write_text(fleet_component._POLICY)
    component = LanceFleetComponent(policy=str(policy))
    state = tmp_path / "state.json"
    component.write_state_to_path(state)
    dg.Definitions.validate_loadable(component.build_defs_from_state(None, state))


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
    with pytest.raises(lo.errors.InvalidArgumentError, match=r"cannot list the datasets.*NOT_SET"):
        LanceFleetComponent(policy=str(policy)).write_state_to_path(state)
    assert not state.exists()


def component_of(text: str) -> LanceDatasetComponent:
    return LanceDatasetComponent.resolve_from_yaml(text)


def definitions_of(text: str) -> dg.Definitions:
    definitions = dg.build_defs_for_component(component_of(text))
    dg.Definitions.validate_loadable(definitions)
    return definitions


def specs_of(definitions: dg.Definitions) -> dict[str, dg.AssetSpec]:
    return {spec.key.to_user_string(): spec for spec in definitions.resolve_all_asset_specs()}


def test_datasets_have_the_thresholds_of_their_yaml(tmp_path):
    definitions = definitions_of(
        f"""
datasets:
  - name: sales/orders
    uri: {tmp_path / "orders.lance"}
    owners: ["team:sales"]
    policy: {{max_small_fragments: 7, older_than: 30d}}
    storage_options: {{fsync: "false"}}
    freshness: {{fail_window: 24h, warn_window: 12h}}
    kinds: [lance, pyspark]
"""
    )
    (spec,) = specs_of(definitions).values()
    assert spec.key == dg.AssetKey(["sales", "orders"])
    assert "|max\\_small\\_fragments|7|" in spec.metadata["lance/policy"].value
    assert "|older\\_than|30 days, 0:00:00|" in spec.metadata["lance/policy"].value
    assert spec.owners == ["team:sales"]
    assert spec.kinds == {"lance", "pyspark"}
    assert spec.freshness_policy == dg.FreshnessPolicy.time_window(
        fail_window=timedelta(days=1), warn_window=timedelta(hours=12)
    )


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("policy: {max_small_fragment: 7}", "max_small_fragment"),
        ("policy: {older_than: soon}", "soon"),
        ("freshness: later", "later"),
    ],
)
def test_settings_that_make_no_sense_are_named(tmp_path, settings, says):
    with pytest.raises(Exception, match=says):
        component_of(f"datasets:\n  - name: a\n    uri: '{tmp_path}/a.lance'\n    {settings}\n")


WHOLE = """
datasets:
  - {{name: sales/orders, uri: {lake}/orders.lance, owners: ["team:sales"], tags: {{tier: gold}}}}
  - {{name: sales/clicks, uri: {lake}/clicks.lance, tags: {{tier: gold}}}}
  - {{name: sales/old, uri: {lake}/old.lance}}
ingests:
  - dataset: sales/orders
    source: {module}:rows_of_day
    partition_column: day
    cron_schedule: 15 0 * * *
    hooks: {module}:remember
    asset:
      key: sales/load_orders
      partitions_def: {{type: daily, start_date: "2024-05-01", end_date: "2024-05-04"}}
      automation_condition: "{{{{ dg.AutomationCondition.on_cron('@daily') }}}}"
      code_version: v3
      tags: {{stage: raw}}
    op:
      name: load
      pool: loads
      tags: {{size: small}}
      backfill_policy: {{type: single_run}}
      retry_policy: {{max_retries: 3, delay: 10, backoff: exponential}}
  - {{dataset: sales/old, source: "{module}:rows_of_day"}}
downstream:
  - {{job: "{module}:report", datasets: [sales/orders, sales/old]}}
select: tag:tier=gold
exclude: key:"lake/sales/clicks"
translation:
  key: lake/{{{{ dataset.name }}}}
  group_name: "{{{{ dataset.name.split('/')[0] }}}}_tables"
  description: "{{{{ spec.description }}}} Ours."
  metadata: {{contact: data@example.com}}
  tags: {{managed: yaml}}
  owners: ["team:lake"]
  kinds: [lance, spark]
  code_version: v5
store: {{threads: 1}}
notifier: {{chat: "{module}:CHAT"}}
alerts:
  due_after: 1h
  rules: [{{to: chat, kinds: [failure], quiet: 2h}}, {{to: log}}]
times: {{compact: 5 * * * *}}
sensor_options: {{grace: 3m, newest: 4}}
sensor_interval_seconds: 60
hooks: ["{module}:remember"]
op_retry_policy: {{max_retries: 0}}
running: true
schedules_running: true
"""

SEEN: list[str] = []
CHAT = Told()


def rows_of_day(request):
    return pa.table({"day": pa.array([request.time_window.start.date()], pa.date32()), "id": [1]})


@dg.success_hook
def remember(context):
    SEEN.append(context.op.name)


@dg.job
def report():
    pass


def test_yaml_reaches_everything_that_python_does(tmp_path):
    text = WHOLE.format(lake=tmp_path, module=__name__)
    definitions = dg.Definitions.merge(
        dg.build_defs_for_component(component_of(text)), dg.Definitions(jobs=[report])
    )
    dg.Definitions.validate_loadable(definitions)
    specs = specs_of(definitions)
    assert set(specs) == {"lake/sales/orders", "sales/load_orders"}
    dataset, ingest = specs["lake/sales/orders"], specs["sales/load_orders"]
    assert (dataset.group_name, dataset.owners, dataset.code_version) == ("sales_tables", ["team:lake"], "v5")
    assert dataset.kinds == {"lance", "spark"}
    assert dataset.description.endswith("Ours.")
    assert dataset.metadata["contact"] == "data@example.com"
    assert dataset.metadata["dagster/table_name"] == "lake.sales.orders"
    assert dataset.tags.items() >= {"tier": "gold", "managed": "yaml"}.items()
    assert [dep.asset_key for dep in dataset.deps] == [ingest.key]
    assert ingest.automation_condition == dg.AutomationCondition.on_cron("@daily")
    assert (ingest.code_version, ingest.group_name, ingest.tags["stage"]) == ("v3", "sales_tables", "raw")
    step = definitions.get_assets_def(ingest.key)
    assert (step.op.name, step.op.pool, step.op.tags["size"]) == ("load", "loads", "small")
    assert step.backfill_policy == dg.BackfillPolicy.single_run()
    assert {item.name: item.default_status.value for item in definitions.schedules} == dict.fromkeys(
        (
            "lance_compact_when_due",
            "lance_index_when_due",
            "lance_cleanup_when_due",
            "sales_load_orders_schedule",
        ),
        "RUNNING",
    )
    assert definitions.schedules[0].cron_schedule == "5 * * * *"
    for sensor in definitions.sensors:
        assert sensor.minimum_interval_seconds == 60
        assert sensor.default_status is dg.DefaultSensorStatus.RUNNING
    assert [job.name for job in next(iter(definitions.sensors)).jobs] == ["report"]
    SEEN.clear()
    with dg.DagsterInstance.ephemeral() as instance:
        job = definitions.resolve_job_def("sales_load_orders_job")
        assert job.execute_in_process(instance=instance, partition_key="2024-05-01").success
    assert SEEN == ["load"]
    assert lo.dataset(str(tmp_path / "orders.lance")).count_rows() == 1


def test_the_yaml_of_the_guide_loads(monkeypatch):
    page = (DOCS / "dagster.md").read_text(encoding="utf-8")
    _, _, found = page.partition("### Everything from YAML\n\n```yaml\n")
    whole = yaml.safe_load(found.partition("```")[0])
    assert whole["type"] == "lance_ops.dagster.components.LanceDatasetComponent"
    jobs = ModuleType("shop.jobs")
    jobs.revenue_job = report
    monkeypatch.setitem(sys.modules, "shop.jobs", jobs)
    for name in ("AWS_SECRET_ACCESS_KEY", "SLACK_WEBHOOK"):
        monkeypatch.setenv(name, "https://example.com")
    definitions = dg.Definitions.merge(
        dg.build_defs_for_component(component_of(yaml.safe_dump(whole["attributes"]))),
        dg.Definitions(jobs=[report]),
    )
    dg.Definitions.validate_loadable(definitions)
    assert set(specs_of(definitions)) == {"lake/sales/orders", "sales/load_orders"}


class Audited(LanceDatasetComponent):
    """A component of one's own: it does something around each ingest, and names its owner."""

    def execute(self, context, load):
        SEEN.append(f"before {context.partition_key}")
        done = load()
        SEEN.append(f"after {context.partition_key}")
        return done

    def get_ingest_spec(self, ingest):
        return super().get_ingest_spec(ingest).replace_attributes(owners=["team:audit"])


def test_a_subclass_runs_around_each_ingest(tmp_path):
    component = Audited.resolve_from_yaml(
        f"""
datasets: [{{name: orders, uri: {tmp_path}/orders.lance}}]
ingests:
  - dataset: orders
    source: {__name__}:rows_of_day
    partition_column: day
    asset: {{key: load, partitions_def: {{type: daily, start_date: "2024-05-01"}}}}
"""
    )
    definitions = dg.build_defs_for_component(component)
    assert specs_of(definitions)["load"].owners == ["team:audit"]
    SEEN.clear()
    with dg.DagsterInstance.ephemeral() as instance:
        job = definitions.resolve_job_def("load_job")
        assert job.execute_in_process(instance=instance, partition_key="2024-05-01").success
    assert SEEN == ["before 2024-05-01", "after 2024-05-01"]


def test_a_translation_may_be_a_function_of_ones_own(tmp_path):
    component = component_of(f"datasets: [{{name: orders, uri: {tmp_path}/orders.lance}}]")
    component.translation = lambda spec, scope: spec.replace_attributes(
        key=["raw", scope["dataset"].name], tags={"a": "b"}
    )
    definitions = dg.build_defs_for_component(component)
    assert specs_of(definitions)["raw/orders"].tags["a"] == "b"
    assert definitions.get_job_def("lance_compact").partitions_def.get_partition_keys() == ["raw/orders"]


def test_a_fleet_has_the_assets_that_are_selected_and_their_translation(tmp_path):
    for name in ("one", "two"):
        lo.write_dataset(pa.table({"id": [1]}), str(tmp_path / "lake" / f"{name}.lance"))
    (tmp_path / "lance_fleet.yaml").write_text("version: 1\nstores: {lake: {root: lake}}\n")
    component = LanceFleetComponent.resolve_from_yaml(
        f"""
policy: {tmp_path}/lance_fleet.yaml
exclude: key:"two"
translation: {{tags: {{tier: "{{{{ dataset.name }}}}"}}}}
alerts: {{rules: [{{to: log, severity: error}}]}}
report_cron: 0 6 * * *
stale_after: 2d
sensor_options: {{full_checks: 3}}
"""
    )
    component.write_state_to_path(tmp_path / "state.json")
    definitions = component.build_defs_from_state(None, tmp_path / "state.json")
    specs = specs_of(definitions)
    assert set(specs) == {"one", "lance_fleet/report"}
    assert specs["one"].tags["tier"] == "one"
    assert definitions.resolve_schedule_def("lance_fleet_report_schedule").cron_schedule == "0 6 * * *"
    assert specs["lance_fleet/report"].freshness_policy.fail_window.to_timedelta() == timedelta(days=2)


def test_an_age_that_is_none_is_refused_by_its_name(tmp_path):
    (tmp_path / "lance_fleet.yaml").write_text("version: 1\nstores: {lake: {root: lake}}\n")
    component = LanceFleetComponent(policy=str(tmp_path / "lance_fleet.yaml"), stale_after="soon")
    with pytest.raises(InvalidArgumentError, match="stale_after"):
        component.build_defs_from_state(None, None)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("select: tag:tier=gold", "matches none of 1 datasets"),
        ("select: '(('", "not a selection of assets"),
        (
            f"downstream: [{{job: {__name__}:report, datasets: [order]}}]",
            "dataset 'order' is not in `datasets`",
        ),
        ("ingests: [{dataset: order, source: 'a:b'}]", "dataset 'order' is not in `datasets`"),
        ("translation: {skippable: true}", "translation of orders has unknown attributes: skippable"),
        ("runner: thread", "unknown runner"),
    ],
)
def test_what_a_component_cannot_do_is_said_when_it_is_loaded(tmp_path, more, says):
    component = component_of(f"datasets: [{{name: orders, uri: {tmp_path}/orders.lance}}]\n{more}\n")
    with pytest.raises(lo.errors.InvalidArgumentError, match=says):
        dg.build_defs_for_component(component)
