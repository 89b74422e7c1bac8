"""Storage options: text keys and values, some of them secret."""

from collections.abc import Mapping

from lance_ops.errors import InvalidArgumentError

_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off"})
_SECRET_WORDS = ("key", "secret", "token", "password", "credential", "sas", "signature", "authorization")


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


def redact(text: str, options: Mapping[str, str]) -> str:
    """Blank out the values of secret options in a text from a library, for error messages."""
    for key, value in options.items():
        lowered = key.lower()
        if value and any(word in lowered for word in _SECRET_WORDS):
            text = text.replace(value, "***")
    return text
