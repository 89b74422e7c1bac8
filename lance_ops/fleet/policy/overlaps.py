"""Overlap of stores: their datasets would have two names, and the rules of both."""

import os
from collections.abc import Iterator, Mapping, Sequence

from lance_ops.errors import LanceOpsError
from lance_ops.storage.paths import parse_location


def overlaps(stores: Sequence[tuple[str, str, Mapping[str, str]]]) -> Iterator[tuple[str, str]]:
    """Yield the problems of overlapping stores, with the path of each in the policy.

    Args:
        stores: Name, root and options of each.
    """
    places: list[tuple[str, str, dict[str, str]]] = []
    for name, root, options in stores:
        try:
            location = parse_location(root)
        except LanceOpsError:
            continue  # The error is raised where the store is opened.
        uri = resolved(root)
        # The same bucket at another endpoint or of another account is a different one.
        where = {
            key.lower(): value
            for key, value in options.items()
            if not location.is_local and ("endpoint" in key.lower() or "account_name" in key.lower())
        }
        for other, place, at in places:
            if where == at and (
                uri == place or f"{uri}/".startswith(_folder(place)) or f"{place}/".startswith(_folder(uri))
            ):
                yield (
                    f"stores.{name}.root",
                    f"store {name!r} overlaps with store {other!r}: their datasets would occur twice",
                )
        places.append((name, uri, where))


def resolved(uri: str) -> str:
    """Return a normalized location, with local links resolved.

    Raises:
        LanceOpsError: It is not a location.
    """
    location = parse_location(uri)
    return os.path.realpath(location.uri) if location.is_local else location.uri


def ledger_in_the_way(ledger: str | None, stores: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Return the problem of a ledger that is or contains the root of a store: it would maintain itself.

    Args:
        ledger: Its location; None for the default, which discovery skips.
        stores: Name and root of each.
    """
    for name, root in stores:
        try:
            place, uri = resolved(ledger or ""), resolved(root)
        except LanceOpsError:
            continue  # The error is raised where the store is opened.
        if f"{uri}/".startswith(_folder(place)):
            yield (
                "ledger.path",
                f"the ledger requires its own folder, but this one is or contains the root of store {name!r}",
            )


def _folder(uri: str) -> str:
    return f"{uri.rstrip('/')}/"
