"""Translates pylance's storage options into the keyword arguments of fsspec filesystems."""

from collections.abc import Mapping
from typing import Any

_S3 = {
    "access_key_id": "key",
    "secret_access_key": "secret",
    "session_token": "token",
    "token": "token",
    "profile": "profile",
    "endpoint": "endpoint_url",
    "endpoint_url": "endpoint_url",
}
_AZURE = {
    "account_name": "account_name",
    "account_key": "account_key",
    "access_key": "account_key",
    "sas_key": "sas_token",
    "sas_token": "sas_token",
    "tenant_id": "tenant_id",
    "client_id": "client_id",
    "client_secret": "client_secret",
}
_GOOGLE = {"service_account": "token", "service_account_path": "token", "application_credentials": "token"}
# Of the package, with what serves a scheme.
_EXTRAS = {"s3": ("s3", "s3a"), "gcs": ("gs", "gcs"), "azure": ("az", "abfs", "abfss")}
_PREFIXES = ("aws_", "azure_storage_", "azure_", "google_")
_IGNORED = frozenset(
    {
        "allow_http",
        "client_max_retries",
        "client_retry_timeout",
        "conditional_put",
        "connect_timeout",
        "download_retry_count",
        "fsync",
        "memory_map",
        "timeout",
        "virtual_hosted_style_request",
    }
)


def keyword_arguments(scheme: str, options: Mapping[str, str]) -> dict[str, Any]:
    """Build the keyword arguments of the filesystem that serves a scheme.

    Args:
        scheme: Of the URI.
        options: Pylance's names are translated for S3, Azure and Google; the rest is passed on as it is.
    """
    known: Mapping[str, str] = {}
    if scheme in {"s3", "s3a"}:
        known = _S3
    elif scheme in {"az", "adl", "abfs", "abfss"}:
        known = _AZURE
    elif scheme in {"gs", "gcs"}:
        known = _GOOGLE
    arguments: dict[str, Any] = {}
    for name, value in options.items():
        short = name.lower()
        for prefix in _PREFIXES:
            short = short.removeprefix(prefix)
        if short in _IGNORED:
            continue
        if known is _S3 and short in {"region", "default_region"}:
            arguments["client_kwargs"] = {"region_name": value}
        elif known is _S3 and short == "skip_signature":
            arguments["anon"] = str(value).lower() == "true"
        elif short in known:
            arguments[known[short]] = value
        else:
            arguments[name] = value
    return arguments


def install_hint(scheme: str, error: Exception) -> str:
    """Return a hint for a URI that fsspec cannot open."""
    for extra, schemes in _EXTRAS.items():
        if isinstance(error, ImportError) and scheme in schemes:
            return f"pip install 'lance-ops[{extra}]'"
    if isinstance(error, ValueError):
        return "use a folder, s3://, gs://, az:// or abfss://, or install the package that serves this scheme"
    return "install the package that serves its scheme, and check the storage options"
