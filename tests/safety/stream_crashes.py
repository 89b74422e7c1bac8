"""Crashes of a sink at every call that changes the store, with commits of others before the restart."""

import contextlib
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa

import lance_ops as lo
from lance_ops.errors import StreamUnprovenError
from lance_ops.spark.streaming.options import SinkOptions
from lance_ops.storage import open_store
from tests.support.faulty_store import FaultyStore, InjectedCrash
from tests.support.streams import SinkQuery, schema_of


def rows(first: int, count: int, text: str = "x") -> pa.Table:
    return pa.table(
        {"id": pa.array(range(first, first + count)), "text": [f"{text}{n}" for n in range(count)]}
    )


def query(uri: str, **options) -> SinkQuery:
    given = {name: options.pop(name) for name in ("complete", "travels", "spark_id") if name in options}
    return SinkQuery(SinkOptions(uri, compact_every=0, **options), schema_of(rows(0, 1)), **given)


def epoch(number: int) -> list[pa.Table]:
    """Ten rows of an epoch, in three partitions, one of them empty."""
    return [rows(10 * number, 4), rows(0, 0), rows(10 * number + 4, 6)]


def ids(uri: str) -> list[int]:
    return sorted(lo.dataset(uri).to_table(["id"])["id"].to_pylist())


KINDS = {
    "travel": {},
    "files": {"travels": 0},
    "merge": {"merge_keys": ("id",), "travels": 0},
    "complete": {"complete": True},
}


def foreign(uri: str, count: int, cleaner: str) -> None:
    """Commits of others, by both writers, and a cleanup of all versions but the newest."""
    for number in range(count):
        if number % 2:
            lance.write_dataset(rows(10_000 + number, 1), uri, mode="append")
        else:
            lo.append(uri, rows(10_000 + number, 1))
    if cleaner == "ours":
        lo.cleanup(uri, retain_versions=1, delete_unverified=True, job_key_age=timedelta(0))
    else:
        lance.dataset(uri).cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)


def crash_everywhere(
    tmp_path: Path, kind: str, commits: int, cleaner: str, *, compacts: bool, every: int = 1
) -> dict[str, int]:
    """Let the second epoch die at each call in turn; count how the restarts end."""
    ends = {"done": 0, "stopped": 0}
    number = 0
    while True:
        number += every if number else 1
        for when in ("before", "after"):
            uri = str(tmp_path / f"{number}-{when}.lance")
            stream = query(uri, **KINDS[kind])
            stream.run(0, epoch(0))
            faulty = FaultyStore(open_store(uri), fail_at=number, when=when)
            with contextlib.suppress(InjectedCrash):
                stream.on(faulty).run(1, epoch(1))
            if not faulty.fired:
                assert number > every, "there is something to crash at"
                return ends
            others = [] if kind == "complete" else [10_000 + place for place in range(commits)]
            if kind != "complete":
                foreign(uri, commits, cleaner)
            if compacts:
                lance.dataset(uri).optimize.compact_files()
                lance.dataset(uri).cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
            before = ids(uri)
            try:
                stream.run(1, epoch(1))
                ends["done"] += 1
            except StreamUnprovenError:
                ends["stopped"] += 1
                assert ids(uri) == before
                assert before in ([*range(10), *others], [*range(20), *others])
                continue
            expected = [*range(10, 20)] if kind == "complete" else [*range(20), *others]
            assert ids(uri) == expected, f"{kind}: crash {when} call {number} {faulty.calls[-1]}"
            stream.run(2, [rows(20, 1)])
            assert len(ids(uri)) == (1 if kind == "complete" else len(expected) + 1)
