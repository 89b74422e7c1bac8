"""What a pruner says."""

from hypothesis import given
from hypothesis import strategies as st

from lance_ops.table.manifest.row_set import RowSet
from lance_ops.table.scan.pruner import Pruning

OFFSETS = st.sets(st.integers(0, 2**32 - 1), max_size=10)


@given(st.dictionaries(st.integers(0, 2**32 - 1), OFFSETS, max_size=5), st.integers(0, 2**32 - 1))
def test_addresses_come_apart_into_fragments_and_offsets(candidates, other):
    addresses = sorted((number << 32) + offset for number in candidates for offset in candidates[number])
    pruning = Pruning(frozenset(candidates), RowSet.of(addresses))
    for number in (*candidates, other):
        assert list(pruning.offsets_in(number)) == sorted(candidates.get(number, ()))
