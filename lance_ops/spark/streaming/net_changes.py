"""Net changes of an epoch: the last change of each key in a change feed.

A feed has the deleted, updated and inserted rows of each version. A mirror needs the final state: the present
rows, and the deleted keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.encoding.distinct import distinct
from lance_ops.errors import InvalidArgumentError, UnsupportedError
from lance_ops.spark.streaming.columns import CHANGE_FIELDS
from lance_ops.table.changes import (
    CHANGE_TYPE,
    COMMIT_VERSION,
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
)
from lance_ops.table.join_keys import KeyIndex, Places, check_key_type, plain_keys

_ADDED = (INSERT, UPDATE_AFTER)
_KNOWN = (*_ADDED, DELETE, UPDATE_BEFORE)


@dataclass(frozen=True, slots=True)
class NetChanges:
    """Net changes.

    Attributes:
        rows: Rows to update or insert, without the columns of the feed.
        gone: Keys of rows to delete; the key columns.
    """

    rows: pa.Table
    gone: pa.Table


def net_changes(feed: pa.Table, on: Sequence[str]) -> NetChanges:
    """Compute the net changes of the rows of an epoch.

    Args:
        feed: Rows with the columns of mode "changes", with both rows of each update, in any order.
        on: Key columns.

    Raises:
        InvalidArgumentError: A type of change is unknown, or a key has a null.
        UnsupportedError: The key of a row was updated.
    """
    kinds = pc.index_in(feed[CHANGE_TYPE], value_set=pa.array(_KNOWN)).fill_null(len(_KNOWN))
    kinds = kinds.to_numpy()
    unknown = pc.unique(feed[CHANGE_TYPE].filter(pa.array(kinds == len(_KNOWN))))
    if len(unknown):
        raise InvalidArgumentError(
            f"unknown type of change: {', '.join(sorted(map(str, unknown.to_pylist())))}",
            field=CHANGE_TYPE,
            hint=f"there are {', '.join(_KNOWN)}",
        )
    nulls = [name for name in on if feed[name].null_count]
    if nulls:
        raise InvalidArgumentError("a row with a null in its key cannot be mirrored", field=", ".join(nulls))
    for name in on:
        check_key_type(name, feed.schema.field(name).type)
    # The first row with a key represents the key.
    _, keys = KeyIndex.of([plain_keys(feed[name]) for name in on])
    versions = feed[COMMIT_VERSION].to_numpy().astype(np.int64)
    _refuse_new_keys(feed, keys, kinds, versions, on)
    is_added = kinds < len(_ADDED)
    # Within a version, deletions come first: a row may be deleted and inserted again.
    ranks = 2 * versions + is_added
    last = np.full(len(keys), np.iinfo(np.int64).min)
    np.maximum.at(last, keys, ranks)
    is_last = last[keys] == ranks
    rows = feed.drop_columns([field.name for field in CHANGE_FIELDS if field.name in feed.column_names])
    gone = distinct(keys[is_last & ~is_added])
    return NetChanges(rows.filter(pa.array(is_last & is_added)), feed.select(list(on)).take(pa.array(gone)))


def _refuse_new_keys(
    feed: pa.Table, keys: Places, kinds: npt.NDArray[Any], versions: Places, on: Sequence[str]
) -> None:
    """Check that no key was updated: the change of its new owner may be in an earlier epoch."""
    numbers = np.unique(versions, return_inverse=True)[1]
    pairs = numbers * max(len(keys), 1) + keys
    before = np.flatnonzero(kinds == _KNOWN.index(UPDATE_BEFORE))
    lost = before[~np.isin(pairs[before], pairs[kinds == _KNOWN.index(UPDATE_AFTER)])]
    if len(lost):
        row = int(lost[np.argmin(versions[lost])])
        key = tuple(feed[name][row].as_py() for name in on)
        raise UnsupportedError(
            f"version {versions[row]} changed the key {key} of a row",
            field=", ".join(on),
            hint="mirror by a key that never changes, or start over with a new checkpoint after that version",
        )
