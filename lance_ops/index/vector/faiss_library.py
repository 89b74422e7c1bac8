"""faiss, which trains and makes graphs; nothing else here needs it, so that it is loaded when it is used."""

import os
from typing import Any

from lance_ops.extras import load_extra

_MANY_OPERATIONS = 200_000_000_000
"""A thread does some 25,000,000,000 in a second."""
_WAITING = "OMP_WAIT_POLICY"


def load_faiss(operations: int = 0) -> Any:
    """Return the module.

    Its threads synchronise, which costs more than it gains next to other tasks and for little work. By
    default they wait passively, not in a loop.

    Args:
        operations: Work of one call in multiplications; 0 in parallel tasks.

    Raises:
        MissingExtraError: it is not installed.
    """
    # Read once, when the library is loaded.
    os.environ.setdefault(_WAITING, "PASSIVE")
    faiss = load_extra("faiss")
    threads = (os.cpu_count() or 1) if operations > _MANY_OPERATIONS else 1
    faiss.omp_set_num_threads(threads)
    return faiss
