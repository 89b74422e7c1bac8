"""Growth of metadata work: CPU seconds and memory of fresh processes at three sizes, both libraries in turn.

Each process runs the operation on a small table first, which loads modules and compiled loops of either
library, and then on the table of many fragments or versions. The exponent is that of the last two sizes: 0
for a cost that does not grow, 1 for one that grows as the size.

    python -m benchmarks.growth [--runs 3] [CASE ...]
"""

import argparse
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

import lance_ops as lo
from lance_ops.table.commit.loop import commit
from lance_ops.table.commit.request import CommitRequest
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.file.write import encode_manifest
from lance_ops.table.manifest.listing import NamingScheme, manifest_path
from lance_ops.table.transaction.operations import Append

_ROWS = pa.table({"id": range(100), "s": [f"name-{number}" for number in range(100)]})
_SMALL = 20
_ADDRESS = (7 << 32) + 7


@dataclass(frozen=True)
class Growth:
    """One operation: how its tables are made, its sizes, and the calls of both libraries."""

    prepare: Callable[[Path, int], None]
    sizes: tuple[int, ...]
    ours: Callable[[str], Any]
    peer: Callable[[str], Any] | None


def _fragments(path: Path, count: int) -> None:
    lo.write_dataset(_ROWS, str(path))
    dataset = lo.dataset(str(path))
    (fragment,) = dataset.fragments
    (file,) = fragment.files
    more = []
    for _ in range(count - 1):
        copy = replace(file, path=f"{uuid.uuid4()}.lance")
        os.link(path / "data" / file.path, path / "data" / copy.path)
        more.append(fragment.replace(id=0, files=(copy,)))
    commit(dataset, CommitRequest(Append(tuple(more))))


def _versions(path: Path, count: int) -> None:
    lo.write_dataset(_ROWS, str(path))
    manifest = Dataset.open(str(path)).manifest
    for version in range(2, count + 1):
        later = manifest.replace(version=version, timestamp=manifest.timestamp + timedelta(seconds=version))
        (path / manifest_path(version, NamingScheme.V2)).write_bytes(encode_manifest(later))


def _scan_peer(path: str) -> Any:
    dataset = lance.dataset(path)
    fragment = dataset.get_fragment(7)
    assert fragment is not None
    return dataset.scanner(filter="id = 7", fragments=[fragment]).to_table()


def _clean_ours(path: str) -> Any:
    return lo.cleanup(path, retain_versions=10, older_than=timedelta(0))


def _clean_peer(path: str) -> Any:
    return lance.dataset(path).cleanup_old_versions(older_than=timedelta(0), retain_versions=10)


_PART: dict[str, Any] = {"target_rows_per_fragment": 1000, "max_source_fragments": 10}
_MANY, _OLD, _LONG = (1_000, 10_000, 100_000), (2_500, 10_000, 40_000), (1_000, 10_000, 100_000)
CASES = {
    "open": Growth(
        _fragments,
        _MANY,
        lambda path: lo.dataset(path).count_rows(),
        lambda path: lance.dataset(path).count_rows(),
    ),
    "scan-one": Growth(
        _fragments, _MANY, lambda path: lo.dataset(path).to_table(filter="id = 7", fragments=[7]), _scan_peer
    ),
    "lookup": Growth(
        _fragments,
        _MANY,
        lambda path: lo.dataset(path).to_table(filter=f"_rowid = {_ADDRESS}"),
        lambda path: lance.dataset(path).to_table(filter=f"_rowid = {_ADDRESS}"),
    ),
    "delete-one": Growth(
        _fragments,
        _MANY,
        lambda path: lo.delete(path, f"_rowid = {_ADDRESS}"),
        lambda path: lance.dataset(path).delete(f"_rowid = {_ADDRESS}"),
    ),
    "compact-some": Growth(
        _fragments,
        _MANY,
        lambda path: lo.compact(path, **_PART),
        lambda path: lance.dataset(path).optimize.compact_files(**_PART),
    ),
    "health": Growth(_fragments, _MANY, lo.measure_health, None),
    "fsck": Growth(_fragments, _MANY, lo.fsck, None),
    "history": Growth(
        _versions,
        _LONG,
        lambda path: lo.dataset(path).history(100),
        lambda path: lance.dataset(path).get_transactions(100),
    ),
    "cleanup": Growth(_versions, _OLD, _clean_ours, _clean_peer),
}


def _worker(side: str, name: str, small: str, large: str) -> None:
    """Print CPU seconds, and megabytes of peak memory over those before."""
    case = CASES[name]
    call = case.ours if side == "ours" else case.peer
    assert call is not None
    call(small)
    before = resource.getrusage(resource.RUSAGE_SELF)
    call(large)
    after = resource.getrusage(resource.RUSAGE_SELF)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(seconds, (after.ru_maxrss - before.ru_maxrss) / 1024)


def _measure(side: str, name: str, folder: Path, template: Path) -> tuple[float, float]:
    """Run a fresh process on copies of a template, whose data files are links."""
    small, large = folder / "small", folder / "large"
    for target, source in ((small, folder / "template-small"), (large, template)):
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target, copy_function=os.link)
    command = [sys.executable, "-m", "benchmarks.growth", "--worker", side, name, str(small), str(large)]
    said = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, size = map(float, said.stdout.split())
    return seconds, size


def _run(name: str, runs: int, folder: Path) -> list[str]:
    case = CASES[name]
    case.prepare(folder / "template-small", _SMALL)
    sides = ["ours"] + ["peer"] * (case.peer is not None)
    found: dict[str, list[tuple[float, float]]] = {side: [] for side in sides}
    for size in case.sizes:
        template = folder / f"template-{size}"
        case.prepare(template, size)
        timed = [(side, _measure(side, name, folder, template)) for _ in range(runs) for side in sides]
        for side in sides:
            found[side].append(min(result for other, result in timed if other == side))
        shutil.rmtree(template)
    rows = []
    for side, results in found.items():
        growth = math.log(results[-1][0] / results[-2][0]) / math.log(case.sizes[-1] / case.sizes[-2])
        seconds = " / ".join(f"{result[0]:.3f}" for result in results)
        rows.append(f"| {name} | {side} | {seconds} | {growth:.2f} | {results[-1][1]:.0f} |")
    return rows


def main() -> None:
    """Measure the cases that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        _worker(*given.cases)
        return
    print("| work | library | CPU s at three sizes | exponent | MB at the largest |\n|---|---|---|---|---|")
    for name in given.cases or CASES:
        with tempfile.TemporaryDirectory() as folder:
            for row in _run(name, given.runs, Path(folder)):
                print(row, flush=True)


if __name__ == "__main__":
    main()
