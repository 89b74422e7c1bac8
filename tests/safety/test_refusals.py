"""Wrong schemas and predicates, full disks, no permission: an error says so, and nothing is lost."""

import itertools
import os
import resource
import subprocess
import sys
import textwrap
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import (
    InvalidArgumentError,
    LanceOpsError,
    PredicateError,
    SchemaMismatchError,
    StorageFullError,
    TaskFailedError,
)
from tests.safety.actions import (
    Action,
    Append,
    Cleanup,
    Compact,
    Create,
    CreateIndex,
    Delete,
    OptimizeIndices,
    Overwrite,
    ReplaceWhere,
    Restore,
    UpdateConfig,
)
from tests.safety.crashes import state_of
from tests.safety.profile import SIMULATING
from tests.safety.rows import SCHEMA, make_rows, remainder, to_arrow
from tests.safety.states import check_sound, litter, memory, objects, on_disk, put_all, read_rows
from tests.support.faulty_store import FaultyStore

START = (
    Create(count=9, rows_per_file=4),
    CreateIndex("v"),
    Delete(remainder(5, 2)),
    Append(first=20, count=3),
)
ACTIONS: dict[str, Action] = {
    "append": Append(first=50, count=6),
    "overwrite": Overwrite(first=50, count=6),
    "replace where": ReplaceWhere(first=0, count=9, predicate=remainder(3, 0)),
    "delete": Delete(remainder(3, 0)),
    "compact": Compact(threshold=0.0),
    "create index": CreateIndex("k"),
    "optimize indices": OptimizeIndices(),
    "restore": Restore(version=1),
    "update config": UpdateConfig(),
}


@pytest.fixture(scope="module")
def start() -> dict[str, bytes]:
    return state_of(*START)


@pytest.fixture
def table(start):
    with memory() as store:
        put_all(store, start)
        yield store


DATA = to_arrow(make_rows(50, 3))
WRONG = {
    "a column is missing": DATA.drop(["k"]),
    "a column is new": DATA.append_column("extra", pa.array([1, 2, 3])),
    "another type": DATA.set_column(1, "k", pa.array(["1", "2", "3"])),
    "a value too large": DATA.set_column(1, "k", pa.array([1, 2**40, 3])),
    "a name in another case": DATA.rename_columns(["ID", "k", "v", "s"]),
    "a column twice": pa.Table.from_arrays([*DATA.columns, DATA["k"]], [*SCHEMA.names, "k"]),
}


@pytest.mark.parametrize("data", list(WRONG.values()), ids=list(WRONG))
def test_data_that_do_not_fit_change_nothing(table, start, data):
    with pytest.raises(LanceOpsError) as caught:
        lo.append(table, data)
    assert isinstance(caught.value, SchemaMismatchError | InvalidArgumentError), repr(caught.value)
    assert objects(table) == start


def test_all_mismatches_are_told_at_once(table):
    data = (
        DATA.drop(["v"]).append_column("extra", pa.array([1, 2, 3])).set_column(1, "k", pa.array(["a"] * 3))
    )
    with pytest.raises(SchemaMismatchError) as caught:
        lo.append(table, data)
    assert len(caught.value.mismatches) == 3
    for name in ("v", "extra", "k"):
        assert any(repr(name) in line or name in line for line in caught.value.mismatches)


def test_a_batch_that_breaks_in_the_middle_of_a_stream_leaves_no_file(table, start):
    def batches():
        yield from DATA.to_batches()
        raise ValueError("the source broke")

    with pytest.raises(ValueError, match="broke"):
        lo.append(table, pa.RecordBatchReader.from_batches(SCHEMA, batches()), max_rows_per_file=2)
    assert objects(table) == start


@pytest.mark.parametrize(
    "predicate",
    [
        "",
        "   ",
        "id >",
        "id = 1 AND",
        "nosuch = 1",
        "id = 'a' OR (",
        "id; drop table t",
        "select * from t",
        "s + 1 = 'x' = ",
        "id = 1 -- and\n)",
        "s.x = 1",
        "id",
        "1 + 1",
        "id IN ()",
        "nosuch(id)",
        "id LIKE '%'",
        "'unclosed",
        "id = 1 " * 500,
        "(" * 3000 + "id = 1" + ")" * 3000,
        " AND ".join(["id = 1"] * 2_000),
        "\x00",
        "💥 = 1",
    ],
    ids=lambda text: repr(text[:20]),
)
def test_a_predicate_that_makes_no_sense_changes_nothing(table, start, predicate):
    for operation in (
        lambda: lo.delete(table, predicate),
        lambda: lo.delete(table, predicate, dry_run=True),
        lambda: lo.Dataset.open(table).to_table(filter=predicate),
        lambda: lo.Dataset.open(table).count_rows(predicate),
    ):
        error = error_of(operation)
        if error is None:
            # Long, and right.
            assert predicate.startswith(("(((", "id = 1 AND id")), "it was accepted"
            put_all(table, start)
        else:
            assert isinstance(error, PredicateError | InvalidArgumentError), repr(error)
            assert objects(table) == start


def error_of(operation: Callable[[], object]) -> LanceOpsError | None:
    try:
        operation()
    except LanceOpsError as error:
        return error
    return None


@pytest.mark.parametrize("name", list(ACTIONS))
def test_a_full_disk_ends_in_its_error_and_leaves_nothing(start, name):
    action = ACTIONS[name]
    with memory() as store:
        put_all(store, start)
        before = read_rows(lo.Dataset.open(store))
        whole = FaultyStore(store, full_disk_after_bytes=1 << 40)
        action.run(whole)
    # The disk is full in the middle of each write in turn.
    ends = list(itertools.accumulate(whole.sizes))
    budgets = [end - -(-size // 2) for end, size in zip(ends, whole.sizes, strict=True)]
    refused = 0
    for budget in range(0, ends[-1] + 2_000, 16) if SIMULATING else budgets:
        with memory() as store:
            put_all(store, start)
            full = FaultyStore(store, full_disk_after_bytes=budget)
            error = error_of(partial(action.run, full))
            if error is not None:
                refused += 1
                assert isinstance(error, StorageFullError | TaskFailedError), repr(error)
                assert any(isinstance(cause, StorageFullError) for cause in (error, error.__cause__))
                assert read_rows(lo.Dataset.open(store)) == before
                assert not litter(store)
                full.disarm()
                action.run(full)
            rows = check_sound(lo.Dataset.open(store))
            assert rows == action.after(before, {1: make_rows(0, 9)}) or action.moves_rows
    assert refused


LIMITED = """
    import resource, sys
    import pytest
    import lance_ops as lo
    from lance_ops.errors import LanceOpsError, StorageError
    from tests.safety.rows import make_rows, to_arrow
    from tests.safety.states import check_sound

    uri, limit = sys.argv[1], int(sys.argv[2])
    before = check_sound(lo.dataset(uri))
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    with pytest.raises(LanceOpsError) as caught:
        lo.append(uri, to_arrow(make_rows(100, 5000)))
    assert isinstance(caught.value, StorageError), repr(caught.value)
    assert str(uri) in str(caught.value)
    assert check_sound(lo.dataset(uri)) == before
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    lo.append(uri, to_arrow(make_rows(100, 5000)))
    assert len(check_sound(lo.dataset(uri))) == len(before) + 5000
"""


@pytest.mark.parametrize("limit", [0, 100, 4096, 10_000])
def test_files_may_not_grow_beyond_the_limit_of_the_process(start, tmp_path, limit):
    uri = on_disk(start, tmp_path / "t.lance")
    run(LIMITED, str(uri), str(limit))


FULL = """
    import sys
    import pytest
    import lance_ops as lo
    from lance_ops.errors import LanceOpsError, StorageFullError, TaskFailedError
    from tests.safety.rows import make_rows, to_arrow
    from tests.safety.states import check_sound

    uri = sys.argv[1]
    lo.write_dataset(to_arrow(make_rows(0, 300)), uri, max_rows_per_file=100)
    rows, number = 300, 0
    with pytest.raises(StorageFullError):
        while True:
            lo.append(uri, to_arrow(make_rows(rows, 300)))
            rows += 300
    assert len(check_sound(lo.dataset(uri))) == rows
    for operation in (
        lambda: lo.compact(uri),
        lambda: lo.create_index(uri, "id"),
        lambda: lo.append(uri, to_arrow(make_rows(rows, 3000))),
    ):
        with pytest.raises((StorageFullError, TaskFailedError)):
            operation()
        assert len(check_sound(lo.dataset(uri))) == rows
    # Cleanup needs no space, and makes some.
    result = lo.cleanup(uri, retain_versions=1, older_than=__import__("datetime").timedelta(0))
    assert result.versions_removed
    assert len(check_sound(lo.dataset(uri))) == rows
    lo.delete(uri, "id >= 0 and id < 300")
    assert len(check_sound(lo.dataset(uri))) == rows - 300
"""


def test_a_disk_that_is_really_full(tmp_path):
    mount = tmp_path / "disk"
    mount.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(mount)], check=False, capture_output=True
    )
    if made.returncode:
        pytest.skip("only root may mount a small disk")
    try:
        run(FULL, str(mount / "t.lance"))
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=True)


DENIED = """
    import os, sys
    from datetime import timedelta
    import pytest
    import lance_ops as lo
    from lance_ops.errors import LanceOpsError, PermissionDeniedError
    import lance_ops.maintenance.cleanup.operation, lance_ops.maintenance.compact.operation
    import lance_ops.maintenance.delete.operation, lance_ops.maintenance.fsck.operation
    import lance_ops.maintenance.index.operation, lance_ops.maintenance.ingest.operation
    from tests.safety.rows import make_rows, to_arrow
    from tests.safety.states import IN_ORDER, check_sound

    uri, user = sys.argv[1], int(sys.argv[2])
    before = check_sound(lo.dataset(uri))
    os.setgid(user)
    os.setuid(user)
    assert check_sound(lo.dataset(uri)) == before
    for operation in (
        lambda: lo.append(uri, to_arrow(make_rows(50, 3))),
        lambda: lo.delete(uri, "k = 1", runner=IN_ORDER),
        lambda: lo.compact(uri, materialize_deletions_threshold=0.0, runner=IN_ORDER),
        lambda: lo.create_index(uri, "k", runner=IN_ORDER),
        lambda: lo.cleanup(uri, older_than=timedelta(0)),
        lambda: lo.write_dataset(to_arrow(make_rows(0, 3)), uri + "2"),
    ):
        with pytest.raises(LanceOpsError) as caught:
            operation()
        causes = (caught.value, caught.value.__cause__)
        assert any(isinstance(cause, PermissionDeniedError) for cause in causes), repr(caught.value)
        assert "t.lance" in str(caught.value)
    assert check_sound(lo.dataset(uri)) == before
    if len(sys.argv) > 3:
        # What may not even be read.
        hidden = sys.argv[3]
        for operation in (lambda: lo.dataset(hidden), lambda: lo.append(hidden, to_arrow([]))):
            with pytest.raises(PermissionDeniedError):
                operation()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody without permission")
def test_without_permission_nothing_changes(start, tmp_path):
    folder = tmp_path / "owned"
    uri = on_disk(start, folder / "t.lance")
    hidden = on_disk(start, folder / "hidden.lance")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for path in (folder, *folder.parents):
        # The folder of a run lies one deeper where several processes share it.
        if path.is_relative_to(tmp_path.parents[2]):
            path.chmod(path.stat().st_mode | 0o055)
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    for path in hidden.rglob("*"):
        path.chmod(0)
    run(DENIED, str(uri), "65534", str(hidden))
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def run(code: str, *arguments: str) -> None:
    """Run a script in a process of its own, which may change its limits and its user."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=180,
        cwd=Path(__file__).parents[2],
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_limits_of_this_process_are_as_they_were():
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def test_cleanup_of_nothing_is_no_error(table):
    assert lo.cleanup(table, older_than=timedelta(days=1)).versions_removed == 0
    assert Cleanup(retain=100).run(table).versions_removed == 0
