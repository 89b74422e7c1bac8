"""Conversion of obstore exceptions into errors of this package, with hints."""

import re
from collections.abc import Mapping

from obstore import exceptions

from lance_ops.errors import LanceOpsError, StorageError, UnsupportedError
from lance_ops.storage.failures import (
    already_exists,
    missing,
    missing_bucket,
    permission_denied,
    translate_os_error,
)
from lance_ops.storage.options import redact

_DEBUG = "\n\nDebug source"
# Listings report refused access as any other failure.
_DENIED = re.compile(r"status code: 40[13]\b")
_NOT_IMPLEMENTED = re.compile(r"status code: 501\b|\bNotImplemented\b")
_BUCKETS = re.compile(r"\b(NoSuchBucket|ContainerNotFound|The specified bucket does not exist)\b")
_REDIRECT = re.compile(r"\b(PermanentRedirect|AuthorizationHeaderMalformed|IllegalLocationConstraint\w*)\b")
# An answer that began well and ended too early, or that is not whole.
_CUT = re.compile(r"response body|invalid list response|decoding response")
_WHOLE = "non-partial response when range requested"
_NO_KEYS = re.compile(r"no AWS credentials in .*")
# Libraries ask the metadata server of a cloud last.
_NO_TOKEN = re.compile(r"169\.254\.169\.254|metadata\.google\.internal|metadata/identity", re.IGNORECASE)
_XML = re.compile(r"(?:<\?xml|<Error\b|<html\b|<!DOCTYPE)(?:.*>|.*)", re.DOTALL | re.IGNORECASE)
_CODE = re.compile(r"<Code>([^<]*)</Code>")
_MESSAGE = re.compile(r"<Message>([^<]*)</Message>")


class IgnoredRangeError(StorageError):
    """The server answered a request for a range with the whole object, as HTTP allows."""


def translate(
    error: BaseException, where: str, options: Mapping[str, str], *, conditional: bool = False
) -> LanceOpsError:
    """Classify an exception of obstore.

    Args:
        error: As raised.
        where: The URI that it is about.
        options: Storage options, whose secrets are blanked out.
        conditional: True if the request had a condition, which not every server knows.
    """
    text = str(error)
    reason = redact(tidy(text), options)
    if _BUCKETS.search(text):
        return missing_bucket(where, reason)
    if isinstance(error, FileNotFoundError | exceptions.NotFoundError):
        return missing(where)
    if isinstance(error, exceptions.AlreadyExistsError | exceptions.PreconditionError):
        return already_exists(where)
    denied = isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError)
    if denied or _DENIED.search(reason):
        return permission_denied(where, _without_credentials(reason) or reason)
    if isinstance(error, exceptions.NotSupportedError):
        return UnsupportedError(f"the store cannot do this: {reason}", path=where)
    if conditional and _NOT_IMPLEMENTED.search(text):
        return UnsupportedError(
            f"the server does not support put-if-absent: {reason}",
            path=where,
            hint='let every writer commit with a LockCommitter, and set aws_conditional_put to "disabled"',
        )
    if _WHOLE in text:
        return IgnoredRangeError(f"the server ignores ranges: {reason}", path=where)
    if isinstance(error, OSError):
        return translate_os_error(error, where, reading=True, reason=reason)
    return StorageError(f"the store failed: {reason}", path=where, hint=_hint(text))


def _without_credentials(reason: str) -> str | None:
    """Return the failure to find credentials without the text of the libraries around it."""
    missing_keys = _NO_KEYS.search(reason)
    if missing_keys is not None:
        return missing_keys[0]
    if _NO_TOKEN.search(reason) is not None:
        return (
            "no credentials were found in the storage options or the environment, and the metadata server "
            "of the machine gave none"
        )
    return None


def _hint(text: str) -> str | None:
    if "builder error" in text:
        return 'for an endpoint with http:// set the storage option allow_http to "true"'
    if _REDIRECT.search(text):
        return "the bucket is in another region: set the storage option aws_region"
    if "InvalidHeaderValue" in text:
        return (
            "a credential contains a character that is invalid in headers, such as a newline: check "
            "its source"
        )
    if "error sending request" in text or "dns error" in text:
        return "check the endpoint, and that the server runs; client_retry_timeout sets how long to retry"
    return None


def is_cut_off(error: BaseException) -> bool:
    """Return whether a response was truncated, which obstore does not retry."""
    return isinstance(error, exceptions.BaseError) and _CUT.search(str(error).split(_DEBUG, 1)[0]) is not None


def is_panic(error: BaseException) -> bool:
    """Return whether an exception is a panic of the Rust library, which is not even an `Exception`."""
    return type(error).__name__ == "PanicException"


def tidy(text: str) -> str:
    """Shorten the text of an error: no debugging output, and of a document only its code and message."""
    text = text.split(_DEBUG, 1)[0].strip()
    document = _XML.search(text)
    if document is not None:
        found = [pattern.search(document[0]) for pattern in (_CODE, _MESSAGE)]
        # Azure adds the request's id and time to its message, on separate lines.
        parts = [match[1].strip().partition("\n")[0].strip() for match in found if match]
        text = f"{text[: document.start()]}{': '.join(parts) or 'a document instead of an answer'}"
    return text
