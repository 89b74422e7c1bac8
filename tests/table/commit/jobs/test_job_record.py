"""Notes and segments: what is written is found, in few requests, and survives whoever gathers at once."""

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from lance_ops.errors import CorruptFileError
from lance_ops.storage import open_store
from lance_ops.table.commit.jobs import job_record
from lance_ops.table.commit.jobs.job_record import (
    JobNote,
    file_mark,
    list_notes,
    note_of_file,
    prune,
    put_note,
)
from lance_ops.table.commit.jobs.job_segments import (
    Lineage,
    find_in_segments,
    merge_ranges,
    read_lineage,
    read_segments,
    write_segment,
)
from lance_ops.table.transaction.operations import ReserveFragments
from lance_ops.table.transaction.transaction import JOB_KEY, job_uuid_prefix, new_transaction
from tests.support.counting_store import CountingStore

NOW = datetime(2026, 5, 4, 3, 2, 1, 999_999, tzinfo=UTC)


@pytest.fixture
def store():
    return open_store(f"memory://{uuid.uuid4()}")


def note(key: str, version: int = 7, moment: datetime = NOW) -> JobNote:
    name = new_transaction(ReserveFragments(1), 0, properties={JOB_KEY: key}).uuid
    return JobNote(name, version - 1, file_mark(f"data/{key}.lance"), version, moment)


def test_a_note_is_found_by_its_job_with_all_it_says(store):
    one, other = note("one"), note("other", version=2**62)
    for each in (one, other):
        put_note(store, each)
    assert list_notes(store, job_uuid_prefix("one")) == [one]
    assert list_notes(store, job_uuid_prefix("none")) == []
    assert sorted(list_notes(store), key=str) == sorted([one, other], key=str)


def test_an_attempt_tells_when_it_was_noted(store):
    put_note(store, replace(note("one"), version=0))
    (found,) = list_notes(store)
    assert found.version == 0
    assert abs(datetime.now(UTC) - found.moment) < timedelta(hours=1)


def test_notes_that_earlier_releases_put_into_folders_are_found(store):
    old, new = note("one"), note("one", version=9)
    store.put(f"{job_record.NOTES}/{old.uuid[:2]}/{old.path.rpartition('/')[2]}", b"")
    put_note(store, new)
    put_note(store, note("other"))
    assert sorted(list_notes(store, job_uuid_prefix("one")), key=str) == sorted([old, new], key=str)
    assert len(list_notes(store)) == 3


def test_a_torn_segment_without_notes_is_one_that_knows_nothing(store):
    segment = write_segment(store, [], Lineage(((1, 5),), {4: 2}, 9, "8-x.txn"))
    store.put(segment.path, b"")
    assert read_lineage(store) == Lineage()
    assert read_segments(store) == ([replace(segment, size=0)], [], Lineage())
    assert find_in_segments(store, job_uuid_prefix("one")) == ([], [replace(segment, size=0)])


def test_other_files_are_passed_over(store):
    for name in ("x", ".tmp_abc", "01234567-89ab-8def-8000-000000000000", "a.b.c.d.e"):
        store.put(f"{job_record.NOTES}/01/{name}", b"")
        store.put(f"{job_record.SEGMENTS}/{name}", b"")
    assert list_notes(store) == []
    assert find_in_segments(store, job_uuid_prefix("one")) == ([], [])


@pytest.mark.parametrize("count", [1, 5, 4096, 4097, 30_000])
def test_every_job_is_found_in_a_segment_without_reading_much_of_it(store, count):
    random = Random(count)
    notes = [
        replace(note("x", version=n + 1), uuid=str(uuid.UUID(int=random.getrandbits(128))))
        for n in range(count)
    ]
    segment = write_segment(store, notes, Lineage(((1, 5),), {4: 2}, 9, "8-x.txn"))
    counting = CountingStore(store)
    for wanted in random.sample(notes, min(count, 50)):
        counting.reset()
        assert find_in_segments(counting, wanted.uuid[:18]) == ([wanted], [segment])
        assert len(counting.requests) == 1
        assert counting.num_bytes <= max(4096 * 64, segment.size // 8)
    assert find_in_segments(store, job_uuid_prefix("absent"))[0] == []
    assert sorted(read_segments(store)[1], key=str) == sorted(notes, key=str)
    assert read_lineage(store) == Lineage(((1, 5),), {4: 2}, 9, "8-x.txn")


def test_a_job_is_found_however_uneven_the_keys_are(store):
    names = [f"00000000-0000-8000-8000-{n:012x}" for n in range(6000)] + [
        "ffffffff-0000-8000-8000-000000000000"
    ]
    write_segment(store, [JobNote(name, 0, 0, 1, NOW) for name in names], Lineage())
    assert len(find_in_segments(store, names[0][:18])[0]) == 6000
    assert len(find_in_segments(store, names[-1][:18])[0]) == 1
    assert find_in_segments(store, job_uuid_prefix("absent"))[0] == []


@pytest.mark.parametrize("place", [0, 20, 70, -1, -10])
def test_damage_is_told_and_never_an_answer(store, place):
    write_segment(store, [note("one"), note("two")], Lineage(((1, 3),)))
    (info,) = store.list(job_record.SEGMENTS)
    data = bytearray(bytes(store.read(info.path)))
    data[place] ^= 0xFF
    store.put(info.path, data)
    with pytest.raises(CorruptFileError, match="job keys"):
        read_lineage(store)
    # Whoever gathers leaves it alone.
    assert read_segments(store) == ([], [], Lineage())


def test_a_cut_segment_is_damage(store):
    write_segment(store, [note("one"), note("two")], Lineage())
    (info,) = store.list(job_record.SEGMENTS)
    store.put(info.path, bytes(store.read(info.path))[:90])
    for look in (read_lineage, lambda store: find_in_segments(store, job_uuid_prefix("one"))):
        with pytest.raises(CorruptFileError):
            look(store)


def test_a_segment_that_is_gathered_meanwhile_is_looked_for_again(store):
    one = note("one")
    first = write_segment(store, [one], Lineage())

    class Gathering(CountingStore):
        def read(self, path, offset=0, length=None):
            if path == first.path:
                write_segment(self.inner, [one], Lineage())
                self.inner.delete(path)
            return super().read(path, offset, length)

    assert find_in_segments(Gathering(store), one.uuid[:18])[0] == [one]


def test_ranges_are_put_together_where_they_meet():
    assert merge_ranges([(5, 6), (1, 2), (3, 3), (9, 9), (5, 5)]) == ((1, 3), (5, 6), (9, 9))
    assert merge_ranges([]) == ()
    joined = Lineage(((1, 4),), {3: 1}, 4, "a").join(Lineage(((5, 9),), {7: 2}, 9, "b"))
    assert joined == Lineage(((1, 9),), {3: 1, 7: 2}, 9, "b")


def test_keys_go_by_age_and_by_number():
    notes = [note(str(n), moment=NOW - timedelta(days=n)) for n in range(10)]
    assert prune(notes, timedelta(days=4), 100, NOW) == notes[:5]
    assert prune(notes, timedelta(days=90), 3, NOW) == notes[:3]


def test_transaction_files_of_jobs_are_recognised_by_their_names():
    keyed = new_transaction(ReserveFragments(1), 12, properties={JOB_KEY: "k"})
    assert note_of_file(keyed.file_name, NOW) == JobNote(keyed.uuid, 12, moment=NOW)
    assert note_of_file("12-0c5f11aa-7a3c-4b1e-9d2f-0123456789ab.txn", NOW) is None
    assert note_of_file("notes.txt", NOW) is None
