"""Plan of a compaction of columns: the fragments whose data files become fewer or smaller."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lance_ops.errors import InvalidArgumentError
from lance_ops.maintenance.column_files.dead_bytes import DeadBytes
from lance_ops.maintenance.column_files.joins import FragmentJoins, find_joins
from lance_ops.maintenance.text import bytes_text, count_text, ids_text
from lance_ops.table.dataset import Dataset

MIN_FILES = 2
MIN_DEAD_RATIO = 0.1


@dataclass(frozen=True, slots=True)
class ColumnFilesPlan:
    """Plan of `compact_columns` for one version; prints as text.

    Attributes:
        uri: The dataset.
        version: The version.
        fragments: What becomes of each fragment that is changed.
        bytes_read: Recorded size of the files that are joined.
        bytes_written: Estimated size of the new files.
        bytes_freed: Estimated bytes of columns that the table does not have, in the replaced files. The next
            cleanup removes these.
        left: Ids of fragments beyond `max_bytes`.
        notes: Why files or fragments stay as they are.
    """

    uri: str
    version: int
    fragments: tuple[FragmentJoins, ...]
    bytes_read: int = 0
    bytes_written: int = 0
    bytes_freed: int = 0
    left: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def files_before(self) -> int:
        """Data files of the changed fragments."""
        return sum(len(item.fragment.files) for item in self.fragments)

    @property
    def files_after(self) -> int:
        """Data files of the same fragments afterwards."""
        return sum(item.files_after for item in self.fragments)

    @property
    def fragment_ids(self) -> tuple[int, ...]:
        """Ids of the changed fragments."""
        return tuple(item.fragment.id for item in self.fragments)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "operation": "compact_columns",
            "dry_run": True,
            "uri": self.uri,
            "read_version": self.version,
            "fragments": list(self.fragment_ids),
            "files_before": self.files_before,
            "files_after": self.files_after,
            "bytes_read": self.bytes_read,
            "bytes_written": self.bytes_written,
            "bytes_freed": self.bytes_freed,
            "left": list(self.left),
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        head = f"compact columns of {self.uri} at version {self.version}: "
        lines = [f"  {note}" for note in self.notes]
        if self.left:
            lines.append(f"  left to the next run by max_bytes: fragments {ids_text(self.left)}")
        if not self.fragments:
            return "\n".join([f"{head}nothing to do", *lines])
        what = (
            f"{count_text(self.files_before, 'data file')} of fragments {ids_text(self.fragment_ids)} become "
            f"{self.files_after:,}; {bytes_text(self.bytes_written)} are copied, "
            f"{bytes_text(self.bytes_freed)} of dropped columns are freed"
        )
        return "\n".join([head + what, *lines])


def plan_column_files(
    dataset: Dataset,
    column_groups: Sequence[Sequence[str]] | None = None,
    *,
    min_files: int = MIN_FILES,
    min_dead_ratio: float = MIN_DEAD_RATIO,
    max_bytes: int | None = None,
) -> ColumnFilesPlan:
    """Plan for one version; reads descriptions of some files with dropped columns, and no values.

    Args:
        dataset: The version.
        column_groups: See `compact_columns`, as the others.
        min_files: See there.
        min_dead_ratio: See there.
        max_bytes: See there.

    Raises:
        InvalidArgumentError: A limit is out of range, or a group names an unknown column, or one twice.
        StorageError: The store fails.
    """
    groups = _checked_groups(dataset, column_groups or ())
    for name, value, is_valid in (
        ("min_files", min_files, min_files >= 2),
        ("min_dead_ratio", min_dead_ratio, 0 <= min_dead_ratio <= 1),
        ("max_bytes", max_bytes, max_bytes is None or max_bytes >= 1),
    ):
        if not is_valid:
            raise InvalidArgumentError(f"{name} is out of range: {value}", field=name)
    dataset = dataset.with_side_sizes()
    dead = DeadBytes(dataset.bases, dataset.lance_schema)
    chosen: list[tuple[FragmentJoins, int]] = []
    notes: dict[str, None] = {}
    for fragment in dataset.fragments:
        found = find_joins(fragment, dataset.lance_schema, groups)
        notes.update(dict.fromkeys(found.reasons))
        if not found.replaced:
            continue
        bytes_dead = _dead_bytes(found, dead)
        fewer = found.files_after < len(fragment.files) and len(fragment.files) >= min_files
        split = found.files_after > len(fragment.files)
        is_dead = bytes_dead > 0 and bytes_dead >= min_dead_ratio * fragment.data_bytes
        if fewer or split or is_dead:
            chosen.append((found, bytes_dead))
    taken, left = _within(chosen, max_bytes)
    return ColumnFilesPlan(
        uri=dataset.uri,
        version=dataset.version,
        fragments=tuple(item for item, _ in taken),
        bytes_read=sum(item.bytes_read for item, _ in taken),
        bytes_written=sum(item.bytes_read + item.bytes_unused - size for item, size in taken),
        bytes_freed=sum(size for _, size in taken),
        left=left,
        notes=_shown(list(notes)),
    )


def _dead_bytes(found: FragmentJoins, dead: DeadBytes) -> int:
    """Return the dead bytes of the files that a fragment no longer has afterwards."""
    return sum(
        found.fragment.files[number].size_bytes
        if number in found.unused
        else dead.of_file(found.fragment.files[number])
        for number in found.replaced
    )


def _within(
    chosen: list[tuple[FragmentJoins, int]], max_bytes: int | None
) -> tuple[list[tuple[FragmentJoins, int]], tuple[int, ...]]:
    """Return the fragments within a limit of bytes, those with the most files and dead bytes first."""
    if max_bytes is None:
        return chosen, ()
    order = sorted(chosen, key=lambda item: (item[0].files_after - len(item[0].fragment.files), -item[1]))
    taken: list[int] = []
    size = 0
    for item, bytes_dead in order:
        moved = 2 * item.bytes_read - bytes_dead
        if size + moved <= max_bytes:
            size += moved
            taken.append(item.fragment.id)
    return (
        [item for item in chosen if item[0].fragment.id in taken],
        tuple(item.fragment.id for item, _ in chosen if item.fragment.id not in taken),
    )


def _checked_groups(dataset: Dataset, groups: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    known = {top.name for top in dataset.lance_schema.fields}
    seen: set[str] = set()
    for group in groups:
        if isinstance(group, str) or not group:
            raise InvalidArgumentError(
                f"column_groups must be lists of column names, got {group!r}", field="column_groups"
            )
        for name in group:
            if name not in known:
                raise InvalidArgumentError(
                    f"column {name!r} not found in {dataset.uri} (version {dataset.version})",
                    field="column_groups",
                    hint="a group names top-level columns",
                )
            if name in seen:
                raise InvalidArgumentError(f"column {name!r} is in two groups", field="column_groups")
            seen.add(name)
    return tuple(tuple(group) for group in groups)


def _shown(notes: list[str], limit: int = 8) -> tuple[str, ...]:
    more = len(notes) - limit
    return tuple(notes[:limit] + ([f"and {count_text(more, 'more file')}"] if more > 0 else []))
