"""Plain numpy in place of the compiled loops that have an oracle, for comparisons."""

import contextlib
import importlib
import pkgutil
import struct
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import FunctionType
from typing import Any
from unittest.mock import patch

import numpy as np

from tests.encoding.kernels import oracles

_KERNELS = "lance_ops.encoding.kernels"


def oracle_of(function: FunctionType) -> Callable[..., Any]:
    """Return the oracle of a function of a kernel, which takes the same arguments."""
    technique = function.__module__.removeprefix(f"{_KERNELS}.")
    if technique == "lz4":
        own = importlib.import_module(f"{oracles.__name__}.lz4").is_whole
        return lambda *, block, size: own(block.data, len(block), size)
    module = importlib.import_module(f"{oracles.__name__}.{technique}")
    if technique == "index.address_map" and function.__name__ == "follow":
        return lambda *, old_ids, deleted_stops, blocks, **rest: module.follow(
            old_ids=old_ids, deleted=blocks.addresses(old_ids), **rest
        )
    if technique == "index.fst":
        return _build_transducer
    if technique == "index.fst_words":
        return lambda *, data, **rest: _as_arrays(module.list_words(data.tobytes(), **rest))
    if technique == "values.numbering":
        return lambda *, hashes, **rest: getattr(module, function.__name__)(**rest)
    found: Callable[..., Any] = getattr(module, function.__name__)
    return found


def techniques() -> set[str]:
    """Return the techniques that have an oracle."""
    inside = f"{oracles.__name__}."
    found = {one.name for one in pkgutil.walk_packages(oracles.__path__, inside) if not one.ispkg}
    return {name.removeprefix(inside) for name in found} - {"ranges"}


@contextlib.contextmanager
def oracles_in_place() -> Iterator[None]:
    """Let callers that name the module of a kernel have its oracle."""
    with contextlib.ExitStack() as stack:
        for technique in techniques():
            module = importlib.import_module(f"{_KERNELS}.{technique}")
            known = importlib.import_module(f"{oracles.__name__}.{technique}")
            for name, value in list(vars(module).items()):
                if isinstance(value, FunctionType) and name[0] != "_" and hasattr(known, name):
                    # Callers that have the function itself go on with the loop.
                    stack.enter_context(patch.object(module, name, oracle_of(value)))
        yield


def _build_transducer(*, data: Any, offsets: Any, values: Any, common: bytes) -> bytes:
    own = importlib.import_module(f"{oracles.__name__}.index.fst")
    names = np.zeros(256, np.uint8)
    names[np.frombuffer(common, np.uint8)] = np.arange(1, len(common) + 1)
    joined = data.tobytes()
    words = [joined[start:stop] for start, stop in pairwise(offsets.tolist())]
    nodes, root = own.build_nodes(words, values.tolist(), names.tobytes())
    body = nodes + struct.pack("<QQ", len(values), root)
    return bytes(body + struct.pack("<I", own.checksum(body)))


def _as_arrays(found: tuple[int, bytes, list[int], list[int]]) -> tuple[Any, ...]:
    count, joined, offsets, numbers = found
    return (
        count,
        np.frombuffer(joined, np.uint8),
        np.array(offsets, np.int64),
        np.array(numbers, np.uint64),
    )
