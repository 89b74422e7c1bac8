"""Datasets of a fleet as Dagster knows them: what their class says becomes what the asset's page shows."""

from datetime import timedelta

import dagster as dg
import pytest

from lance_ops.dagster import LanceDatasetTranslator
from lance_ops.dagster.fleet.refs import fleet_refs
from lance_ops.fleet.stores.opened import FleetDataset
from tests.support.fleets import policy


@pytest.mark.parametrize(
    ("silent_after", "window"),
    [("2d", timedelta(days=2)), ("10s", timedelta(seconds=61)), (None, None)],
)
def test_a_dataset_may_grow_as_old_as_is_worth_an_alert(tmp_path, silent_after, window):
    default = "{}" if silent_after is None else f"{{silent_after: {silent_after}}}"
    dataset = FleetDataset("a.lance", "s", "a.lance", str(tmp_path / "a.lance"))
    (ref,) = fleet_refs(policy(tmp_path, default=default), [dataset]).values()
    spec = LanceDatasetTranslator().get_asset_spec(ref)
    expected = None if window is None else dg.FreshnessPolicy.time_window(fail_window=window)
    assert spec.freshness_policy == expected
