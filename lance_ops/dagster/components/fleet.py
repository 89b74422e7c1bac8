"""Fleet from YAML: a component that makes definitions of all datasets of a policy file."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
from dagster.components import (
    DefsStateConfig,
    DefsStateConfigArgs,
    ResolvedDefsStateConfig,
    Scaffolder,
    ScaffoldRequest,
    scaffold_component,
)

from lance_ops.dagster.components.values import LocalPath, runner_of
from lance_ops.dagster.fleet.definitions import build_fleet_definitions
from lance_ops.dagster.resource import LanceStoreResource
from lance_ops.errors import InvalidArgumentError
from lance_ops.fleet.discover.operation import discover
from lance_ops.fleet.policy.load import load_policy
from lance_ops.fleet.stores.opened import FleetDataset, FleetStores

_POLICY_FILE = "lance_fleet.yaml"
_POLICY = """\
# What is looked after, and how. `lance-ops fleet lint lance_fleet.yaml` checks it.
version: 1
mode: observe  # then propose, then auto
stores:
  lake:
    root: {root}
classes:
  default: {{}}
"""


class LanceFleetScaffolder(Scaffolder[Any]):
    """What `dg scaffold defs` makes of a fleet: the YAML of the component and a policy to fill in."""

    def scaffold(self, request: ScaffoldRequest[Any]) -> None:
        """Write both files."""
        (request.target_path / _POLICY_FILE).write_text(
            _POLICY.format(root=json.dumps("s3://bucket/lake")), encoding="utf-8"
        )
        scaffold_component(request, {"policy": _POLICY_FILE})


@dg.scaffold_with(LanceFleetScaffolder)
@dataclass
class LanceFleetComponent(dg.StateBackedComponent, dg.Resolvable):
    """All datasets below some places, after a policy file.

    The datasets are looked for when the state is refreshed (`dg utils refresh-defs-state`, or when the code
    location is loaded in development), never while definitions are loaded.

    Attributes:
        policy: The policy file, from the folder of the YAML file on.
        runner: "local" or "spark": who runs tasks.
        spark_master: Spark master: local[...] or spark://host:port.
        cron: When the fleet is looked at and maintained.
        running: Sensors run from the start.
        schedules_running: The fleet's schedule runs from the start.
        prefix: Before the names of jobs, schedules, sensors and resource. Of several components in a project
            each but one needs a prefix of its own.
        defs_state: Where the names of the datasets are kept.
    """

    policy: LocalPath
    runner: str = "local"
    spark_master: str = "local[*]"
    cron: str = "*/30 * * * *"
    running: bool = False
    schedules_running: bool = False
    prefix: str = ""
    defs_state: ResolvedDefsStateConfig = field(default_factory=DefsStateConfigArgs.local_filesystem)

    @property
    def defs_state_config(self) -> DefsStateConfig:
        """Where the names of the datasets are kept."""
        return DefsStateConfig.from_args(self.defs_state, default_key=f"LanceFleetComponent[{self.policy}]")

    def write_state_to_path(self, state_path: Path) -> None:
        """Look for the datasets of the fleet.

        Raises:
            PolicyError: The file makes no sense.
            StorageError: A store could not be looked at: a fleet without its datasets would forget them.
        """
        policy = load_policy(self.policy)
        found = discover(FleetStores(policy))
        if not found.complete:
            raise InvalidArgumentError(
                f"the datasets of the fleet could not be listed: {'; '.join(found.errors)}", path=self.policy
            )
        state_path.write_text(json.dumps([asdict(item) for item in found.datasets]), encoding="utf-8")

    def build_defs_from_state(
        self,
        context: dg.ComponentLoadContext,  # noqa: ARG002 - Dagster's signature
        state_path: Path | None,
    ) -> dg.Definitions:
        """Definitions of the datasets that are known; the fleet's job alone before the first look."""
        known = [] if state_path is None else json.loads(state_path.read_text(encoding="utf-8"))
        return build_fleet_definitions(
            load_policy(self.policy),
            datasets=[FleetDataset(**item) for item in known],
            store=LanceStoreResource(runner=runner_of(self.runner), spark_master=self.spark_master),
            cron=self.cron,
            running=self.running,
            schedules_running=self.schedules_running,
            prefix=self.prefix,
        )
