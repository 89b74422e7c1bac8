"""Overlap of stores: their datasets would have two names, and the rules of both."""

import os
from collections.abc import Iterator, Mapping, Sequence

from lance_ops.errors import LanceOpsError
from lance_ops.storage.paths import parse_location


def overlaps(stores: Sequence[tuple[str, str, Mapping[str, str]]]) -> Iterator[tuple[str, str]]:
    """What is wrong with stores that lie in one another, with the path of each in the policy.

    Args:
        stores: Name, root and options of each.
    """
    places: list[tuple[str, str, dict[str, str]]] = []
    for name, root, options in stores:
        try:
            location = parse_location(root)
        except LanceOpsError:
            continue  # Told where it is opened.
        uri = resolved(root)
        # The same bucket at another endpoint or of another account is another one.
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
                    f"store {name!r} overlaps with store {other!r}: datasets are there twice",
                )
        places.append((name, uri, where))


def resolved(uri: str) -> str:
    """A place by which the same one is known, links of this machine followed.

    Raises:
        LanceOpsError: It is none.
    """
    location = parse_location(uri)
    return os.path.realpath(location.uri) if location.is_local else location.uri


def ledger_in_the_way(ledger: str | None, stores: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """What is wrong with a ledger that is the root of a store, or holds one: it would maintain itself.

    Args:
        ledger: Its place; None for that which is passed over anyway.
        stores: Name and root of each.
    """
    for name, root in stores:
        try:
            place, uri = resolved(ledger or ""), resolved(root)
        except LanceOpsError:
            continue  # Told where it is opened.
        if f"{uri}/".startswith(_folder(place)):
            yield (
                "ledger.path",
                f"the ledger needs a folder of its own, and this one is or holds the root of store {name!r}",
            )


def _folder(uri: str) -> str:
    return f"{uri.rstrip('/')}/"
