"""Watches: what indices note of rows that a rewrite reads anyway, so that nobody reads them a second time."""

from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Watch:
    """What is to be noted of the rows of new fragments; travels to executors.

    Attributes:
        kind: Name of the kind of index that notes it.
        field_id: Of the column.
        parameters: How the segment is made: notes made with others are of no use to it.
    """

    kind: str
    field_id: int
    parameters: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Noted:
    """What a watch noted.

    Attributes:
        watch: The watch.
        notes: Of each new fragment, in their order, what the kind makes its segment from; None where it has
            to look at the rows itself.
    """

    watch: Watch
    notes: tuple[bytes | None, ...]


class Observer(Protocol):
    """Takes the values of one new fragment as they pass."""

    def add(self, values: pa.Array) -> None:
        """The values of the next rows, of the type that `index.column.value_type` says."""
        ...

    def finish(self) -> bytes:
        """What was noted, for `SegmentMove.noted`."""
        ...
