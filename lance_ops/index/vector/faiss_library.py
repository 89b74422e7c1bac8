"""faiss, which trains and makes graphs; nothing else here needs it, so that it is loaded when it is used."""

import os
from typing import Any

from lance_ops.errors import UnsupportedError

_MANY_OPERATIONS = 20_000_000_000


def load_faiss(operations: int = 0) -> Any:
    """The module.

    Its threads wait for each other at full speed: beside other tasks, and for little work, that costs more
    than it brings.

    Args:
        operations: How much one call has to do, as multiplications; 0 in tasks that run side by side.

    Raises:
        UnsupportedError: it is not installed.
    """
    try:
        import faiss
    except ImportError as error:
        raise UnsupportedError(
            "vector indices are trained with faiss, which is not installed",
            hint="pip install 'lance-ops[vector]'",
        ) from error
    threads = (os.cpu_count() or 1) if operations > _MANY_OPERATIONS else 1
    faiss.omp_set_num_threads(threads)
    return faiss
