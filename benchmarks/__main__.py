"""`python -m benchmarks`: run the cases and print ratios; `--write` keeps them in `benchmarks/README.md`."""

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import (
    appenders,
    estimates,
    index_cases,
    large_metadata,
    page_copy,
    remote,
    row_changes,
    spark,
    vector_builds,
    vector_questions,
)
from benchmarks.cases import cases
from benchmarks.column_kinds import ALL_VERSIONS
from benchmarks.columns import HEADER, ROWS, measure_columns, row, summary
from benchmarks.pairing import Case, Measurement, Sources, measure
from benchmarks.report import Table, keep_text, machine, today

TIMES_HEADER = (
    "| case | lance_ops, s | pylance, s | pylance / lance_ops | spread |",
    "|---|---:|---:|---:|---|",
)
CASES = Table("results", TIMES_HEADER)
INDICES = Table("indices", TIMES_HEADER)
INDEX_BYTES = Table(
    "index-bytes", ("| kind | lance_ops | pylance | lance_ops / pylance |", "|---|---:|---:|---:|")
)
VECTORS = Table("vectors", vector_builds.HEADER)
QUESTIONS = Table("vector-questions", vector_questions.HEADER)
REMOTE = Table("remote", remote.HEADER)
SPARK = Table("spark", spark.HEADER)
COLUMNS = "columns"
COLUMNS_PAGE = Path(__file__).with_name("COLUMNS.md")


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
    only, repeats, write = arguments.only, arguments.repeats, arguments.write
    how = f"{repeats} pairs, {'processor' if arguments.cpu else 'clock'}"

    own = [*cases(), *row_changes.cases(), *large_metadata.cases(), *page_copy.cases()]
    for table, group in ((CASES, own), (INDICES, index_cases.cases())):
        order = [case.title for case in group]
        for measured in _measured(group, only, repeats, cpu=arguments.cpu):
            _told(table, _row(measured), how if write else None, [*order, appenders.TITLE])
    if only is None or appenders.NAME in only:
        order = [*(case.title for case in own), appenders.TITLE]
        _told(
            CASES, appenders.measure_appenders(repeats), f"{repeats} pairs, clock" if write else None, order
        )
    for column in index_cases.COLUMNS:
        if only is None or column.name in only:
            _told(INDEX_BYTES, _bytes_row(column), "1 M rows or fewer" if write else None)
    how_vectors = f"{min(3, repeats)} pairs, {'processor' if arguments.cpu else 'clock'}"
    for built in vector_builds.measure_vectors(only, min(3, repeats), cpu=arguments.cpu):
        _told(
            VECTORS,
            built,
            how_vectors if write else None,
            [vector_builds.FIRST_TITLE, *(build.title for build in vector_builds.BUILDS)],
        )
    how_asked = f"{repeats} pairs, {'processor' if arguments.cpu else 'clock'}"
    for asked in vector_questions.measure_questions(only, repeats, cpu=arguments.cpu):
        _told(QUESTIONS, asked, how_asked if write else None, vector_questions.titles())
    for distant in remote.measure_all(only, repeats):
        _told(REMOTE, distant.row(), f"{repeats} pairs, clock" if write else None)
    if only is None or estimates.NAME in only:
        told = estimates.measure_estimates(min(3, repeats))
        if write:
            keep_text(estimates.NAME, [f"{today()}, {machine()}.", "", *told])
    if only is None or spark.GROUP in only:
        print("\n".join(spark.HEADER), flush=True)
        for compared in spark.measure_all(min(5, repeats), arguments.spark_rows):
            _told(SPARK, compared.row(), f"{len(compared.ours)} pairs" if write else None)
    if only is None or COLUMNS in only:
        print(HEADER, flush=True)
        columns = measure_columns(
            repeats,
            kinds=arguments.kinds,
            versions=arguments.versions,
            rows=arguments.rows,
            cpu=arguments.cpu,
        )
        print(f"\n{summary(columns)}")
        if write:
            when = (
                f"{today()}, {machine()}, {repeats} pairs each{', processor time' if arguments.cpu else ''}."
            )
            keep_text(COLUMNS, [when, "", summary(columns)])
            keep_text(COLUMNS, [when, "", HEADER, *map(row, columns)], COLUMNS_PAGE)


def _told(table: Table, row: str, how: str | None, order: list[str] | None = None) -> None:
    """Print a row, and keep it where it is said how it was measured."""
    print(row, flush=True)
    if how is not None:
        table.keep([row], order or (), how=how)


def _measured(group: list[Case], only: list[str] | None, repeats: int, *, cpu: bool) -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory(prefix="lance-ops-bench-") as folder:
        sources = Sources(Path(folder))
        for case in group:
            if not only or case.name in only or (group_of(case) in only):
                yield measure(case, sources, repeats, cpu=cpu)


def group_of(case: Case) -> str:
    """What `--only` may say for all cases of an index kind (`btree`), or of one kind of work (`build`)."""
    return case.name.rpartition("-")[0]


def _bytes_row(column: index_cases.IndexedColumn) -> str:
    ours, peer = index_cases.index_bytes(column)
    return f"| {column.kind} | {ours:,} | {peer:,} | {ours / peer:.3f} |"


def _row(result: Measurement) -> str:
    ratios = result.ratios
    ours, peer = statistics.median(result.ours), statistics.median(result.peer)
    return (
        f"| {result.case.title} | {ours:.3f} | {peer:.3f} "
        f"| **{result.ratio:.2f}x** | {min(ratios):.2f}-{max(ratios):.2f} |"
    )


if __name__ == "__main__":
    main()
