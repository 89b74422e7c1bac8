"""Cases of copying encoded pages: 200 files become one, against the peer's compaction and its binary copy.

Both go through the call that users make. The cases that scan compare two files with the same rows: the one
that our compaction made by copying pages stands under our name, the one that the peer's wrote anew under the
peer's.
"""

from functools import partial
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa

import lance_ops as lo
from benchmarks.pairing import Case

FILES = 200
STRING_ROWS = 10_000
VECTOR_ROWS = 1_000
DIMENSION = 768
EVERYTHING = 1 << 30


def string_rows(count: int, *, seed: int = 7) -> pa.Table:
    """Rows of three strings and three numbers."""
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 2**62, (count, 2))
    return pa.table(
        {
            "id": pa.array(np.arange(count)),
            "x": pa.array(rng.random(count)),
            "k": pa.array(rng.integers(0, 100_000, count), pa.int32()),
            "name": pa.array([f"customer {value:08d}" for value in rng.integers(0, 10**8, count)]),
            "key": pa.array([f"{high:016x}{low:016x}" for high, low in keys.tolist()]),
            "text": pa.array(
                [f"the {n * 7919} quick brown foxes jump over {n % 97} lazy dogs" for n in range(count)]
            ),
        }
    )


def vector_rows(count: int, *, seed: int = 7) -> pa.Table:
    """The same with a vector."""
    items = np.random.default_rng(seed).random(count * DIMENSION, dtype=np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(items), DIMENSION)
    return string_rows(count, seed=seed).append_column("vector", vectors)


def prepare_strings(path: Path, *, version: str = "2.2", every: int = 0) -> None:
    """200 fragments of 10,000 rows of strings and numbers, possibly with every n-th row deleted."""
    table = string_rows(FILES * STRING_ROWS)
    lance.write_dataset(table, str(path), data_storage_version=version, max_rows_per_file=STRING_ROWS)
    if every:
        lance.dataset(str(path)).delete(f"id % {every} = 7")


def prepare_vectors(path: Path, *, version: str = "2.2", every: int = 0) -> None:
    """200 fragments of 1,000 rows with vectors, possibly with every n-th row deleted."""
    table = vector_rows(FILES * VECTOR_ROWS)
    lance.write_dataset(table, str(path), data_storage_version=version, max_rows_per_file=VECTOR_ROWS)
    if every:
        lance.dataset(str(path)).delete(f"id % {every} = 7")


def prepare_both(path: Path, *, prepare: partial[None]) -> None:
    """The same rows twice: by our page copy, and by the peer's compaction."""
    path.mkdir()
    prepare(path / "ours")
    prepare(path / "peer")
    copy_ours(str(path / "ours"))
    copy_peer(str(path / "peer"), mode="reencode")


def copy_ours(path: str) -> None:
    """Make one fragment of all, by copying pages."""
    done = lo.compact(path, target_rows_per_fragment=EVERYTHING, materialize_deletions_threshold=0.0)
    assert done.groups_copied == 1


def copy_peer(path: str, *, mode: str) -> None:
    """Make one fragment of all, as the peer does it."""
    lance.dataset(path).optimize.compact_files(
        target_rows_per_fragment=EVERYTHING, materialize_deletions_threshold=0.0, compaction_mode=mode
    )


def _scan_ours(path: str, *, which: str, columns: list[str] | None = None) -> pa.Table:
    return lo.dataset(f"{path}/{which}").to_table(columns=columns)


def _scan_peer(path: str, *, which: str, columns: list[str] | None = None) -> pa.Table:
    return lance.dataset(f"{path}/{which}").to_table(columns=columns)


def cases() -> list[Case]:
    """All cases of page copies."""
    strings, vectors = "strings and numbers, 200 files of 10,000 rows", "vectors, 200 files of 1,000 rows"
    reencode, binary = partial(copy_peer, mode="reencode"), partial(copy_peer, mode="force_binary_copy")
    found = []
    for name, title, prepare in (
        ("strings", strings, prepare_strings),
        ("vectors", vectors, prepare_vectors),
    ):
        start, old, deleted = prepare, partial(prepare, version="2.0"), partial(prepare, every=100)
        found += [
            Case(f"page-copy-{name}", f"compact by page copy: {title}", start, copy_ours, reencode),
            Case(
                f"page-copy-{name}-binary",
                f"the same against the binary copy: {title}",
                start,
                copy_ours,
                binary,
            ),
            Case(f"page-copy-{name}-2-0", f"page copy in 2.0 of {title}", old, copy_ours, reencode),
            Case(
                f"page-copy-{name}-deleted",
                f"page copy without 1 % of the rows: {title}",
                deleted,
                copy_ours,
                reencode,
            ),
        ]
        both = partial(prepare_both, prepare=partial(prepare))
        found += [
            Case(
                f"page-copy-{name}-scan-{reader}",
                f"scan with {reader} what page copy and compaction made of {title}",
                both,
                partial(scan, which="ours"),
                partial(scan, which="peer"),
                reads_only=True,
            )
            for reader, scan in (("lance_ops", _scan_ours), ("pylance", _scan_peer))
        ]
    return found
