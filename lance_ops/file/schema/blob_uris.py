"""Blob URIs: blobs outside of the dataset, by a URI or by a path within one of the table's bases.

In a path each character stands for itself, in a URI some are escaped: a path is no end of a URI as it is.
"""

from collections.abc import Mapping
from urllib.parse import quote, unquote

from lance_ops.errors import PathEscapeError
from lance_ops.storage import validate_relative_path

_PLAIN = "/!$&'()*+,;=:@"


def uri_within(base: str, path: str) -> str:
    """The URI of what lies in a base.

    Args:
        base: URI of the base.
        path: Within the base.

    Raises:
        PathEscapeError: The path leaves the base.
    """
    return f"{base.rstrip('/')}/{quote(validate_relative_path(path), safe=_PLAIN)}"


def path_within(uri: str, base_uris: Mapping[int, str]) -> tuple[int, str] | None:
    """The base that an object lies in, and its path there.

    Args:
        uri: Of the object.
        base_uris: URIs of the bases by their ids.

    Returns:
        The innermost base; None if it lies in none, or if no path can say where.
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
