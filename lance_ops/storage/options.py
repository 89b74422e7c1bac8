"""Storage options: text keys and values, some of them secret."""

import contextlib
import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import product
from typing import Any

from lance_ops.errors import InvalidArgumentError, check_type
from lance_ops.uri_secrets import hide_credentials, secret_parts, spellings

MANIFEST_STORE = "manifest_store"
"""Storage option: address of the external manifest store."""

# Which the store of the bytes does not know.
_OF_MANIFEST_STORE = frozenset({MANIFEST_STORE, "dynamodb_endpoint"})

_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off"})
_PREFIX = re.compile(r"^(aws|azure_storage|azure|google|gcs|s3|client|proxy)_")
_HARMLESS_NAMES = """
    account_name allow_http allow_invalid_certificates anon auto_mkdir bucket bucket_name cache_storage
    checksum_algorithm conditional_put connect_timeout container_name copy_if_not_exists default_block_size
    default_region disable_tagging download_retry_count endpoint endpoint_url excludes expires_at_millis fsync
    host http1_only http2_only imdsv1_fallback listings_expiry_time max_retries memory_map metadata_endpoint
    mode pool_idle_timeout pool_max_idle_per_host port profile project project_id protocol proxy_excludes
    randomize_addresses read_timeout region region_name request_payer requester_pays retry_timeout
    s3_credentials_refresh_offset_seconds server_side_encryption skip_instance_cache skip_signature
    target_protocol timeout unsigned_payload use_emulator use_fabric_endpoint use_listings_cache use_opendal
    use_ssl user_agent verify virtual_hosted_style_request
"""
_HARMLESS = frozenset(_HARMLESS_NAMES.split())
"""Options that hold no secret, without their prefixes; all others may."""
# Words in option names for credentials, which do not identify the store.
_WHO = re.compile(
    "key|secret|token|pass|credential|sas|signature|auth|ticket|user|login|cookie|header|connection_string"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
# Documents may have several lines: service accounts in JSON, keys in PEM.
_DOCUMENTS = ("{", "-----BEGIN")
# Shorter values would match parts of any text, and are not secrets.
_LEAST_SECRET = 4
# Parts of a secret that a library may quote alone, such as the key of a connection string.
_LEAST_PART = 8
_PART = re.compile(r"[\s;,&=:@/?#]+")
_NUMBER = re.compile(r"[0-9]{1,4}|[0-9]+\.[0-9]+")
_LONGEST = 600
_MOST_PAIRED = 12
"""Maximum secrets that are looked for in base64, also in pairs."""


def clean_options(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Normalise storage options from environment variables, mounted secrets and code.

    Options with value None are removed. White space around values is stripped: files end with a newline, and
    no valid option starts or ends with a space.

    Raises:
        InvalidArgumentError: A value holds a control character, which no protocol allows.
    """
    if options is not None:
        check_type(options, Mapping, "a mapping of names to values", field="storage_options")
    cleaned: dict[str, Any] = {}
    for name, value in (options or {}).items():
        if isinstance(value, str):
            text = value.strip()
            if _CONTROL.search(text) and not text.startswith(_DOCUMENTS):
                raise InvalidArgumentError(
                    "the value of the storage option holds a line break or another control character",
                    field=str(name),
                    hint="check the source of the value for a newline or a NUL character",
                )
            cleaned[str(name)] = text
        elif value is not None:
            cleaned[str(name)] = value
    return cleaned


def separate_manifest_store(options: Mapping[str, Any] | None) -> tuple[str | None, Mapping[str, Any] | None]:
    """Separate the address of the external manifest store from the options of the store of the bytes.

    Returns:
        The address, None without one; and the other options.
    """
    if not isinstance(options, Mapping):
        # None, or for the store of the bytes to refuse.
        return None, options
    address = next(
        (str(value) for name, value in options.items() if str(name).lower() == MANIFEST_STORE and value), None
    )
    mine = {name for name in options if str(name).lower() in _OF_MANIFEST_STORE}
    if not mine:
        return None, options
    return (address or "").strip() or None, {
        name: value for name, value in options.items() if name not in mine
    }


def text_options(options: Mapping[str, Any] | None) -> dict[str, str]:
    """Tidy options of which all values are text; yes and no are written as stores write them."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in clean_options(options).items()
    }


def boolean_option(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Read a yes/no option.

    Raises:
        InvalidArgumentError: The value is neither.
    """
    text = str(options.get(name, default)).strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise InvalidArgumentError(f'the storage option is "true" or "false", not {text!r}', field=name)


def conditional_put_disabled(options: Mapping[str, str]) -> bool:
    """Return whether the options disable conditional writes (`aws_conditional_put`)."""
    return any(
        key.lower().removeprefix("aws_") == "conditional_put" and str(value).lower() == "disabled"
        for key, value in options.items()
    )


def plain_options(options: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the options that identify the store, without credentials.

    Equal for two sets of options that name the same store. Values that may be secret are digests; those of
    credentials are left out, because they change for the same store.
    """
    return tuple(
        sorted(
            (name, _digest(str(value)) if is_secret(name, value) else str(value))
            for name, value in options.items()
            if not (is_secret(name, value) and _WHO.search(name.lower()))
        )
    )


def is_secret(name: str, value: object) -> bool:
    """Return whether an option must not be shown.

    All are secret that are not known to be harmless, and strings with a user, a query, a fragment or
    parameters in them; what holds further options is looked into by `redact`, and secret as a whole.
    """
    if isinstance(value, Mapping | list | tuple):
        return True
    text = str(value)
    return not _is_harmless(name) or "@" in text or "?" in text or hide_credentials(text) != text


def _is_harmless(name: str) -> bool:
    return _PREFIX.sub("", name.lower()) in _HARMLESS


def redact(text: str, options: Mapping[str, Any]) -> str:
    """Return the text of a library as an error message shows it: one line, not too long, without secrets."""
    for secret in sorted(set(_secrets(options)), key=len, reverse=True):
        text = text.replace(secret, "***")
    text = hide_credentials(" ".join(text.split()))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _secrets(options: Mapping[str, Any]) -> Iterator[str]:
    """Strings that must not be shown: secret values, those nested in them, and their longer parts."""
    hidden: list[str] = []
    for name, value in options.items():
        for key, text in _texts(name, value):
            if not is_secret(key, text) or not _is_hidden(text):
                continue
            if _is_harmless(key) and "://" in text:
                # The host is not secret, and useful.
                text = secret_parts(text)
            else:
                yield from spellings(text)
                hidden.append(text)
            for spelling in spellings(text):
                for part in _PART.split(spelling):
                    yield from (word for word in spellings(part) if len(word) >= _LEAST_PART)
    yield from _encoded(hidden[:_MOST_PAIRED])


def _encoded(secrets: Sequence[str]) -> Iterator[str]:
    """Return secrets in quotes of Python and JSON, and in base64: alone, or two as user and password."""
    for secret in secrets:
        yield repr(secret)[1:-1]
        yield json.dumps(secret)[1:-1]
        yield json.dumps(secret)[1:-1].replace("/", r"\/")
    paired = (f"{user}:{password}" for user, password in product(("", *secrets), repeat=2))
    for text in (*secrets, *paired):
        data = text.encode("utf-8", "backslashreplace")
        for encode in (b64encode, urlsafe_b64encode):
            word = encode(data).decode().rstrip("=")
            if len(word) >= _LEAST_PART:
                yield word


def _texts(name: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(str(key), item)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _texts(name, item)
    elif isinstance(value, bytes):
        yield name, value.decode("utf-8", "replace")
        yield name, repr(value)[2:-1]
    elif isinstance(value, str):
        yield name, value
        if value.startswith("{"):
            # Such as a service account, whose key a library may quote alone.
            with contextlib.suppress(ValueError, RecursionError):
                yield from _texts(name, json.loads(value))
    elif isinstance(value, int) and not isinstance(value, bool):
        yield name, str(value)


def _is_hidden(text: str) -> bool:
    """Return whether to redact a string: not words and numbers that occur in any message."""
    if len(text) < _LEAST_SECRET or text.lower() in _TRUE | _FALSE:
        return False
    return _NUMBER.fullmatch(text) is None


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "backslashreplace"), digest_size=8).hexdigest()
