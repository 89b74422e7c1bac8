"""Places: location of a base of a dataset, relative to the root of another."""

import os
import re
from urllib.parse import unquote

from lance_ops.errors import PathEscapeError
from lance_ops.storage.paths import BUCKET_SCHEMES, is_address, parse_location, plain_uri
from lance_ops.table.manifest.model import BasePath

# The URI schemes of a container: with and without TLS, and with and without the account.
_AZURE = re.compile(r"(?:az|adl|abfss?)://([^/@]+)(?:@[^/]*)?", re.IGNORECASE)


def below(path: str, source: str) -> str | None:
    """Return the path of a base relative to the source, with a final "/" unless equal; None if outside."""
    if not path.startswith("/") and not is_address(path):
        raise PathEscapeError(f"base path {path!r} is not an absolute path or URI", field="base_paths")
    base, root = (_resolved(uri) for uri in (path, source))
    if base == root:
        return ""
    lead = f"{root.rstrip('/')}/"
    return base.removeprefix(lead) + "/" if base.startswith(lead) else None


def behind_links(base: str, name: str, root: str) -> str | None:
    """Return the real path of a file of a base below a local root, with links resolved; None if outside.

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
        base: Base of a version of the dataset.
        root: Root URI of the dataset or of one of its branches.
    """
    try:
        return base.is_dataset_root and below(base.path, root) == ""
    except PathEscapeError:
        return False


def _resolved(uri: str) -> str:
    """Return a normalized place. Two places that wrongly compare equal only keep more files."""
    # Neither a cache in front of a store nor an external manifest store changes the place.
    location = parse_location(plain_uri(uri.rpartition("::")[2]))
    if location.is_local:
        return os.path.realpath(location.uri)
    known = _AZURE.sub(r"az://\1", location.uri)
    scheme, mark, rest = known.partition("://")
    if scheme in BUCKET_SCHEMES:
        rest = unquote(rest)
    return f"{scheme}{mark}{rest.strip('/')}"
