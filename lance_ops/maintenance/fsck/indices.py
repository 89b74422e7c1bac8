"""Fsck of indices: whether they can be read and hold the rows that they claim, and what repairs them.

An index that cannot be read costs no rows and changes no answer of ours (`index.reading`), but other readers
may fail every filter on its column, and nothing but building it anew makes it whole. One that does not hold
what it claims is worse: every reader believes it.
"""

import shlex
from collections.abc import Iterator

from lance_ops.errors import LanceOpsError, UnreadableIndexError
from lance_ops.index.coverage import effective_fragments
from lance_ops.index.default_name import default_index_name
from lance_ops.index.kind import IndexKind
from lance_ops.index.reading import reading
from lance_ops.index.registry import kind_of
from lance_ops.index.upkeep.row_check import missing_rows, names_other_rows_only
from lance_ops.index.vector.kind import VECTOR_KINDS
from lance_ops.maintenance.text import ids_text
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.index_metadata import IndexMetadata


def unreadable_indices(
    dataset: Dataset, *, deep: bool = False
) -> Iterator[tuple[IndexMetadata, LanceOpsError, str]]:
    """Segments of known kinds that cannot be read.

    Args:
        dataset: The version to look at.
        deep: Read every page, not only the first and what leads there.

    Returns:
        Each with what is wrong, and what to do about it in words.
    """
    for segment in dataset.indices:
        kind = kind_of(segment)
        if segment.is_system or kind is None:
            continue
        try:
            kind.verify(dataset, segment, deep=deep)
            stale = None if deep else kind.stale(dataset, segment)
            if stale is not None:
                raise UnreadableIndexError(
                    f"index {segment.name!r} cannot be relied upon: {stale}", path=segment.directory
                )
        except LanceOpsError as error:
            yield segment, error, _repair(dataset, segment)


def indices_without_their_rows(
    dataset: Dataset, *, deep: bool = False
) -> Iterator[tuple[IndexMetadata, str, str]]:
    """Segments of known kinds that do not name rows of the fragments that they cover.

    Segments that cannot be read are left to `unreadable_indices`.

    Args:
        dataset: The version to look at.
        deep: Compare all rows; without it large segments are sampled.

    Returns:
        Each with what is wrong, and what to do about it in words.
    """
    for segment in dataset.indices:
        kind = kind_of(segment)
        if segment.is_system or kind is None or len(segment.fields) != 1:
            continue
        try:
            with reading(segment):
                missing, asked, fragments = missing_rows(dataset, kind, segment, deep=deep)
                # Where rows keep their ids, what names them by address is told by the index version alone.
                other = dataset.manifest.uses_stable_row_ids and names_other_rows_only(dataset, kind, segment)
        except LanceOpsError as error:
            if not _is_unreadable(dataset, kind, segment, deep=deep):
                message = f"rows of index {segment.name!r} cannot be compared: {error.message}"
                yield segment, message, _rebuild(dataset, segment)
            continue
        if other:
            message = (
                f"index {segment.name!r} names no row of the fragments that it claims: its index version "
                f"({segment.index_version or 0}) does not say what it holds, so that filters find nothing"
            )
            yield segment, message, _rebuild(dataset, segment)
        elif missing:
            where = ids_text(sorted(fragments))
            message = (
                f"index {segment.name!r} claims fragments {where} and does not hold {missing:,} of "
                f"{asked:,} rows looked for, which filters then miss"
            )
            yield segment, message, _rebuild(dataset, segment)


def _is_unreadable(dataset: Dataset, kind: IndexKind, segment: IndexMetadata, *, deep: bool) -> bool:
    try:
        kind.verify(dataset, segment, deep=deep)
    except LanceOpsError:
        return True
    return False


def unusable_moves(dataset: Dataset) -> tuple[LanceOpsError, str] | None:
    """What is wrong with the fragment reuse index, and what to do about it; None if nothing is."""
    reuse = dataset.fragment_reuse
    if reuse is None or reuse.problem is None:
        return None
    return reuse.problem, "queries scan the rows of all indices"


def _repair(dataset: Dataset, segment: IndexMetadata) -> str:
    covered = effective_fragments(dataset.manifest, segment)
    use = "queries scan its rows" if covered else "no query needs it"
    return f"{use}; {_rebuild(dataset, segment)}"


_NOT_NAMED = ("BTREE", *(kind.name for kind in VECTOR_KINDS))
"""The kind that is built by default, and those of which the segment alone tells which one it is."""


def _rebuild(dataset: Dataset, segment: IndexMetadata) -> str:
    try:
        column = dataset.lance_schema.path(segment.fields[0])
    except (LanceOpsError, LookupError):
        return f"drop it: lance-ops index URI --drop --name {shlex.quote(segment.name)}"
    named = (
        "" if segment.name == default_index_name(dataset, column) else f" --name {shlex.quote(segment.name)}"
    )
    kind = kind_of(segment)
    of_kind = "" if kind is None or kind.name in _NOT_NAMED else f" --kind {kind.name}"
    return f"build it anew: lance-ops index URI {shlex.quote(column)} --replace{of_kind}{named}"
