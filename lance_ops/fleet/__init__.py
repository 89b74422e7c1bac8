"""Fleet: discover, survey, rank and maintain many datasets under one policy, with alerts and reports.

    policy = load_policy("lance_fleet.yaml")
    survey = survey_fleet(policy)          # looks, into the ledger
    done = run_fleet(policy)               # what is due, the best first
    write_report(policy, Path("fleet.html"))

Names are loaded on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lance_ops.alerts.message import Message
    from lance_ops.alerts.row import AlertRow
    from lance_ops.alerts.rule import AlertRule
    from lance_ops.fleet.adopt.operation import Adoption, adopt_fleet
    from lance_ops.fleet.alerts.operation import Told, tell_alerts
    from lance_ops.fleet.discover.operation import Discovery, discover_datasets
    from lance_ops.fleet.forecast.operation import FleetForecast, forecast_fleet
    from lance_ops.fleet.ledger.ledger import FleetLedger
    from lance_ops.fleet.ledger.rows import Look, OperationRow, RunRow
    from lance_ops.fleet.plan.model import FleetPlan, LeftOut, PlannedDataset
    from lance_ops.fleet.plan.operation import PlanOptions, plan_fleet
    from lance_ops.fleet.policy.load import load_policy, parse_policy
    from lance_ops.fleet.policy.model import (
        Assignment,
        Budget,
        DatasetPolicy,
        DiscoverRule,
        FleetPolicy,
        PolicyClass,
        StoreSpec,
    )
    from lance_ops.fleet.policy.secrets import Options
    from lance_ops.fleet.policy.ttl import RowTTL
    from lance_ops.fleet.policy.windows import Blackout, Window
    from lance_ops.fleet.report.operation import write_report
    from lance_ops.fleet.run.operation import RunOptions, run_fleet
    from lance_ops.fleet.run.result import FleetRun
    from lance_ops.fleet.stores.opened import FleetDataset, FleetStores
    from lance_ops.fleet.survey.operation import Survey, SurveyOptions, survey_fleet
    from lance_ops.storage.lease import Lease

_PUBLIC = {
    "fleet.adopt.operation": ("Adoption", "adopt_fleet"),
    "alerts.message": ("Message",),
    "alerts.row": ("AlertRow",),
    "alerts.rule": ("AlertRule",),
    "fleet.alerts.operation": ("Told", "tell_alerts"),
    "fleet.discover.operation": ("Discovery", "discover_datasets"),
    "fleet.forecast.operation": ("FleetForecast", "forecast_fleet"),
    "fleet.ledger.ledger": ("FleetLedger",),
    "fleet.ledger.rows": ("Look", "OperationRow", "RunRow"),
    "fleet.plan.model": ("FleetPlan", "LeftOut", "PlannedDataset"),
    "fleet.plan.operation": ("PlanOptions", "plan_fleet"),
    "fleet.policy.load": ("load_policy", "parse_policy"),
    "fleet.policy.model": (
        "Assignment",
        "Budget",
        "DatasetPolicy",
        "DiscoverRule",
        "FleetPolicy",
        "PolicyClass",
        "StoreSpec",
    ),
    "fleet.policy.secrets": ("Options",),
    "fleet.policy.ttl": ("RowTTL",),
    "fleet.policy.windows": ("Blackout", "Window"),
    "fleet.report.operation": ("write_report",),
    "storage.lease": ("Lease",),
    "fleet.run.operation": ("RunOptions", "run_fleet"),
    "fleet.run.result": ("FleetRun",),
    "fleet.stores.opened": ("FleetDataset", "FleetStores"),
    "fleet.survey.operation": ("Survey", "SurveyOptions", "survey_fleet"),
}
_HOMES = {name: home for home, names in _PUBLIC.items() for name in names}

__all__ = [
    "Adoption",
    "AlertRow",
    "AlertRule",
    "Assignment",
    "Blackout",
    "Budget",
    "DatasetPolicy",
    "DiscoverRule",
    "Discovery",
    "FleetDataset",
    "FleetForecast",
    "FleetLedger",
    "FleetPlan",
    "FleetPolicy",
    "FleetRun",
    "FleetStores",
    "Lease",
    "LeftOut",
    "Look",
    "Message",
    "OperationRow",
    "Options",
    "PlanOptions",
    "PlannedDataset",
    "PolicyClass",
    "RowTTL",
    "RunOptions",
    "RunRow",
    "StoreSpec",
    "Survey",
    "SurveyOptions",
    "Told",
    "Window",
    "adopt_fleet",
    "discover_datasets",
    "forecast_fleet",
    "load_policy",
    "parse_policy",
    "plan_fleet",
    "run_fleet",
    "survey_fleet",
    "tell_alerts",
    "write_report",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'lance_ops.fleet' has no attribute {name!r}")
    value = getattr(import_module(f"lance_ops.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
