"""Random sequences of operations by both writers on one table, beside a list of what must be there."""

import lance
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_ops as lo
from tests.support.interop import peer_table, rows

PREDICATES = {
    "x % 5 = 2": lambda x: x % 5 == 2,
    "s like '%3%'": lambda x: x % 7 != 3 and "3" in f"row {x}",
    "f is null or x < 4": lambda x: x % 5 == 4 or x < 4,
    "x between 10 and 25": lambda x: 10 <= x <= 25,
    "x > 40": lambda x: x > 40,
}

STEPS = st.one_of(
    st.tuples(st.just("append"), st.sampled_from(["we", "peer"]), st.integers(1, 12)),
    st.tuples(st.just("delete"), st.sampled_from(["we", "peer"]), st.sampled_from(sorted(PREDICATES))),
    st.tuples(st.just("compact"), st.sampled_from(["we", "peer"]), st.integers(1, 30)),
    st.tuples(st.just("index"), st.sampled_from(["we", "peer"]), st.none()),
    st.tuples(st.just("late delete"), st.just("we"), st.sampled_from(sorted(PREDICATES))),
    st.tuples(st.just("late compact"), st.just("we"), st.sampled_from(sorted(PREDICATES))),
)


class Meddler:
    """Lets the peer in once, after our tasks and before our commit."""

    def __init__(self, action):
        self.action = action

    def map(self, function, tasks, *, on_done=None):
        results = lo.LocalRunner(1).map(function, tasks, on_done=on_done)
        action, self.action = self.action, lambda: None
        action()
        return results


class Table:
    """The table and its model: the x of every live row, in the order of rows where nothing was compacted."""

    def __init__(self, uri, stable, version):
        self.uri, self.stable, self.next, self.live, self.ordered = str(uri), stable, 0, [], True
        self.version = version

    def append(self, who, count):
        data = rows(self.next, self.next + count)
        if who == "we":
            options = {"data_storage_version": self.version, "enable_stable_row_ids": self.stable}
            lo.append(self.uri, data, max_rows_per_file=7, **options)
        else:
            mode = "append" if self.live or self.next else "create"
            options = {"data_storage_version": self.version, "enable_stable_row_ids": self.stable}
            lance.write_dataset(data, self.uri, mode=mode, **options)
        self.live += range(self.next, self.next + count)
        self.next += count

    def delete(self, who, predicate):
        gone = [x for x in self.live if PREDICATES[predicate](x)]
        if who == "we":
            assert lo.delete(self.uri, predicate).rows_deleted == len(gone)
        else:
            lance.dataset(self.uri).delete(predicate)
        self.live = [x for x in self.live if x not in set(gone)]

    def compact(self, who, target):
        if who == "we":
            # Alternately with copied pages and rewritten rows.
            method = ("copy", "rewrite")[lo.dataset(self.uri).version % 2]
            lo.compact(self.uri, target_rows_per_fragment=target, method=method)
        else:
            lance.dataset(self.uri).optimize.compact_files(target_rows_per_fragment=target)
        self.ordered = False

    def index(self, who, _):
        if who == "we":
            lo.create_index(self.uri, "x", "BTREE", replace=True)
        else:
            lance.dataset(self.uri).create_scalar_index("x", "BTREE", replace=True)

    def late_delete(self, who, predicate):
        """Our delete of some rows, while the peer deletes by another predicate."""
        theirs = sorted(PREDICATES)[(sorted(PREDICATES).index(predicate) + 1) % len(PREDICATES)]
        lo.delete(self.uri, predicate, runner=Meddler(lambda: lance.dataset(self.uri).delete(theirs)))
        self.live = [x for x in self.live if not PREDICATES[predicate](x) and not PREDICATES[theirs](x)]

    def late_compact(self, who, predicate):
        """Our compaction, while the peer deletes."""
        lo.compact(self.uri, runner=Meddler(lambda: lance.dataset(self.uri).delete(predicate)))
        # Without anything to rewrite nobody asked the peer to come in.
        if lo.dataset(self.uri).count_rows() != len(self.live):
            self.live = [x for x in self.live if not PREDICATES[predicate](x)]
        self.ordered = False

    def check(self):
        theirs = peer_table(self.uri)
        ours = lo.dataset(self.uri).to_table()
        assert ours == theirs
        found = theirs["x"].to_pylist()
        assert (found if self.ordered else sorted(found)) == self.live
        assert theirs.sort_by("x") == rows(0, self.next).take(self.live)
        for x in (0, 3, 12, 41):
            expected = [x] if x in self.live else []
            assert peer_table(self.uri, filter=f"x = {x}")["x"].to_pylist() == expected
            assert lo.dataset(self.uri).to_table(filter=f"x = {x}")["x"].to_pylist() == expected


@pytest.mark.peer
@settings(max_examples=40)
@given(st.booleans(), st.sampled_from(["2.0", "2.1", "2.2"]), st.lists(STEPS, min_size=2, max_size=9))
def test_no_sequence_of_operations_loses_or_invents_a_row(tmp_path_factory, stable, version, steps):
    table = Table(tmp_path_factory.mktemp("model") / "t.lance", stable, version)
    table.append("we" if stable else "peer", 9)
    table.append("peer", 5)
    for name, who, argument in steps:
        getattr(table, name.replace(" ", "_"))(who, argument)
        table.check()
