"""Compaction options: defaults, the table's own config, and what the caller says."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, replace
from numbers import Integral, Real
from typing import Literal, TypedDict

from lance_ops._removed import CALIBRATION_REMOVED, MONEY_REMOVED
from lance_ops.errors import InvalidArgumentError, UnsupportedVersionError, check_type
from lance_ops.file.versions import storage_version

CONFIG_PREFIX = "lance.compaction."
CALIBRATION_KEY = "lance_ops.compaction.costs"
"""Entry in which release 0.1.0 kept a calibrated cost model."""
ON_UNKNOWN_INDEX = ("leave", "defer")
METHODS = ("auto", "copy", "rewrite")

_FOREIGN_KEYS = frozenset(
    {
        "max_rows_per_group",
        "index_remap_mode",
        "batch_size",
        "io_buffer_size",
        "compaction_mode",
        "binary_copy_read_batch_bytes",
        "max_overlays_per_fragment",
    }
)
"""Options of the peer that tune its own machinery and mean nothing here; no reason for a warning."""


@dataclass(frozen=True, slots=True)
class CompactionOptions:
    """What a compaction does. Budgets bound one run; None means no bound.

    Attributes:
        target_rows_per_fragment: Fragments with fewer physical rows want to be merged; also the size to merge
            to.
        target_bytes_per_fragment: The same in bytes of data files: a fragment is full when it reaches either
            target, and small below three quarters of this one. None: only rows count.
        tier_growth: Merge neighbours only when that gets them into a larger size tier, each so many times as
            large as the one below, up to the target; so every byte is written a number of times that grows
            with the logarithm of the table. None merges whatever is small each time, as the peer does.
        min_source_fragments: Merge no fewer neighbours than this, unless they fill a fragment, or one of them
            is rewritten anyway.
        max_bytes_per_file: Largest data file written; None for the writer's default.
        materialize_deletions: Rewrite fragments that have many deleted rows, even alone.
        materialize_deletions_threshold: Deleted / physical rows above which (strictly) a fragment is
            rewritten.
        max_source_fragments: At most so many fragments are rewritten.
        max_source_rows: At most so many live rows.
        max_source_bytes: At most so many bytes of data files.
        budget_seconds: The run takes at most so long by its estimate. Under a budget, groups are taken by how
            much faster they make a scan for each second of work; under the limits above, in the order of
            rows.
        budget_bytes: At most so many bytes are read and written, indices included.
        budget_fragments: At most so many fragments are replaced.
        budget_requests: At most so many requests are made to the store.
        exclude_fragments: Ids of fragments to leave alone.
        batch_rows: Rows read at once by each task; None chooses by the size of a row. Bounds memory.
        data_storage_version: Of the files written, such as "2.2" or "stable"; that of the dataset when None.
            Versions from 2.0 on may lie side by side in one table.
        defer_index_remap: Leave the indices as they are and tell in the fragment reuse index where their
            rows went, as the peer does with this option: the rewrite is done sooner, and readers of an index
            do more until it is optimized. Those that would be of no use meanwhile are moved along at once.
            Has no effect in a table with stable row ids.
        defer_where_cheaper: Leave an index segment to the fragment reuse index where that costs less than to
            move it along, readers included: where little of a large segment moves. The plan tells both costs.
        on_unknown_index: What to do about fragments under an index that cannot be moved along: "leave" them
            as they are, or "defer", which rewrites them and leaves such indices to the fragment reuse index.
        method: How rows get into new files: "copy" takes over the encoded pages, without what is deleted,
            where the files allow that, and rewrites the rest; "rewrite" reads all rows and writes them anew;
            "auto" copies where that is possible and takes less time. The plan tells what is done and why.
        migrate: Also rewrite fragments for nothing but that they have files of another version.
        commit_every: Commit after so many groups instead of once at the end, so that a failure or conflict
            costs at most these; None for one commit.
        commit_every_seconds: Commit what is done when so much time has passed since the last commit.
    """

    target_rows_per_fragment: int = 1 << 20
    target_bytes_per_fragment: int | None = None
    tier_growth: int | None = None
    min_source_fragments: int = 2
    max_bytes_per_file: int | None = None
    materialize_deletions: bool = True
    materialize_deletions_threshold: float = 0.1
    max_source_fragments: int | None = None
    max_source_rows: int | None = None
    max_source_bytes: int | None = None
    budget_seconds: float | None = None
    budget_bytes: int | None = None
    budget_fragments: int | None = None
    budget_requests: int | None = None
    exclude_fragments: frozenset[int] = frozenset()
    batch_rows: int | None = None
    commit_every: int | None = None
    commit_every_seconds: float | None = None
    data_storage_version: str | None = None
    migrate: bool = False
    defer_index_remap: bool = False
    defer_where_cheaper: bool = False
    on_unknown_index: str = "leave"
    method: str = "auto"
    budget_money: InitVar[None] = None

    def __post_init__(self, budget_money: None) -> None:
        if budget_money is not None:
            raise InvalidArgumentError(MONEY_REMOVED, field="budget_money")
        object.__setattr__(self, "exclude_fragments", frozenset(self.exclude_fragments))
        for name, least in (
            ("target_rows_per_fragment", 1),
            ("target_bytes_per_fragment", 1),
            ("tier_growth", 2),
            ("min_source_fragments", 2),
            ("max_bytes_per_file", 1),
            ("max_source_fragments", 1),
            ("max_source_rows", 1),
            ("max_source_bytes", 1),
            ("budget_bytes", 1),
            ("budget_fragments", 1),
            ("budget_requests", 1),
            ("batch_rows", 1),
            ("commit_every", 1),
        ):
            value = getattr(self, name)
            if value is not None:
                check_type(value, Integral, "a whole number", field=name)
            if value is not None and value < least:
                raise InvalidArgumentError(f"{name} must be at least {least}, not {value}", field=name)
        for name in ("budget_seconds", "commit_every_seconds"):
            value = getattr(self, name)
            if value is not None:
                check_type(value, Real, "a number", field=name)
            if value is not None and not value > 0:
                raise InvalidArgumentError(f"{name} must be above 0, not {value}", field=name)
        if self.data_storage_version is not None:
            try:
                name = storage_version(self.data_storage_version).name
            except UnsupportedVersionError as error:
                raise InvalidArgumentError(
                    error.message, field="data_storage_version", hint=error.hint
                ) from error
            object.__setattr__(self, "data_storage_version", name)
        elif self.migrate:
            raise InvalidArgumentError(
                "a migration needs a version of data files to go to", field="data_storage_version"
            )
        if self.on_unknown_index not in ON_UNKNOWN_INDEX:
            raise InvalidArgumentError(
                f"{self.on_unknown_index!r} is nothing to do about an unknown index",
                field="on_unknown_index",
                hint=f"choose one of {', '.join(ON_UNKNOWN_INDEX)}",
            )
        if self.method not in METHODS:
            raise InvalidArgumentError(
                f"{self.method!r} is no way to compact",
                field="method",
                hint=f"choose one of {', '.join(METHODS)}",
            )
        if not self.materialize_deletions_threshold >= 0:
            raise InvalidArgumentError(
                f"the threshold is a fraction of rows, not {self.materialize_deletions_threshold}",
                field="materialize_deletions_threshold",
            )

    @property
    def purges_deletions(self) -> bool:
        """Whether deleted rows alone are a reason to rewrite; no fraction is above 1."""
        return self.materialize_deletions and self.materialize_deletions_threshold < 1.0


class CompactionChoices(TypedDict, total=False):
    """Options of a compaction one by one, all optional.

    What is not given, or None, comes from the table's config (`lance.compaction.*`), then from the defaults
    of `CompactionOptions`, which explains them.

    Attributes:
        target_rows_per_fragment: See `CompactionOptions`, as the others up to `commit_every`.
        target_bytes_per_fragment: See `CompactionOptions`.
        tier_growth: See `CompactionOptions`.
        min_source_fragments: See `CompactionOptions`.
        max_bytes_per_file: See `CompactionOptions`.
        materialize_deletions: See `CompactionOptions`.
        materialize_deletions_threshold: See `CompactionOptions`.
        max_source_fragments: See `CompactionOptions`.
        max_source_rows: See `CompactionOptions`.
        max_source_bytes: See `CompactionOptions`.
        budget_seconds: See `CompactionOptions`.
        budget_bytes: See `CompactionOptions`.
        budget_fragments: See `CompactionOptions`.
        budget_requests: See `CompactionOptions`.
        exclude_fragments: See `CompactionOptions`.
        batch_rows: See `CompactionOptions`.
        commit_every: See `CompactionOptions`.
        commit_every_seconds: See `CompactionOptions`.
        data_storage_version: Move the table to this version of data files: fragments with files of another
            one are rewritten as well, all of them or as many as the budget allows. New rows keep coming in
            the version that the table names.
        defer_index_remap: See `CompactionOptions`.
        defer_where_cheaper: See `CompactionOptions`.
        on_unknown_index: See `CompactionOptions`.
        method: See `CompactionOptions`.
    """

    target_rows_per_fragment: int | None
    target_bytes_per_fragment: int | None
    tier_growth: int | None
    min_source_fragments: int | None
    max_bytes_per_file: int | None
    materialize_deletions: bool | None
    materialize_deletions_threshold: float | None
    max_source_fragments: int | None
    max_source_rows: int | None
    max_source_bytes: int | None
    budget_seconds: float | None
    budget_bytes: int | None
    budget_fragments: int | None
    budget_requests: int | None
    exclude_fragments: Sequence[int] | None
    batch_rows: int | None
    commit_every: int | None
    commit_every_seconds: float | None
    data_storage_version: str | None
    defer_index_remap: bool | None
    defer_where_cheaper: bool | None
    on_unknown_index: Literal["leave", "defer"] | None
    method: Literal["auto", "copy", "rewrite"] | None


def resolve_options(
    config: Mapping[str, str], explicit: Mapping[str, object] | None = None
) -> tuple[CompactionOptions, tuple[str, ...]]:
    """Options from the defaults, the table's config and the caller, the later winning.

    Args:
        config: Config of the table; entries below `lance.compaction.` count.
        explicit: Names of `CompactionOptions` to values; None values count as not given.

    Returns:
        The options and a warning for each config key that nobody knows.

    Raises:
        InvalidArgumentError: a value cannot be read or makes no sense.
    """
    values: dict[str, object] = {}
    warnings: list[str] = []
    if CALIBRATION_KEY in config:
        warnings.append(f"{CALIBRATION_KEY!r} in the table's config is ignored: {CALIBRATION_REMOVED}")
    for key, text in config.items():
        if not key.startswith(CONFIG_PREFIX):
            continue
        name = key.removeprefix(CONFIG_PREFIX)
        if name in _PARSERS:
            values[name] = _parse(key, name, text)
        elif name not in _FOREIGN_KEYS:
            warnings.append(f"unknown option {key!r} in the table's config is ignored")
    values.update({name: value for name, value in (explicit or {}).items() if value is not None})
    return replace(CompactionOptions(), **values), tuple(warnings)  # type: ignore[arg-type]


def _parse(key: str, name: str, text: str) -> object:
    try:
        return _PARSERS[name](text.strip())
    except ValueError as error:
        raise InvalidArgumentError(
            f"the table's config says {text!r}, which is no value of this option",
            field=key,
            hint="correct the config of the table, or remove the entry",
        ) from error


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


_PARSERS: Mapping[str, Callable[[str], object]] = {
    "target_rows_per_fragment": int,
    "target_bytes_per_fragment": int,
    "tier_growth": int,
    "min_source_fragments": int,
    "max_bytes_per_file": int,
    "materialize_deletions": _flag,
    "materialize_deletions_threshold": float,
    "max_source_fragments": int,
    "max_source_rows": int,
    "max_source_bytes": int,
    "data_storage_version": str,
    "defer_index_remap": _flag,
    "defer_where_cheaper": _flag,
    "on_unknown_index": str,
    "method": str,
}
