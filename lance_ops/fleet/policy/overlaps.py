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
        uri = os.path.realpath(location.uri) if location.is_local else location.uri
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


def _folder(uri: str) -> str:
    return f"{uri.rstrip('/')}/"
