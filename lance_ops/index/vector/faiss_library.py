"""faiss, which trains and makes graphs; nothing else here needs it, so that it is loaded when it is used."""

import os
from typing import Any

from lance_ops.extras import load_extra

_MANY_OPERATIONS = 200_000_000_000
"""A thread does some 25,000,000,000 in a second."""
_WAITING = "OMP_WAIT_POLICY"


def load_faiss(operations: int = 0) -> Any:
    """The module.

    Its threads wait for each other: beside other tasks, and for little work, that costs more than it brings.
    Unless the user says otherwise they do so asleep, and not in a loop.

    Args:
        operations: How much one call has to do, as multiplications; 0 in tasks that run side by side.

    Raises:
        MissingExtraError: it is not installed.
    """
    # It is looked at once, when the library is loaded.
    os.environ.setdefault(_WAITING, "PASSIVE")
    faiss = load_extra("faiss")
    threads = (os.cpu_count() or 1) if operations > _MANY_OPERATIONS else 1
    faiss.omp_set_num_threads(threads)
    return faiss
