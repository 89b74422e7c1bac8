"""Tables with indices, exchanged with every age of pylance in both directions and tended by both sides.

A table has several fragments, a column that was added later (so that fragments have two data files), deleted
rows, and rows that no index covers; with and without stable row ids. All filters are answered from what was
written, not by either library.
"""

import json
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from old_peers_index_report import STEPS, VARIANTS, IndexOutcome, Step
from old_peers_process import Peer

import lance_ops as lo
from lance_ops.errors import LanceOpsError
from lance_ops.index.search.pruner import IndexPruner

Row = dict[str, Any]

FIRST, SECOND, THIRD, LAST = 2600, 5200, 5500, 5700
"""Ends of the first fragments, which the indices cover, of what is appended, and of what tending adds."""
LATE = "twice"


def make_rows(start: int, stop: int) -> list[Row]:
    """Rows of all indexed types, with nulls, zeros and empty texts."""
    return [
        {
            "id": row,
            "i": None if row % 7 == 0 else row * 7919 % 1000 - 500,
            "n": row * 31 % 5000,
            "s": None if row % 11 == 0 else "" if row % 5 == 0 else f"k{row * 13 % 900:03d}",
            "f": None if row % 13 == 0 else (row * 17 % 4000) / 4 - 500,
            "b": None if row % 9 == 0 else row % 17 == 0,
            "ts": None if row % 10 == 0 else row * 1000,
            "d": None if row % 10 == 1 else row % 300,
            LATE: row * 2,
        }
        for row in range(start, stop)
    ]


SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("i", pa.int64()),
        ("n", pa.int32()),
        ("s", pa.string()),
        ("f", pa.float64()),
        ("b", pa.bool_()),
        ("ts", pa.timestamp("us")),
        ("d", pa.date32()),
        (LATE, pa.int64()),
    ]
)
COLUMNS = tuple(SCHEMA.names[1:])
DAY = "date '1970-02-10'"
FILTERS: Mapping[str, Mapping[str, Callable[[Row], bool]]] = {
    "i": {
        "i = 0": lambda row: row["i"] == 0,
        "i < -450": lambda row: row["i"] is not None and row["i"] < -450,
        "i IS NULL": lambda row: row["i"] is None,
    },
    "n": {"n = 31": lambda row: row["n"] == 31, "n >= 4990": lambda row: row["n"] >= 4990},
    "s": {
        "s = ''": lambda row: row["s"] == "",
        "s = 'k013'": lambda row: row["s"] == "k013",
        "s IS NULL": lambda row: row["s"] is None,
    },
    "f": {
        "f < -495.5": lambda row: row["f"] is not None and row["f"] < -495.5,
        "f IS NULL": lambda row: row["f"] is None,
    },
    "b": {"b = true": lambda row: row["b"] is True, "b IS NULL": lambda row: row["b"] is None},
    "ts": {
        "ts < timestamp '1970-01-01 00:00:00.200'": lambda row: row["ts"] is not None and row["ts"] < 200_000,
        "ts IS NULL": lambda row: row["ts"] is None,
    },
    "d": {f"d = {DAY}": lambda row: row["d"] == 40, "d IS NULL": lambda row: row["d"] is None},
    LATE: {
        f"{LATE} = 5002": lambda row: row[LATE] == 5002,
        f"{LATE} >= 10390": lambda row: row[LATE] >= 10_390,
    },
}
DELETED = "id % 7 = 3"
TENDED = "id % 11 = 5"


def table_of(rows: Sequence[Row]) -> pa.Table:
    """The rows in the types of `SCHEMA`."""
    return pa.table(
        {
            field.name: pa.array([row[field.name] for row in rows], pa.int32()).cast(field.type)
            if field.name == "d"
            else pa.array([row[field.name] for row in rows], field.type)
            for field in SCHEMA
        }
    )


def written_rows() -> list[Row]:
    """What is live in a table as it was written: the deletion came before the last append."""
    return [row for row in make_rows(0, SECOND) if row["id"] % 7 != 3] + make_rows(SECOND, THIRD)


def tended_rows() -> list[Row]:
    """What is live in it after it was tended."""
    return [row for row in [*written_rows(), *make_rows(THIRD, LAST)] if row["id"] % 11 != 5]


def exchange_indices(peer: Peer, newest: Peer, variants: Sequence[str] = VARIANTS) -> Iterator[IndexOutcome]:
    """Both directions and all columns, with one release."""
    for variant in variants:
        stable, kind = "stable" in variant, variant.split(",")[0]
        with tempfile.TemporaryDirectory() as folder:
            yield from _theirs(peer, newest, Path(folder), variant, kind, stable=stable)
        with tempfile.TemporaryDirectory() as folder:
            yield from _ours(peer, newest, Path(folder), variant, kind, stable=stable)


def _theirs(
    peer: Peer, newest: Peer, folder: Path, variant: str, kind: str, *, stable: bool
) -> Iterator[IndexOutcome]:
    path, values, done = folder / "path", folder / "values", folder / "done"
    _keep(table_of(make_rows(0, THIRD)), values)
    error = peer.ask(
        {
            "kind": "write_indexed",
            "path": str(path),
            "values": str(values),
            "done": str(done),
            "late": LATE,
            "expression": "id * 2",
            "cuts": [FIRST, SECOND],
            "columns": COLUMNS,
            "index": kind,
            "stable": stable,
            "delete": DELETED,
        }
    )
    columns = json.loads(done.read_text()) if error is None else []

    def outcome(step: Step, column: str, kind: str, detail: str = "") -> IndexOutcome:
        return IndexOutcome(peer.version, variant, step, column, kind, detail)

    steps = [step for step in STEPS if not step.we_wrote]
    for column in COLUMNS:
        if column not in columns:
            yield from (outcome(step, column, "not built", error or "") for step in steps)
    yield from (outcome(steps[0], *found) for found in _they_ask(peer, path, columns, written_rows()))
    yield from (outcome(steps[1], *found) for found in _we_ask(path, columns, written_rows()))
    try:
        _tend(path)
    except Exception as failure:  # noqa: BLE001 - anything at all is what this looks for
        kind = "refused" if isinstance(failure, LanceOpsError) else "failed"
        yield from (outcome(step, column, kind, repr(failure)) for step in steps[2:] for column in columns)
        return
    yield from (outcome(steps[2], *found) for found in _we_ask(path, columns, tended_rows()))
    for step, reader in zip(steps[3:], (peer, newest), strict=True):
        yield from (outcome(step, *found) for found in _they_ask(reader, path, columns, tended_rows()))


def _ours(
    peer: Peer, newest: Peer, folder: Path, variant: str, kind: str, *, stable: bool
) -> Iterator[IndexOutcome]:
    path, values = folder / "path", folder / "values"
    rows = table_of(make_rows(0, THIRD))
    options: dict[str, Any] = {"data_storage_version": "2.0", "enable_stable_row_ids": stable}
    lo.write_dataset(rows.slice(0, FIRST), str(path), **options)
    lo.append(str(path), rows.slice(FIRST, SECOND - FIRST))
    for column in COLUMNS:
        lo.create_index(str(path), column, kind)
    lo.delete(str(path), DELETED)
    lo.append(str(path), rows.slice(SECOND))
    steps = [step for step in STEPS if step.we_wrote]

    def outcome(step: Step, column: str, kind: str, detail: str = "") -> IndexOutcome:
        return IndexOutcome(peer.version, variant, step, column, kind, detail)

    yield from (outcome(steps[0], *found) for found in _they_ask(peer, path, COLUMNS, written_rows()))
    _keep(table_of(make_rows(THIRD, LAST)), values)
    job = {"kind": "tend_indexed", "path": str(path), "values": str(values), "delete": TENDED}
    error = peer.ask(job)
    if error is not None:
        yield from (outcome(step, column, "not tended", error) for step in steps[1:] for column in COLUMNS)
        return
    yield from (outcome(steps[1], *found) for found in _we_ask(path, COLUMNS, tended_rows()))
    yield from (outcome(steps[2], *found) for found in _they_ask(newest, path, COLUMNS, tended_rows()))


def _tend(path: Path) -> None:
    """What `tend_indexed` does, by lance_ops."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lo.append(str(path), table_of(make_rows(THIRD, LAST)).select(lo.dataset(str(path)).schema.names))
        lo.optimize_indices(str(path))
        lo.delete(str(path), TENDED)
        lo.compact(str(path))


def _we_ask(path: Path, columns: Iterable[str], rows: Sequence[Row]) -> Iterator[tuple[str, str, str]]:
    for column in columns:
        used = False
        kind, detail = "", ""
        for sql, matches in FILTERS[column].items():
            wanted = sorted(row["id"] for row in rows if matches(row))
            try:
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    dataset = lo.dataset(str(path))
                    found = dataset.scanner(["id"], sql).to_table()["id"].to_pylist()
                    used |= IndexPruner().prune(dataset, dataset.parse_filter(sql)) is not None
            except Exception as failure:  # noqa: BLE001 - anything at all is what this looks for
                kind, detail = "failed", f"{sql}: {failure!r}"
                break
            if caught:
                kind, detail = "with a warning", str(caught[0].message)
            if sorted(found) != wanted:
                kind, detail = "different", f"{sql}: {len(found)} rows instead of {len(wanted)}"
                break
        yield column, kind or ("used" if used else "scanned"), detail


def _they_ask(
    peer: Peer, path: Path, columns: Iterable[str], rows: Sequence[Row]
) -> Iterator[tuple[str, str, str]]:
    answers = path.parent / "answers"
    for column in columns:
        filters = list(FILTERS[column])
        job = {"kind": "ask_indexed", "path": str(path), "filters": filters, "answers": str(answers)}
        error = peer.ask(job)
        if error is not None:
            yield column, "refused", error
            continue
        kind, detail, used = "", "", False
        for sql, answer in json.loads(answers.read_text()).items():
            wanted = sorted(row["id"] for row in rows if FILTERS[column][sql](row))
            if "error" in answer:
                kind, detail = "refused", answer["error"]
                break
            used |= answer["used"]
            if answer["ids"] != wanted:
                kind, detail = "different", f"{sql}: {len(answer['ids'])} rows instead of {len(wanted)}"
                break
        yield column, kind or ("used" if used else "scanned"), detail


def _keep(table: pa.Table, path: Path) -> None:
    with pa.ipc.new_stream(str(path), table.schema) as stream:
        stream.write_table(table)
