"""The place where programs imported the policy from before."""

import importlib

import pytest

from lance_ops.maintenance.health.policy import MaintenancePolicy


def test_the_policy_is_still_found_where_it_lay_with_a_warning():
    before = importlib.import_module("lance_ops.maintenance.policy")
    with pytest.warns(DeprecationWarning, match="lance_ops.maintenance.health.policy"):
        assert before.MaintenancePolicy is MaintenancePolicy


def test_a_name_that_is_not_there_is_an_attribute_error():
    before = importlib.import_module("lance_ops.maintenance.policy")
    with pytest.raises(AttributeError):
        _ = before.no_such_thing
