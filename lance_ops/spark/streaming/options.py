"""Options of `readStream` and `writeStream`, with names in camel case or snake case."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeVar, get_args

from lance_ops.errors import InvalidArgumentError
from lance_ops.maintenance.merge_insert.clauses import OnDuplicates
from lance_ops.spark.options import (
    PROPERTY_PREFIX,
    STORAGE_PREFIX,
    _flag,
    _names,
    _Options,
    _positive,
    parse_timestamp,
)

T = TypeVar("T")
StreamMode = Literal["append", "changes"]

COMPACT_EVERY = 50
"""Default number of epochs between compactions of small fragments."""

PARTITION_BYTES = 64 << 20
"""Default size of the data files of a partition of a source."""

# Options of Spark itself, which it passes on.
_OF_SPARK = ("checkpointlocation", "queryname")

_ONLY_STREAMS = frozenset(
    (
        "mode",
        "startingversion",
        "startingtag",
        "startingtimestamp",
        "maxversionspertrigger",
        "maxrowspertrigger",
        "maxbytespertrigger",
        "skipchangecommits",
    )
)


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Options of a sink.

    Attributes:
        uri: The dataset.
        query_id: Id of the query instead of the one in Spark's checkpoint.
        first_epoch: Number of the first epoch for this dataset.
        merge_keys: Key columns of a merge; None to append.
        on_duplicates: See `merge_insert`.
        apply_changes: Apply the rows of a change feed, deletions included.
        compact_every: Epochs between compactions of small fragments; 0 for none.
        write: Other options of `WriteOptions`.
    """

    uri: str
    query_id: str | None = None
    first_epoch: int = 0
    merge_keys: tuple[str, ...] | None = None
    on_duplicates: OnDuplicates = "fail"
    apply_changes: bool = False
    compact_every: int = COMPACT_EVERY
    write: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Options of a source.

    Attributes:
        uri: The dataset.
        branch: Name of a branch; main if None.
        mode: "append" for added rows, "changes" for all changes of rows.
        starting_version: First version to read; "latest" for future ones only.
        starting_tag: The same as a tag.
        starting_timestamp: The same as a time: the first version made then or later.
        max_versions: Maximum versions with rows in an epoch.
        max_rows: Maximum rows of an epoch.
        max_bytes: Approximate maximum bytes of data files of an epoch.
        skip_change_commits: Skip commits that changed or deleted rows, in mode "append".
        columns: Names; all if None.
        partition_bytes: Approximate bytes of data files of a partition.
        storage_options: Options of the store.
    """

    uri: str
    branch: str | None = None
    mode: StreamMode = "append"
    starting_version: int | Literal["latest"] | None = None
    starting_tag: str | None = None
    starting_timestamp: datetime | None = None
    max_versions: int | None = None
    max_rows: int | None = None
    max_bytes: int | None = None
    skip_change_commits: bool = False
    columns: tuple[str, ...] | None = None
    partition_bytes: int = PARTITION_BYTES
    storage_options: Mapping[str, str] = field(default_factory=dict)


def is_for_streams(given: Mapping[str, str]) -> bool:
    """Return whether a load has options of `readStream` only."""
    return any(name.lower().replace("_", "") in _ONLY_STREAMS for name in given)


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Parse the options of `df.writeStream`.

    Raises:
        InvalidArgumentError: An unknown option, or a value that cannot be read.
    """
    options = _StreamOptions(given)
    uri, storage = options.uri(), options.prefixed(STORAGE_PREFIX)
    write: dict[str, Any] = {
        "data_storage_version": options.take("dataStorageVersion", str),
        "max_rows_per_file": options.take("maxRowsPerFile", _positive),
        "max_bytes_per_file": options.take("maxBytesPerFile", _positive),
        "enable_stable_row_ids": options.take("enableStableRowIds", _flag),
        "fill_missing": options.take("fillMissing", _flag),
        "properties": options.prefixed(PROPERTY_PREFIX) or None,
        "storage_options": storage,
    }
    keys = options.take_either("mergeKeys", "on", _names)
    duplicates = options.take("onDuplicates", _one_of(get_args(OnDuplicates)))
    if duplicates is not None and keys is None:
        raise InvalidArgumentError("onDuplicates requires mergeKeys", field="onDuplicates")
    apply_changes = options.take("applyChanges", _flag) or False
    if apply_changes and keys is None:
        raise InvalidArgumentError(
            "applyChanges requires a key", field="applyChanges", hint="add the option mergeKeys"
        )
    found = SinkOptions(
        uri,
        options.take_either("queryId", "streamingQueryId", _text),
        options.take("firstEpoch", _not_negative) or 0,
        keys,
        duplicates or "fail",  # type: ignore[arg-type]  # one of them
        apply_changes,
        _or(options.take("compactEvery", _not_negative), COMPACT_EVERY),
        {name: value for name, value in write.items() if value is not None},
    )
    options.finish()
    return found


def source_options(given: Mapping[str, str]) -> SourceOptions:
    """Parse the options of `spark.readStream`.

    Raises:
        InvalidArgumentError: An unknown option, a value that cannot be read, or two that contradict.
    """
    options = _StreamOptions(given)
    found = _source(options)
    options.finish()
    return found


def source_names() -> list[str]:
    """Return the names of the options of `spark.readStream`."""
    options = _StreamOptions({"path": "any"})
    _source(options)
    return options.known


def _source(options: "_StreamOptions") -> SourceOptions:
    uri, storage = options.uri(), options.prefixed(STORAGE_PREFIX)
    version = options.take("startingVersion", _start)
    tag = options.take("startingTag", _text)
    text, field = options.take("startingTimestamp", _text), "startingTimestamp"
    moment = None if text is None else parse_timestamp(text, options.table.get("zone"), field=field)
    if sum(start is not None for start in (version, tag, moment)) > 1:
        raise InvalidArgumentError(
            "set only one start", field="startingVersion, startingTag, startingTimestamp"
        )
    mode = options.take("mode", _one_of(get_args(StreamMode))) or "append"
    skip = options.take("skipChangeCommits", _flag) or False
    if skip and mode == "changes":
        raise InvalidArgumentError(
            "mode 'changes' excludes this option, which skips such commits", field="skipChangeCommits"
        )
    return SourceOptions(
        uri,
        options.take("branch", _text),
        mode,  # type: ignore[arg-type]  # one of them
        version,
        tag,
        moment,
        options.take("maxVersionsPerTrigger", _positive),
        options.take("maxRowsPerTrigger", _positive),
        options.take("maxBytesPerTrigger", _positive),
        skip,
        options.take("columns", _names),
        _or(options.take("partitionBytes", _positive), PARTITION_BYTES),
        storage,
    )


class _StreamOptions(_Options):
    """Options of a stream, with names `likeThis` or `like_this`."""

    def __init__(self, given: Mapping[str, str]) -> None:
        super().__init__({name: value for name, value in given.items() if name.lower() not in _OF_SPARK})

    def take(self, name: str, parse: Callable[[str], T]) -> T | None:
        """Return one option, if it is set."""
        key, ours = name.lower(), re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
        if ours != key and ours in self._left:
            self._left.setdefault(key, self._left.pop(ours))
        try:
            return super().take(key, parse)
        finally:
            self._known[-1] = name


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _text(text: str) -> str:
    if not text:
        raise ValueError("must not be empty")
    return text


def _not_negative(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError("must not be negative")
    return number


def _start(text: str) -> int | Literal["latest"]:
    return "latest" if text.lower() == "latest" else _positive(text)


def _one_of(choices: tuple[str, ...]) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return text.lower()

    return parse
