"""Parameters: how a vector index is made, by the names of pylance; what is left open is filled in."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError
from lance_ops.index.kind import Parameters
from lance_ops.index.vector.metric import metric_named

INDEX_TYPES = (
    "IVF_FLAT",
    "IVF_PQ",
    "IVF_SQ",
    "IVF_RQ",
    "IVF_HNSW_FLAT",
    "IVF_HNSW_PQ",
    "IVF_HNSW_SQ",
)
"""Index types that can be built."""

_ALIASES = {
    "distance_type": "metric",
    "metric_type": "metric",
    "max_iterations": "max_iters",
}
_MAX_PARTITIONS = 4096
"""Partitions by default at most."""
_HNSW_PARTITION_ROWS = 1 << 20
_PARTITION_ROWS = {"FLAT": 4096, "SQ": 8192, "PQ": 8192}

_Check = Callable[[object], bool]


def _integer(least: int, greatest: int) -> _Check:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= greatest


_NUMBERS: dict[str, tuple[_Check, str, int | None]] = {
    "num_partitions": (_integer(1, 1 << 20), "a whole number from 1 to 1,048,576", None),
    "target_partition_size": (_integer(1, 1 << 32), "at least 1", None),
    "sample_rate": (_integer(2, 1 << 20), "at least 2", 256),
    "max_iters": (_integer(1, 10_000), "a whole number from 1 to 10,000", 50),
}
_PQ: dict[str, tuple[_Check, str, int | None]] = {
    "num_sub_vectors": (_integer(1, 1 << 16), "at least 1", None),
    "num_bits": (lambda value: value in (4, 8), "4 or 8", 8),
}
_RQ: dict[str, tuple[_Check, str, int | None]] = {
    "num_bits": (_integer(1, 9), "from 1 to 9", 5),
}
_HNSW: dict[str, tuple[_Check, str, int | None]] = {
    "m": (_integer(2, 512), "from 2 to 512", 20),
    "ef_construction": (_integer(1, 1 << 16), "at least 1", 150),
    "max_level": (_integer(1, 64), "from 1 to 64", 7),
}


def check_parameters(
    index_type: str, column: pa.FixedSizeListType, given: Parameters, *, several: bool = False
) -> Parameters:
    """Return the parameters of an index, complete except for values that depend on the data.

    Args:
        index_type: One of `INDEX_TYPES`.
        column: Type of the vectors of the column.
        given: Parameters of the user.
        several: True if a row has a list of vectors.

    Raises:
        InvalidArgumentError: a parameter is invalid.
    """
    known = {
        **_NUMBERS,
        **(_PQ if index_type.endswith("PQ") else {}),
        **(_RQ if index_type.endswith("RQ") else {}),
        **(_HNSW if "_HNSW_" in index_type else {}),
    }
    found: dict[str, Any] = {name: default for name, (_, _, default) in known.items()}
    found["index_type"] = index_type
    bits = column.value_type == pa.uint8()
    found["metric"] = "cosine" if several else "hamming" if bits else "l2"
    for given_name, value in given.items():
        name = _ALIASES.get(given_name, given_name)
        if name == "metric":
            found["metric"] = metric_named(value)
        elif name == "index_type" and value == index_type:
            continue
        elif name not in known:
            names = ", ".join(["metric", *known])
            raise InvalidArgumentError(
                f"{index_type} has no parameter {given_name!r}", field="parameters", hint=f"it has {names}"
            )
        elif value is not None:
            check, what, _ = known[name]
            if not check(value):
                raise InvalidArgumentError(
                    f"{given_name} must be {what}, got {value!r}",
                    field=given_name,
                    hint="correct it, or leave it out for the default",
                )
            found[name] = value
    if several and found["metric"] != "cosine":
        raise InvalidArgumentError(
            f"{index_type} with metric {found['metric']!r} on lists of {column}",
            field="metric",
            hint="several vectors a row are compared with cosine, as in pylance",
        )
    if bits != (found["metric"] == "hamming") or (bits and index_type != "IVF_FLAT"):
        raise InvalidArgumentError(
            f"{index_type} with metric {found['metric']!r} on {column}",
            field="metric",
            hint="bytes are compared with hamming in IVF_FLAT, floats with l2, cosine or dot",
        )
    if index_type.endswith("RQ") and column.list_size % 8:
        raise InvalidArgumentError(
            f"{index_type} on {column}",
            field="column",
            hint="dimensions have to be divisible by eight; IVF_SQ and IVF_FLAT take any number of them",
        )
    if index_type.endswith("PQ"):
        found["num_sub_vectors"] = _sub_vectors(column.list_size, found["num_sub_vectors"], found["num_bits"])
    return found


def partition_count(parameters: Parameters, rows: int) -> int:
    """Return how many partitions an index of some rows has."""
    if parameters["num_partitions"]:
        return int(parameters["num_partitions"])
    index_type = parameters["index_type"]
    size = parameters["target_partition_size"]
    if not size:
        name = index_type.rsplit("_", 1)[-1]
        size = _HNSW_PARTITION_ROWS if "_HNSW_" in index_type else _PARTITION_ROWS.get(name, 8192)
    return min(max(rows // int(size), 1), _MAX_PARTITIONS)


def _sub_vectors(dimension: int, asked: int | None, bits: int) -> int:
    # Codes of four bits are stored in pairs.
    fits = [parts for parts in range(1, dimension + 1) if not dimension % parts and not parts * bits % 8]
    if asked is None:
        wanted = max(1, dimension // 16)
        asked = min(fits, key=lambda parts: abs(parts - wanted), default=0)
    if asked not in fits:
        raise InvalidArgumentError(
            f"num_sub_vectors={asked} must divide the {dimension} dimensions (num_bits={bits})",
            field="num_sub_vectors",
            hint=f"it can be {', '.join(map(str, fits[:16])) or 'no number: index it without PQ'}",
        )
    return asked
