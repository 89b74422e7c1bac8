"""What each operation asks of its store: the head is looked up once where nobody else can have moved it."""

import uuid
from collections import Counter
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lance_ops as lo
from lance_ops.storage import Store, open_store
from tests.support.faulty_store import FaultyStore

VERSIONS = "_versions"


def rows(start: int) -> pa.Table:
    return pa.table({"i": np.arange(start, start + 10), "v": np.zeros(10)})


@pytest.fixture
def store() -> FaultyStore:
    """A table of eight versions, with an index that does not cover the last one."""
    uri = f"memory://{uuid.uuid4()}"
    for number in range(6):
        lo.append(uri, rows(10 * number), job_key=str(number) if number % 3 == 0 else None)
    lo.create_index(uri, "i", "BTREE")
    lo.append(uri, rows(100))
    found = FaultyStore(open_store(uri), count="any")
    # That there are no names of the old scheme is seen once a process.
    lo.dataset(found)
    found.reset()
    return found


@pytest.fixture
def parquet(tmp_path) -> str:
    path = str(tmp_path / "rows.parquet")
    pq.write_table(rows(500), path)
    return path


Operation = Callable[[Store, str], object]

# Operation; listings, reads, looks and puts of manifests; those of all else but data and indices.
BOUNDS: dict[str, tuple[Operation, tuple[int, int, int, int], tuple[int, int, int]]] = {
    "append of a table": (lambda s, _: lo.append(s, rows(200)), (2, 1, 1, 2), (0, 1, 1)),
    "append of a table under a job key": (
        lambda s, _: lo.append(s, rows(200), job_key="new"),
        (2, 1, 1, 2),
        (2, 2, 1),
    ),
    "append of a Parquet file": (lambda s, path: lo.append(s, path), (2, 1, 1, 2), (0, 1, 1)),
    "append of a Parquet file under a job key": (
        lambda s, path: lo.append(s, path, job_key="new"),
        (2, 1, 1, 2),
        (2, 2, 1),
    ),
    "overwrite": (
        lambda s, _: lo.write_dataset(rows(0), s, mode="overwrite"),
        (2, 1, 1, 2),
        (0, 1, 1),
    ),
    "replacement": (lambda s, _: lo.replace_where(s, rows(0), "i < 10"), (2, 1, 1, 2), (0, 1, 1)),
    "delete": (lambda s, _: lo.delete(s, "i = 1"), (2, 1, 1, 2), (0, 1, 1)),
    "update": (lambda s, _: lo.update(s, {"v": "1"}, "i = 1"), (2, 1, 1, 2), (0, 1, 1)),
    "merge": (
        lambda s, _: lo.merge_insert(
            s, rows(95), "i", when_matched="update_all", when_not_matched="insert_all"
        ),
        (2, 1, 1, 2),
        (0, 1, 1),
    ),
    "delete of nothing": (lambda s, _: lo.delete(s, "i = -1"), (1, 1, 0, 0), (0, 0, 0)),
    # Two commits: it reserves ids first, and goes on from there.
    "compaction": (lambda s, _: lo.compact(s), (3, 1, 1, 4), (0, 1, 2)),
    "new index": (lambda s, _: lo.create_index(s, "v", "BTREE"), (2, 1, 1, 2), (0, 1, 1)),
    "upkeep of indices": (lambda s, _: lo.optimize_indices(s), (2, 1, 1, 2), (0, 1, 1)),
    "setting": (lambda s, _: lo.update_config(s, {"a": "b"}), (2, 1, 1, 2), (0, 1, 1)),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_an_operation_asks_for_manifests_as_often_as_safety_needs(store, parquet, name):
    operation, manifests, others = BOUNDS[name]
    operation(store, parquet)
    calls = Counter(
        (call.name, "manifests" if call.path.startswith(VERSIONS) else "others")
        for call in store.calls
        if not call.path.startswith(("data/", "_indices/", "_deletions/"))
    )
    assert tuple(calls[kind, "manifests"] for kind in ("list", "read", "exists", "put")) == manifests
    assert tuple(calls[kind, "others"] for kind in ("list", "exists", "put")) == others


@pytest.mark.parametrize("name", BOUNDS)
def test_no_manifest_is_read_twice(store, parquet, name):
    operation, _, _ = BOUNDS[name]
    operation(store, parquet)
    reads = Counter(call.path for call in store.calls if call.name == "read")
    assert all(count == 1 for path, count in reads.items() if path.startswith(VERSIONS))
