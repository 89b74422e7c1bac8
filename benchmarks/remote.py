"""The cases of a store with latency: a real S3 server behind a proxy that delays each request.

Both sides get the same storage options, and with them the same proxy, which counts what each asks for.
"""

import gc
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import lance

import lance_ops as lo
from benchmarks.cases import STORAGE_VERSION, rows
from benchmarks.delay_proxy import DelayProxy, Requests
from lance_ops.storage import open_store
from tests.support.object_servers import ObjectServer, SeaweedFS, running

GROUP = "remote"
SECONDS = 0.05
FRAGMENTS = 60
ROWS = 1_000
VERSIONS = 500

Options = dict[str, str]
Work = Callable[[str, Options], object]


@dataclass(frozen=True, slots=True)
class RemoteCase:
    """One thing that both can do on a bucket.

    Attributes:
        name: Short name for `--only`.
        title: What is measured, for the report.
        prepare: Makes the dataset that both start from, at a local path; cases with the same one share it.
        ours: The work with lance_ops, on a copy of the dataset in the bucket.
        peer: The same work with pylance.
        reads_only: Both may work on one copy.
    """

    name: str
    title: str
    prepare: Callable[[Path], None]
    ours: Work
    peer: Work
    reads_only: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one side: seconds by the clock and of the processor, and what it asked the server for."""

    seconds: float
    processor: float
    requests: Requests


@dataclass(frozen=True, slots=True)
class RemoteMeasurement:
    """All runs of a case, in pairs."""

    case: RemoteCase
    ours: tuple[Run, ...]
    peer: tuple[Run, ...]

    @property
    def ratios(self) -> list[float]:
        """How many times faster ours is, pair by pair."""
        return [peer.seconds / mine.seconds for mine, peer in zip(self.ours, self.peer, strict=True)]

    def row(self) -> str:
        """The row of the table."""
        ours, peer = (statistics.median(run.seconds for run in runs) for runs in (self.ours, self.peer))
        busy = " / ".join(
            f"{statistics.median(run.processor for run in runs):.2f}" for runs in (self.ours, self.peer)
        )
        return (
            f"| {self.case.title} | {ours:.2f} | {peer:.2f} | **{statistics.median(self.ratios):.2f}x** "
            f"| {min(self.ratios):.2f}-{max(self.ratios):.2f} | {busy} "
            f"| {_asked(self.ours)} | {_asked(self.peer)} |"
        )


HEADER = (
    "| case | lance_ops, s | pylance, s | ratio | spread | CPU, s | requests, lance_ops | pylance |",
    "|---|---:|---:|---:|---|---|---|---|",
)


def _asked(runs: tuple[Run, ...]) -> str:
    """Requests of the run that is the median by their number."""
    run = sorted(runs, key=lambda run: len(run.requests))[len(runs) // 2]
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(run.requests.by_method().items()))
    return f"{len(run.requests)}: {kinds}; {run.requests.most} at once"


def _write(path: Path, count: int) -> None:
    table = rows(count * ROWS)
    for start in range(0, len(table), ROWS):
        lance.write_dataset(
            table.slice(start, ROWS), str(path), mode="append", data_storage_version=STORAGE_VERSION
        )


def prepare_fragments(path: Path) -> None:
    """60 appends of 1,000 rows."""
    _write(path, FRAGMENTS)


def prepare_deleted(path: Path) -> None:
    """The same, a seventh of the rows deleted, each fragment with a deletion file."""
    _write(path, FRAGMENTS)
    lance.dataset(str(path)).delete("kind = 3")


def prepare_indexed(path: Path) -> None:
    """60 appends of 1,000 rows under a BTREE of `id`."""
    _write(path, FRAGMENTS)
    lance.dataset(str(path)).create_scalar_index("id", "BTREE")


def prepare_versions(path: Path) -> None:
    """500 appends of 10 rows."""
    table = rows(10)
    for _ in range(VERSIONS):
        lance.write_dataset(table, str(path), mode="append", data_storage_version=STORAGE_VERSION)


def _open(uri: str, options: Options) -> lo.Dataset:
    return lo.dataset(uri, storage_options=options)


def _peer(uri: str, options: Options) -> lance.LanceDataset:
    # A session of its own: ours keeps nothing from one opened dataset to the next either.
    return lance.dataset(uri, storage_options=options, session=lance.Session())


def _cleanup_peer(uri: str, options: Options) -> object:
    return _peer(uri, options).cleanup_old_versions(older_than=timedelta(0), retain_versions=1)


def cases() -> list[RemoteCase]:
    """All cases."""
    small = rows(ROWS)
    return [
        RemoteCase(
            "remote-scan",
            "open and scan 60 fragments",
            prepare_fragments,
            lambda uri, options: _open(uri, options).to_table(),
            lambda uri, options: _peer(uri, options).to_table(),
            reads_only=True,
        ),
        RemoteCase(
            "remote-scan-deleted",
            "the same, each with a deletion file",
            prepare_deleted,
            lambda uri, options: _open(uri, options).to_table(),
            lambda uri, options: _peer(uri, options).to_table(),
            reads_only=True,
        ),
        RemoteCase(
            "remote-filter",
            "open and read two columns by a filter that keeps 1 in 700",
            prepare_fragments,
            lambda uri, options: _open(uri, options).to_table(["id", "name"], "kind = 3 AND amount < 0.01"),
            lambda uri, options: _peer(uri, options).to_table(["id", "name"], "kind = 3 AND amount < 0.01"),
            reads_only=True,
        ),
        RemoteCase(
            "remote-lookup",
            "open and look up a row by a BTREE",
            prepare_indexed,
            lambda uri, options: _open(uri, options).to_table(filter="id = 4711"),
            lambda uri, options: _peer(uri, options).to_table(filter="id = 4711"),
            reads_only=True,
        ),
        RemoteCase(
            "remote-btree",
            "build a BTREE over 60 fragments",
            prepare_fragments,
            lambda uri, options: lo.create_index(uri, "id", storage_options=options),
            lambda uri, options: _peer(uri, options).create_scalar_index("id", "BTREE"),
        ),
        RemoteCase(
            "remote-append",
            "append 1,000 rows to 60 fragments",
            prepare_fragments,
            lambda uri, options: lo.append(uri, small, storage_options=options),
            lambda uri, options: lance.write_dataset(
                small, uri, mode="append", storage_options=options, data_storage_version=STORAGE_VERSION
            ),
        ),
        RemoteCase(
            "remote-delete",
            "delete a tenth of the rows of 60 fragments",
            prepare_fragments,
            lambda uri, options: lo.delete(uri, "amount < 0.1", storage_options=options),
            lambda uri, options: _peer(uri, options).delete("amount < 0.1"),
        ),
        RemoteCase(
            "remote-delete-again",
            "the same, each with a deletion file before",
            prepare_deleted,
            lambda uri, options: lo.delete(uri, "amount < 0.1", storage_options=options),
            lambda uri, options: _peer(uri, options).delete("amount < 0.1"),
        ),
        *(
            RemoteCase(
                f"remote-compact-{method}{'-deleted' * (prepare is prepare_deleted)}",
                f"compact 60 fragments into one, method {method}{deleted}",
                prepare,
                lambda uri, options, method=method: lo.compact(uri, method=method, storage_options=options),  # type: ignore[misc]
                lambda uri, options: _peer(uri, options).optimize.compact_files(),
            )
            for prepare, deleted in (
                (prepare_fragments, ""),
                (prepare_deleted, ", each with a deletion file"),
            )
            for method in ("auto", "rewrite")
        ),
        RemoteCase(
            "remote-cleanup",
            "clean up 500 versions, keep one",
            prepare_versions,
            lambda uri, options: lo.cleanup(
                uri, older_than=timedelta(0), retain_versions=1, storage_options=options
            ),
            _cleanup_peer,
        ),
    ]


class _Bench:
    """A server with its proxy, and the datasets that cases start from."""

    def __init__(self, server: ObjectServer, proxy: DelayProxy, folder: Path) -> None:
        self._server = server
        self._proxy = proxy
        self._folder = folder
        self._made: dict[Callable[[Path], None], Path] = {}

    def measure(self, case: RemoteCase, repeats: int) -> RemoteMeasurement:
        """Run a case."""
        ours: list[Run] = []
        peer: list[Run] = []
        shared = self._upload(case) if case.reads_only else None
        for turn in range(repeats + 1):
            order = ((case.ours, ours), (case.peer, peer))
            for work, runs in order if turn % 2 else reversed(order):
                run = self._run(work, shared or self._upload(case))
                if turn:
                    runs.append(run)
        return RemoteMeasurement(case, tuple(ours), tuple(peer))

    def _run(self, work: Work, uri: str) -> Run:
        options = self._server.options(self._proxy.endpoint)
        gc.collect()
        self._proxy.take()
        started, busy = time.perf_counter(), time.process_time()
        work(uri, options)
        seconds, processor = time.perf_counter() - started, time.process_time() - busy
        return Run(seconds, processor, self._proxy.take())

    def _upload(self, case: RemoteCase) -> str:
        """Put a copy of the dataset into the bucket, past the proxy."""
        if case.prepare not in self._made:
            self._made[case.prepare] = self._folder / f"source-{len(self._made)}.lance"
            case.prepare(self._made[case.prepare])
        source = self._made[case.prepare]
        uri = self._server.new_root()
        store = open_store(uri, self._server.options())
        files = [path for path in source.rglob("*") if path.is_file()]
        with ThreadPoolExecutor(8) as pool:
            list(
                pool.map(
                    lambda path: store.put(path.relative_to(source).as_posix(), path.read_bytes()), files
                )
            )
        return uri


def measure_all(only: list[str] | None, repeats: int) -> Iterator[RemoteMeasurement]:
    """Run the cases that are wanted; the server is started for them.

    Args:
        only: Names of cases, or of this group; all of them when None.
        repeats: Pairs that count; one more opens connections and asks what is asked once in a process.
    """
    wanted = [case for case in cases() if not only or GROUP in only or case.name in only]
    if not wanted:
        return
    with (
        tempfile.TemporaryDirectory(prefix="lance-ops-bench-") as folder,
        running(SeaweedFS) as server,
        DelayProxy(server.port, SECONDS) as proxy,
    ):
        bench = _Bench(server, proxy, Path(folder))
        for case in wanted:
            yield bench.measure(case, repeats)
