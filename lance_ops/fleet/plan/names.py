"""Names of datasets that a person asks for: each has to be in the fleet."""

import difflib
from collections.abc import Collection, Iterable

from lance_ops.errors import InvalidArgumentError
from lance_ops.fleet.discover.operation import discover_datasets
from lance_ops.fleet.ledger.ledger import FleetLedger
from lance_ops.fleet.stores.opened import FleetStores


def check_names_first(names: Collection[str], ledger: FleetLedger, stores: FleetStores) -> None:
    """See that datasets are there before all are looked at; lists them where the ledger does not know.

    Where the listing is not whole, nothing is said: a look at all of them tells.

    Raises:
        InvalidArgumentError: One is not; it says what is.
    """
    known = set(ledger.latest()) if names else set()
    if known.issuperset(names):
        return
    found = discover_datasets(stores)
    if found.complete and not found.unseen:
        check_names(names, {item.name for item in found.datasets})


def check_names(names: Iterable[str], there: Iterable[str]) -> None:
    """See that datasets are there.

    Raises:
        InvalidArgumentError: One is not; it says what is.
    """
    known = sorted(there)
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, 3) or known[:5]
            more = ", ..." if len(close) < len(known) else ""
            raise InvalidArgumentError(
                f"there is no dataset {name!r} in the fleet",
                field="dataset",
                hint=f"there is {', '.join(close)}{more}" if known else "no dataset was found so far",
            )
