"""Which files a job alone can have written, by their names."""

import re

from lance_ops.table.transaction.transaction import MARK_BITS, job_mark

_DELETION_FILE = re.compile(r"(?:.*/)?_deletions/\d+-\d+-(\d+)\.(?:arrow|bin)")


def is_deletion_file_of(job_key: str, path: str) -> bool:
    """Whether a deletion file bears the mark of a job.

    When the answer of the put that made it is lost, the writer leaves it: another run of the job may have one
    of that name. It goes with the first cleanup after the job is done.
    """
    match = _DELETION_FILE.fullmatch(path)
    return match is not None and int(match[1]) >> 64 - MARK_BITS == job_mark(job_key)
