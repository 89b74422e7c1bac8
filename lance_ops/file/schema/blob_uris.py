"""Blob URIs: blobs outside of the dataset, by a URI or by a path within one of the table's bases.

Paths are not escaped, URIs are: a path cannot simply be appended to a URI.
"""

from collections.abc import Mapping
from urllib.parse import quote, unquote

from lance_ops.errors import PathEscapeError
from lance_ops.storage import validate_relative_path

_PLAIN = "/!$&'()*+,;=:@"


def uri_within(base: str, path: str) -> str:
    """Return the URI of an object in a base.

    Args:
        base: URI of the base.
        path: Within the base.

    Raises:
        PathEscapeError: The path leaves the base.
    """
    return f"{base.rstrip('/')}/{quote(validate_relative_path(path), safe=_PLAIN)}"


def path_within(uri: str, base_uris: Mapping[int, str]) -> tuple[int, str] | None:
    """Return the base of an object, and its path there.

    Args:
        uri: Of the object.
        base_uris: URIs of the bases by their ids.

    Returns:
        The innermost base; None if there is none, or if the location has no valid path.
    """
    if "?" in uri or "#" in uri:
        return None
    try:
        wanted = unquote(uri, errors="strict")
        bases = {f"{unquote(base).rstrip('/')}/": number for number, base in base_uris.items()}
        base = max((base for base in bases if wanted.startswith(base)), key=len, default=None)
        return None if base is None else (bases[base], validate_relative_path(wanted.removeprefix(base)))
    except (UnicodeDecodeError, PathEscapeError):
        return None
