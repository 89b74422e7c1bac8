"""`python -m tests.fuzz`: damage data files or indices for as long as you like, or repeat one case."""

import argparse
import os
import sys
import time
from pathlib import Path

from tests.fuzz.campaign import ROOT, run_campaign
from tests.fuzz.subject import SUBJECTS

UNITS = {"s": 1, "m": 60, "h": 3600}
CHECKED = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(ROOT / ".cache" / "checked-kernels")}
"""Kernels that raise where they would read or write outside of a buffer."""


def main() -> int:
    """Run the command line; the code is 1 if there are bugs."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument(
        "--for", dest="amount", default="100000", help="cases, or a time such as 30m (default 100000)"
    )
    parser.add_argument("--of", choices=SUBJECTS, help="what is damaged (default: both, half of the time)")
    parser.add_argument("--first", type=int, help="first case (default: by the clock)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--checked", action="store_true", help="kernels check every access, and are slower")
    parser.add_argument("--case", type=int, help="repeat this one here, with its whole traceback")
    parser.add_argument("--keep", type=Path, help="with --case: write the damaged file there")
    arguments = parser.parse_args()
    if arguments.case is not None:
        return repeat(arguments.of or "files", arguments.case, arguments.keep)
    subjects = [arguments.of] if arguments.of else list(SUBJECTS)
    seconds = None
    if arguments.amount[-1] in UNITS:
        seconds = float(arguments.amount[:-1]) * UNITS[arguments.amount[-1]] / len(subjects)
    left = 1 << 60 if seconds is not None else int(arguments.amount)
    case = int(time.time()) * 1000 if arguments.first is None else arguments.first
    print(f"from case {case}", flush=True)
    bugs = 0
    for subject in subjects:
        result = run_campaign(
            case,
            case + left,
            subject=subject,
            workers=arguments.workers,
            seconds=seconds,
            environment=CHECKED if arguments.checked else None,
            report=lambda text: print(text, flush=True),
        )
        print(result, flush=True)
        bugs += len(result.bugs)
    return 1 if bugs else 0


def repeat(subject: str, case: int, keep: Path | None) -> int:
    """One case in this process."""
    found = SUBJECTS[subject]()
    examiner = found.examiner(found.build())
    name, data = examiner.describe(case)
    print(f"case {case}: {name}, {len(data)} bytes", flush=True)
    if keep is not None:
        keep.write_bytes(data)
    print(examiner.run(case))
    return 0


if __name__ == "__main__":
    sys.exit(main())
