"""Two drivers of one job commit the same results at once: what one committed, the other takes as done."""

import base64
from itertools import count

import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError
from lance_ops.maintenance.jobs.folder import find_open_job
from lance_ops.maintenance.jobs.results import newest_results, read_result
from lance_ops.storage.memory import MemoryStore
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.transaction.operations import Append
from tests.maintenance.jobs.test_resume import ONE, compact, fragments, records, unused, values
from tests.support.table_actions import commit

_names = count()


class Killed(Exception):  # noqa: N818 - it stands for a dead process
    """The other driver is dead."""


@pytest.fixture
def store() -> MemoryStore:
    """Eight fragments under an index, whose new segment each driver writes for itself."""
    made = MemoryStore(f"memory://two-drivers/{next(_names)}")
    fragments(made, 8)
    lo.create_index(made, "x", runner=ONE)
    return made


def during_the_first_commit(act):
    begun = []

    def note(event) -> None:
        if event.message == "committing" and not begun:
            begun.append(None)
            act()

    return note


@pytest.mark.parametrize("max_replans", [0, 5])
@pytest.mark.parametrize("ours", [1, 3, None])
@pytest.mark.parametrize("theirs", [1, 2, 3, 4])
def test_groups_that_another_driver_committed_are_done(store, ours, theirs, max_replans):
    """It commits one by one, and dies after some; the other driver commits as many at once as it likes."""
    seen = []

    def other() -> None:
        def die(event) -> None:
            if event.message == "committed":
                seen.append(None)
                if len(seen) == theirs:
                    raise Killed

        with pytest.raises(Killed):
            compact(store, commit_every=1, progress=die)

    result = compact(
        store, commit_every=ours, progress=during_the_first_commit(other), max_replans=max_replans
    )
    assert result.groups == 4 - theirs
    assert result.version >= 2 + theirs
    assert not result.failed
    assert values(store) == list(range(32))
    found = Dataset.open(store)
    assert len(found.fragments) == 4
    assert all(found.count_rows(f"x = {value}") == 1 for value in range(32))
    assert lo.fsck(found).ok
    assert records(store) == []
    lo.cleanup(store, retain_versions=100)
    assert unused(store) == set()


def test_results_that_somebody_else_brought_into_the_dataset_are_an_error(store):
    def append_a_result() -> None:
        found = find_open_job(store, "job")
        assert found is not None
        job = found[0]
        name = next(iter(newest_results(job.list()).values()))
        record = read_result(job, name)
        assert record is not None
        new = tuple(Fragment.from_bytes(base64.b64decode(item)) for item in record.values["fragments"])
        commit(Dataset.open(store), Append(new))

    with pytest.raises(InvalidArgumentError, match="belongs to the dataset, by another commit"):
        compact(store, progress=during_the_first_commit(append_a_result))
