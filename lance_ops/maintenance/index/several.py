"""Several indices of one dataset in one run: missing ones are built, all are refreshed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lance_ops.errors import InvalidArgumentError
from lance_ops.index.default_name import default_index_name
from lance_ops.index.registry import kind_by_name, kind_of
from lance_ops.maintenance.index.operation import create_index, optimize_indices
from lance_ops.maintenance.index.result import IndexResult
from lance_ops.table.dataset import Dataset


@dataclass(frozen=True, slots=True)
class WantedIndex:
    """A required index.

    Attributes:
        column: The column.
        kind: Its kind.
        name: Its name; <column>_idx if None.
        parameters: Parameters of its kind.
    """

    column: str
    kind: str = "BTREE"
    name: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


def build_indices(
    uri: str,
    wanted: Sequence[WantedIndex],
    options: Mapping[str, Any],
    *,
    replace_all: bool = False,
    dry_run: bool = False,
    refresh: Mapping[str, Any] | None = None,
) -> IndexResult | str:
    """Build and refresh the required indices of a dataset.

    Args:
        uri: The dataset.
        wanted: The indices: missing ones are built, others refreshed.
        options: Options of every operation.
        replace_all: Rebuild all of them.
        dry_run: Only plan.
        refresh: More arguments of `optimize_indices`.

    Returns:
        The combined result of all commits, or the plans as text.
    """
    dataset = Dataset.open(uri, storage_options=options.get("storage_options"))
    names = [spec.name or default_index_name(dataset, spec.column) for spec in wanted]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidArgumentError(
            f"duplicate index names {', '.join(twice)}",
            field="indices",
            hint="set a different name for each of them",
        )
    present = {segment.name for segment in dataset.indices}
    done: list[object] = []
    kept: list[str] = []
    for name, spec in zip(names, wanted, strict=True):
        if name in present and not replace_all:
            kept.append(name)
            continue
        done.append(
            create_index(
                uri,
                spec.column,
                spec.kind,
                name=name,
                replace=replace_all,
                parameters=spec.parameters,
                dry_run=dry_run,
                **_options_of(options, f"build {name}"),
            )
        )
    others = _of_another_kind(dataset, dict(zip(names, wanted, strict=True)), kept)
    if kept:
        done.append(
            optimize_indices(
                uri,
                kept,
                dry_run=dry_run,
                **(refresh or {}),
                **_options_of(options, "refresh"),
            )
        )
    results = [item for item in done if isinstance(item, IndexResult)]
    if not results:
        return "\n".join([*(str(plan) for plan in done), *(f"skipped: {line}" for line in others)])
    together = _together(results)
    return replace(together, skipped=(*together.skipped, *others))


def _of_another_kind(dataset: Dataset, specs: Mapping[str, WantedIndex], names: Sequence[str]) -> list[str]:
    """Return a note about existing indices with the name of a required one of another kind."""
    first = {segment.name: segment for segment in reversed(dataset.indices)}
    found = ((name, kind_of(first[name]), kind_by_name(specs[name].kind)) for name in names)
    return [
        f"{name} is a {kind.name}, not a {asked.name}, and is kept; use replace to rebuild it"
        for name, kind, asked in found
        if kind is not None and kind.name != asked.name
    ]


def _options_of(options: Mapping[str, Any], part: str) -> dict[str, Any]:
    """Return the options with a separate job key for each commit of the run."""
    key = options.get("job_key")
    return {**options, "job_key": None if key is None else f"{key}|{part}"}


def _together(results: Sequence[IndexResult]) -> IndexResult:
    first, last = results[0], results[-1]
    return replace(
        last,
        read_version=first.read_version,
        seconds=sum(item.seconds for item in results),
        attempts=sum(item.attempts for item in results),
        conflicts=tuple(line for item in results for line in item.conflicts),
        indices=tuple(dict.fromkeys(name for item in results for name in item.indices)),
        rows_indexed=sum(item.rows_indexed for item in results),
        segments_added=sum(item.segments_added for item in results),
        segments_removed=sum(item.segments_removed for item in results),
        bytes_written=sum(item.bytes_written for item in results),
        coverage_before=min(item.coverage_before for item in results),
        coverage_after=min(item.coverage_after for item in results),
        skipped=tuple(line for item in results for line in item.skipped),
        rebuilt=tuple(line for item in results for line in item.rebuilt),
        compactions_caught_up=sum(item.compactions_caught_up for item in results),
        choices=tuple(choice for item in results for choice in item.choices),
    )
