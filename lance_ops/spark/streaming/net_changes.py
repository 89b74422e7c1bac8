"""Net changes of an epoch: what the rows of a change feed come to, key by key.

A feed tells version by version what was deleted, updated and inserted. A mirror needs the last of it: the
rows that are there now, and the keys that are gone.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_ops.errors import InvalidArgumentError, UnsupportedError
from lance_ops.filter.expression import Column, Expression, Literal
from lance_ops.filter.junctions import all_of, any_of
from lance_ops.filter.literals import from_scalar
from lance_ops.filter.predicates import Comparison, InList
from lance_ops.filter.types.coercion import plain_type
from lance_ops.spark.streaming.columns import CHANGE_FIELDS
from lance_ops.table.changes import (
    CHANGE_TYPE,
    COMMIT_VERSION,
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
)

_ADDED = (INSERT, UPDATE_AFTER)
_KNOWN = (*_ADDED, DELETE, UPDATE_BEFORE)


@dataclass(frozen=True, slots=True)
class NetChanges:
    """What is left to do.

    Attributes:
        rows: Rows to update or insert, without the columns of the feed.
        gone: Keys of rows to delete; the columns of the key.
    """

    rows: pa.Table
    gone: pa.Table

    def gone_sql(self) -> str | None:
        """A filter that selects the rows to delete; None when there are none."""
        if not self.gone.num_rows:
            return None
        return _among(self.gone).to_sql()


def net_changes(feed: pa.Table, on: Sequence[str]) -> NetChanges:
    """Work out what the rows of an epoch come to.

    Args:
        feed: Rows with the columns of mode "changes", of whole updates, in any order.
        on: Columns of the key.

    Raises:
        InvalidArgumentError: A change of no known kind, or a key with a null, which no row can be found by.
        UnsupportedError: The key of a row was updated.
    """
    kinds, versions = feed[CHANGE_TYPE].to_pylist(), feed[COMMIT_VERSION].to_pylist()
    unknown = sorted({str(kind) for kind in kinds if kind not in _KNOWN})
    if unknown:
        raise InvalidArgumentError(
            f"no such kind of change: {', '.join(unknown)}",
            field=CHANGE_TYPE,
            hint=f"there are {', '.join(_KNOWN)}",
        )
    nulls = [name for name in on if feed[name].null_count]
    if nulls:
        raise InvalidArgumentError("a row without a key cannot be mirrored", field=", ".join(nulls))
    keys = list(zip(*(feed[name].to_pylist() for name in on), strict=True))
    _refuse_new_keys(keys, kinds, versions, on)
    # Within a version, what is gone comes before what is there: a row may be deleted and written anew.
    ranks = [2 * version + (kind in _ADDED) for kind, version in zip(kinds, versions, strict=True)]
    last: dict[tuple[object, ...], int] = {}
    for key, rank in zip(keys, ranks, strict=True):
        last[key] = max(last.get(key, -1), rank)
    is_last = np.array([last[key] == rank for key, rank in zip(keys, ranks, strict=True)], dtype=bool)
    is_added = np.array([kind in _ADDED for kind in kinds], dtype=bool)
    rows = feed.drop_columns([field.name for field in CHANGE_FIELDS if field.name in feed.column_names])
    gone = feed.select(list(on)).filter(pa.array(is_last & ~is_added))
    return NetChanges(rows.filter(pa.array(is_last & is_added)), gone.group_by(list(on)).aggregate([]))


def _refuse_new_keys(
    keys: Sequence[tuple[object, ...]], kinds: Sequence[str], versions: Sequence[int], on: Sequence[str]
) -> None:
    """A version may be cut between epochs: who took the former key of a row may have come before."""
    sides: dict[str, set[tuple[object, ...]]] = {UPDATE_BEFORE: set(), UPDATE_AFTER: set()}
    for key, kind, version in zip(keys, kinds, versions, strict=True):
        if kind in sides:
            sides[kind].add((version, *key))
    lost = sides[UPDATE_BEFORE] - sides[UPDATE_AFTER]
    if lost:
        first = min(lost, key=repr)
        raise UnsupportedError(
            f"version {first[0]} gave the row with the key {first[1:]} another one",
            field=", ".join(on),
            hint="mirror by a key that stays, or begin again with a new checkpoint behind that version",
        )


def _among(keys: pa.Table) -> Expression:
    columns = [Column((field.name,), plain_type(field.type)) for field in keys.schema]
    values: Iterable[tuple[object, ...]] = zip(
        *([from_scalar(scalar) for scalar in keys[column.path[0]].cast(column.type)] for column in columns),
        strict=True,
    )
    if len(columns) == 1:
        return InList(columns[0], tuple(value for (value,) in values))
    return any_of(
        tuple(
            all_of(
                tuple(
                    Comparison("=", column, Literal(value, column.type))
                    for column, value in zip(columns, row, strict=True)
                )
            )
            for row in values
        )
    )
