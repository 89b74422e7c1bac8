"""Peak memory of a full-text index on a large table: built, refreshed and merged after 5 % more rows each.

Each step runs in a process of its own, which reports the most resident memory and the most anonymous memory
that it had, everything included: interpreter, libraries, kernels, and pages of mapped files in the former.

    python -m benchmarks.text_memory --gigabytes 0.1 1 --threads 1
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import lance_ops as lo
from benchmarks.scan_memory import Peak

_WORDS_OF_TEXT = 60
_BATCH_ROWS = 8192
_BYTES_OF_TEXT = 535
"""About."""
_ROWS_PER_FILE = 500_000
_STEPS = ("build", "refresh", "merge")
_INDEX = "text_idx"


def make_texts(gigabytes: float, distinct: int, seed: int = 0) -> Iterator[pa.RecordBatch]:
    """Texts of 60 words, some frequent and most rare, as words are."""
    draw = np.random.default_rng(seed)
    words = pa.array([f"{number:x}" for number in draw.permutation(distinct)])
    words = pc.binary_join_element_wise(words, pa.array(["xyzst"] * len(words)), "qua")
    left = int(gigabytes * 1e9 / _BYTES_OF_TEXT)
    while left > 0:
        rows = min(left, _BATCH_ROWS)
        # Half of the words are among a few thousand, the others are of all.
        shares = draw.random(rows * _WORDS_OF_TEXT)
        picked = words.take(pa.array((distinct * shares**4).astype(np.int64)))
        offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * _WORDS_OF_TEXT)
        texts = pc.binary_join(pa.ListArray.from_arrays(offsets, picked), " ")
        yield pa.record_batch({"id": pa.array(np.arange(rows)), "text": texts})
        left -= rows


def write_texts(path: Path, gigabytes: float, distinct: int, *, mode: str = "create", seed: int = 0) -> None:
    """Write such texts, or append them."""
    batches = make_texts(gigabytes, distinct, seed)
    schema = pa.schema({"id": pa.int64(), "text": pa.string()})
    reader = pa.RecordBatchReader.from_batches(schema, batches)
    if mode == "append":
        lo.append(path, reader)
    else:
        lo.write_dataset(reader, path, max_rows_per_file=_ROWS_PER_FILE)


def _run(step: str, path: str, threads: int, given: dict[str, object]) -> None:
    runner = lo.LocalRunner(threads)
    peak = Peak()
    peak.start()
    begin, busy = time.perf_counter(), time.process_time()
    if step == "build":
        lo.create_index(path, "text", "INVERTED", name=_INDEX, runner=runner, parameters=given)
    else:
        merged = 0 if step == "refresh" else 10
        lo.optimize_indices(path, [_INDEX], num_indices_to_merge=merged, runner=runner)
    seconds, busy = time.perf_counter() - begin, time.process_time() - busy
    anonymous = peak.finish()
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    print(f"{resident} {anonymous} {pa.default_memory_pool().max_memory()} {busy} {seconds}")


def main() -> None:
    """Write the tables, take the steps in processes of their own, and print what they held."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[0.1, 1])
    parser.add_argument("--words", type=int, default=200_000, help="different words")
    parser.add_argument("--threads", type=int, default=1, help="tasks at once")
    parser.add_argument("--steps", nargs="+", choices=_STEPS, default=_STEPS)
    parser.add_argument("--parameters", type=json.loads, default={}, help="of the index, as JSON")
    parser.add_argument("--folder", help="where the tables are made; they are deleted afterwards")
    parser.add_argument("--run", nargs=2, metavar=("STEP", "PATH"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        _run(*arguments.run, arguments.threads, arguments.parameters)
        return
    folder = Path(tempfile.mkdtemp(prefix="text-memory-", dir=arguments.folder))
    try:
        print("| texts | step | resident set | anonymous memory | Arrow's pool | CPU | time |")
        print("|---|---|---|---|---|---|---|", flush=True)
        for gigabytes in arguments.gigabytes:
            path = folder / "table.lance"
            write_texts(path, gigabytes, arguments.words)
            for step in arguments.steps:
                if step != "build":
                    write_texts(path, gigabytes / 20, arguments.words, mode="append", seed=1)
                command = [sys.executable, "-m", "benchmarks.text_memory", "--run", step, str(path)]
                command += ["--threads", str(arguments.threads)]
                command += ["--parameters", json.dumps(arguments.parameters)]
                output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                resident, anonymous, pool, busy, seconds = output.split()
                sizes = " | ".join(
                    f"{int(size) / (1 << 20):,.0f} MiB" for size in (resident, anonymous, pool)
                )
                print(
                    f"| {gigabytes:g} GB | {step} | {sizes} | {float(busy):.1f} s | {float(seconds):.1f} s |",
                    flush=True,
                )
            shutil.rmtree(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
