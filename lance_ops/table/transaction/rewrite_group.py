"""Rewrite groups and rewritten index segments: the parts of a Rewrite. Source: transaction.proto."""

import uuid
from dataclasses import dataclass

from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.index_metadata import IndexFile


@dataclass(frozen=True, slots=True)
class RewriteGroup:
    """Group of fragments replaced by others with the same live rows in the same order.

    The new fragments have reserved ids, except in place: one fragment keeps its id, row addresses, deletion
    file and row ids, and only its columns lie in other data files.
    """

    old_fragments: tuple[Fragment, ...]
    new_fragments: tuple[Fragment, ...]

    @property
    def is_in_place(self) -> bool:
        """Whether one fragment keeps its id, and so the addresses of its rows."""
        ids = [[fragment.id for fragment in side] for side in (self.old_fragments, self.new_fragments)]
        return len(ids[0]) == 1 and ids[0] == ids[1]


@dataclass(frozen=True, slots=True)
class RewrittenIndex:
    """Remapped index segment; `files` are those of the new one."""

    old_uuid: uuid.UUID
    new_uuid: uuid.UUID
    type_url: str | None = None
    details: bytes = b""
    index_version: int = 0
    files: tuple[IndexFile, ...] = ()
