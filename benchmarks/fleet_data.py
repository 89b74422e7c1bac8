"""A fleet to measure on: datasets by a power law, nine in ten of them with fewer than ten fragments.

python -m benchmarks.fleet_data FOLDER [--datasets 1000] [--indexed 0.1]
"""

import argparse
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

import lance_ops as lo

_ALPHA = 1.3
"""Of the Pareto distribution of fragments: P(fewer than 10) is 0.95."""
_MOST = 300
_ROWS = 200


def fragment_counts(datasets: int, seed: int = 7) -> list[int]:
    """How many fragments each dataset has: 1 and more, by a power law.

    Args:
        datasets: How many.
        seed: Of the random numbers.
    """
    chance = random.Random(seed)
    return [min(_MOST, int(chance.paretovariate(_ALPHA))) for _ in range(datasets)]


def write_fleet(
    root: Path, datasets: int, *, indexed: float = 0.1, seed: int = 7, least: int = 1
) -> Iterator[Path]:
    """Write the datasets `team-<n>/table-<n>.lance`, each fragment by an append of its own.

    Args:
        root: Folder for them.
        datasets: How many.
        indexed: Share of them that gets a BTREE before its last append.
        seed: Of the random numbers.
        least: Fragments that each of them has at least.
    """
    chance = random.Random(seed + 1)
    for number, fragments in enumerate(fragment_counts(datasets, seed)):
        path = root / f"team-{number % 20:02d}" / f"table-{number:05d}.lance"
        count = max(least, fragments)
        has_index = chance.random() < indexed
        for part in range(count):
            lo.append(str(path), rows(part), storage_options={"fsync": "false"})
            if has_index and part == max(0, count - 2):
                lo.create_index(str(path), "id", storage_options={"fsync": "false"})
        yield path


def rows(part: int) -> pa.Table:
    """The rows of one append."""
    ids = np.arange(part * _ROWS, (part + 1) * _ROWS)
    return pa.table({"id": ids, "value": ids * 0.5, "name": [f"row {number}" for number in ids]})


def main() -> None:
    """Write a fleet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--datasets", type=int, default=1000)
    parser.add_argument("--indexed", type=float, default=0.1)
    parser.add_argument("--least", type=int, default=1)
    arguments = parser.parse_args()
    made = write_fleet(arguments.folder, arguments.datasets, indexed=arguments.indexed, least=arguments.least)
    print(f"{sum(1 for _ in made):,} datasets in {arguments.folder}")


if __name__ == "__main__":
    main()
