"""Forms of job records: fields and types of each kind.

A checksum proves that a record is complete, not that lance_ops wrote it. A record of another form counts as
truncated: its work is repeated, and nothing is removed because of it.
"""

import base64
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from lance_ops.errors import PathEscapeError
from lance_ops.storage.paths import validate_relative_path

_INCARNATION = re.compile(r"[A-Za-z0-9_]{1,64}")
_SEGMENT = re.compile(r"_indices/[A-Za-z0-9-]+/")
_LARGEST = (1 << 63) - 1

_Check = Callable[[Any], bool]


def has_form(kind: str, values: Mapping[str, Any]) -> bool:
    """Return whether the values of a record match the form of its kind; other fields are ignored."""
    return all(check(values.get(name, _MISSING)) for name, check in _FORMS.get(kind, {}).items())


_MISSING = object()


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST


def _text(value: Any) -> bool:
    # JSON may contain lone surrogates, which neither a path nor a message can contain.
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


def _time(value: Any) -> bool:
    try:
        return _text(value) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _list_of(check: _Check) -> _Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _path(value: Any) -> bool:
    try:
        return _text(value) and bool(validate_relative_path(value))
    except PathEscapeError:
        return False


def _group(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and _text(value.get("task"))
        and _count(value.get("bytes"))
        and _list_of(_count)(value.get("fragments", []))
    )


def _files(value: Any) -> bool:
    return isinstance(value, dict) and all(_path(path) and _count(size) for path, size in value.items())


def _encoded(value: Any) -> bool:
    if not _text(value):
        return False
    try:
        base64.b64decode(value, validate=True)
    except ValueError:
        return False
    return True


def _result(value: Any) -> bool:
    """Check the result of a rewritten group, or of a file with columns."""
    if not isinstance(value, dict):
        return False
    if "file" in value:
        kept = value.get("deletions", _MISSING)
        return _encoded(value["file"]) and (kept is None or _encoded(kept))
    doubt = value.get("doubt", _MISSING)
    return (
        _list_of(_encoded)(value.get("fragments"))
        and all(_count(value.get(name)) for name in ("sources", "rows", "bytes", "purged"))
        and isinstance(value.get("copied"), bool)
        and isinstance(value.get("seconds", 0.0), int | float)
        and (doubt is None or _text(doubt))
    )


_FORMS: Mapping[str, Mapping[str, _Check]] = {
    "job": {
        "key": _text,
        "incarnation": lambda value: _text(value) and _INCARNATION.fullmatch(value) is not None,
        "operation": _text,
        "version": _count,
        "began": _time,
        "options": lambda value: isinstance(value, dict),
    },
    "plan": {"version": _count, "groups": _list_of(_group)},
    "reader": {"rows": _text},
    "done": {"files": _files, "values": _result},
    "commit": {"version": _count, "results": _list_of(_text)},
    "closed": {
        "head": _count,
        "since": _count,
        "segments": lambda value: (
            value is _MISSING
            or _list_of(lambda item: _text(item) and _SEGMENT.fullmatch(item) is not None)(value)
        ),
    },
}
