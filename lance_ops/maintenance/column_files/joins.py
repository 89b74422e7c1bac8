"""Joins of data files: which files of a fragment become one. Pure.

A column and everything below it stay in one file, so only files whose columns are whole are joined. Files
that hold the positions of their values (blobs), JSON documents, row ids or versions, and files of storage
versions without movable pages stay as they are.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lance_ops.file.schema.blob_fields import has_blobs
from lance_ops.file.schema.logical_types import JSON_TYPE
from lance_ops.file.schema.model import Field, Schema
from lance_ops.file.versions import is_legacy
from lance_ops.table.manifest.data_file import TOMBSTONE, DataFile
from lance_ops.table.manifest.fragment import Fragment

_NOT_MOVED = frozenset({"2.3"})


@dataclass(frozen=True, slots=True)
class FileJoin:
    """Columns that become one file.

    Attributes:
        columns: Names, in the order of the schema.
        files: Positions of the files of the fragment that have them.
    """

    columns: tuple[str, ...]
    files: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FragmentJoins:
    """What becomes of the files of a fragment.

    Attributes:
        fragment: The fragment.
        joins: New files.
        unused: Positions of files without any column of the table.
        reasons: Why files stay apart, a line each.
    """

    fragment: Fragment
    joins: tuple[FileJoin, ...] = ()
    unused: tuple[int, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def replaced(self) -> tuple[int, ...]:
        """Positions of the files that the fragment no longer has afterwards."""
        return tuple(sorted({*self.unused, *(number for join in self.joins for number in join.files)}))

    @property
    def files_after(self) -> int:
        """Number of data files afterwards."""
        return len(self.fragment.files) - len(self.replaced) + len(self.joins)

    @property
    def bytes_read(self) -> int:
        """Recorded size of the joined files."""
        numbers = {number for join in self.joins for number in join.files}
        return sum(self.fragment.files[number].size_bytes for number in numbers)

    @property
    def bytes_unused(self) -> int:
        """Recorded size of the files without any column of the table."""
        return sum(self.fragment.files[number].size_bytes for number in self.unused)


def dead_columns(file: DataFile, schema: Schema) -> tuple[int, ...]:
    """Return the physical columns of a file that belong to no field of a schema."""
    known = {node.id for node in schema.walk()}
    return tuple(
        column
        for number, column in zip(file.fields, file.column_indices, strict=False)
        if column >= 0 and number not in known and (number >= 0 or number == TOMBSTONE)
    )


def find_joins(
    fragment: Fragment,
    schema: Schema,
    groups: Sequence[Sequence[str]] = (),
    *,
    apart: Iterable[int] = (),
) -> FragmentJoins:
    """Choose which files of a fragment become one.

    Args:
        fragment: The fragment.
        schema: Of the table.
        groups: Names of columns that get a file of their own, together; all others are one more group.
        apart: Positions of further files to leave as they are.

    Returns:
        The joins. One of a single file, which only leaves dead columns behind, is among them as well.
    """
    tops = {node.id: top for top in schema.fields for node in top.walk()}
    held = [_columns_of(file, tops) for file in fragment.files]
    reasons: dict[int, str] = dict.fromkeys(apart, "")
    for number, file in enumerate(fragment.files):
        reason = _obstacle(file, held[number])
        if reason is not None:
            reasons.setdefault(number, f"{file.path}: {reason}")
    for top in schema.fields:
        owners = [number for number, columns in enumerate(held) if top in columns]
        if len(owners) > 1:
            for number in owners:
                reasons.setdefault(
                    number, f"{fragment.files[number].path}: column {top.name!r} is in several files"
                )
    named = {name: number for number, group in enumerate(groups) for name in group}
    targets: dict[tuple[str, int], dict[str, int]] = {}
    for top in schema.fields:
        for number, columns in enumerate(held):
            if top in columns and number not in reasons:
                version = fragment.files[number].storage_version
                target = version, named.get(top.name, len(groups))
                targets.setdefault(target, {})[top.name] = number
    joins = [FileJoin(tuple(found), tuple(sorted(set(found.values())))) for found in targets.values()]
    kept = [join for join in joins if not _is_idle(join, joins, fragment, schema)]
    unused = tuple(number for number, columns in enumerate(held) if not columns and number not in reasons)
    if len(unused) == len(fragment.files):
        # The rows of a fragment are counted by a file.
        unused = unused[1:]
    return FragmentJoins(fragment, tuple(kept), unused, tuple(line for line in reasons.values() if line))


def _columns_of(file: DataFile, tops: dict[int, Field]) -> list[Field]:
    found = {tops[number].id: tops[number] for number in file.fields if number in tops}
    return list(found.values())


def _obstacle(file: DataFile, columns: Sequence[Field]) -> str | None:
    if any(number < 0 and number != TOMBSTONE for number in file.fields):
        return "it has row ids or row versions"
    if file.side_bytes:
        return "it has side files"
    if is_legacy(file.major, file.minor) or file.storage_version in _NOT_MOVED:
        return f"pages of storage version {file.storage_version} are not moved"
    if has_blobs(Schema(tuple(columns))):
        return "its pages contain the positions of blobs"
    if any(node.logical_type == JSON_TYPE for top in columns for node in top.walk()):
        return "it has JSON documents, whose moved pages pylance cannot read"
    return None


def _is_idle(join: FileJoin, joins: Sequence[FileJoin], fragment: Fragment, schema: Schema) -> bool:
    """Return whether a join would write a file again that is as it should be."""
    if len(join.files) > 1:
        return False
    (number,) = join.files
    shared = sum(number in other.files for other in joins) > 1
    return not shared and not dead_columns(fragment.files[number], schema)
