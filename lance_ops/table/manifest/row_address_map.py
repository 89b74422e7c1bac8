"""Row address map: new addresses of the rows of rewritten fragments.

A row address is `fragment id << 32 | row offset`. An ordered rewrite moves the surviving rows of its old
fragments, in order, into its new fragments; so the new address follows from the rank of a row among the
survivors, and memory does not grow with the data.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.kernels.index.address_map import follow
from lance_ops.encoding.row_blocks import RowBlocks
from lance_ops.errors import CorruptFileError, InvalidArgumentError
from lance_ops.table.manifest.deletion_vector import DeletionVector
from lance_ops.table.manifest.fragment import Fragment

Addresses = npt.NDArray[np.uint64]


def row_addresses(fragment_id: int, offsets: npt.ArrayLike) -> Addresses:
    """Return addresses of rows of one fragment; `offsets` include deleted rows."""
    return np.uint64(fragment_id << 32) | np.asarray(offsets, dtype=np.uint64)


class FragmentRows(Protocol):
    """The properties of a fragment that a map needs."""

    @property
    def id(self) -> int:
        """Its id."""
        ...

    @property
    def physical_rows(self) -> int:
        """Its rows, deleted ones included."""
        ...


@dataclass(frozen=True, slots=True)
class MovedGroup:
    """One group of a rewrite.

    Attributes:
        old_fragments: Replaced fragments in the order in which their rows were written.
        deleted: Deleted rows of each old fragment.
        new_fragments: Fragments that replace them, with their committed ids.
    """

    old_fragments: tuple[FragmentRows, ...]
    deleted: tuple[DeletionVector, ...]
    new_fragments: tuple[FragmentRows, ...]

    def check(self) -> None:
        """Refuse a group whose new row count differs from its surviving row count: ranks would be wrong.

        Raises:
            InvalidArgumentError: The counts differ.
        """
        old = sum(fragment.physical_rows for fragment in self.old_fragments)
        survivors = old - sum(map(len, self.deleted))
        new = sum(fragment.physical_rows for fragment in self.new_fragments)
        if survivors != new:
            ids = [fragment.id for fragment in self.old_fragments]
            raise InvalidArgumentError(f"fragments {ids} have {survivors} live rows, but {new} were written")


class AddressMap:
    """Map of row addresses before a rewrite to addresses after it.

    Takes memory for deleted rows only: a quarter of a byte for each row of the fragments where more than one
    in 32 is deleted, and twelve bytes for each deleted row where fewer are.
    """

    def __init__(self, groups: Sequence[MovedGroup]) -> None:
        for group in groups:
            group.check()
        self.groups = tuple(groups)
        old = [
            (fragment, deleted)
            for group in groups
            for fragment, deleted in zip(group.old_fragments, group.deleted, strict=True)
        ]
        new = [fragment for group in groups for fragment in group.new_fragments]
        # Groups are concatenated in one rank space: both sides of a group have equally many rows.
        survivors = np.array(
            [fragment.physical_rows - len(deleted) for fragment, deleted in old], dtype=np.int64
        )
        first_rank = np.concatenate(([0], np.cumsum(survivors)))[:-1] if old else np.zeros(0, np.int64)
        ids = np.array([fragment.id for fragment, _ in old], dtype=np.uint64)
        order = np.argsort(ids, kind="stable")
        self._old_ids: Addresses = ids[order]
        if len(np.unique(self._old_ids)) != len(self._old_ids):
            raise InvalidArgumentError("a fragment occurs in two groups of a rewrite")
        self._first_rank = first_rank[order]
        self._physical_rows = np.array([fragment.physical_rows for fragment, _ in old], dtype=np.int64)[order]
        vectors = [old[position][1] for position in order]
        counts = np.array([len(vector) for vector in vectors], dtype=np.int64)
        self._deleted_stops = np.cumsum(counts)
        self._blocks = RowBlocks.of(
            rows=self._physical_rows, counts=counts, offsets=lambda place: vectors[place].offsets()
        )
        # Empty new fragments have no rank; without them the starts ascend and a search finds the owner.
        filled = [fragment for fragment in new if fragment.physical_rows]
        rows = np.array([fragment.physical_rows for fragment in filled], dtype=np.int64)
        self._new_start = np.concatenate(([0], np.cumsum(rows)))[:-1] if filled else np.zeros(0, np.int64)
        self._new_ids = np.array([fragment.id for fragment in filled], dtype=np.uint64)

    @property
    def old_fragment_ids(self) -> frozenset[int]:
        """Ids of the fragments that are replaced."""
        return frozenset(int(value) for value in self._old_ids)

    def map(self, addresses: npt.ArrayLike) -> tuple[Addresses, npt.NDArray[np.bool_]]:
        """Return new addresses, in the order of the old ones.

        Args:
            addresses: Row addresses before the rewrite, uint64, in any order.

        Returns:
            (new addresses, kept). Where `kept` is false the row was deleted and its new address is undefined.
            Addresses of fragments that were not rewritten are unchanged.

        Raises:
            CorruptFileError: an address is beyond the last row of its fragment.
        """
        old = np.ascontiguousarray(addresses, dtype=np.uint64)
        mapped, kept = np.empty(len(old), np.uint64), np.empty(len(old), np.bool_)
        outside = follow(
            addresses=old,
            old_ids=self._old_ids,
            old_rows=self._physical_rows,
            first_rank=self._first_rank,
            deleted_stops=self._deleted_stops,
            blocks=self._blocks,
            new_start=self._new_start,
            new_ids=self._new_ids,
            mapped=mapped,
            kept=kept,
        )
        if outside >= 0:
            self._refuse(int(old[outside]))
        return mapped, kept

    def _refuse(self, address: int) -> NoReturn:
        rows = int(self._physical_rows[np.searchsorted(self._old_ids, np.uint64(address >> 32))])
        raise CorruptFileError(
            f"row address {address} refers to row {address & 4294967295} of fragment {address >> 32}, "
            f"which has {rows} rows",
            hint="rebuild the index that has it",
        )


def build_address_map(
    groups: Iterable[tuple[Sequence[Fragment], Sequence[Fragment]]],
    deleted: Callable[[Fragment], DeletionVector],
) -> AddressMap:
    """Build the map of a rewrite.

    Args:
        groups: (old fragments, new fragments) of each group.
        deleted: Returns the deleted rows of an old fragment at the read version.
    """
    return AddressMap(
        [
            MovedGroup(tuple(old), tuple(deleted(fragment) for fragment in old), tuple(new))
            for old, new in groups
        ]
    )
