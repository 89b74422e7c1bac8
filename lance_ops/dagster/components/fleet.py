"""Fleet from YAML: a component that makes definitions of all datasets of a policy file."""

import json
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import dagster as dg
from dagster.components import (
    DefsStateConfig,
    DefsStateConfigArgs,
    ResolvedDefsStateConfig,
    Scaffolder,
    ScaffoldRequest,
    scaffold_component,
)

from lance_ops.dagster.components.shared import ComponentTranslator, LanceComponent
from lance_ops.dagster.components.values import IMPORTED, LocalPath
from lance_ops.dagster.fleet.definitions import build_fleet_definitions
from lance_ops.errors import InvalidArgumentError
from lance_ops.fleet.discover.operation import discover
from lance_ops.fleet.policy.load import load_policy
from lance_ops.fleet.policy.quantities import parse_duration
from lance_ops.fleet.stores.opened import FleetDataset, FleetStores

_POLICY_FILE = "lance_fleet.yaml"
_POLICY = """\
# What is looked after, and how. `lance-ops fleet lint lance_fleet.yaml` checks it.
version: 1
mode: observe  # then propose, then auto
stores:
  lake:
    root: lake  # a folder beside this file, or s3://bucket/lake
classes:
  default: {}
"""


class LanceFleetScaffolder(Scaffolder[Any]):
    """What `dg scaffold defs` makes of a fleet: the YAML of the component and a policy to fill in."""

    def scaffold(self, request: ScaffoldRequest[Any]) -> None:
        """Write both files."""
        (request.target_path / _POLICY_FILE).write_text(_POLICY, encoding="utf-8")
        scaffold_component(request, {"policy": _POLICY_FILE})


@dg.scaffold_with(LanceFleetScaffolder)
@dataclass
class LanceFleetComponent(LanceComponent, dg.StateBackedComponent):
    """All datasets below some places, after a policy file.

    The datasets are looked for when the state is refreshed (`dg utils refresh-defs-state`, or when the code
    location is loaded in development), never while definitions are loaded.

    Attributes:
        policy: The policy file, from the folder of the YAML file on.
        cron: When the fleet is looked at and maintained.
        report_cron: When the report is refreshed.
        stale_after: Age from which the report and its verdicts are stale, such as `3h`.
        notifiers: Who is told by the rules of the policy whose `to` has these names, as `module:name`.
        defs_state: Where the names of the datasets are kept.
    """

    policy: LocalPath
    cron: str = "*/30 * * * *"
    report_cron: str = "10 * * * *"
    stale_after: str = "3h"
    notifiers: Annotated[Any, IMPORTED] = None
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
            store=self.build_store(),
            notifier=self.notifier,
            alerts=self.alerts,
            notifiers=self.notifiers,
            translator=ComponentTranslator(self.get_asset_spec, self.get_ingest_spec),
            select=self.select,
            exclude=self.exclude,
            cron=self.cron,
            report_cron=self.report_cron,
            stale_after=self._stale_after(),
            sensor_options=self.sensor_options,
            running=self.running,
            schedules_running=self.schedules_running,
            prefix=self.prefix,
        )

    def _stale_after(self) -> timedelta:
        try:
            return parse_duration(self.stale_after)
        except ValueError as error:
            raise InvalidArgumentError(str(error), field="stale_after") from error
