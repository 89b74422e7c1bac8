"""Root URIs and the relative paths below them."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from lance_ops.errors import InvalidArgumentError, PathEscapeError, UnsupportedError, check_type
from lance_ops.uri_secrets import hide_credentials, hide_users

TEMPORARY_PREFIX = ".tmp_"
"""Prefix of unfinished writes; pylance's cleanup recognises `.tmp*`."""

# As much as UUIDs take from their job (`table.transaction`), or more.
_NAME_KEPT = 24

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+)://")
_CHAINED = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+::")
# What a URI turns into when pathlib or os.path.join treats it as a path, or a user types it wrong.
_ADDRESS = re.compile(
    r"\s*((?:s3|s3a|s3n|gs|gcs|az|adl|abfss?|wasbs?|memory|hdfs|dbfs|file|https?)(?=:)|"
    r"[A-Za-z][A-Za-z0-9+.\-]*(?=:[/\\:])):",
    re.IGNORECASE,
)
_QUERY = re.compile(r"[?#]")
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\\]")
_DRIVE = re.compile(r"[A-Za-z]:")
BUCKET_SCHEMES = frozenset({"s3", "s3a", "gs", "gcs", "az", "adl", "abfs", "abfss"})
"""Schemes of `scheme://bucket/prefix` URIs, whose prefix is percent-encoded."""

# Whose URIs may name the account after the container: "abfss://container@account...".
_CONTAINER_SCHEMES = frozenset({"az", "adl", "abfs", "abfss"})
_DYNAMODB = "s3+ddb"
_DYNAMODB_TABLE = re.compile(r"ddbtablename=([^&#]*)", re.IGNORECASE)
_TABLE_NAME = re.compile(r"[A-Za-z0-9_.\-]{3,255}")
_LOCAL_SCHEMES = frozenset({"file", "local", "file-object-store"})
_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "wasb": "abfs", "wasbs": "abfss"}
_BLOB_HOST, _LAKE_HOST = ".blob.core.windows.net", ".dfs.core.windows.net"


@dataclass(frozen=True, slots=True)
class Location:
    """A parsed root URI.

    Args:
        scheme: In lower case; "file" for local paths.
        uri: Normalised, without a trailing slash; for local paths the absolute path without scheme.
    """

    scheme: str
    uri: str

    @property
    def is_local(self) -> bool:
        """Return whether `uri` is a path of this machine."""
        return self.scheme == "file"


def is_address(text: str) -> bool:
    """Return whether a text starts with a scheme, so that it must not be joined to a folder.

    True for `s3://bucket/x`, `file:/x`, `simplecache::s3://bucket/x` and for misspelt addresses that
    `parse_location` refuses, such as `s3:/bucket/x` and `C:/x`.
    """
    return _ADDRESS.match(text) is not None


def canonical_scheme(uri: str) -> str:
    """Return a URI with the scheme that object stores are known by: `s3` for `s3a` and `s3n`, `gs` for `gcs`.

    Hadoop's older names of Azure storage (`wasb`, `wasbs`) become `abfs` and `abfss`.
    """
    scheme, mark, rest = uri.partition("://")
    known = _ALIASES.get(scheme.lower())
    if not mark or known is None:
        return uri
    if known.startswith("abfs"):
        bucket, slash, path = rest.partition("/")
        if bucket.lower().endswith(_BLOB_HOST):
            bucket = bucket[: -len(_BLOB_HOST)] + _LAKE_HOST
        rest = f"{bucket}{slash}{path}"
    return f"{known}://{rest}"


def parse_location(uri: str | os.PathLike[str]) -> Location:
    """Normalise what a person types as the address of a dataset.

    Plain paths are taken literally (a "%20" in them is three characters), `~` is the home folder, and
    relative paths start at the working directory. In `file://` URIs percent escapes are decoded, as pylance
    does; `file:/x` is `file:///x`. Symbolic links are kept as typed. Other names of object stores become the
    ones that pylance knows (`canonical_scheme`). Every other `scheme:/` with one slash is refused: it is what
    `pathlib` makes of a URI, and as a path it would be a folder below the working directory. A folder that
    has such a name is reached as `./s3:/...`.

    Raises:
        InvalidArgumentError: The URI is empty, has no path, has one slash after its scheme, or names another
            host.
    """
    check_type(uri, (str, os.PathLike), "a URI or path", field="uri")
    text = os.fspath(uri)
    if not text or "\0" in text:
        raise InvalidArgumentError(
            f"not a URI or path: {text!r}",
            field="uri",
            hint="name a folder, or a URI such as s3://bucket/folder",
        )
    text = canonical_scheme(_with_two_slashes(text))
    match = _SCHEME.match(text)
    if "://" in text and hide_users(text) != text:
        raise _credentials_in_uri(text)
    scheme = text.partition("://")[0].lower()
    if "://" in text and scheme not in BUCKET_SCHEMES | _LOCAL_SCHEMES | {_DYNAMODB}:
        refuse_secrets(text)
    if _CHAINED.match(text):
        return Location(scheme=text.split("::", 1)[0].lower(), uri=text.rstrip("/"))
    if match is None:
        return Location(scheme="file", uri=_absolute(text))
    scheme = match[1].lower()
    rest = text[match.end() :]
    if scheme in _LOCAL_SCHEMES:
        host, slash, path = rest.partition("/")
        if host not in {"", "localhost"} or not slash:
            raise InvalidArgumentError(
                f"a {scheme}:// URI needs an absolute path, as in {scheme}:///folder/table.lance",
                path=text,
                field="uri",
            )
        try:
            decoded = unquote(path, errors="strict")
        except UnicodeDecodeError as error:
            raise InvalidArgumentError("the percent escapes are not UTF-8", path=text, field="uri") from error
        if "\0" in decoded:
            raise InvalidArgumentError("the URI holds a NUL byte", path=text, field="uri")
        return Location(scheme="file", uri=_absolute("/" + decoded))
    if scheme == _DYNAMODB or (scheme == "s3" and _DYNAMODB_TABLE.search(rest.partition("?")[2])):
        return Location(scheme=_DYNAMODB, uri=_with_table(scheme, rest))
    if scheme in BUCKET_SCHEMES:
        if rest.startswith("/"):
            raise InvalidArgumentError(
                f"the URI names no bucket: {scheme}:// is followed by a slash",
                path=text,
                field="uri",
                hint=f"write {scheme}://bucket/path, with two slashes",
            )
        # Pylance drops query and fragment, too.
        rest = _QUERY.split(rest, maxsplit=1)[0]
        _refuse_credentials(scheme, rest)
    stripped = rest.rstrip("/")
    if not stripped and scheme != "memory":
        raise InvalidArgumentError("the URI names no bucket or folder", path=text, field="uri")
    return Location(scheme=scheme, uri=f"{scheme}://{stripped}")


def _with_table(scheme: str, rest: str) -> str:
    """Return the address of a dataset with its table of DynamoDB as `s3+ddb://TABLE@bucket/path`.

    The table is in front, so that paths can be appended; the official library has it in a query.

    Args:
        scheme: Of the address.
        rest: What follows its slashes.
    """
    place, _, query = rest.partition("?")
    if scheme == "s3":
        # The official library drops the query, and commits without DynamoDB.
        raise UnsupportedError(
            "the URI names a table of DynamoDB, and versions of s3:// are not decided by DynamoDB",
            path=f"s3://{place}",
            field="uri",
            hint="write s3+ddb:// instead of s3://",
        )
    table, mark, bucket = place.partition("@")
    if not mark:
        found, bucket = _DYNAMODB_TABLE.fullmatch(query), place
        table = found[1] if found else ""
    if _TABLE_NAME.fullmatch(table) and (not mark or not query) and re.match(r"[^/@:?#]", bucket):
        return f"{_DYNAMODB}://{table}@{bucket.rstrip('/')}"
    raise InvalidArgumentError(
        "the URI of a dataset with a table of DynamoDB has one parameter, the name of the table",
        path=hide_credentials(f"{scheme}://{place}"),
        field="uri",
        hint="write ?ddbTableName= and the name of the table after s3+ddb://bucket/path; the endpoint is the "
        "storage option dynamodb_endpoint",
    )


def official_uri(uri: str) -> str:
    """Return the URI of a dataset as the official library spells it: with the table of DynamoDB in a query.

    Args:
        uri: Normalised URI of a dataset.
    """
    scheme, mark, rest = uri.partition("://")
    table, at, place = rest.partition("@")
    if not mark or not at or scheme != _DYNAMODB:
        return uri
    return f"{scheme}://{place}?ddbTableName={table}"


def plain_uri(uri: str) -> str:
    """Return where the bytes of a dataset are: the URI without the table of DynamoDB.

    Args:
        uri: URI of a dataset, or of a base of it.
    """
    scheme, mark, rest = uri.partition("://")
    if not mark or scheme.lower() != _DYNAMODB:
        return uri
    return "s3://" + rest.partition("?")[0].rpartition("@")[2]


def _with_two_slashes(text: str) -> str:
    """Return a local address as `file://`, other strings unchanged; refuse misspelt addresses."""
    match = _ADDRESS.match(text)
    if match is None or _SCHEME.match(text) or _CHAINED.match(text):
        return text
    scheme, rest = match[1], text[match.end(1) + 1 :]
    if scheme.lower() in _LOCAL_SCHEMES and rest.startswith("/") and text.startswith(scheme):
        return f"{scheme}://{rest}"
    if len(scheme) == 1:
        if os.name == "nt":
            return text
        wrong = f"the path starts with the drive letter {scheme}:"
        hint = "paths with a drive letter are only valid on Windows"
    else:
        meant = _QUERY.split(rest)[0].lstrip(" /\\")
        wrong = f"the address starts with {scheme}: and not with {scheme}://"
        hint = (
            f"write {hide_credentials(f'{scheme}://{meant}')} as a string: pathlib.Path and os.path.join "
            "drop one slash of a URI"
        )
    raise InvalidArgumentError(
        f"{wrong}; as a path it would be a folder below the working directory",
        field="uri",
        hint=f"{hint}; for a local folder of this name write ./{scheme}:...",
    )


def _refuse_credentials(scheme: str, rest: str) -> None:
    bucket = rest.partition("/")[0]
    # A key may contain a slash, so the apparent bucket name may be a part of it.
    if ":" in bucket or ("@" in bucket and scheme not in _CONTAINER_SCHEMES):
        raise _credentials_in_uri(scheme)


def refuse_secrets(uri: str) -> None:
    """Refuse an address that would show a password, signature or token wherever it is named.

    `parse_location` drops the query of object stores; callers that show an address as it was given need this
    check as well.

    Raises:
        InvalidArgumentError: It has a user, a query, a fragment or a parameter that may be secret.
    """
    if hide_credentials(uri) != uri:
        raise InvalidArgumentError(
            "this URI has a user, query, fragment or parameters that may be secret, and URIs are logged",
            path=uri,
            field="uri",
            hint="leave them out, and pass tokens and signatures as storage options",
        )


def _credentials_in_uri(uri: str) -> InvalidArgumentError:
    scheme = uri.partition("://")[0]
    return InvalidArgumentError(
        f"this {scheme}:// URI has something before the name of its bucket or host that may be a secret, and "
        "URIs are written to logs",
        field="uri",
        hint="pass credentials and endpoints as storage options (aws_access_key_id, aws_secret_access_key, "
        "aws_endpoint for S3; username and password for sftp and ftp; ...); the URI is not repeated here",
    )


def _absolute(path: str) -> str:
    try:
        home = Path(path).expanduser() if path.startswith("~") else path
    except RuntimeError as error:
        raise InvalidArgumentError(
            f"the home folder of {path!r} is not known", field="uri", hint="write the whole path"
        ) from error
    # Path.absolute would keep "..", and resolve would follow links.
    return os.path.abspath(home)  # noqa: PTH100


def join_uri(root: str, relative: str) -> str:
    """Join a root URI and a validated relative path ("" is the root itself)."""
    if not relative:
        return root
    return f"{root}{relative}" if root.endswith("/") else f"{root}/{relative}"


def split_bucket(uri: str) -> tuple[str, str]:
    """Split a normalised URI of an object store into the URI of its bucket and the decoded prefix in it.

    Raises:
        InvalidArgumentError: The prefix has an empty, "." or ".." segment.
    """
    scheme, _, rest = uri.partition("://")
    bucket, _, path = rest.partition("/")
    prefix = unquote(path)
    if prefix:
        try:
            validate_relative_path(prefix)
        except PathEscapeError as error:
            raise InvalidArgumentError(error.message, path=uri, field="uri") from error
    return f"{scheme}://{bucket}", prefix


def join_bucket(uri: str, relative: str) -> str:
    """Append a relative path, which is taken literally, to the percent-encoded URI of an object store."""
    literal = validate_relative_path(relative)
    return join_uri(uri, literal.replace("%", "%25").replace("?", "%3F").replace("#", "%23"))


def validate_relative_path(path: str) -> str:
    """Check that a path from untrusted metadata is below its root.

    Args:
        path: Relative, "/"-separated.

    Returns:
        The path unchanged.

    Raises:
        PathEscapeError: It is empty or absolute, has an empty, "." or ".." segment, a drive letter, a
            backslash or a control character.
    """
    if _FORBIDDEN.search(path):
        reason = "has a backslash or a control character"
    elif path.startswith("/"):
        reason = "is absolute"
    elif _DRIVE.match(path):
        reason = "starts with a drive letter"
    else:
        segments = path.split("/")
        if ".." not in segments and "" not in segments and "." not in segments:
            return path
        reason = "is empty" if not path else 'has an empty, "." or ".." segment'
    raise PathEscapeError(f"the path {reason}, so it may leave the dataset", path=repr(path))


def just_before(path: str) -> str:
    """Return a string before a path, with hardly any path between, that names no folder.

    Servers with a file system behind them skip a whole folder when a listing is to start after its name.
    """
    stem, last = path.rstrip("/")[:-1], path.rstrip("/")[-1:]
    if last > "~":
        return stem + "~~"
    if last == "0":
        # What comes before it is the slash.
        return stem + ".~"
    return stem + chr(ord(last) - 1) + "~" if last > " " else stem


def validate_folder(path: str) -> str:
    """Check a folder to list like `validate_relative_path`: "" is the root, one trailing "/" is removed.

    Raises:
        PathEscapeError: As `validate_relative_path`.
    """
    if not path:
        return ""
    return validate_relative_path(path.removesuffix("/"))


def temporary_name(path: str) -> str:
    """Return a temporary name for an object that must appear complete; its prefix marks it as temporary."""
    return f"{TEMPORARY_PREFIX}{path.rpartition('/')[2][:_NAME_KEPT]}_{os.urandom(16).hex()}"


def is_temporary(path: str) -> bool:
    """Return whether a path is an unfinished write of ours or of pylance (`.tmp` + letters)."""
    return path.rpartition("/")[2].startswith(".tmp")
