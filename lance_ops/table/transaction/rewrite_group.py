"""Rewrite groups and rewritten index segments: the parts of a Rewrite. Source: transaction.proto."""

import uuid
from dataclasses import dataclass

from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.index_metadata import IndexFile


@dataclass(frozen=True, slots=True)
class RewriteGroup:
    """Group of fragments replaced by others with the same live rows in the same order, under reserved ids."""

    old_fragments: tuple[Fragment, ...]
    new_fragments: tuple[Fragment, ...]


@dataclass(frozen=True, slots=True)
class RewrittenIndex:
    """Remapped index segment; `files` are those of the new one."""

    old_uuid: uuid.UUID
    new_uuid: uuid.UUID
    type_url: str | None = None
    details: bytes = b""
    index_version: int = 0
    files: tuple[IndexFile, ...] = ()
