"""The cases of large metadata: open, plan and commit on 100,000 fragments, list 10,000 versions."""

import shutil
import uuid
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
from lance.optimize import Compaction

import lance_ops as lo
from benchmarks.pairing import Case
from lance_ops.table.commit.loop import commit
from lance_ops.table.commit.request import CommitRequest
from lance_ops.table.transaction.operations import Append

FRAGMENTS, VERSIONS = 100_000, 10_000
_ROWS = pa.table({"id": range(100), "s": [f"name-{number}" for number in range(100)]})


def prepare_fragments(path: Path) -> None:
    """Fragments of 100 rows, with a file each."""
    lo.write_dataset(_ROWS, str(path))
    ds = lo.dataset(str(path))
    (fragment,) = ds.fragments
    (file,) = fragment.files
    more = []
    for _ in range(FRAGMENTS - 1):
        copy = replace(file, path=f"{uuid.uuid4()}.lance")
        shutil.copyfile(path / "data" / file.path, path / "data" / copy.path)
        more.append(fragment.replace(id=0, files=(copy,)))
    commit(ds, CommitRequest(Append(tuple(more))))


def prepare_versions(path: Path) -> None:
    """Versions that appends of a row made."""
    for number in range(VERSIONS):
        lance.write_dataset(pa.table({"id": [number]}), str(path), mode="append" if number else "create")


def _append_ours(path: str) -> None:
    lo.append(path, _ROWS)


def _append_peer(path: str) -> None:
    lance.write_dataset(_ROWS, path, mode="append")


def cases() -> list[Case]:
    """All cases."""
    of = f"{FRAGMENTS:,} fragments"
    return [
        Case(
            "open-large",
            f"open a dataset of {of} and count its rows",
            prepare_fragments,
            lambda path: lo.dataset(path).count_rows(),
            lambda path: lance.dataset(path).count_rows(),
            reads_only=True,
        ),
        Case(
            "plan-large",
            f"plan a compaction of {of}",
            prepare_fragments,
            lambda path: lo.compact(path, dry_run=True),
            lambda path: Compaction.plan(lance.dataset(path), {}),
            reads_only=True,
        ),
        Case("commit-large", f"append 100 rows to {of}", prepare_fragments, _append_ours, _append_peer),
        Case(
            "versions-large",
            f"list {VERSIONS:,} versions",
            prepare_versions,
            lambda path: lo.dataset(path).versions(),
            lambda path: lance.dataset(path).versions(),
            reads_only=True,
        ),
    ]
