"""Totals and bytes that are carried on from list to list: equal to those made anew of all fragments."""

import pickle

from hypothesis import given, settings
from hypothesis import strategies as st

from lance_ops.table.manifest.fragments import totals
from lance_ops.table.manifest.fragments.fragment_list import FragmentTuple, lacks_row_counts, totals_of
from lance_ops.table.manifest.fragments.totals import FragmentNumbers, kinds_of, numbers_of
from lance_ops.table.transaction.operations import present_files, used_among
from tests.support.table_values import manifest
from tests.table.manifest.fragments.test_fragment_list import FRAGMENTS, U32, framed


def check_totals(carried: FragmentTuple) -> None:
    """What was carried on, against sums over all fragments."""
    plain = tuple(carried)
    ids = [fragment.id for fragment in plain]
    assert totals.highest_id(carried) == max(ids, default=-1)
    assert totals.total_rows(carried) == sum(fragment.num_rows for fragment in plain)
    assert totals.total_physical_rows(carried) == sum(fragment.physical_rows for fragment in plain)
    assert totals.total_bytes(carried) == sum(fragment.data_bytes for fragment in plain)
    files = [file for fragment in plain for file in fragment.files]
    assert totals.file_numbers(carried) == {(file.major, file.minor) for file in files}
    assert totals.lacking_row_ids(carried) == [item.id for item in plain if item.row_ids is None]
    assert totals.have_deletions(carried) == any(item.deletion_file is not None for item in plain)
    assert totals.have_row_ids(carried) == any(item.row_ids is not None for item in plain)
    assert totals.have_spilled(carried) == any(item.spilled for item in plain)
    assert totals.fragments_with_overlays(carried) == [item for item in plain if item.overlays]
    assert totals.any_lacks_row_counts(carried) == any(map(lacks_row_counts, plain))
    assert totals.are_distinct(carried) == (len(set(ids)) == len(ids))
    assert totals.in_id_order(carried) == tuple(sorted(plain, key=lambda fragment: fragment.id))
    assert totals_of(carried) == totals_of(plain)
    assert carried.framed() == framed(plain)


@settings(max_examples=80, deadline=None)
@given(FRAGMENTS, FRAGMENTS, st.data())
def test_what_is_carried_on_is_what_all_fragments_add_up_to(fragments, others, data):
    carried = FragmentTuple(fragments)
    for _ in range(4):
        if data.draw(st.booleans()):
            # From here on there is something to carry on.
            check_totals(carried)
        ids = sorted(totals.ids_of(carried))
        chosen, gone = [], []
        if ids and data.draw(st.booleans()):
            chosen = data.draw(st.lists(st.sampled_from(ids), unique=True))
            gone = data.draw(st.lists(st.sampled_from(ids), unique=True))
        instead = [other.replace(id=number) for number, other in zip(chosen, others, strict=False)]
        first = data.draw(st.sampled_from([0, max(ids, default=-1) + 1]))
        added = [other.replace(id=min(first + place, U32)) for place, other in enumerate(others)]
        following = totals.with_fragments(carried, instead, gone, iter(added))
        replaced = {fragment.id: fragment for fragment in instead}
        assert following == (
            *(replaced.get(item.id, item) for item in carried if item.id not in gone),
            *added,
        )
        assert isinstance(following, FragmentTuple)
        carried = following
        check_totals(carried)
        check_totals(pickle.loads(pickle.dumps(carried)))
        check_totals(totals.in_id_order(carried))


@settings(max_examples=60, deadline=None)
@given(FRAGMENTS, FRAGMENTS)
def test_files_are_found_among_those_before_and_those_that_came(fragments, others):
    carried = FragmentTuple(fragments)
    carried.framed()
    carried = totals.with_fragments(carried, added=others)
    named = {(file.base_id, file.path) for item in (*fragments, *others) for file in item.all_files}
    assert totals.named_among(carried, {*list(named)[:30], (None, "no such file")}) == set(list(named)[:30])
    version = manifest().replace(fragments=carried)
    present = present_files(version)
    some = {*list(present)[:30], "data/no such file"}
    assert used_among(some, version) == frozenset(some & present)


@settings(max_examples=60, deadline=None)
@given(FRAGMENTS, st.data())
def test_some_of_a_tuple_are_those_of_a_list_and_what_is_made_of_them_is_made_once(fragments, data):
    whole = FragmentTuple(fragments)
    edges = st.none() | st.integers(-len(whole) - 1, len(whole) + 1)
    place = slice(data.draw(edges), data.draw(edges), data.draw(st.sampled_from((None, 1, 2, -1))))
    some = whole[place]
    assert isinstance(some, FragmentTuple)
    assert some == tuple(whole)[place]
    check_totals(some)
    for number in range(-len(whole), len(whole)):
        assert whole[number] is tuple(whole)[number]
    assert whole[:] is whole
    kept = numbers_of(some)
    assert numbers_of(some) is kept
    for name in FragmentNumbers.__slots__:
        assert getattr(kept, name).tolist() == getattr(numbers_of(list(some)), name).tolist()
    assert kinds_of(some).tolist() == kinds_of(list(some)).tolist()
    assert not kinds_of(some).flags.writeable
