"""Read a damaged file in every way, and tell whether that ended as it must."""

import re
import resource
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
import pyarrow as pa

from lance_ops.errors import LanceOpsError
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.storage import Store, open_store
from tests.fuzz import container_0, container_2
from tests.fuzz.corpus import Sample

MEMORY_FACTOR = 64
MEMORY_SLACK = 256 << 20
"""A damaged file may take so many times its size and so many bytes more, not what it claims."""

_MANY_ROWS = 100_000
# Whether a value lies in the domain of its type is the writer's business, but Arrow checks that, too.
_VALUE_DOMAIN = re.compile(
    r"does not fit in precision|is not within the acceptable range|does not represent a"
)


class WrongTableError(Exception):
    """Something was read that is not a valid table."""


@dataclass(frozen=True, slots=True)
class Known:
    """A sample, and what a table's metadata would say about it."""

    sample: Sample
    schema: Schema
    columns: dict[int, int]


class Examiner:
    """Makes and reads damaged files.

    Args:
        samples: Undamaged files.
    """

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._store = open_store("memory://fuzz")
        self._known = [self._examine(sample) for sample in samples]
        self._data = {
            version: [sample.data for sample in samples if sample.version == version]
            for version in {sample.version for sample in samples}
        }

    def _examine(self, sample: Sample) -> Known:
        reader = _open(self._store, sample.data)
        reader.read_table().validate(full=True)
        return Known(sample, reader.schema, dict(reader._layout.assign_columns(reader.schema)))

    def damage(self, case: int) -> tuple[Known, bytes]:
        """The damaged file with a number."""
        rng = Random(case)
        known = rng.choice(self._known)
        sample = known.sample
        if sample.version == "0.1":
            return known, container_0.damage(sample.data, rng)
        return known, container_2.damage(sample.data, self._data[sample.version], rng)

    def describe(self, case: int) -> tuple[str, bytes]:
        """See `CaseRunner.describe`."""
        known, data = self.damage(case)
        return known.sample.name, data

    def run(self, case: int) -> str:
        """Damage a file and read it.

        Returns:
            "answer" or "error".

        Raises:
            Exception: Anything but an error of the package: a bug.
        """
        known, data = self.damage(case)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        try:
            read_everything(self._store, data, known, Random(-case - 1))
        except LanceOpsError:
            outcome = "error"
        else:
            outcome = "answer"
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10) - before
        if grown > MEMORY_FACTOR * len(data) + MEMORY_SLACK:
            raise WrongTableError(f"{grown >> 20} MB of memory for a file of {len(data)} bytes")
        return outcome


def _open(store: Store, data: bytes) -> FileReader:
    store.put("f.lance", data)
    return FileReader.open(store, "f.lance", size=len(data))


def read_everything(store: Store, data: bytes, known: Known, rng: Random) -> None:
    """Open a file and read all of it, or some of it where it claims too many rows."""
    reader = _open(store, data)
    schema, columns = (None, None) if rng.random() < 0.6 else (known.schema, known.columns)
    reader.page_bounds([node.id for node in (schema or reader.schema).walk()])
    total = reader.num_rows
    start, stop = 0, total
    if total > _MANY_ROWS or rng.random() < 0.3:
        start = rng.randrange(min(total, 1 << 50) + 1)
        stop = min(start + rng.choice((0, 1, 10, 1000)), total)
    choice = rng.randrange(3)
    if choice == 0:
        _check(reader.read_table(schema, columns, start=start, stop=stop), stop - start)
    elif choice == 1:
        rows = np.unique(
            [rng.randrange(start, stop) for _ in range(rng.choice((1, 5, 100)))] if start < stop else []
        )
        _check(reader.take(rows.astype(np.int64), schema, columns), len(rows))
    else:
        batches = list(
            reader.iter_batches(
                schema,
                columns,
                batch_rows=rng.choice((1, 7, 1024)),
                start=start,
                stop=min(stop, start + 2000),
            )
        )
        if batches:
            _check(pa.Table.from_batches(batches), min(stop, start + 2000) - start)


def _check(table: pa.Table, rows: int) -> None:
    try:
        table.validate(full=True)
    except pa.ArrowInvalid as error:
        if not _VALUE_DOMAIN.search(str(error)):
            raise WrongTableError(str(error)) from error
    if not table.num_columns:
        # A schema without fields has no rows to show.
        return
    if table.num_rows != rows or any(len(column) != rows for column in table.columns):
        raise WrongTableError(f"{table.num_rows} rows were read where {rows} are expected")
