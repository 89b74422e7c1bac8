"""Random operations."""

from hypothesis import strategies as st

from tests.safety import peer
from tests.safety.actions import (
    Action,
    Append,
    Cleanup,
    Compact,
    Create,
    CreateIndex,
    Delete,
    DropIndex,
    OptimizeIndices,
    Overwrite,
    ReplaceWhere,
    Restore,
    Tag,
    Update,
    UpdateConfig,
    Upsert,
)
from tests.safety.column_actions import (
    CompactColumns,
    PartitionedUpsert,
    ReplaceColumn,
    Truncate,
    UpdateInPlace,
)
from tests.safety.rows import PREDICATES

COLUMNS = st.sampled_from(["id", "k", "v", "s"])
PATTERNS = st.integers(0, 6)

CREATES = st.builds(
    Create,
    count=st.integers(0, 12),
    pattern=PATTERNS,
    rows_per_file=st.integers(2, 12),
    stable_row_ids=st.booleans(),
)

SHARED_ACTIONS: st.SearchStrategy[Action] = st.one_of(
    st.builds(Append, count=st.integers(0, 9), pattern=PATTERNS, rows_per_file=st.integers(1, 9)),
    st.builds(Append, count=st.integers(1, 4), pattern=PATTERNS),
    st.builds(Delete, PREDICATES),
    st.builds(Delete, PREDICATES),
    st.builds(Update, PREDICATES, st.sampled_from(["a", "", "zz"])),
    st.builds(Upsert, first=st.integers(0, 20), count=st.integers(1, 5), pattern=PATTERNS),
    st.builds(
        Compact,
        target=st.sampled_from([1, 3, 6, 20, 1 << 20]),
        threshold=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
        commit_every=st.sampled_from([None, None, 1]),
        defer=st.booleans(),
    ),
    st.builds(CreateIndex, COLUMNS, rows_per_task=st.sampled_from([3, 1 << 22])),
    st.builds(OptimizeIndices, merge_segments=st.integers(0, 3), rebuild=st.booleans()),
    st.builds(DropIndex, st.integers(0, 3)),
    st.builds(Overwrite, count=st.integers(0, 6), pattern=PATTERNS),
    st.builds(Cleanup, retain=st.integers(1, 4), delete_unverified=st.booleans()),
    st.builds(Restore, st.integers(0, 50)),
    st.builds(Tag, st.sampled_from(["t1", "t2"]), st.integers(0, 50)),
    st.builds(UpdateConfig, st.sampled_from(["team", "owner"]), st.sampled_from(["blue", "red"])),
)

ACTIONS: st.SearchStrategy[Action] = st.one_of(
    SHARED_ACTIONS,
    SHARED_ACTIONS,
    SHARED_ACTIONS,
    st.builds(
        ReplaceWhere,
        count=st.integers(0, 20),
        pattern=PATTERNS,
        rows_per_file=st.integers(1, 9),
        predicate=PREDICATES,
    ),
    st.builds(ReplaceColumn, st.sampled_from(["a", "", "zz"])),
    st.builds(CompactColumns),
    st.builds(UpdateInPlace, PREDICATES, st.sampled_from(["a", "", "zz"])),
    st.builds(PartitionedUpsert, first=st.integers(0, 20), count=st.integers(1, 5), pattern=PATTERNS),
    st.builds(Truncate),
)

PEERS_ACTIONS: st.SearchStrategy[Action] = st.one_of(
    SHARED_ACTIONS,
    st.builds(peer.CompactAndRemapLater, st.sampled_from([1, 6, 1 << 20])),
    st.builds(peer.OtherIndex, COLUMNS, st.sampled_from(["BITMAP", "ZONEMAP", "BLOOMFILTER"])),
)
"""Everything the peer can do to a table of plain columns."""

TURNS = st.one_of(st.tuples(ACTIONS, st.just(False)), st.tuples(PEERS_ACTIONS, st.just(True)))
"""An operation, and whether the peer does it."""

HISTORIES = st.lists(ACTIONS, max_size=14)
