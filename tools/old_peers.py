"""Exchange files, whole tables and indices with every age of pylance, and write docs/old-peers.md about it.

    python tools/old_peers.py                     all releases of the tables below, in throwaway environments
    python tools/old_peers.py --peers 0.19.1 4.0  some of them, without writing the document
    python tools/old_peers.py --only indices      only the part about indices; also columns, tables

Each release writes many kinds of columns at every storage version that it knows, and lance_ops reads them;
then lance_ops writes what it can, and each release reads that (see `old_peers_tables.py` for whole tables,
`old_peers_indices.py` for those with indices). Needs a package index; the environments stay in
`.cache/old-peers`.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from old_peers_cases import Case, build_cases, mixed_table
from old_peers_index_cases import VARIANTS
from old_peers_index_report import HEADING as INDICES_HEADING
from old_peers_index_report import IndexOutcome, index_failures, write_index_report
from old_peers_indices import exchange_indices
from old_peers_process import Peer
from old_peers_report import Exchange, Outcome, failures, is_experimental, write_report
from old_peers_table_report import HEADING as TABLES_HEADING
from old_peers_table_report import TableOutcome, table_failures, write_table_report
from old_peers_tables import exchange_tables
from throwaway_environment import make_environment

import lance_ops as lo
from lance_ops.errors import LanceOpsError
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter, check_writable
from lance_ops.storage import open_store

T = TypeVar("T", Outcome, IndexOutcome, TableOutcome)

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENTS = ROOT / ".cache" / "old-peers"
DOCUMENT = ROOT / "docs" / "old-peers.md"

RELEASES = {
    "0.19.1": ("17.0.0", "1.26.4"),
    "0.25.0": ("19.0.1", "1.26.4"),
    "0.33.0": ("21.0.0", "2.2.6"),
    "0.39.0": ("22.0.0", "2.2.6"),
    "1.0.0": ("22.0.0", "2.2.6"),
    "4.0.0": ("23.0.0", "2.2.6"),
    "7.1.0": ("23.0.0", "2.2.6"),
    "10.0.0": ("24.0.0", "2.2.6"),
    "14.0.2": ("26.0.1", "2.2.6"),
}
"""Releases of pylance, each with a pyarrow and a numpy of its days."""
INDEX_RELEASES = {
    "0.20.0": ("17.0.0", "1.26.4"),
    "0.22.0": ("17.0.0", "1.26.4"),
    "0.30.0": ("20.0.0", "2.2.6"),
    "0.34.0": ("21.0.0", "2.2.6"),
    "0.35.0": ("21.0.0", "2.2.6"),
}
"""More of them, around changes of the files of indices: they exchange tables only."""
NEWEST = "14.0.2"

PEERS = {
    name: (RELEASES | INDEX_RELEASES)[name]
    for name in sorted(RELEASES | INDEX_RELEASES, key=lambda name: [int(part) for part in name.split(".")])
}

VERSIONS = ("0.1", "2.0", "2.1", "2.2")
DELETED = "id % 7 = 3"
FILTER = "id > 100 and id < 300"
DIFFERS = "other values in"


@dataclass(frozen=True, slots=True)
class Place:
    """Where the files of one exchange lie.

    Attributes:
        folder: An empty folder.
    """

    folder: Path

    def paths(self, *names: str) -> dict[str, str]:
        """A path for each name that a job uses."""
        return {name: str(self.folder / name) for name in names}


def peer_writes(peer: Peer, newest: Peer, case: Case, version: str, place: Place) -> Outcome:
    """Let the peer write, and read it.

    Files of 0.1 exist in tables only, because no release can write one without.
    """
    is_table = version == "0.1" or case.is_table
    values = case.table if is_table is case.is_table else with_ids(case.table)
    keep(values, place.folder / "values")
    job = {
        **place.paths("path", "values", "found"),
        "kind": "write_table" if is_table else "write_file",
        "version": "legacy" if version == "0.1" else version,
        "delete": DELETED if case.is_table else None,
    }
    error = peer.ask(job)
    exchange = Exchange(peer.version, version, "table" if is_table else "file", case.name, ours=False)
    if error is not None and not (place.folder / "path").exists():
        return Outcome(exchange, "not written", error)
    expected = live(values) if case.is_table else values
    theirs = read_kept(place.folder / "found")
    try:
        found = read_table(place.folder / "path") if is_table else read_file(place.folder / "path")
        found.validate(full=True)
    except LanceOpsError as refusal:
        if theirs is None:
            return Outcome(exchange, "not written", error or "")
        job = {**place.paths("path", "found", "taken", "filtered"), "rows": [], "filter": None}
        newest_error = newest.ask({**job, "kind": "read_table" if is_table else "read_file"})
        kind = "refused" if newest_error is None else "refused by the newest, too"
        return Outcome(exchange, kind, f"{type(refusal).__name__}: {refusal.message}")
    except Exception as failure:  # noqa: BLE001 - anything but a typed error is what this looks for
        return Outcome(exchange, "failed", repr(failure))
    if same(found, expected):
        return Outcome(exchange, "equal")
    if theirs is None:
        # Written, but not even readable by its writer.
        return Outcome(exchange, "not written", error or "")
    if same(found, theirs):
        return Outcome(exchange, "as its writer reads it")
    newest.ask(
        {
            **place.paths("path", "found", "taken", "filtered"),
            "kind": "read_table" if is_table else "read_file",
            "rows": [],
            "filter": FILTER,
        }
    )
    newer = read_kept(place.folder / "found")
    if newer is not None and same(found, newer):
        return Outcome(exchange, "as the newest reads it")
    return Outcome(exchange, "different", f"{found.schema.field(0)}")


def we_write(peer: Peer, newest: Peer, case: Case, version: str, place: Place) -> Outcome:
    """Write, and let the peer read all, some rows, and what a filter keeps."""
    exchange = Exchange(peer.version, version, "table" if case.is_table else "file", case.name, ours=True)
    expected = case.table
    path = place.folder / "path"
    try:
        check_writable(expected.schema, version)
        if case.is_table:
            half = expected.num_rows // 2
            lo.write_dataset(expected.slice(0, half), str(path), data_storage_version=version)
            lo.write_dataset(expected.slice(half), str(path), mode="append")
            lo.delete(str(path), DELETED)
            expected = live(expected)
        else:
            with FileWriter(
                open_store(str(place.folder)), "path", Schema.from_arrow(expected.schema), version=version
            ) as writer:
                writer.write(expected)
    except LanceOpsError as error:
        return Outcome(exchange, "not written", f"{type(error).__name__}: {error.message}")
    except Exception as failure:  # noqa: BLE001 - anything but a typed error is what this looks for
        return Outcome(exchange, "failed", repr(failure))
    problem = find_difference(peer, place, case, expected)
    if problem is None:
        return Outcome(exchange, "equal")
    # A release that cannot read what the newest writes of the same values is not to be pleased.
    shutil.rmtree(place.folder / "path") if case.is_table else (place.folder / "path").unlink()
    keep(case.table, place.folder / "values")
    kind = "write_table" if case.is_table else "write_file"
    job = {"kind": kind, "version": version, "delete": DELETED if case.is_table else None}
    if newest.ask({**place.paths("path", "values", "found"), **job}) is None:
        theirs = find_difference(peer, place, case, expected)
        if theirs is not None:
            return Outcome(exchange, "refused like the newest's", problem)
    return Outcome(exchange, "different" if problem.startswith(DIFFERS) else "refused", problem)


def find_difference(peer: Peer, place: Place, case: Case, expected: pa.Table) -> str | None:
    """Let the peer read a file or table in several ways, and say what is not as expected."""
    rows = np.unique(np.random.default_rng(1).integers(0, max(expected.num_rows, 1), 25))[: expected.num_rows]
    job = {**place.paths("path", "found", "taken", "filtered"), "rows": rows.tolist(), "filter": FILTER}
    error = peer.ask({**job, "kind": "read_table" if case.is_table else "read_file"})
    if error is not None:
        return error
    pairs = [("found", expected), ("taken", expected.take(rows))]
    if case.is_table:
        ids = expected["id"]
        pairs.append(("filtered", expected.filter(pc.and_(pc.greater(ids, 100), pc.less(ids, 300)))))
    for name, wanted in pairs:
        found = read_kept(place.folder / name)
        if found is None:
            assert not rows.size
        elif not same(found, wanted):
            return f"{DIFFERS} what was {name}"
    return None


def with_ids(table: pa.Table) -> pa.Table:
    """The same with a first column that numbers the rows: 0.1 needs a column that it can hold."""
    return table.add_column(0, "id", pa.array(np.arange(table.num_rows)))


def live(table: pa.Table) -> pa.Table:
    """What the deletion leaves."""
    return table.filter(pa.array(table["id"].to_numpy() % 7 != 3))


def keep(table: pa.Table, path: Path) -> None:
    """Leave values for the other side."""
    with pa.ipc.new_stream(str(path), table.schema) as stream:
        stream.write_table(table)


def read_kept(path: Path) -> pa.Table | None:
    """Values that the other side left, if it did."""
    if not path.exists():
        return None
    with pa.ipc.open_stream(str(path)) as stream:
        return stream.read_all()


def read_file(path: Path) -> pa.Table:
    """A file, by its own schema."""
    return FileReader.open(open_store(str(path.parent)), path.name).read_table()


def read_table(path: Path) -> pa.Table:
    """A dataset."""
    return lo.dataset(str(path)).to_table()


def same(found: pa.Table, expected: pa.Table) -> bool:
    """Whether the values are the same; types may differ in what 0.1 and old releases cannot express."""
    if found.column_names != expected.column_names or found.num_rows != expected.num_rows:
        return False
    return all(same_values(found[name], expected[name]) for name in expected.column_names)


def same_values(found: pa.ChunkedArray, expected: pa.ChunkedArray) -> bool:
    """Whether two columns hold the same, whatever the chunks and dictionaries."""
    if found.type == expected.type and "dictionary" not in str(found.type) and found.equals(expected):
        return True
    return repr(plain(found)) == repr(plain(expected))


def plain(column: pa.ChunkedArray) -> list[object]:
    """Values without extension types, which not every pyarrow knows."""
    return [
        value
        for chunk in column.chunks
        for value in (chunk.storage if isinstance(chunk, pa.ExtensionArray) else chunk).to_pylist()
    ]


def exchange_indices_with(release: str, kinds: list[str] | None) -> list[IndexOutcome]:
    """Tables with indices, in both directions, with one release."""
    chosen = [variant for variant in VARIANTS if not kinds or variant.kind in kinds]
    with start(NEWEST) as newest, start(release) as peer:
        return list(exchange_indices(peer, newest, chosen))


def exchange_tables_with(release: str) -> list[TableOutcome]:
    """Whole tables, in both directions, with one release."""
    with start(NEWEST) as newest, start(release) as peer:
        return list(exchange_tables(peer, newest))


def exchange_with(release: str, names: list[str] | None) -> list[Outcome]:
    """Both directions, every case and version, with one release.

    What lance_ops writes is not shown to a release that knows the version only as an experiment: many hang.
    """
    cases = [case for case in build_cases() if not names or case.name in names]
    outcomes = []
    with tempfile.TemporaryDirectory() as folder, start(NEWEST) as newest, start(release) as peer:
        for version in VERSIONS:
            for case in [*cases, mixed_table(version)]:
                outcomes.append(in_folder(folder, partial(peer_writes, peer, newest, case, version)))
                if not is_experimental(release, version):
                    outcomes.append(in_folder(folder, partial(we_write, peer, newest, case, version)))
    return outcomes


def in_folder(folder: str, work: Callable[[Place], Outcome]) -> Outcome:
    """Do something in an empty folder."""
    place = Place(Path(folder) / "exchange")
    place.folder.mkdir()
    try:
        return work(place)
    finally:
        shutil.rmtree(place.folder)


def main() -> int:
    """Run the command line; the code is 1 if something was not as the document's rules allow."""
    parser = argparse.ArgumentParser(description="Exchange files with old releases of pylance.")
    parser.add_argument("--peers", nargs="*", metavar="RELEASE", help="some releases, and no document")
    parser.add_argument("--cases", nargs="*", metavar="NAME", help="some cases, and no document")
    parser.add_argument("--kinds", nargs="*", metavar="KIND", help="some kinds of index, and no document")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="releases at a time")
    parser.add_argument(
        "--only", choices=("columns", "tables", "indices"), help="one of them, and its part of the document"
    )
    arguments = parser.parse_args()
    columns = _run(arguments, RELEASES, partial(exchange_with, names=arguments.cases), "columns")
    narrowed = bool(arguments.cases or arguments.kinds)
    tables = [] if narrowed else _run(arguments, PEERS, exchange_tables_with, "tables")
    with_kinds = partial(exchange_indices_with, kinds=arguments.kinds)
    indices = [] if arguments.cases else _run(arguments, PEERS, with_kinds, "indices")
    wrong = [*failures(columns), *table_failures(tables), *index_failures(indices)]
    for outcome in wrong:
        print(outcome, file=sys.stderr)
    if not (arguments.peers or narrowed):
        parts = _parts(DOCUMENT.read_text(encoding="utf-8"))
        if columns:
            parts[0] = write_report(columns, RELEASES, VERSIONS)
        if tables:
            parts[1] = write_table_report(tables, PEERS)
        if indices:
            parts[2] = write_index_report(indices, PEERS)
        DOCUMENT.write_text("\n\n".join(part.rstrip() for part in parts) + "\n", encoding="utf-8")
    return 1 if wrong else 0


def _parts(document: str) -> list[str]:
    """The parts of the document: columns, whole tables, indices."""
    first, heading, rest = document.partition(f"{INDICES_HEADING}\n")
    columns, tables_heading, tables = first.partition(f"{TABLES_HEADING}\n")
    return [columns, tables_heading + tables, heading + rest]


def _run(
    arguments: argparse.Namespace, peers: Iterable[str], work: Callable[[str], list[T]], part: str
) -> list[T]:
    """Do one sort of work with all chosen releases, some at a time."""
    if arguments.only not in (None, part):
        return []
    outcomes: list[T] = []
    chosen = [name for name in peers if not arguments.peers or name in arguments.peers]
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for name, done in zip(chosen, pool.map(work, chosen), strict=True):
            outcomes.extend(done)
            print(f"{name}: {dict(Counter(one.kind for one in done))}", flush=True)
    return outcomes


def start(release: str) -> Peer:
    """A process of one release."""
    pyarrow, numpy = PEERS[release]
    requirements = [f"pylance=={release}", f"pyarrow=={pyarrow}", f"numpy=={numpy}"]
    python = make_environment(ENVIRONMENTS / release, requirements)
    return Peer(release, python)


if __name__ == "__main__":
    sys.exit(main())
