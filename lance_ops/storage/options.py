"""Storage options: text keys and values, some of them secret."""

import re
from collections.abc import Mapping
from typing import Any

from lance_ops.errors import InvalidArgumentError, check_type, hide_credentials

_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off"})
_SECRET_WORDS = ("key", "secret", "token", "password", "credential", "sas", "signature", "authorization")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
# Documents may have several lines: service accounts in JSON, keys in PEM.
_DOCUMENTS = ("{", "-----BEGIN")
# Shorter ones would blank out half of any text, and are no secrets.
_LEAST_SECRET = 4
_LONGEST = 600


def clean_options(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Tidy storage options as they come from environments, secrets that were mounted as files, and code.

    An option that is None is not set. White space around a value is dropped: files end with a newline, and no
    option of any store starts or ends with a space.

    Raises:
        InvalidArgumentError: A value holds a control character, which no protocol could carry.
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
                    hint="look for a newline or a NUL in what the value was read from",
                )
            cleaned[str(name)] = text
        elif value is not None:
            cleaned[str(name)] = value
    return cleaned


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
    """Say whether the options declare that the server ignores conditional writes (`aws_conditional_put`)."""
    return any(
        key.lower().removeprefix("aws_") == "conditional_put" and str(value).lower() == "disabled"
        for key, value in options.items()
    )


def plain_options(options: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return what the options say about the store, without who asks: the secret ones are left out."""
    return tuple(sorted((name, str(value)) for name, value in options.items() if not _is_secret(name)))


def _is_secret(name: str) -> bool:
    return any(word in name.lower() for word in _SECRET_WORDS)


def redact(text: str, options: Mapping[str, Any]) -> str:
    """Make the text of a library fit for an error message: one line, not too long, without secrets."""
    for key, value in options.items():
        if _is_secret(key) and isinstance(value, str) and len(value) >= _LEAST_SECRET:
            text = text.replace(value, "***")
    text = hide_credentials(" ".join(text.split()))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
