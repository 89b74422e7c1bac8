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

BATCH_ROWS = 1000


def read_values(path: str) -> pa.Table:
    """A table from an Arrow stream."""
    with pa.ipc.open_stream(path) as stream:
        return stream.read_all()


def keep_values(table: pa.Table, path: str) -> None:
    """A table as an Arrow stream."""
    with pa.ipc.new_stream(path, table.schema) as stream:
        stream.write_table(table)


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


def main() -> None:
    """Work until the input ends."""
    jobs = {
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
                for name in ("found", "taken", "filtered"):
                    if name in job:
                        Path(job[name]).unlink(missing_ok=True)
                answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
