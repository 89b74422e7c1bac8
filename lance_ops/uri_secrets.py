"""Secrets in URIs: the parts that messages, logs and reports may show.

Scheme, host, port and path are shown. User, query, fragment and path parameters may hold passwords, tokens
and signatures, and are replaced, percent-encoded ones too.
"""

import re
from urllib.parse import quote, unquote

# The part of a URI between its slashes and its host: "user:password@", and in web addresses "token@" too.
# (The container in "abfss://container@account" is not a secret.) A password may contain a slash; a port does
# not.
_USERS = re.compile(
    r"(:/{1,2})(?:[^/@:\s]*:[^/\s]*|[^/@:\s]*:(?![0-9]{1,5}/)[^/@\s]*/[^@\s]*|(?<=http://)[^/\s]+|(?<=https://)[^/\s]+)@",
    re.IGNORECASE,
)
_ENCODED_USERS = re.compile(r"(:/{1,2}|%(?:25)*2F)[^\s/@]*?%(?:25)*3A[^\s]*%(?:25)*40", re.IGNORECASE)
# A URI ends at white space, a quote or a bracket. Its colon and slashes may be encoded, as in a query of
# another URI.
_URI = re.compile(r"([a-z][a-z0-9+.\-]+)(?::|%(?:25)*3A)(?:/|%(?:25)*2F){1,3}[^\s\"'<>]+", re.IGNORECASE)
_MARK = re.compile(r"[?#;]|%(?:25)*(?:3F|23|3B)", re.IGNORECASE)
_ASSIGNED = re.compile(r"=|%(?:25)*3D", re.IGNORECASE)
_PUNCTUATION = ".,;:)]}"

_NAMES = """
    s3 s3a s3n s3+ddb gs gcs az adl abfs abfss wasb wasbs oss cos tos memory
    file local file-object-store hdfs dbfs
"""
PATH_SCHEMES = frozenset(_NAMES.split())
"""Schemes whose paths may contain a question mark or a number sign, in patterns and names of objects.

What follows such a character is a secret only in an assignment.
"""


def hide_credentials(text: str) -> str:
    """Replace users, queries, fragments and parameters in the URIs of a text.

    Args:
        text: Of an error, a log or a report; any number of URIs in it.
    """
    if ":/" not in text and "%" not in text:
        return text
    return _URI.sub(_hide_parts, _ENCODED_USERS.sub(r"\1***@", hide_users(text)))


def hide_users(text: str) -> str:
    """Replace `user:password@` in the URIs of a text."""
    return _USERS.sub(r"\1***@", text)


def secret_parts(uri: str) -> str:
    """Return the parts of a URI that `hide_credentials` replaces, joined by spaces; empty without any."""
    parts = []
    for address in {uri, unquote(uri), unquote(unquote(uri))}:
        user, _, place = address.partition("://")[2].rpartition("@")
        mark = _MARK.search(place)
        parts += [user, "" if mark is None else place[mark.end() :]]
    return " ".join(filter(None, parts))


def spellings(secret: str) -> set[str]:
    """Return a secret as it is, percent-encoded once and twice, and decoded."""
    once = quote(secret, safe="")
    return {secret, once, quote(once, safe=""), quote(secret), unquote(secret), unquote(unquote(secret))}


def _hide_parts(match: re.Match[str]) -> str:
    text, is_path = match[0], match[1].lower() in PATH_SCHEMES
    for mark in _MARK.finditer(text):
        rest = text[mark.end() :]
        if not rest.rstrip(_PUNCTUATION):
            break
        if is_path:
            # A parameter ends with its folder.
            parameter = rest.partition("/")[0] if mark[0] == ";" else rest
            if _ASSIGNED.search(parameter) is None:
                continue
        return f"{text[: mark.end()]}***"
    return text
