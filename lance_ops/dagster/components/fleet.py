"""Component of a fleet: definitions of all datasets of a policy file from YAML."""

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
    """Scaffolder of `dg scaffold defs` for a fleet: the YAML of the component and a policy to fill in."""

    def scaffold(self, request: ScaffoldRequest[Any]) -> None:
        """Write both files."""
        (request.target_path / _POLICY_FILE).write_text(_POLICY, encoding="utf-8")
        scaffold_component(request, {"policy": _POLICY_FILE})


@dg.scaffold_with(LanceFleetScaffolder)
@dataclass
class LanceFleetComponent(LanceComponent, dg.StateBackedComponent):
    """All datasets of the stores of a policy file.

    The datasets are discovered when the state is refreshed (`dg utils refresh-defs-state`, or when the code
    location is loaded in development), never while definitions are loaded.

    Attributes:
        policy: The policy file, relative to the YAML file.
        cron: Cron expression of the fleet run.
        report_cron: Cron expression of the report.
        stale_after: Age from which the report and its verdicts are stale, such as `3h`.
        notifiers: Custom notifiers by the names in `to` of policy rules, as `module:name`.
        defs_state: Storage of the dataset names.
    """

    policy: LocalPath
    cron: str = "*/30 * * * *"
    report_cron: str = "10 * * * *"
    stale_after: str = "3h"
    notifiers: Annotated[Any, IMPORTED] = None
    defs_state: ResolvedDefsStateConfig = field(default_factory=DefsStateConfigArgs.local_filesystem)

    @property
    def defs_state_config(self) -> DefsStateConfig:
        """Storage of the dataset names."""
        return DefsStateConfig.from_args(self.defs_state, default_key=f"LanceFleetComponent[{self.policy}]")

    def write_state_to_path(self, state_path: Path) -> None:
        """Discover the datasets of the fleet.

        Raises:
            PolicyError: The file is invalid.
            StorageError: A store could not be listed: its datasets would be lost from the fleet.
        """
        policy = load_policy(self.policy)
        found = discover(FleetStores(policy))
        if not found.complete:
            raise InvalidArgumentError(
                f"cannot list the datasets of the fleet: {'; '.join(found.errors)}", path=self.policy
            )
        state_path.write_text(json.dumps([asdict(item) for item in found.datasets]), encoding="utf-8")

    def build_defs_from_state(
        self,
        context: dg.ComponentLoadContext,  # noqa: ARG002 - Dagster's signature
        state_path: Path | None,
    ) -> dg.Definitions:
        """Build definitions of the known datasets; only the fleet's job before the first discovery."""
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
