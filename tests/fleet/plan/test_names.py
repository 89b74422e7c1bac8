"""Names that are none are refused before any dataset is looked at."""

import pytest

from lance_ops.errors import InvalidArgumentError
from lance_ops.fleet.ledger.ledger import FleetLedger
from lance_ops.fleet.plan.names import check_names_first
from lance_ops.fleet.run import operation
from lance_ops.fleet.run.operation import RunOptions, run_fleet
from lance_ops.fleet.stores.opened import FleetStores
from lance_ops.fleet.survey.operation import survey_fleet
from tests.support.fleets import policy, write


def test_a_run_looks_at_nothing_for_a_name_that_is_none(tmp_path, monkeypatch):
    write(tmp_path, "a.lance")
    monkeypatch.setattr(operation, "survey_fleet", lambda *_, **__: pytest.fail("the fleet was looked at"))
    with pytest.raises(InvalidArgumentError, match=r"dataset 'a\.lanc' is not in the fleet") as refused:
        run_fleet(policy(tmp_path), RunOptions(only=frozenset({"a.lanc"})))
    assert "a.lance" in refused.value.hint


def test_names_are_known_from_the_ledger_or_from_a_listing(tmp_path):
    write(tmp_path, "old.lance")
    rules = policy(tmp_path)
    ledger, stores = FleetLedger.of(rules), FleetStores(rules)
    survey_fleet(rules)
    before = stores.root("s").requests
    check_names_first({"old.lance"}, ledger, stores)
    check_names_first((), ledger, stores)
    assert stores.root("s").requests == before
    write(tmp_path, "new.lance")
    check_names_first({"old.lance", "new.lance"}, ledger, stores)
    with pytest.raises(InvalidArgumentError, match=r"'none\.lance'"):
        check_names_first({"old.lance", "none.lance"}, ledger, stores)
