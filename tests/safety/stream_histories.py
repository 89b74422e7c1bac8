"""Random histories of a dataset by both writers, and streams that follow them with restarts."""

import random
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

import lance_ops as lo
from lance_ops.spark.streaming.options import SourceOptions
from tests.support.streams import SourceQuery

Bag = Counter[tuple[int, str]]


def rows(first: int, count: int) -> pa.Table:
    return pa.table(
        {"id": pa.array(range(first, first + count), pa.int64()), "v": [f"v{n}" for n in range(count)]}
    )


def query(uri: str, **options: Any) -> SourceQuery:
    return SourceQuery(SourceOptions(uri, **options))


def grow(uri: str, dice: random.Random, fresh: int, *, changes: bool) -> int:
    """One commit of somebody; returns the next id that is free."""
    count = dice.randint(1, 6)
    kind = dice.choice(
        ("append", "append", "append", "layout", "config") + ("delete", "update", "upsert") * changes
    )
    head = lo.dataset(uri)
    known = head.to_table(["id"])["id"].to_pylist()
    some = ", ".join(map(str, dice.sample(known, min(len(known), count)))) or "-1"
    peer = lance.dataset(uri)
    ours = dice.random() < 0.5
    if kind == "append":
        (
            lo.append(uri, rows(fresh, count))
            if ours
            else lance.write_dataset(rows(fresh, count), uri, mode="append")
        )
        return fresh + count
    if kind == "layout":
        lo.compact(uri) if ours else peer.optimize.compact_files()
    elif kind == "config":
        lo.update_config(uri, {"some": str(fresh)})
    elif kind == "delete":
        lo.delete(uri, f"id in ({some})") if ours else peer.delete(f"id in ({some})")
    elif kind == "update":
        (
            lo.update(uri, {"v": f"'u{fresh}'"}, where=f"id in ({some})")
            if ours
            else peer.update({"v": f"'u{fresh}'"}, where=f"id in ({some})")
        )
    else:
        data = pa.concat_tables([rows(fresh, count), rows(known[0] if known else fresh + count, 1)])
        lo.merge_insert(uri, data, "id", when_matched="update_all", when_not_matched="insert_all")
        return fresh + count + 1
    return fresh


def apply(table: Bag, told: list[dict[str, Any]]) -> None:
    """Do to a bag of rows what a stream of changes tells."""
    for row in told:
        key = (row["id"], row["v"])
        if row["_change_type"] in ("delete", "update_preimage"):
            table[key] -= 1
            assert table[key] >= 0, f"a row went that was not there: {row}"
        else:
            table[key] += 1


def snapshot(uri: str, version: int) -> Bag:
    return +Counter((row["id"], row["v"]) for row in lo.dataset(uri, version).to_table().to_pylist())


def check_history(folder: Path, seed: int, commits: int) -> tuple[int, int]:
    dice = random.Random(seed)
    changes = bool(seed % 3)
    uri = str(folder / f"{seed}.lance")
    lo.append(uri, rows(0, 7), enable_stable_row_ids=bool(seed % 2), max_rows_per_file=3)
    limits = dice.choice(({}, {"max_rows": dice.randint(1, 9)}, {"max_versions": 2}, {"max_bytes": 2_000}))
    stream = query(uri, mode="changes" if changes else "append", **limits)
    bag: Bag = Counter()
    fresh, delivered = 100, 0
    for _ in range(commits):
        fresh = grow(uri, dice, fresh, changes=changes)
        while dice.random() < 0.6 and stream.plan():
            told = stream.read()
            if dice.random() < 0.3:
                # The process dies before the epoch is done: the next one gets the very same rows.
                stream.restart()
                assert stream.plan()
                again = stream.read()
                assert again == told
            stream.commit()
            delivered += len(told)
            apply(bag, told if changes else [{**row, "_change_type": "insert"} for row in told])
            begun = stream.start
            if changes and begun is not None and begun["position"] == 0 and not begun["snapshot"]:
                assert +bag == snapshot(uri, begun["version"] - 1), (
                    f"seed {seed}, version {begun['version'] - 1}"
                )
    rest = list(chain(*stream.drain()))
    apply(bag, rest if changes else [{**row, "_change_type": "insert"} for row in rest])
    head = lo.dataset(uri)
    assert +bag == snapshot(uri, head.version), f"seed {seed}"
    return head.version, delivered + len(rest)
