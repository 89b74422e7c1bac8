"""Options of the `lance` data source. Spark passes them as strings, with names in any case."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lance_ops.errors import InvalidArgumentError
from lance_ops.table.history.resolve_version import VersionSpec

T = TypeVar("T")

STORAGE_PREFIX = "storage."
PROPERTY_PREFIX = "property."
TABLE_PREFIX = "table."
"""Prefix of the options that the session catalog adds for a named table."""

# Options that Spark adds for a table, without a meaning here: an overwrite always brings its schema, and
# compression of values follows from them.
_SPARKS_OWN = frozenset(
    {
        "comment",
        "compression",
        "external",
        "is_managed_location",
        "overwriteschema",
        "owner",
        "provider",
        "serialization.format",
    }
)
_SPARKS_PREFIX = "option."


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of a read.

    Attributes:
        uri: The dataset.
        version: Version; the newest at the time of `load` if None.
        columns: Names or nested paths; all if None.
        filter: SQL condition of lance_ops, also with OR.
        pushdown: Apply filters from Spark, see `read.PushingReader`.
        partition_bytes: Target size of the data files of a partition; None to choose by their total.
        storage_options: Options of the store.
        search: Keywords of `Dataset.scanner` for a search by score: `nearest` or `full_text_query`, and more.
        asof: Read the newest version at this time, instead of `version`.
        declared: Schema of Spark's catalog as JSON, for a table without a dataset yet.
        zone: Time zone of the session; None if unknown, as for paths.
        is_checked: True if no dataset can have some of the declared columns, which is an error then.
        is_described: True if the classes in Java ask, which get facts and read some of the columns.
    """

    uri: str
    version: VersionSpec | None = None
    columns: tuple[str, ...] | None = None
    filter: str | None = None
    pushdown: bool = False
    partition_bytes: int | None = None
    storage_options: Mapping[str, str] = field(default_factory=dict)
    search: Mapping[str, Any] = field(default_factory=dict)
    asof: datetime | None = None
    declared: str | None = None
    zone: str | None = None
    is_checked: bool = False
    is_described: bool = False


@dataclass(frozen=True, slots=True)
class TableWrite:
    """Write to a table of Spark's catalog.

    Attributes:
        is_new: True if the same statement created it.
        declared: Schema of Spark's catalog as JSON; None for a dataset given by path.
        zone: Time zone of the session; None if unknown, as for paths.
        properties: Table properties for the creation of its dataset, by names in lower case.
        replaces_columns: True if an overwrite brings its columns; those of the table stay otherwise.
        replaced: Conditions of the rows that an overwrite replaces, as JSON of the classes in Java.
    """

    is_new: bool = False
    declared: str | None = None
    zone: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    replaces_columns: bool = False
    replaced: str | None = None


def read_options(given: Mapping[str, str], streams: Iterable[str] = ()) -> ReadOptions:
    """Parse the options of `spark.read`.

    Args:
        given: Options by name.
        streams: Options of `spark.readStream`, if Spark does not say which of both it is.

    Raises:
        InvalidArgumentError: An unknown option, a value that cannot be read, or two that contradict.
    """
    options = _Options(given, of_table=_WRITE_NAMES)
    uri, storage = options.uri(), options.prefixed(STORAGE_PREFIX)
    version, asof = _version(options, options.table)
    found = ReadOptions(
        uri,
        version,
        options.take("columns", _names),
        options.take("filter", str),
        options.take("pushdown", _flag) or False,
        options.take("partition_bytes", _positive),
        storage,
        _search(options),
        asof,
        options.table.get("schema"),
        options.table.get("zone"),
        "checked" in options.table,
        "described" in options.table,
    )
    options.finish(streams)
    return found


def _version(options: "_Options", table: Mapping[str, str]) -> tuple[VersionSpec | None, datetime | None]:
    """Return the version to read: by our options, Spark's names for them, or `VERSION AS OF` in SQL."""
    number = options.take("version", _positive)
    tag = options.take("tag", str)
    branch = options.take("branch", str)
    # Spark resolves these for a named table, and passes them as well.
    given = options.take("versionasof", str)
    asked = table.get("version") or given
    if asked is not None:
        number, tag = (int(asked), tag) if asked.isdigit() else (number, asked)
    moment = options.take("timestampasof", str)
    asof = None
    if moment is not None and "microseconds" not in table:
        asof = parse_timestamp(moment, table.get("zone"), field="timestampAsOf")
    if "microseconds" in table:
        asof = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=int(table["microseconds"]))
    if tag is not None and (number is not None or branch is not None):
        raise InvalidArgumentError("tag excludes version and branch", field="tag, version, branch")
    version: VersionSpec | None = (branch, number) if branch is not None else (tag or number)
    if asof is not None and version is not None:
        raise InvalidArgumentError("set either a version or a timestamp", field="version, timestampAsOf")
    return version, asof


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
            f"{name!r} requires a search", field=name, hint="add nearest or full_text_query"
        )
    return found


def write_options(given: Mapping[str, str]) -> tuple[str, dict[str, Any], TableWrite]:
    """Return the URI of `df.write`, the given options of `WriteOptions`, and the table.

    A predicate among them has its own mode, see `WriteOptions`.

    Raises:
        InvalidArgumentError: An unknown option, or a value that cannot be read.
    """
    options = _Options(given, of_table=_READ_NAMES)
    uri, storage = options.uri(), options.prefixed(STORAGE_PREFIX)
    if options.take("mergeschema", _flag):
        raise InvalidArgumentError(
            "a write cannot add columns",
            field="mergeSchema",
            hint="add them first with lance_ops.add_columns",
        )
    values: dict[str, Any] = {
        "data_storage_version": options.take("data_storage_version", str),
        "max_rows_per_file": options.take_either("max_rows_per_file", "maxrecordsperfile", _positive),
        "max_bytes_per_file": options.take("max_bytes_per_file", _positive),
        "enable_stable_row_ids": options.take("enable_stable_row_ids", _flag),
        "fill_missing": options.take("fill_missing", _flag),
        "job_key": options.take("job_key", str),
        "predicate": options.take("replacewhere", str),
        "properties": options.prefixed(PROPERTY_PREFIX) or None,
        "storage_options": storage,
    }
    options.finish()
    chosen = {name: value for name, value in values.items() if value is not None}
    table = options.table
    said = {
        name.removeprefix(PROPERTY_PREFIX): value
        for name, value in table.items()
        if name.startswith(PROPERTY_PREFIX)
    }
    write = TableWrite(
        table.get("new") == "true",
        table.get("schema"),
        table.get("zone"),
        said,
        table.get("replaces") == "true",
        table.get("replace"),
    )
    return uri, chosen, write


# A table keeps its options at creation, for reading and writing.
_READ_NAMES = frozenset(
    {
        "branch",
        "columns",
        "fast_search",
        "filter",
        "full_text_query",
        "limit",
        "nearest",
        "partition_bytes",
        "prefilter",
        "pushdown",
        "tag",
        "timestampasof",
        "version",
        "versionasof",
    }
)
_WRITE_NAMES = frozenset(
    {
        "data_storage_version",
        "enable_stable_row_ids",
        "fill_missing",
        "job_key",
        "max_bytes_per_file",
        "max_rows_per_file",
        "maxrecordsperfile",
        "mergeschema",
        "replacewhere",
    }
)


class _Options:
    """Options not read yet."""

    def __init__(self, given: Mapping[str, str], of_table: frozenset[str] = frozenset()) -> None:
        self._left = {
            name.lower(): value
            for name, value in given.items()
            if name.lower() not in _SPARKS_OWN and not name.lower().startswith(_SPARKS_PREFIX)
        }
        # The second one exists while the table is created.
        if f"{TABLE_PREFIX}name" in self._left or "provider" in {name.lower() for name in given}:
            self._left = {name: value for name, value in self._left.items() if name not in of_table}
        self._known: list[str] = []
        # Set by the session catalog, for internal use only.
        self.table = self.prefixed(TABLE_PREFIX)
        self._known = ["path", "uri"]

    def uri(self) -> str:
        """Return the URI of the dataset: `uri`, else the path of `load` or `save`, or a table's location."""
        uri, path, location = (self._left.pop(name, None) for name in ("uri", "path", "location"))
        path = uri or path or location
        if not path:
            raise InvalidArgumentError(
                "the URI of the dataset is missing",
                field="path",
                hint="pass its URI to load() or save(), or as OPTIONS (path '...') of a table; in a "
                "session built elsewhere, lance_ops.spark.register(spark) passes the options of "
                "tables",
            )
        # Spark's form of a local path.
        return re.sub(r"^file:/(?!//)", "/", path)

    def prefixed(self, prefix: str) -> dict[str, str]:
        """Return options below a prefix, without it."""
        self._known.append(f"{prefix}<name>")
        names = [name for name in self._left if name.startswith(prefix)]
        return {name.removeprefix(prefix): self._left.pop(name) for name in names}

    def take(self, name: str, parse: Callable[[str], T]) -> T | None:
        """Return one option, if it is set."""
        self._known.append(name)
        text = self._left.pop(name, None)
        if text is None:
            return None
        try:
            return parse(text)
        except ValueError as error:
            raise InvalidArgumentError(f"cannot read the value {text!r}: {error}", field=name) from error

    def take_either(self, name: str, other: str, parse: Callable[[str], T]) -> T | None:
        """Return one option with two names.

        Raises:
            InvalidArgumentError: Both are set to different values.
        """
        value, same = self.take(name, parse), self.take(other, parse)
        if value is not None and same is not None and value != same:
            raise InvalidArgumentError(
                f"{name} is {value!r}, but its alias {other} is {same!r}",
                field=f"{name}, {other}",
                hint="set only one of them",
            )
        return same if value is None else value

    @property
    def known(self) -> list[str]:
        """Names read so far."""
        return sorted(self._known)

    def finish(self, streams: Iterable[str] = ()) -> None:
        """Check that no option is left: a misspelt 'version' must not read the newest one instead.

        Args:
            streams: Options of streams, if these are possible as well.
        """
        if not self._left:
            return
        hint = f"there are {', '.join(self.known)}"
        if streams:
            hint += f"; readStream has {', '.join(streams)}"
        raise InvalidArgumentError(f"unknown option: {', '.join(sorted(self._left))}", hint=hint)


def parse_timestamp(text: str, zone: str | None, *, field: str) -> datetime:
    """Parse a timestamp; without a zone in that of the session, which is known for named tables only.

    Args:
        text: ISO 8601.
        zone: Time zone of the session; None if unknown.
        field: Name of the option.

    Raises:
        InvalidArgumentError: It is invalid, or has no zone.
    """
    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo is not None:
            return found
        if zone is not None:
            return found.replace(tzinfo=ZoneInfo(zone))
    except (ValueError, ZoneInfoNotFoundError) as error:
        raise InvalidArgumentError(
            f"cannot read the timestamp {text!r}: {error}",
            field=field,
            hint="write for example 2024-01-15T13:00:00Z",
        ) from error
    raise InvalidArgumentError(
        f"the timestamp {text!r} has no time zone, and the one of the session is unknown",
        field=field,
        hint=f"add the zone, as in {text}Z for UTC",
    )


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError("must be at least 1")
    return number


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return text.lower() == "true"


def _mapping(text: str) -> Mapping[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("must be a JSON object")  # noqa: TRY004 - what the options make of it
    return found


def _text_query(text: str) -> Any:
    """Parse a query as a JSON object, or as words."""
    return _mapping(text) if text.lstrip().startswith("{") else text


def _names(text: str) -> tuple[str, ...]:
    """Parse a JSON list, or names separated by commas."""
    if text.lstrip().startswith("["):
        names = json.loads(text)
        if not all(isinstance(name, str) for name in names):
            raise ValueError("must be a list of names")
    else:
        names = [name.strip() for name in text.split(",")]
    if not names or not all(names):
        raise ValueError("a name is empty")
    return tuple(names)
