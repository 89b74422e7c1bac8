"""The client of a bucket: pylance's storage options, sorted into those of store, HTTP and retries."""

import functools
import os
import re
from collections.abc import Mapping
from datetime import timedelta
from difflib import get_close_matches
from typing import Any

import obstore.store
from obstore import exceptions

from lance_ops.errors import InvalidArgumentError
from lance_ops.storage.objects.aws_credentials import PROFILE_OPTION, find_credentials, names_region
from lance_ops.storage.objects.failures import tidy
from lance_ops.storage.options import redact

# Options of HTTP clients, which obstore separates from those of the store.
_CLIENT_OPTIONS = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "http1_only",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "randomize_addresses",
        "read_timeout",
        "timeout",
        "user_agent",
    }
)
_DURATIONS = frozenset({"connect_timeout", "pool_idle_timeout", "read_timeout", "timeout"})
# Options of pylance or of other stores here that mean nothing to obstore, so that one set serves all.
_IGNORED = frozenset(
    {
        PROFILE_OPTION,
        "download_retry_count",
        "expires_at_millis",
        "fsync",
        "memory_map",
        "s3_credentials_refresh_offset_seconds",
        "use_opendal",
    }
)
_UNKNOWN_KEY = re.compile(r"Configuration key: '([^']*)'")
_S3_SCHEMES = ("s3://", "s3a://")
_USUAL_OPTIONS = {
    "aws": (
        "aws_access_key_id",
        "aws_secret_access_key",
        "aws_session_token",
        "aws_region",
        "aws_endpoint",
        "aws_skip_signature",
        "aws_virtual_hosted_style_request",
        "allow_http",
    ),
    "google": ("google_service_account", "google_service_account_key", "google_application_credentials"),
    "azure": (
        "azure_storage_account_name",
        "azure_storage_account_key",
        "azure_storage_sas_key",
        "azure_storage_client_id",
        "azure_storage_client_secret",
        "azure_storage_tenant_id",
        "azure_storage_endpoint",
    ),
}
_KINDS = (
    (("s3://", "s3a://"), "aws"),
    (("gs://", "gcs://"), "google"),
    (("az://", "abfs", "adl://"), "azure"),
)
_ENDPOINT_OPTIONS = frozenset({"aws_endpoint", "aws_endpoint_url", "endpoint", "endpoint_url"})
_ENDPOINT_VARIABLES = ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")
_KEY_VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")

_RETRIES: Mapping[str, Any] = {
    "max_retries": 16,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {
        "init_backoff": timedelta(milliseconds=200),
        "max_backoff": timedelta(seconds=4),
        "base": 3,
    },
}
"""Time for retries of temporary failures, enough for a server to restart."""

_UNTIL_TIMEOUT = 10_000


@functools.lru_cache(maxsize=32)
def connect(bucket: str, options: tuple[tuple[str, str], ...]) -> Any:
    """Return the client of a bucket, cached because a new one has no connections and credentials.

    Args:
        bucket: URI of the bucket.
        options: Storage options, sorted. `client_retry_timeout` (seconds) or `client_max_retries` replace the
            default retry limits; `aws_profile` names a profile of `~/.aws`.

    Raises:
        InvalidArgumentError: An option is unknown or invalid.
    """
    config: dict[str, str] = {}
    client: dict[str, str] = {}
    retries: dict[str, Any] = {}
    for name, value in options:
        key = name.lower()
        if key in _IGNORED:
            continue
        if key == "client_max_retries":
            retries["max_retries"] = _number(name, value)
        elif key == "client_retry_timeout":
            retries["retry_timeout"] = timedelta(seconds=_number(name, value))
        elif (short := key.removeprefix("aws_")) in _CLIENT_OPTIONS:
            client[short] = f"{value}s" if short in _DURATIONS and value.isdigit() else value
        else:
            config[key] = value
    arguments: dict[str, Any] = {}
    if bucket.lower().startswith(_S3_SCHEMES):
        arguments = _aws_arguments(dict(options), config)
    try:
        return obstore.store.from_url(
            bucket,
            config=config,
            client_options=client or None,
            retry_config=_patience(retries),
            **arguments,
        )
    except exceptions.UnknownConfigurationKeyError as error:
        match = _UNKNOWN_KEY.search(str(error))
        raise InvalidArgumentError(
            "unknown storage option" if match is None else f"unknown storage option {match[1]!r}",
            path=bucket,
            field=match[1] if match else None,
            hint=_option_hint("" if match is None else match[1], bucket),
        ) from None
    except (exceptions.BaseError, OSError, ValueError) as error:
        reason = redact(tidy(str(error)), dict(options))
        raise InvalidArgumentError(f"the storage options do not work: {reason}", path=bucket) from None


def _option_hint(name: str, bucket: str) -> str:
    """Return the options of the store that are meant most probably."""
    kind = next((kind for schemes, kind in _KINDS if bucket.lower().startswith(schemes)), None)
    usual = _USUAL_OPTIONS.get(kind or "", ())
    close = get_close_matches(name.lower(), usual, 1)
    return f"did you mean {close[0]!r}?" if close else f"usual ones are {', '.join(usual)}"


def is_amazon(options: Mapping[str, str]) -> bool:
    """Return whether a bucket is on Amazon S3, rather than on a compatible server."""
    endpoints = [os.environ.get(name, "") for name in _ENDPOINT_VARIABLES]
    endpoints += [value for name, value in options.items() if name.lower() in _ENDPOINT_OPTIONS]
    return all(not endpoint or "amazonaws.com" in endpoint for endpoint in endpoints)


def _aws_arguments(options: Mapping[str, str], config: dict[str, str]) -> dict[str, Any]:
    """Find credentials for a bucket of S3; completes `config`."""
    credentials = find_credentials(options)
    if credentials is not None:
        if not names_region(options) and (region := credentials.region()):
            config["aws_region"] = region
        return {"credential_provider": credentials}
    if not any("access_key" in name for name in config):
        for variable in _KEY_VARIABLES:
            # Kept in files, they end with a newline, of which no header can be made.
            value = os.environ.get(variable, "")
            if value != value.strip():
                config[variable.lower()] = value.strip()
    return {}


def _patience(asked: Mapping[str, Any]) -> dict[str, Any]:
    if "max_retries" in asked:
        # A number of retries alone implies no delay: the delay is then that of obstore, as in pylance.
        return dict(asked)
    if asked:
        return {**_RETRIES, "max_retries": _UNTIL_TIMEOUT, **asked}
    return dict(_RETRIES)


def _number(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError as error:
        raise InvalidArgumentError("the storage option is a whole number", field=name) from error
