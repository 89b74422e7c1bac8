"""The side of `old_peers.py` that runs under an old pylance: does a job a line and answers each.

Values travel as Arrow streams beside the files, because both sides can read those whatever their versions.
Needs nothing but pylance, and avoids what the oldest one does not know.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
from lance.file import LanceFileReader, LanceFileWriter
from old_peers_table_steps import (
    PARAMETERS,
    STABLE_ROW_IDS,
    act_on_table,
    keep_values,
    read_lines,
    read_values,
)

BATCH_ROWS = 1000
INDEX_NODES = ("MaterializeIndex", "ScalarIndexQuery", "ANN", "Fts", "MatchQuery")
"""What plans call the use of an index; searches for words always have one."""


def write_file(job: dict[str, Any]) -> None:
    """Write a file of one version, and keep what this pylance itself reads of it."""
    table = read_values(job["values"])
    with LanceFileWriter(job["path"], table.schema, version=job["version"]) as writer:
        for start in range(0, table.num_rows, BATCH_ROWS):
            # Copies, because many releases panic on slices of nested structs.
            rows = np.arange(start, min(start + BATCH_ROWS, table.num_rows))
            for batch in table.take(rows).to_batches():
                writer.write_batch(batch)
    keep_values(LanceFileReader(job["path"]).read_all().to_table(), job["found"])


def write_table(job: dict[str, Any]) -> None:
    """Write a dataset in two commits and delete from it, and keep what this pylance itself reads of it."""
    table = read_values(job["values"])
    options = {"data_storage_version": job["version"], "max_rows_per_group": 256}
    half = table.num_rows // 2
    lance.write_dataset(table.take(np.arange(half)), job["path"], **options)
    lance.write_dataset(table.take(np.arange(half, table.num_rows)), job["path"], mode="append", **options)
    if job["delete"]:
        lance.dataset(job["path"]).delete(job["delete"])
    keep_values(lance.dataset(job["path"]).to_table(), job["found"])


def read_file(job: dict[str, Any]) -> None:
    """Read a file, some rows of it, and a range."""
    reader = LanceFileReader(job["path"])
    keep_values(reader.read_all().to_table(), job["found"])
    if job["rows"]:
        keep_values(LanceFileReader(job["path"]).take_rows(job["rows"]).to_table(), job["taken"])


def read_table(job: dict[str, Any]) -> None:
    """Read a dataset, some rows of it, and those that a filter keeps."""
    dataset = lance.dataset(job["path"])
    keep_values(dataset.to_table(), job["found"])
    keep_values(dataset.take(job["rows"]), job["taken"])
    keep_values(dataset.to_table(filter=job["filter"]), job["filtered"])


def write_indexed(job: dict[str, Any]) -> None:
    """Write a dataset of two commits, add a column to it (a second file in each fragment), and index columns.

    Then delete rows, and append some that no index covers. What could be indexed goes into `done`.
    """
    table, late = read_values(job["values"]), job["late"]
    early = table.drop([late])
    options: dict[str, Any] = {"data_storage_version": "2.0"}
    if job["stable"]:
        options[next(name for name in STABLE_ROW_IDS if name in PARAMETERS)] = True
    first, second = job["cuts"]
    # Copies, because early releases lose the nulls of slices.
    lance.write_dataset(early.take(np.arange(first)), job["path"], **options)
    lance.write_dataset(early.take(np.arange(first, second)), job["path"], mode="append")
    lance.dataset(job["path"]).add_columns({late: job["expression"]})
    done = []
    for column in job["columns"]:
        try:
            create_index(job["path"], column, job["index"], job["parameters"])
            done.append(column)
        except Exception:  # noqa: BLE001 - each release refuses some types
            continue
    lance.dataset(job["path"]).delete(job["delete"])
    rest = table.take(np.arange(second, table.num_rows))
    lance.write_dataset(rest.select(lance.dataset(job["path"]).schema.names), job["path"], mode="append")
    Path(job["done"]).write_text(json.dumps(done))


def create_index(path: str, column: str, kind: str, parameters: dict[str, Any]) -> None:
    """An index of any kind that this pylance has."""
    dataset = lance.dataset(path)
    if kind.startswith("IVF"):
        dataset.create_index(column, kind, metric="L2", **parameters)
    elif kind == "JSON":
        given = {"target_index_type": parameters["target"], "path": parameters["path"]}
        dataset.create_scalar_index(column, lance.indices.IndexConfig(index_type="json", parameters=given))
    else:
        dataset.create_scalar_index(column, kind, **parameters)


def tend_indexed(job: dict[str, Any]) -> None:
    """Append, bring the indices up to date, delete and compact."""
    rows = read_values(job["values"])
    lance.write_dataset(rows, job["path"], mode="append")
    lance.dataset(job["path"]).optimize.optimize_indices()
    lance.dataset(job["path"]).delete(job["delete"])
    lance.dataset(job["path"]).optimize.compact_files()


def ask_indexed(job: dict[str, Any]) -> None:
    """Answer questions, each with whether an index was used; into `answers`."""
    dataset = lance.dataset(job["path"])
    answers: list[dict[str, Any]] = []
    for question in job["questions"]:
        options: dict[str, Any]
        if "filter" in question:
            options = {"filter": question["filter"]}
        elif "text" in question:
            query = {"query": question["text"], "columns": [question["column"]]}
            options = {"full_text_query": query, "limit": job["rows"]}
        else:
            query = {"column": question["column"], "q": np.array(question["nearest"], np.float32)}
            options = {"nearest": {**query, "k": job["near"], "nprobes": 100, "refine_factor": 100}}
        try:
            ids = dataset.to_table(columns=["id"], **options)["id"].to_pylist()
            plan = dataset.scanner(columns=["id"], **options).explain_plan(True)
            answers.append(
                {
                    "ids": ids if "nearest" in question else sorted(ids),
                    "used": any(word in plan for word in INDEX_NODES),
                }
            )
        except BaseException as error:  # noqa: BLE001 - a panic of the library is none of Exception's
            answers.append({"error": f"{type(error).__name__}: {error}"})
    Path(job["answers"]).write_text(json.dumps(answers))


def main() -> None:
    """Work until the input ends."""
    jobs = {
        "act_on_table": act_on_table,
        "read_lines": read_lines,
        "write_indexed": write_indexed,
        "tend_indexed": tend_indexed,
        "ask_indexed": ask_indexed,
        "write_file": write_file,
        "write_table": write_table,
        "read_file": read_file,
        "read_table": read_table,
    }
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    # Whatever the library prints must not end up among the answers.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin:
        job = json.loads(line)
        if job["kind"] == "hello":
            answer = {"pylance": lance.__version__, "pyarrow": pa.__version__, "numpy": np.__version__}
        else:
            try:
                jobs[job["kind"]](job)
                answer = {}
            except BaseException as error:  # noqa: BLE001 - a panic of the library is none of Exception's
                for name in ("found", "taken", "filtered", "answers", "done"):
                    if name in job:
                        Path(job[name]).unlink(missing_ok=True)
                answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
