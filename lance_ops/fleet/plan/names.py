"""Checks that requested names of datasets are in the fleet."""

import difflib
from collections.abc import Collection, Iterable

from lance_ops.errors import InvalidArgumentError
from lance_ops.fleet.discover.operation import discover_datasets
from lance_ops.fleet.ledger.ledger import FleetLedger
from lance_ops.fleet.stores.opened import FleetStores


def check_names_first(names: Collection[str], ledger: FleetLedger, stores: FleetStores) -> None:
    """Check names of datasets before a survey; lists the stores if the ledger lacks a name.

    With an incomplete listing there is no error: the survey decides.

    Raises:
        InvalidArgumentError: A name is unknown; the message has the known ones.
    """
    known = set(ledger.latest()) if names else set()
    if known.issuperset(names):
        return
    found = discover_datasets(stores)
    if found.complete and not found.unseen:
        check_names(names, {item.name for item in found.datasets})


def check_names(names: Iterable[str], there: Iterable[str]) -> None:
    """Check names of datasets.

    Raises:
        InvalidArgumentError: A name is unknown; the message has the known ones.
    """
    known = sorted(there)
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, 3) or known[:5]
            more = ", ..." if len(close) < len(known) else ""
            raise InvalidArgumentError(
                f"dataset {name!r} is not in the fleet",
                field="dataset",
                hint=f"there is {', '.join(close)}{more}" if known else "no dataset is known so far",
            )
