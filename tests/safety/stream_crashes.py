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
    sink = SinkOptions(uri, compact_every=0, **options)
    first = changed(rows(0, 1), "insert", 1) if sink.apply_changes else rows(0, 1)
    return SinkQuery(sink, schema_of(first), **given)


def epoch(number: int) -> list[pa.Table]:
    """Ten rows of an epoch, in three partitions, one of them empty."""
    return [rows(10 * number, 4), rows(0, 0), rows(10 * number + 4, 6)]


def changed(table: pa.Table, kind: str, version: int) -> pa.Table:
    """Rows of a change feed."""
    count = table.num_rows
    return table.append_column("_change_type", pa.array([kind] * count, pa.string())).append_column(
        "_commit_version", pa.array([version] * count, pa.int64())
    )


def mirrored(number: int) -> list[pa.Table]:
    """The same ten rows as insertions of a feed; the second epoch deletes and updates, too."""
    parts = [changed(part, "insert", number + 2) for part in epoch(number)]
    if number == 1:
        # 0 to 3 go, 4 comes again with another text, and 5 to 7 are updated.
        parts[1] = pa.concat_tables(
            [
                changed(rows(0, 5), "delete", 2),
                changed(rows(4, 1, "again"), "insert", 2),
                changed(rows(5, 3), "update_preimage", 3),
                changed(rows(5, 3, "new"), "update_postimage", 3),
            ]
        )
    return parts


def ids(uri: str) -> list[int]:
    return sorted(lo.dataset(uri).to_table(["id"])["id"].to_pylist())


KINDS = {
    "travel": {},
    "files": {"travels": 0},
    "merge": {"merge_keys": ("id",), "travels": 0},
    "complete": {"complete": True},
    "mirror": {"merge_keys": ("id",), "apply_changes": True, "travels": 0},
}

# What is there of the first two epochs after the second one.
LEFT = {"complete": range(10, 20), "mirror": range(4, 20)}


def foreign(uri: str, count: int, cleaner: str) -> None:
    """Commits of others, by both writers, and a cleanup of all versions but the newest."""
    for number in range(count):
        if number % 2:
            lance.write_dataset(rows(10_000 + number, 1), uri, mode="append")
        else:
            lo.append(uri, rows(10_000 + number, 1))
    if cleaner == "ours":
        lo.cleanup(uri, retain_versions=1, delete_unverified=True)
    else:
        lance.dataset(uri).cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)


def crash_everywhere(
    tmp_path: Path, kind: str, commits: int, cleaner: str, *, compacts: bool, every: int = 1
) -> dict[str, int]:
    """Let the second epoch die at each call in turn; count how the restarts end."""
    ends = {"done": 0, "stopped": 0}
    rows_of = mirrored if kind == "mirror" else epoch
    left = LEFT.get(kind, range(20))
    number = 0
    while True:
        number += every if number else 1
        for when in ("before", "after"):
            uri = str(tmp_path / f"{number}-{when}.lance")
            stream = query(uri, **KINDS[kind])
            stream.run(0, rows_of(0))
            faulty = FaultyStore(open_store(uri), fail_at=number, when=when)
            with contextlib.suppress(InjectedCrash):
                stream.on(faulty).run(1, rows_of(1))
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
                stream.run(1, rows_of(1))
                ends["done"] += 1
            except StreamUnprovenError:
                ends["stopped"] += 1
                assert ids(uri) == before
                assert before in ([*range(10), *others], [*left, *others])
                continue
            expected = [*left, *others]
            assert ids(uri) == expected, f"{kind}: crash {when} call {number} {faulty.calls[-1]}"
            if kind == "mirror":
                changes = lo.dataset(uri).to_table(filter="id < 10").sort_by("id")["text"].to_pylist()
                assert changes == ["again0", "new0", "new1", "new2", "x4", "x5"]
            stream.run(2, rows_of(2)[:1])
            assert len(ids(uri)) == (4 if kind == "complete" else len(expected) + 4)
