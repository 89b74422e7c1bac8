"""Worker daemon: `spark.python.daemon.module = lance_ops.spark.daemon`, instead of pyspark's own.

Spark forks its Python workers from a daemon. Pyspark's own imports nothing before that, so that each worker
imports everything again: pyspark itself, which Spark ships as a zip without compiled modules, this package,
and the compiled loops of encodings. This daemon imports them once, from installed packages with compiled
modules. A worker that `limit` or `show` has ended is then replaced within a fraction of a second.

Nothing may be started before a fork that does not survive it: no threads, no clients of object stores. BLAS
gets one thread, since Spark gives each worker one core.
"""

import gc
import importlib
import os
import sys
import zipfile
from collections.abc import Callable
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path

# Modules of common scans: a worker loads what is missing here.
_READ_KERNELS = (
    "bits.bitpacking",
    "bits.rle",
    "chunks",
    "fsst.decode",
    "pages.full_zip_decode",
    "pages.levels",
    "pages.picking",
    "pages.ravel",
    "steps",
    "values.end_offsets_decode",
    "values.lookup",
    "values.utf8",
    "values.variable",
)


def main() -> None:
    """Import the modules of the workers, and serve Spark."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    prefer_installed_pyspark(sys.path)
    preload(sys.argv[1] if len(sys.argv) > 1 else "pyspark.worker")
    # These objects are permanent: neither the collector nor a fork has to traverse them.
    gc.collect()
    gc.freeze()
    from pyspark import daemon

    daemon.manager()


def prefer_installed_pyspark(path: list[str]) -> bool:
    """Remove Spark's archives of pyspark from a module path if they are missing, or if pyspark is installed.

    Args:
        path: Changed in place.

    Returns:
        True if it was changed.
    """
    archives = [entry for entry in path if _is_archive(entry, "pyspark.zip")]
    others = [
        entry for entry in path if not (_is_archive(entry, "pyspark.zip") or _is_archive(entry, "py4j-"))
    ]
    spec = PathFinder.find_spec("pyspark", others)
    if not archives or spec is None or spec.origin is None or PathFinder.find_spec("py4j", others) is None:
        return False
    installed = Path(spec.origin).with_name("version.py")
    try:
        # Spark lists its archives even if its home has none, as in `prepare_environment`.
        if not Path(archives[0]).exists():
            path[:] = others
            return True
        with zipfile.ZipFile(archives[0]) as archive:
            is_same = archive.read("pyspark/version.py") == installed.read_bytes()
    except (OSError, KeyError, zipfile.BadZipFile):
        return False
    if is_same:
        path[:] = others
    return is_same


def _is_archive(entry: str, name: str) -> bool:
    return entry.endswith(".zip") and Path(entry).name.startswith(name)


def preload(worker: str) -> None:
    """Import the modules of a kind of workers.

    Failed imports are left to the worker: a daemon that does not start would fail every Python function of
    the session, even those unrelated to this package.

    Args:
        worker: Name of pyspark's module that a worker runs.
    """
    importlib.import_module(worker)
    load = _PRELOADED.get(worker.rpartition(".")[2])
    if load is not None:
        with suppress(ImportError):
            load()


def _load_reading() -> None:
    importlib.import_module("lance_ops.spark.datasource")


def _load_writing() -> None:
    _load_reading()
    importlib.import_module("lance_ops.spark.writing.dataframe")


def _load_tasks() -> None:
    from lance_ops.encoding import kernels

    _load_reading()
    importlib.import_module("lance_ops.file.v2_1.layout")
    for name in _READ_KERNELS:
        kernels.load(name)


_PRELOADED: dict[str, Callable[[], None]] = {
    "worker": _load_tasks,
    "create_data_source": _load_reading,
    "plan_data_source_read": _load_reading,
    "data_source_pushdown_filters": _load_reading,
    "write_into_data_source": _load_writing,
    "commit_data_source_write": _load_writing,
}


if __name__ == "__main__":
    main()
