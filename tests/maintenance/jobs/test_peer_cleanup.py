"""The official library cleans up between the crash of a compaction and its resume: no row goes."""

import contextlib
import shutil
from datetime import timedelta
from itertools import count

import lance
import pytest

import lance_ops as lo
from lance_ops.errors import LanceOpsError
from lance_ops.storage import open_store
from tests.maintenance.jobs.test_resume import ONE, compact, crash_after, fragments, records, unused, values
from tests.support.faulty_store import FaultyStore, InjectedCrash
from tests.support.interop import xs

# A crash of the process, not of the machine: nothing has to reach the disk.
FAST = {"fsync": "false"}
EXPECTED = [number for number in range(24) if number not in (5, 12)]

pytestmark = pytest.mark.peer


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """Fragments under an index of the official library, two of them with deleted rows."""
    uri = tmp_path_factory.mktemp("template") / "t.lance"
    fragments(str(uri), 6)
    lo.delete(str(uri), "x = 5 or x = 12", runner=ONE)
    lance.dataset(str(uri)).create_scalar_index("x", "BTREE")
    return uri


def clean_up(uri) -> None:
    lance.dataset(str(uri)).cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)


def is_resumed(uri) -> None:
    """The job is run once more: both libraries read the same rows, with the index and without."""
    store = open_store(str(uri), FAST)
    compact(store, commit_every=1)
    theirs = lance.dataset(str(uri))
    assert values(store) == sorted(xs(uri)) == EXPECTED
    for number in (4, 5, 11, 15):
        wanted = [number] if number in EXPECTED else []
        assert theirs.to_table(filter=f"x = {number}")["x"].to_pylist() == wanted
        assert lo.dataset(str(uri)).to_table(filter=f"x = {number}")["x"].to_pylist() == wanted
    theirs.validate()
    assert lo.fsck(lo.Dataset.open(store)).ok
    assert (unused(store), records(store)) == (set(), [])


@pytest.mark.parametrize("when", ["before", "after"])
def test_after_a_crash_at_any_change_of_the_store(template, tmp_path, when):
    for place in count(1):
        uri = tmp_path / f"{place}.lance"
        shutil.copytree(template, uri)
        changes = count(1)
        faulty = FaultyStore(
            open_store(str(uri), FAST),
            lambda call, at=place, seen=changes: call.name in ("put", "close", "delete") and next(seen) == at,
            when=when,
        )
        with contextlib.suppress(InjectedCrash, LanceOpsError):
            compact(faulty, commit_every=1)
        if not faulty.fired:
            break
        clean_up(uri)
        is_resumed(uri)
        shutil.rmtree(uri)
    assert place > 10


def test_results_that_it_removed_are_made_again_and_a_second_cleanup_changes_nothing(template, tmp_path):
    uri = tmp_path / "t.lance"
    shutil.copytree(template, uri)
    crash_after(open_store(str(uri), FAST), 1, commit_every=None)
    assert unused(open_store(str(uri))) != set()
    clean_up(uri)
    assert unused(open_store(str(uri))) == set()
    assert lo.list_jobs(str(uri))[0].groups_done == 1
    is_resumed(uri)
    clean_up(uri)
    assert sorted(xs(uri)) == values(open_store(str(uri))) == EXPECTED
