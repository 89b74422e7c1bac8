"""The process that works with what is damaged; a campaign starts and watches it, and replaces it."""

import argparse
import json
import mmap
import os
import pickle
import resource
import struct
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lance_ops.encoding import kernels
from lance_ops.index.vector.faiss_library import load_faiss
from tests.fuzz.check import MEMORY_SLACK
from tests.fuzz.subject import SUBJECTS

REPORT_EVERY = 500


def main() -> None:
    """Read cases until all are done; a line on the standard output for each bug and one at the end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("subject", choices=SUBJECTS)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("progress", type=Path)
    parser.add_argument("first", type=int)
    parser.add_argument("stop", type=int)
    parser.add_argument("stride", type=int)
    arguments = parser.parse_args()
    subject = SUBJECTS[arguments.subject]()
    samples = pickle.loads(arguments.corpus.read_bytes())
    examiner = subject.examiner(samples)
    load_libraries()
    limit_memory()
    counts = {"answer": 0, "error": 0}
    with arguments.progress.open("r+b") as handle, mmap.mmap(handle.fileno(), 8) as progress:
        for case in range(arguments.first, arguments.stop, arguments.stride):
            progress[:] = struct.pack("<q", case)
            try:
                counts[examiner.run(case)] += 1
            except Exception as error:  # noqa: BLE001 - whatever is not an error of the package is a bug
                print(json.dumps({"case": case, "error": describe(error)}), flush=True)
            if sum(counts.values()) >= REPORT_EVERY:
                print(json.dumps(counts), flush=True)
                counts = dict.fromkeys(counts, 0)
    print(json.dumps({**counts, "done": True}), flush=True)


def load_libraries() -> None:
    """What cases load when they first need it takes address space that is not theirs."""
    for name in kernels.names():
        kernels.load(name)
    load_faiss()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(len, [()] * 8))


def limit_memory() -> None:
    """Whatever asks for more than the stated bound from here on fails."""
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if sys.platform == "linux" else 0
    if pages:
        # Twice, for what the allocator reserves and what earlier cases left behind.
        limit = pages * os.sysconf("SC_PAGE_SIZE") + 2 * MEMORY_SLACK
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


def describe(error: BaseException) -> str:
    """The error and where in the package it came from."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "lance_ops" in frame.filename]
    places = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames[-4:]]
    return f"{type(error).__name__}: {error}"[:300] + "".join(f"\n    {place}" for place in places)


if __name__ == "__main__":
    main()
