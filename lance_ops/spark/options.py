"""Options of the `lance` data source. Spark hands them over as texts, with names in any case."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from lance_ops.errors import InvalidArgumentError
from lance_ops.table.history.resolve_version import VersionSpec

T = TypeVar("T")

STORAGE_PREFIX = "storage."
PROPERTY_PREFIX = "property."


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What to read.

    Attributes:
        uri: The dataset.
        version: Which version; the newest at the time of `load` when None.
        columns: Names or nested paths; all when None.
        filter: Which rows; SQL as everywhere in this package, also with OR.
        pushdown: Take over filters from Spark, see `read.PushingReader`.
        partition_bytes: Size of data files at which a partition ends; None for a size that suits their sum.
        storage_options: For the store.
        search: Keywords of `Dataset.scanner` for a search by score: `nearest` or `full_text_query`, and more.
    """

    uri: str
    version: VersionSpec | None = None
    columns: tuple[str, ...] | None = None
    filter: str | None = None
    pushdown: bool = False
    partition_bytes: int | None = None
    storage_options: Mapping[str, str] = field(default_factory=dict)
    search: Mapping[str, Any] = field(default_factory=dict)


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Options of `spark.read`.

    Raises:
        InvalidArgumentError: An unknown option, a value that cannot be read, or two that contradict.
    """
    options = _Options(given)
    uri, storage = options.uri(), options.prefixed(STORAGE_PREFIX)
    number = options.take("version", _positive)
    tag = options.take("tag", str)
    branch = options.take("branch", str)
    if tag is not None and (number is not None or branch is not None):
        raise InvalidArgumentError("a tag names version and branch already", field="tag, version, branch")
    version: VersionSpec | None = (branch, number) if branch is not None else (tag or number)
    found = ReadOptions(
        uri,
        version,
        options.take("columns", _names),
        options.take("filter", str),
        options.take("pushdown", _flag) or False,
        options.take("partition_bytes", _positive),
        storage,
        _search(options),
    )
    options.finish()
    return found


def _search(options: "_Options") -> Mapping[str, Any]:
    given = {
        "nearest": options.take("nearest", _mapping),
        "full_text_query": options.take("full_text_query", _text_query),
        "prefilter": options.take("prefilter", _flag),
        "fast_search": options.take("fast_search", _flag),
        "limit": options.take("limit", _positive),
    }
    found = {name: value for name, value in given.items() if value is not None}
    if found and "nearest" not in found and "full_text_query" not in found:
        name = next(iter(found))
        raise InvalidArgumentError(
            f"{name!r} is for searches", field=name, hint="name what is looked for: nearest, full_text_query"
        )
    return found


def write_options(given: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """URI of `df.write`, and its options as those of `WriteOptions`, without those that were not given.

    Raises:
        InvalidArgumentError: An unknown option, or a value that cannot be read.
    """
    options = _Options(given)
    uri, storage = options.uri(), options.prefixed(STORAGE_PREFIX)
    values: dict[str, Any] = {
        "data_storage_version": options.take("data_storage_version", str),
        "max_rows_per_file": options.take("max_rows_per_file", _positive),
        "max_bytes_per_file": options.take("max_bytes_per_file", _positive),
        "enable_stable_row_ids": options.take("enable_stable_row_ids", _flag),
        "fill_missing": options.take("fill_missing", _flag),
        "job_key": options.take("job_key", str),
        "properties": options.prefixed(PROPERTY_PREFIX) or None,
        "storage_options": storage,
    }
    options.finish()
    return uri, {name: value for name, value in values.items() if value is not None}


class _Options:
    """Options not taken yet."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._left = {name.lower(): value for name, value in given.items()}
        self._known: list[str] = []

    def uri(self) -> str:
        """The path of `load` or `save`."""
        path = self._left.pop("path", None)
        if not path:
            raise InvalidArgumentError(
                "where is the dataset?", field="path", hint="give its URI to load() or save()"
            )
        return path

    def prefixed(self, prefix: str) -> dict[str, str]:
        """Options below a prefix, without it."""
        self._known.append(f"{prefix}<name>")
        names = [name for name in self._left if name.startswith(prefix)]
        return {name.removeprefix(prefix): self._left.pop(name) for name in names}

    def take(self, name: str, parse: Callable[[str], T]) -> T | None:
        """One option, if it is there."""
        self._known.append(name)
        text = self._left.pop(name, None)
        if text is None:
            return None
        try:
            return parse(text)
        except ValueError as error:
            raise InvalidArgumentError(f"cannot read the value {text!r}: {error}", field=name) from error

    def finish(self) -> None:
        """Refuse what is left: a misspelt 'version' must not read the newest one instead."""
        if self._left:
            raise InvalidArgumentError(
                f"unknown option: {', '.join(sorted(self._left))}",
                hint=f"there are {', '.join(sorted(self._known))}",
            )


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError("it must be at least 1")
    return number


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("it is true or false")
    return text.lower() == "true"


def _mapping(text: str) -> Mapping[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - what the options make of it
    return found


def _text_query(text: str) -> Any:
    """A query as a JSON object, or just words."""
    return _mapping(text) if text.lstrip().startswith("{") else text


def _names(text: str) -> tuple[str, ...]:
    """A JSON list, or names between commas."""
    if text.lstrip().startswith("["):
        names = json.loads(text)
        if not all(isinstance(name, str) for name in names):
            raise ValueError("it is not a list of names")
    else:
        names = [name.strip() for name in text.split(",")]
    if not names or not all(names):
        raise ValueError("a name is missing")
    return tuple(names)
