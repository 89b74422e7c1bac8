"""Damaged files: a typed error that names the file, or the right rows; and nothing else on disk changes."""

import contextlib
import random
import resource
import signal
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

import lance_ops as lo
from lance_ops.errors import LanceOpsError
from lance_ops.index.search.pruner import IndexPruner
from lance_ops.storage import Store
from tests.safety.actions import Append, Compact, Create, CreateIndex, Delete, OptimizeIndices, Restore
from tests.safety.crashes import state_of
from tests.safety.profile import FACTOR, SIMULATING
from tests.safety.rows import PROBES, Row, compare, is_in, make_rows, remainder, to_arrow
from tests.safety.states import IN_ORDER, memory, objects, put_all, read_rows
from tests.support.faulty_store import FaultyStore

# An index that cannot be read is a warning.
pytestmark = pytest.mark.filterwarnings("ignore::lance_ops.errors.UnreadableIndexWarning")

START = (
    Create(count=7, rows_per_file=4),
    CreateIndex("v"),
    Delete(remainder(5, 2)),
    Append(first=20, count=3, pattern=1),
)
PROBE = PROBES["v"][1]


def read(store: Store) -> object:
    return lo.Dataset.open(store).to_table()


def search(store: Store) -> object:
    return lo.Dataset.open(store).to_table(filter=PROBE.sql, pruners=[IndexPruner()])


def history(store: Store) -> object:
    dataset = lo.Dataset.open(store)
    return dataset.versions(), dataset.history(), dataset.data_version


def append(store: Store) -> object:
    return lo.append(store, to_arrow(make_rows(50, 2)), job_key="a job")


def delete(store: Store) -> object:
    return lo.delete(store, "k = 1", runner=IN_ORDER)


def cleanup(store: Store) -> object:
    return lo.cleanup(store, older_than=timedelta(0))


def fsck(store: Store) -> object:
    return lo.fsck(store, deep=True)


READERS: dict[str, Callable[[Store], object]] = {
    "read": read,
    "search": search,
    "history": history,
    "fsck": fsck,
}
WRITERS: dict[str, Callable[[Store], object]] = {
    "append": append,
    "delete": delete,
    "compact": Compact(threshold=0.0).run,
    "optimize indices": OptimizeIndices().run,
    "restore": Restore(version=1).run,
}
OPERATIONS = {**READERS, **WRITERS, "cleanup": cleanup}

FILES = {
    "newest manifest": lambda path: path.startswith("_versions/18446744073709551611"),
    "an older manifest": lambda path: path.startswith("_versions/18446744073709551613"),
    "newest transaction": lambda path: path.startswith("_transactions/3-"),
    "deletion file": lambda path: path.startswith("_deletions/"),
    "data file": lambda path: path.startswith("data/"),
    "index pages": lambda path: path.endswith("page_data.lance"),
    "index lookup": lambda path: path.endswith("page_lookup.lance"),
    "hint": lambda path: path.endswith(".json"),
}


@pytest.fixture(scope="module")
def start() -> dict[str, bytes]:
    return state_of(*START)


@pytest.fixture(scope="module")
def rows(start: dict[str, bytes]) -> list[Row]:
    with memory() as store:
        put_all(store, start)
        return read_rows(lo.Dataset.open(store))


@pytest.fixture(scope="module")
def meets(start: dict[str, bytes]) -> Callable[[str, str], bool]:
    """Tell whether an operation looks at a file, or lists it: what never meets one cannot heed its damage."""
    calls = {}
    for name, operation in OPERATIONS.items():
        with memory() as store:
            put_all(store, start)
            counting = FaultyStore(store)
            operation(counting)
            calls[name] = counting.calls

    def found(name: str, path: str) -> bool:
        return any(
            path.startswith(call.path) if call.name.startswith("list") else path == call.path
            for call in calls[name]
        )

    return found


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    """Neither a hang nor memory for whatever a damaged file claims."""

    def stop(*_: object) -> None:
        raise AssertionError("an operation hangs")

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 120 + 60 * FACTOR)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500 << 10


def find(start: dict[str, bytes], what: str) -> str:
    if what == "data file":
        with memory() as store:
            put_all(store, start)
            return f"data/{lo.Dataset.open(store).fragments[0].files[0].path}"
    return next(path for path in sorted(start) if FILES[what](path))


def attempt(content: dict[str, bytes], damaged: str, name: str) -> LanceOpsError | object:
    """Run one operation; other files stay as they are, but for what a successful cleanup removes."""
    with memory() as store:
        put_all(store, content)
        outcome: LanceOpsError | object
        try:
            outcome = OPERATIONS[name](store)
        except LanceOpsError as error:
            outcome = error
        now = objects(store)
        if name in READERS or (isinstance(outcome, LanceOpsError) and name == "cleanup"):
            assert now == content, f"{name} changed something"
        elif name != "cleanup":
            kept = {path: now.get(path) for path in content if not path.endswith(".json")}
            assert kept == {path: data for path, data in content.items() if path in kept}, (
                f"{name} lost something"
            )
        if name in WRITERS and not isinstance(outcome, LanceOpsError):
            # Whatever was committed can be read, or says what is wrong.
            with contextlib.suppress(LanceOpsError):
                lo.Dataset.open(store).to_table()
    return outcome


def truncations(data: bytes) -> Iterator[bytes]:
    """Every shorter file; without simulation those near both ends, and some in between."""
    step = 1 if SIMULATING else max(1, len(data) // 20)
    for length in sorted({*range(0, len(data), step), *range(max(0, len(data) - 3), len(data))}):
        yield data[:length]


def mutations(data: bytes, seed: str) -> Iterator[bytes]:
    rng = random.Random(seed)
    for _ in range(25 * max(1, FACTOR)):
        changed = bytearray(data)
        place = rng.randrange(len(data))
        kind = rng.randrange(5)
        if kind == 0:
            changed[place] ^= 1 << rng.randrange(8)
        elif kind == 1:
            changed[place] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
        elif kind == 2:
            changed[place : place + 8] = b"\xff" * len(changed[place : place + 8])
        elif kind == 3:
            del changed[place : place + rng.randrange(1, 9)]
        else:
            changed[place:place] = rng.randbytes(rng.randrange(1, 9))
        yield bytes(changed)


NEEDED_BY: dict[str, set[str]] = {
    # A restore leads out of it, and fsck says that.
    "newest manifest": set(OPERATIONS) - {"restore", "fsck"},
    "an older manifest": {"cleanup"},
    "newest transaction": set(),
    "deletion file": {"read", "search", "delete", "compact"},
    "data file": {"read", "compact"},
    "index pages": set(),
    "index lookup": set(),
    "hint": set(),
}
"""Operations that cannot do without a file, so that a truncated one has to be an error that names it."""


@pytest.mark.parametrize("what", list(FILES))
def test_a_truncated_file_is_named_or_not_needed(start, rows, meets, what):
    path = find(start, what)
    for number, data in enumerate(truncations(start[path])):
        content = {**start, path: data}
        for name in OPERATIONS:
            if number and not SIMULATING and not meets(name, path):
                continue
            outcome = attempt(content, path, name)
            where = f"{name} with {what} of {len(data)} of {len(start[path])} bytes"
            if isinstance(outcome, LanceOpsError):
                assert path.rpartition("/")[2] in str(outcome), f"{where}: {outcome}"
            elif name in NEEDED_BY[what]:
                raise AssertionError(f"{where}: no error")
            elif name in ("compact", "optimize indices") and what.startswith("index"):
                assert "v_idx" in " ".join(outcome.skipped), where
            elif name in ("read", "search"):
                expected = rows if name == "read" else PROBE.select(rows)
                assert sorted(outcome["id"].to_pylist()) == sorted(row.id for row in expected), where
            elif name == "history" and what == "an older manifest":
                assert any(entry.damage for entry in outcome[1]), where
            elif name == "fsck":
                sound = what in ("an older manifest", "newest transaction", "hint")
                assert outcome.ok == sound, where


@pytest.mark.parametrize("what", list(FILES))
def test_a_changed_file_never_ends_in_anything_but_a_typed_error_or_a_valid_table(start, rows, meets, what):
    path = find(start, what)
    for number, data in enumerate(mutations(start[path], what)):
        for name in OPERATIONS:
            if number and not SIMULATING and not meets(name, path):
                continue
            outcome = attempt({**start, path: data}, path, name)
            if name == "read" and not isinstance(outcome, LanceOpsError):
                outcome.validate(full=True)
                if "manifest" not in what:
                    assert outcome.num_rows == len(rows)


@pytest.mark.parametrize("what", list(FILES))
def test_a_missing_file_is_named_or_not_needed(start, rows, what):
    path = find(start, what)
    content = {name: data for name, data in start.items() if name != path}
    for name in OPERATIONS:
        outcome = attempt(content, path, name)
        if isinstance(outcome, LanceOpsError):
            assert path.rpartition("/")[2] in str(outcome), f"{name} without {what}: {outcome}"
        elif name == "read" and "manifest" not in what:
            assert outcome["id"].to_pylist() == [row.id for row in rows]


def test_the_probe_tells_rows_apart(rows):
    assert 0 < len(PROBE.select(rows)) < len(rows)
    assert is_in("id", [1]).select(rows) != compare("id", "<", 4).select(rows)
