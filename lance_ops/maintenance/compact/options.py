"""Compaction options: defaults, the table's own config, and the caller's values."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, replace
from numbers import Integral, Real
from typing import Literal, TypedDict

from lance_ops._removed import CALIBRATION_REMOVED, MONEY_REMOVED
from lance_ops.errors import InvalidArgumentError, UnsupportedVersionError, check_type
from lance_ops.file.versions import storage_version
from lance_ops.maintenance.text import bytes_text, count_text

CONFIG_PREFIX = "lance.compaction."
CALIBRATION_KEY = "lance_ops.compaction.costs"
"""Config entry in which release 0.1.0 kept a calibrated cost model."""
ON_UNKNOWN_INDEX = ("leave", "defer")
METHODS = ("auto", "copy", "rewrite")
STRATEGIES = ("tiers", "rows")
TARGET_BYTES = 512_000_000
"""Target bytes of a fragment by the strategy "tiers"."""
TIER_GROWTH = 8
"""Factor between size tiers. With 8, 64 appends of one size are written at most twice, in any order of
appends and compactions, and at most 7 fragments of a tier wait."""

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
"""Options of pylance for its own implementation, without effect here; no warning."""


@dataclass(frozen=True, slots=True)
class CompactionOptions:
    """Options of a compaction. Budgets limit one run; None means no limit.

    Attributes:
        target_rows_per_fragment: Fragments with fewer physical rows are merged, up to this size.
        target_bytes_per_fragment: Target in bytes of data files: a fragment is full when it reaches either
            target, and small below three quarters of this one. None: 512 MB with "tiers", no target with
            "rows".
        tier_growth: Merge neighbours only into a larger size tier; each tier is this many times as large as
            the one below, up to the target. So every byte is rewritten a number of times that grows with the
            logarithm of the table. None: 8 with "tiers", no tiers with "rows".
        min_source_fragments: Minimum neighbours to merge, unless they fill a fragment, or one of them is
            rewritten anyway.
        max_bytes_per_file: Largest data file written; None for the writer's default.
        materialize_deletions: Rewrite fragments that have many deleted rows, even alone.
        materialize_deletions_threshold: Deleted / physical rows above which (strictly) a fragment is
            rewritten.
        max_source_fragments: Maximum fragments to rewrite.
        max_source_rows: Maximum live rows to rewrite.
        max_source_bytes: Maximum bytes of data files to rewrite.
        budget_seconds: Maximum estimated duration of the run. With a budget, groups are chosen by scan time
            saved per second of work; with the limits above, in the order of rows.
        budget_bytes: Maximum bytes read and written, indices included.
        budget_fragments: Maximum fragments to replace.
        budget_requests: Maximum requests to the store.
        exclude_fragments: Ids of fragments to exclude.
        batch_rows: Rows read at once by each task, which bounds memory; None chooses by the size of a row.
        data_storage_version: Storage version of the new files, such as "2.2" or "stable"; that of the dataset
            if None. Versions from 2.0 on may be mixed in one table.
        defer_index_remap: Do not rewrite indices, but record the moved rows in the fragment reuse index, as
            pylance does with this option: the compaction ends sooner, and readers of an index do more work
            until it is optimized. Indices that would be unusable meanwhile are remapped at once. No effect in
            a table with stable row ids.
        defer_where_cheaper: Defer the remap of an index segment where that costs less, readers included: if
            few rows of a large segment move. The plan has both costs.
        on_unknown_index: Fragments under an index that cannot be remapped: "leave" them, or "defer", which
            rewrites them and defers the remap of such indices.
        method: Method of writing new files: "copy" copies the encoded pages, without deleted rows, where the
            files allow it, and rewrites the rest; "rewrite" reads and writes all rows; "auto" copies where
            that is possible and faster. The plan has method and reason.
        migrate: Also rewrite fragments only because their files have another storage version.
        commit_every: Commit after this many groups instead of once at the end, so that a failure or conflict
            affects at most these; None for one commit.
        commit_every_seconds: Commit finished groups when this much time has passed since the last commit.
        strategy: "tiers": targets in rows and bytes, and size tiers, so that a few new rows never rewrite a
            large part of the table. "rows": the rule of pylance: only rows count, and all small neighbours
            are merged each time. It sets the default of
            `target_bytes_per_fragment` and `tier_growth`.
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
    strategy: str = "tiers"
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
                raise InvalidArgumentError(f"{name} must be at least {least}, got {value}", field=name)
        for name in ("budget_seconds", "commit_every_seconds"):
            value = getattr(self, name)
            if value is not None:
                check_type(value, Real, "a number", field=name)
            if value is not None and not value > 0:
                raise InvalidArgumentError(f"{name} must be above 0, got {value}", field=name)
        if self.data_storage_version is not None:
            try:
                name = storage_version(self.data_storage_version).name
            except UnsupportedVersionError as error:
                raise InvalidArgumentError(
                    error.message, field="data_storage_version", hint=error.hint
                ) from error
            object.__setattr__(self, "data_storage_version", name)
        elif self.migrate:
            raise InvalidArgumentError("migrate requires data_storage_version", field="data_storage_version")
        if self.on_unknown_index not in ON_UNKNOWN_INDEX:
            raise InvalidArgumentError(
                f"on_unknown_index must be one of {', '.join(ON_UNKNOWN_INDEX)}, got "
                f"{self.on_unknown_index!r}",
                field="on_unknown_index",
                hint="'defer' rewrites such fragments, 'leave' does not",
            )
        if self.strategy not in STRATEGIES:
            raise InvalidArgumentError(
                f"strategy must be one of {', '.join(STRATEGIES)}, got {self.strategy!r}",
                field="strategy",
                hint="'tiers' writes each byte a few times, 'rows' merges all small ones as pylance does",
            )
        if self.method not in METHODS:
            raise InvalidArgumentError(
                f"method must be one of {', '.join(METHODS)}, got {self.method!r}",
                field="method",
                hint="'auto' chooses by estimated cost",
            )
        if not self.materialize_deletions_threshold >= 0:
            raise InvalidArgumentError(
                "materialize_deletions_threshold must be at least 0, "
                f"got {self.materialize_deletions_threshold}",
                field="materialize_deletions_threshold",
            )

    @property
    def target_bytes(self) -> int | None:
        """Target bytes of a fragment; None if only rows count."""
        if self.target_bytes_per_fragment is None and self.strategy == "tiers":
            return TARGET_BYTES
        return self.target_bytes_per_fragment

    @property
    def growth(self) -> int | None:
        """Factor between size tiers; None without tiers."""
        return TIER_GROWTH if self.tier_growth is None and self.strategy == "tiers" else self.tier_growth

    @property
    def rule(self) -> str:
        """The rule that chooses fragments, in a few words, as a history shows it."""
        growth, size = self.growth, self.target_bytes
        tiers = "all small neighbours" if growth is None else f"size tiers of {growth}"
        limit = "" if size is None else f" or {bytes_text(size)}"
        return f"{tiers}, up to {count_text(self.target_rows_per_fragment, 'row')}{limit}"

    @property
    def purges_deletions(self) -> bool:
        """True if deleted rows alone are a reason to rewrite; no share is above 1."""
        return self.materialize_deletions and self.materialize_deletions_threshold < 1.0


class CompactionChoices(TypedDict, total=False):
    """Single options of a compaction, all optional.

    Missing or None values come from the table's config (`lance.compaction.*`), then from the defaults of
    `CompactionOptions`, which documents them.

    Attributes:
        target_rows_per_fragment: See `CompactionOptions`, as the others up to `commit_every`.
        strategy: See `CompactionOptions`.
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
        data_storage_version: Migrate the table to this storage version: fragments with other files are
            rewritten as well, all or as many as the budget allows. New rows are still written in the version
            of the table.
        defer_index_remap: See `CompactionOptions`.
        defer_where_cheaper: See `CompactionOptions`.
        on_unknown_index: See `CompactionOptions`.
        method: See `CompactionOptions`.
    """

    target_rows_per_fragment: int | None
    strategy: Literal["tiers", "rows"] | None
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
    """Resolve options from the defaults, the table's config and the caller, in increasing precedence.

    Args:
        config: Config of the table; entries below `lance.compaction.` count.
        explicit: Names of `CompactionOptions` to values; None values count as not given.

    Returns:
        The options and a warning for each unknown config key.

    Raises:
        InvalidArgumentError: a value is invalid.
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
            f"the table's config has the invalid value {text!r}",
            field=key,
            hint="correct the config of the table, or remove the entry",
        ) from error


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


_PARSERS: Mapping[str, Callable[[str], object]] = {
    "target_rows_per_fragment": int,
    "strategy": str,
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
