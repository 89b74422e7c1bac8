"""Fsck of indices: readable, with the rows that they cover, and their repair.

An unreadable index loses no rows and changes no query result of lance_ops (`index.reading`), but other
readers may fail every filter on its column, and it must be rebuilt. An index with missing rows is worse:
every reader trusts it.
"""

from collections.abc import Iterator

from lance_ops.errors import LanceOpsError, UnreadableIndexError, UnsupportedError
from lance_ops.index.coverage import effective_fragments
from lance_ops.index.kind import IndexKind
from lance_ops.index.reading import reading
from lance_ops.index.registry import kind_of
from lance_ops.index.upkeep.row_check import missing_rows, names_other_rows_only
from lance_ops.maintenance.fsck.index_repair import repair_of
from lance_ops.maintenance.text import ids_text
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.index_metadata import IndexMetadata


def unreadable_indices(
    dataset: Dataset, *, deep: bool = False
) -> Iterator[tuple[IndexMetadata, LanceOpsError, str]]:
    """Return unreadable segments of known kinds.

    Args:
        dataset: The version to check.
        deep: Read every page, not only the first and the metadata.

    Returns:
        Each with problem and repair as text.
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
                    f"index {segment.name!r} is not reliable: {stale}", path=segment.directory
                )
        except LanceOpsError as error:
            yield segment, error, _repair(dataset, segment)


def indices_without_their_rows(
    dataset: Dataset, *, deep: bool = False
) -> Iterator[tuple[IndexMetadata, str, str]]:
    """Return segments of known kinds that lack rows of the fragments that they cover.

    Unreadable segments are left to `unreadable_indices`.

    Args:
        dataset: The version to check.
        deep: Compare all rows, and search some of them by their values; otherwise large segments are sampled.

    Returns:
        Each with problem and repair as text.
    """
    for segment in dataset.indices:
        kind = kind_of(segment)
        if segment.is_system or kind is None or len(segment.fields) != 1:
            continue
        try:
            with reading(segment):
                missing, asked, fragments = missing_rows(dataset, kind, segment, deep=deep)
                # With stable row ids, only the index version shows a segment with addresses.
                other = dataset.manifest.uses_stable_row_ids and names_other_rows_only(dataset, kind, segment)
        except LanceOpsError as error:
            # The index may cut strings into words as only its writer can: then nothing is known of its rows.
            is_foreign = isinstance(error.__cause__, UnsupportedError)
            if not is_foreign and not _is_unreadable(dataset, kind, segment, deep=deep):
                message = f"cannot compare the rows of index {segment.name!r}: {error.message}"
                yield segment, message, repair_of(dataset, segment)
            continue
        if other:
            message = (
                f"index {segment.name!r} has no row of the fragments that it covers: its index version "
                f"({segment.index_version or 0}) contradicts its contents, so that filters find nothing"
            )
            yield segment, message, repair_of(dataset, segment)
        elif missing:
            where = ids_text(sorted(fragments))
            message = (
                f"index {segment.name!r} covers fragments {where}, but lacks {missing:,} of {asked:,} "
                "checked rows, which filters then miss"
            )
            yield segment, message, repair_of(dataset, segment)


def _is_unreadable(dataset: Dataset, kind: IndexKind, segment: IndexMetadata, *, deep: bool) -> bool:
    try:
        kind.verify(dataset, segment, deep=deep)
    except LanceOpsError:
        return True
    return False


def unusable_moves(dataset: Dataset) -> tuple[LanceOpsError, str] | None:
    """Return problem and repair of the fragment reuse index; None if it is valid."""
    reuse = dataset.fragment_reuse
    if reuse is None or reuse.problem is None:
        return None
    return reuse.problem, "queries scan the rows of all indices"


def _repair(dataset: Dataset, segment: IndexMetadata) -> str:
    covered = effective_fragments(dataset.manifest, segment)
    use = "queries scan its rows" if covered else "no query uses it"
    return f"{use}; {repair_of(dataset, segment)}"
