"""Watches: observations of rows that a rewrite reads anyway, so that indices do not read them again."""

from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Watch:
    """Observation of the rows of new fragments; picklable for executors.

    Attributes:
        kind: Name of the index kind.
        field_id: Of the column.
        parameters: Build parameters of the segment; notes with other ones are useless.
    """

    kind: str
    field_id: int
    parameters: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Noted:
    """Result of a watch.

    Attributes:
        watch: The watch.
        notes: For each new fragment, in order, the input of the kind for its segment; None if it has to read
            the rows.
    """

    watch: Watch
    notes: tuple[bytes | None, ...]


class Observer(Protocol):
    """Takes the values of one new fragment as they pass."""

    def add(self, values: pa.Array) -> None:
        """Add the values of the next rows, of the type `index.column.value_type`."""
        ...

    def finish(self) -> bytes:
        """Return the notes for `SegmentMove.noted`."""
        ...
