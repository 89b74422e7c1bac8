"""A fleet beside the flights, as the ledger of a month tells it, and its report."""

from datetime import UTC, datetime
from pathlib import Path

import dagster as dg

from lance_ops.dagster import build_fleet_definitions
from lance_ops.fleet.policy.model import FleetPolicy
from lance_ops.fleet.stores.opened import FleetDataset
from tests.support.sample_fleet import TROUBLE, sample_policy, write_sample

PREFIX = "lake"
_DATASETS = 40


def build(folder: Path) -> dg.Definitions:
    """Return the definitions; the fleet has no file but its ledger."""
    policy = _policy(folder)
    root = policy.stores[0].root
    found = [FleetDataset(name, "lake", name, f"{root}/{name}") for name, _ in TROUBLE[:2]]
    return build_fleet_definitions(policy, datasets=found, prefix=PREFIX)


def make_report(folder: Path, instance: dg.DagsterInstance) -> None:
    """Fill the ledger and make the report of it."""
    write_sample(_policy(folder), _DATASETS, now=datetime.now(UTC))
    job = build(folder).resolve_job_def(f"{PREFIX}_lance_fleet_report")
    config = {"ops": {f"{PREFIX}_lance_fleet__report": {"config": {"survey": False}}}}
    job.execute_in_process(instance=instance, run_config=config)


def _policy(folder: Path) -> FleetPolicy:
    return sample_policy(folder / "fleet", str(folder / "fleet" / "warehouse"))
