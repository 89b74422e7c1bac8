"""Shapes of tables between one huge fragment and thousands of tiny ones."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa

_SEED = 7
_WORDS = 10_000
_DIMENSION = 128
_WIDE_COLUMNS = 200


@dataclass(frozen=True, slots=True)
class Shape:
    """A table, as fragments of equal size.

    Attributes:
        name: Fragments and rows of each, and the kind of columns.
        fragments: Number of fragments.
        rows: Rows of each.
        make: Returns so many rows; they have the columns `id` (int64, 0 to n - 1 in random order),
            and `bucket` (int32, uniform below 1,000).
    """

    name: str
    fragments: int
    rows: int
    make: Callable[[int], pa.Table]

    @property
    def num_rows(self) -> int:
        """Rows of all fragments."""
        return self.fragments * self.rows

    def write(self, path: Path, *, version: str, deleted: float, stable_row_ids: bool) -> None:
        """Write the table with pylance.

        Args:
            path: An absent folder.
            version: Storage version.
            deleted: Share of rows that are deleted afterwards, at random.
            stable_row_ids: Enable stable row ids.
        """
        lance.write_dataset(
            self.make(self.num_rows),
            str(path),
            data_storage_version=version,
            max_rows_per_file=self.rows,
            enable_stable_row_ids=stable_row_ids,
        )
        if deleted:
            lance.dataset(str(path)).delete(f"bucket < {round(deleted * 1_000)}")


def _keys(count: int, rng: np.random.Generator) -> dict[str, pa.Array]:
    return {
        "id": pa.array(rng.permutation(count)),
        "bucket": pa.array(rng.integers(0, 1_000, count), pa.int32()),
    }


def _plain(count: int) -> pa.Table:
    """Return rows of about 45 bytes: numbers, a short string of 10,000 values, a timestamp."""
    rng = np.random.default_rng(_SEED)
    return pa.table(
        {
            **_keys(count, rng),
            "amount": pa.array(rng.random(count)),
            "name": pa.array([f"customer {value:05d}" for value in rng.integers(0, _WORDS, count)]),
            "at": pa.array(rng.integers(0, 1 << 40, count), pa.timestamp("us")),
        }
    )


def _vectors(count: int) -> pa.Table:
    rng = np.random.default_rng(_SEED)
    values = pa.array(rng.random(count * _DIMENSION, dtype=np.float32))
    return pa.table(
        {
            **_keys(count, rng),
            "text": pa.array([f"passage {value} of the document" for value in rng.integers(0, count, count)]),
            "vector": pa.FixedSizeListArray.from_arrays(values, _DIMENSION),
        }
    )


def _nested(count: int) -> pa.Table:
    """Return rows with a struct with nulls, a list of integers and a list of structs."""
    rng = np.random.default_rng(_SEED)
    lengths = rng.integers(0, 6, count)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    items = int(lengths.sum())
    place = pa.StructArray.from_arrays(
        [
            pa.array(rng.random(count)),
            pa.array([f"city {value}" for value in rng.integers(0, 500, count)]),
        ],
        ["height", "city"],
        mask=pa.array(rng.random(count) < 0.1),
    )
    line = pa.StructArray.from_arrays(
        [
            pa.array(rng.integers(0, 1 << 20, items)),
            pa.array([f"part {value}" for value in rng.integers(0, _WORDS, items)]),
        ],
        ["part", "label"],
    )
    return pa.table(
        {
            **_keys(count, rng),
            "place": place,
            "codes": pa.ListArray.from_arrays(offsets, pa.array(rng.integers(0, 256, items))),
            "lines": pa.ListArray.from_arrays(offsets, line),
        }
    )


def _wide(count: int) -> pa.Table:
    """Return rows of 200 columns: integers, floats and strings by turns."""
    rng = np.random.default_rng(_SEED)
    columns = _keys(count, rng)
    for number in range(_WIDE_COLUMNS - len(columns)):
        kind = number % 4
        if kind == 0:
            column = pa.array(rng.integers(0, 1 << (number % 40 + 1), count))
        elif kind == 1:
            column = pa.array(rng.random(count))
        elif kind == 2:
            column = pa.array(rng.integers(0, 100, count), pa.int32(), mask=rng.random(count) < 0.05)
        else:
            words = np.array([f"value {value}" for value in range(1_000)])
            column = pa.array(words[rng.integers(0, 1_000, count)])
        columns[f"column_{number}"] = column
    return pa.table(columns)


SHAPES = (
    Shape("1 x 2,000,000", 1, 2_000_000, _plain),
    Shape("20 x 100,000", 20, 100_000, _plain),
    Shape("200 x 10,000", 200, 10_000, _plain),
    Shape("1,000 x 1,000", 1_000, 1_000, _plain),
    Shape("50 x 4,000 vectors", 50, 4_000, _vectors),
    Shape("100 x 5,000 nested", 100, 5_000, _nested),
    Shape("20 x 5,000 of 200 columns", 20, 5_000, _wide),
)
"""The shapes that are measured."""
