"""Places: where a base of a dataset lies, seen from the root of another."""

import os
import re
from urllib.parse import unquote

from lance_ops.errors import PathEscapeError
from lance_ops.storage.paths import BUCKET_SCHEMES, is_address, parse_location
from lance_ops.table.manifest.model import BasePath

# The names that a container has: with and without TLS, and with and without the account.
_AZURE = re.compile(r"(?:az|adl|abfss?)://([^/@]+)(?:@[^/]*)?", re.IGNORECASE)


def below(path: str, source: str) -> str | None:
    """Path of a base relative to the source, with "/" at the end unless it is the source; None if outside."""
    if not path.startswith("/") and not is_address(path):
        raise PathEscapeError(
            f"a base is at {path!r}, which is not an absolute path or URI", field="base_paths"
        )
    base, root = (_resolved(uri) for uri in (path, source))
    if base == root:
        return ""
    lead = f"{root.rstrip('/')}/"
    return base.removeprefix(lead) + "/" if base.startswith(lead) else None


def behind_links(base: str, name: str, root: str) -> str | None:
    """Path below a local root where a file of a base really lies, whatever links lead there; None if outside.

    Args:
        base: Path of the base.
        name: Path of the file within it.
        root: Root URI of a dataset.
    """
    places = [parse_location(uri) for uri in (base, root)]
    if not all(place.is_local for place in places):
        return None
    file, lead = (os.path.realpath(path) for path in (f"{places[0].uri}/{name}", places[1].uri))
    lead = f"{lead.rstrip('/')}/"
    return file.removeprefix(lead) if file.startswith(lead) else None


def is_own_root(base: BasePath, root: str) -> bool:
    """Return whether a base is the root of the dataset itself, declared as such.

    Args:
        base: Of a version of the dataset.
        root: Root URI of the dataset or of one of its branches.
    """
    try:
        return base.is_dataset_root and below(base.path, root) == ""
    except PathEscapeError:
        return False


def _resolved(uri: str) -> str:
    """One spelling of a place. Whoever takes two places for one keeps more files, not fewer."""
    # A cache in front of a store is at no other place.
    location = parse_location(uri.rpartition("::")[2])
    if location.is_local:
        return os.path.realpath(location.uri)
    known = _AZURE.sub(r"az://\1", location.uri)
    scheme, mark, rest = known.partition("://")
    if scheme in BUCKET_SCHEMES:
        rest = unquote(rest)
    return f"{scheme}{mark}{rest.strip('/')}"
