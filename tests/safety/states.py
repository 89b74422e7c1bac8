"""Whole datasets as values: copied, compared, put on disk for the peer."""

import contextlib
import re
import tempfile
import uuid
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import lance_ops as lo
from lance_ops.errors import NotFoundError
from lance_ops.index.search.pruner import IndexPruner
from lance_ops.maintenance.cleanup.line import CleanupOptions, Line
from lance_ops.maintenance.cleanup.plan import plan_cleanup
from lance_ops.maintenance.runner import LocalRunner
from lance_ops.storage import Store, open_store
from tests.safety.rows import PROBES, Row, from_arrow
from tests.support.faulty_store import Call

IN_ORDER = LocalRunner(1)
"""Runs tasks one after the other, so that calls of the store have the same numbers in every run."""


@contextlib.contextmanager
def memory() -> Iterator[Store]:
    """An empty store that is emptied again."""
    store = open_store(f"memory://{uuid.uuid4()}/t.lance")
    try:
        yield store
    finally:
        erase(store)


@contextlib.contextmanager
def folder() -> Iterator[Store]:
    """An empty folder, which the peer can read too, and which is removed again."""
    with tempfile.TemporaryDirectory() as path:
        yield open_store(f"{path}/t.lance", {"fsync": "false"})


def erase(store: Store) -> None:
    store.delete_many([info.path for info in store.list("")])


def objects(store: Store) -> dict[str, bytes]:
    """All objects by path."""
    return {info.path: store.read(info.path).to_pybytes() for info in store.list("")}


def put_all(store: Store, content: dict[str, bytes]) -> None:
    """Make a store hold these objects and no others."""
    erase(store)
    for path, data in content.items():
        store.put(path, data)


def on_disk(content: dict[str, bytes], folder: Path) -> Path:
    """Write objects as files."""
    for path, data in content.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder


_NAMES = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{32}|[0-9]{6,}")


def shape(store: Store) -> object:
    """What a state looks like without its random names: equal for two runs that stopped at the same point."""
    names = tuple(sorted(_NAMES.sub("*", info.path) for info in store.list("")))
    try:
        dataset = lo.Dataset.open(store)
    except NotFoundError:
        return names
    fragments = tuple(
        (fragment.id, fragment.physical_rows, fragment.num_rows) for fragment in dataset.fragments
    )
    indices = tuple((index.name, index.fragment_ids) for index in dataset.indices)
    return names, dataset.version, fragments, indices


def read_rows(dataset: lo.Dataset) -> list[Row]:
    return from_arrow(dataset.to_table())


def check_answers(dataset: lo.Dataset, rows: list[Row]) -> None:
    """Filters give what they should through the indices; without any, one by a scan does."""
    columns = {dataset.lance_schema.path(index.fields[0]) for index in dataset.indices if not index.is_system}
    probes = [probe for column in sorted(columns) for probe in PROBES[column]]
    for probe in probes or PROBES["id"][:1]:
        found = dataset.to_table(["id"], probe.sql, pruners=[IndexPruner()])["id"].to_pylist()
        assert found == [item.id for item in probe.select(rows)], f"{probe} through the index"


def check_sound(dataset: lo.Dataset) -> list[Row]:
    """A dataset without any fault; returns its rows."""
    found = lo.fsck(dataset, deep=True)
    assert found.ok, str(found)
    rows = read_rows(dataset)
    assert dataset.count_rows() == len(rows)
    numbers = [item.id for item in rows]
    assert len(set(numbers)) == len(numbers), "a row is there twice"
    check_answers(dataset, rows)
    return rows


def read_versions(store: Store) -> dict[int, list[Row]]:
    """The rows of every version; none if there is no dataset."""
    try:
        infos = lo.Dataset.open(store).versions()
    except NotFoundError:
        return {}
    return {info.version: read_rows(lo.Dataset.open(store, info.version)) for info in infos}


def litter(store: Store) -> frozenset[str]:
    """Files of data, deletions and indices that no version uses."""
    plan = plan_cleanup(Line.of(store), CleanupOptions(retain_versions=10**6, delete_unverified=True))
    kinds = {"data", "deletion", "index", "temporary"}
    return frozenset(verdict.path for verdict in plan.victims if verdict.kind in kinds)


def is_same_set(one: list[Row], other: list[Row]) -> bool:
    """Whether two tables have the same rows in some order."""

    def in_order(rows: list[Row]) -> list[Row]:
        return sorted(rows, key=lambda item: item.id)

    return in_order(one) == in_order(other)


def telling_calls(calls: list[Call]) -> list[int]:
    """Numbers of calls without the repeated ones: of the writes to one file in a row, the first."""
    return [
        number
        for number, (before, call) in enumerate(pairwise([None, *calls]), 1)
        if call.name != "write" or call != before
    ]
