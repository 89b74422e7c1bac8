"""`python -m benchmarks`: run the cases and print ratios; `--write` keeps them in `benchmarks/README.md`."""

import argparse
import datetime as dt
import os
import platform
import statistics
import tempfile
from importlib.metadata import version
from pathlib import Path

import psutil

from benchmarks import (
    appenders,
    estimates,
    index_cases,
    large_metadata,
    page_copy,
    remote,
    row_changes,
    spark,
)
from benchmarks.cases import cases
from benchmarks.column_kinds import ALL_VERSIONS
from benchmarks.columns import HEADER, ROWS, measure_columns, report_lines, summary
from benchmarks.pairing import Case, Measurement, Sources, measure

README = Path(__file__).with_name("README.md")
MARKER = "<!-- results: written by `make bench BENCH_ARGS=--write` -->"
COLUMNS_MARKER = "<!-- columns: written by `make bench BENCH_ARGS=--write` -->"
INDICES_MARKER = "<!-- indices: written by `make bench BENCH_ARGS=--write` -->"
REMOTE_MARKER = "<!-- remote: written by `make bench BENCH_ARGS=--write` -->"
ESTIMATES_MARKER = "<!-- estimates: written by `make bench BENCH_ARGS=--write` -->"
SPARK_MARKER = "<!-- spark: written by `make bench BENCH_ARGS=--write` -->"
COLUMNS = "columns"


def main() -> None:
    """Parse the arguments, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="*", metavar="NAME", help="names of the cases to run")
    parser.add_argument("--repeats", type=int, default=7, help="pairs of runs that count (default 7)")
    parser.add_argument("--write", action="store_true", help="keep the results in benchmarks/README.md")
    parser.add_argument("--cpu", action="store_true", help="processor time instead of wall time")
    parser.add_argument("--kinds", nargs="*", metavar="KIND", help="columns: names of the kinds to measure")
    parser.add_argument("--rows", nargs="*", type=int, default=ROWS, help="columns: rows of a narrow one")
    parser.add_argument("--versions", nargs="*", default=ALL_VERSIONS, help="columns: storage versions")
    parser.add_argument("--spark-rows", type=int, default=spark.ROWS, help="spark: rows of its data")
    arguments = parser.parse_args()
    own = [*cases(), *row_changes.cases(), *large_metadata.cases(), *page_copy.cases()]
    for marker, group in ((MARKER, own), (INDICES_MARKER, index_cases.cases())):
        done = _measure_all(group, arguments.only, arguments.repeats, cpu=arguments.cpu)
        if marker == INDICES_MARKER:
            lines = [_bytes_row(column) for column in index_cases.COLUMNS if _wanted(column, arguments.only)]
        else:
            lines = []
        if arguments.write and done:
            _keep(marker, [*_heading(len(done[0].ours)), *_table(done), *([""] if lines else []), *lines])
    if arguments.only is None or appenders.NAME in arguments.only:
        print(appenders.measure_appenders(arguments.repeats), flush=True)
    distant: list[str] = []
    for result in remote.measure_all(arguments.only, arguments.repeats):
        distant.append(result.row())
        print(distant[-1], flush=True)
    if arguments.write and distant:
        _keep(REMOTE_MARKER, [*_heading(arguments.repeats), *remote.HEADER, *distant])
    if arguments.only is None or estimates.NAME in arguments.only:
        told = estimates.measure_estimates(min(3, arguments.repeats))
        if arguments.write:
            _keep(ESTIMATES_MARKER, [*_heading(min(3, arguments.repeats)), *told])
    if arguments.only is None or spark.GROUP in arguments.only:
        print("\n".join(spark.HEADER), flush=True)
        beside = []
        for compared in spark.measure_all(min(5, arguments.repeats), arguments.spark_rows):
            beside.append(compared.row())
            print(beside[-1], flush=True)
        if arguments.write:
            _keep(SPARK_MARKER, [*_heading(min(5, arguments.repeats)), *spark.HEADER, *beside])
    if arguments.only is None or COLUMNS in arguments.only:
        print(HEADER, flush=True)
        columns = measure_columns(
            arguments.repeats, kinds=arguments.kinds, versions=arguments.versions, rows=arguments.rows
        )
        print(f"\n{summary(columns)}")
        if arguments.write:
            _keep(COLUMNS_MARKER, [*_heading(arguments.repeats), *report_lines(columns)])


def _measure_all(group: list[Case], only: list[str] | None, repeats: int, *, cpu: bool) -> list[Measurement]:
    done: list[Measurement] = []
    with tempfile.TemporaryDirectory(prefix="lance-ops-bench-") as folder:
        sources = Sources(Path(folder))
        for case in group:
            if not only or case.name in only or (group_of(case) in only):
                done.append(measure(case, sources, repeats, cpu=cpu))
                print(_row(done[-1]), flush=True)
    return done


def group_of(case: Case) -> str:
    """What `--only` may say for all cases of an index kind (`btree`), or of one kind of work (`build`)."""
    return case.name.rpartition("-")[0]


def _wanted(column: index_cases.IndexedColumn, only: list[str] | None) -> bool:
    return not only or column.name in only


def _bytes_row(column: index_cases.IndexedColumn) -> str:
    ours, peer = index_cases.index_bytes(column)
    line = f"{column.kind}: {ours:,} bytes, the peer's {peer:,}: {ours / peer:.3f}"
    print(line, flush=True)
    return f"- {line}"


def _row(result: Measurement) -> str:
    ratios = result.ratios
    ours, peer = statistics.median(result.ours), statistics.median(result.peer)
    return (
        f"| {result.case.title} | {ours:.3f} | {peer:.3f} "
        f"| **{result.ratio:.2f}x** | {min(ratios):.2f}-{max(ratios):.2f} |"
    )


def _heading(repeats: int) -> list[str]:
    memory = round(psutil.virtual_memory().total / 2**30)
    today = dt.datetime.now(dt.UTC).date().isoformat()
    machine = f"{os.cpu_count()} cores, {memory} GiB, Python {platform.python_version()}"
    load = f"Load average over the last 15 minutes: {os.getloadavg()[2]:.1f}."
    return [f"{today}, {machine}, pylance {version('pylance')}, {repeats} pairs each. {load}", ""]


def _table(results: list[Measurement]) -> list[str]:
    return [
        "| case | lance_ops, s | pylance, s | pylance / lance_ops | spread |",
        "|---|---:|---:|---:|---|",
        *(_row(result) for result in results),
    ]


def _keep(marker: str, lines: list[str]) -> None:
    """Replace what the README says behind a marker, up to the next one."""
    head, _, tail = README.read_text(encoding="utf-8").partition(marker)
    following = tail.find("\n## ")
    rest = tail[following:] if following >= 0 else ""
    README.write_text(head + "\n".join([marker, "", *lines, ""]) + rest, encoding="utf-8")


if __name__ == "__main__":
    main()
