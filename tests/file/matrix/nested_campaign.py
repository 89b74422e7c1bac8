"""Random nested types: files of lance_ops and of pylance, each read by both.

`make nested NESTED=10000` runs the numbered cases; `test_nested_campaign.py` runs the first few. A case is
wrong if lance_ops or pylance reads other rows from a file of lance_ops than were written, or lance_ops from a
file of pylance that pylance reads. Files that pylance cannot write, or writes and cannot read, are counted.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from lance.file import LanceFileReader, LanceFileWriter

from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter
from lance_ops.storage import open_store
from tests.support.arrays import random_array
from tests.support.peer_panics import panics_as_errors

MAX_DEPTH = 5
_LEAVES = (
    pa.int32(),
    pa.string(),
    pa.bool_(),
    pa.large_binary(),
    pa.binary(3),
    pa.float64(),
    pa.list_(pa.float32(), 2),
    pa.dictionary(pa.int8(), pa.string()),
)
_SPARSE = {"lance-encoding:structural-encoding": "sparse"}
_KEYS = (pa.string(), pa.int32(), pa.binary(3))


@dataclass(frozen=True, slots=True)
class Case:
    """A column, and how it is written.

    Attributes:
        number: The same number gives the same case.
        version: Storage version: "2.1", "2.2" or "2.3".
        array: The column.
        sparse: Whether pylance is asked for sparse structure, which 2.3 alone has.
        batch_rows: Rows of each batch.
        page_bytes: Size at which a page of lance_ops is full.
        rows: Ascending row numbers that are taken.
    """

    number: int
    version: str
    array: pa.Array
    sparse: bool
    batch_rows: int
    page_bytes: int
    rows: list[int]


def build_case(number: int) -> Case:
    """Build a case by its number."""
    rng = np.random.default_rng(number)
    version = ("2.1", "2.2", "2.3")[int(rng.integers(3))]
    data_type = _random_type(rng, int(rng.integers(2, MAX_DEPTH + 1)), version)
    length = int(rng.choice([1, 2, 3, 9, 40, 300]))
    array = random_array(
        data_type,
        length,
        nulls=float(rng.choice([0.0, 0.1, 0.3, 0.6, 0.9, 1.0])),
        seed=number,
        null_structs=True,
        null_depth=None if rng.random() < 0.6 else int(rng.integers(0, 6)),
        empty_lists=float(rng.choice([0.0, 0.2, 0.5, 1.0])),
    )
    return Case(
        number,
        version,
        array,
        version == "2.3" and bool(rng.random() < 0.6),
        int(rng.choice([1, 7, 100, 1000])),
        int(rng.choice([64, 1000, 1 << 20])),
        np.unique(rng.integers(0, length, 5)).tolist(),
    )


def _random_type(rng: np.random.Generator, depth: int, version: str) -> pa.DataType:
    if depth == 0 or rng.random() < 0.1:
        return _LEAVES[int(rng.integers(len(_LEAVES)))]
    kind = rng.choice(["list", "large_list", "struct", "struct", "list" if version == "2.1" else "map"])
    if kind == "struct":
        count = int(rng.choice([1, 1, 2, 3]))
        # The first member leads down, the others end early.
        depths = [depth - 1, *rng.integers(0, max(depth - 1, 1), count - 1).tolist()]
        return pa.struct([_field(f"m{n}", rng, below, version) for n, below in enumerate(depths)])
    if kind == "map":
        return pa.map_(_KEYS[int(rng.integers(len(_KEYS)))], _field("value", rng, depth - 1, version))
    item = _field("item", rng, depth - 1, version)
    return pa.large_list(item) if kind == "large_list" else pa.list_(item)


def _field(name: str, rng: np.random.Generator, depth: int, version: str) -> pa.Field:
    return pa.field(name, _random_type(rng, depth, version), nullable=bool(rng.random() < 0.85))


def run_case(case: Case) -> str:
    """Exchange a column.

    Returns:
        "equal", "pylance cannot write" or "pylance cannot read its own file".

    Raises:
        AssertionError: The case is wrong.
    """
    table = pa.table({"c": case.array}, schema=pa.schema([pa.field("c", case.array.type)]))
    with tempfile.TemporaryDirectory() as folder:
        taken = table.take(pa.array(case.rows))
        _write(case, table, folder)
        _compare(case, "lance_ops reads lance_ops", lambda: _read(folder, "ours.lance"), table)
        _compare(case, "pylance reads lance_ops", lambda: _peer_read(f"{folder}/ours.lance"), table)
        path = f"{folder}/ours.lance"
        _compare(case, "pylance takes from lance_ops", lambda: _peer_take(path, case.rows), taken)
        path = f"{folder}/peer.lance"
        try:
            with panics_as_errors():
                _peer_write(case, table, path)
        except Exception:  # noqa: BLE001 - pylance raises all kinds
            return "pylance cannot write"
        try:
            same = repr(_peer_read(path).to_pylist()) == repr(table.to_pylist())
        except Exception:  # noqa: BLE001 - pylance raises all kinds
            same = False
        if not same:
            return "pylance cannot read its own file"
        _compare(case, "lance_ops reads pylance", lambda: _read(folder, "peer.lance"), table)
        reader = FileReader.open(open_store(folder), "peer.lance")
        rows = np.array(case.rows, dtype=np.int64)
        _compare(case, "lance_ops takes from pylance", lambda: reader.take(rows), taken)
    return "equal"


def _compare(case: Case, what: str, read: Callable[[], pa.Table], expected: pa.Table) -> None:
    try:
        found = read()
    except Exception as error:
        raise AssertionError(
            f"case {case.number}, {case.version}, {case.array.type}: {what}: {error}"
        ) from error
    # NaN is what it was, and dictionaries may differ.
    if repr(found.to_pylist()) != repr(expected.to_pylist()):
        raise AssertionError(f"case {case.number}, {case.version}, {case.array.type}: {what}: other rows")


def _write(case: Case, table: pa.Table, folder: str) -> None:
    schema = Schema.from_arrow(table.schema)
    store = open_store(folder, {"fsync": "false"})
    with FileWriter(store, "ours.lance", schema, version=case.version, page_bytes=case.page_bytes) as writer:
        for batch in table.to_batches(max_chunksize=case.batch_rows):
            writer.write(batch)


def _read(folder: str, name: str) -> pa.Table:
    found = FileReader.open(open_store(folder), name).read_table()
    found.validate(full=True)
    return found


def _peer_write(case: Case, table: pa.Table, path: str) -> None:
    if case.sparse:
        schema = pa.schema([table.schema.field(0).with_metadata(_SPARSE)])
        table = pa.table(table.columns, schema=schema)
    with LanceFileWriter(path, table.schema, version=case.version) as writer:
        for start in range(0, table.num_rows, case.batch_rows):
            rows = np.arange(start, min(start + case.batch_rows, table.num_rows))
            # A copy, because pylance panics on slices of nested structs.
            writer.write_batch(table.take(pa.array(rows)))


def _peer_read(path: str) -> pa.Table:
    with panics_as_errors():
        return LanceFileReader(path).read_all().to_table()


def _peer_take(path: str, rows: list[int]) -> pa.Table:
    with panics_as_errors():
        return LanceFileReader(path).take_rows(rows).to_table()


def run_cases(numbers: Iterable[int]) -> tuple[Counter[str], list[str]]:
    """Run cases.

    Returns:
        How many cases had each outcome, and what is wrong.
    """
    outcomes: Counter[str] = Counter()
    wrong: list[str] = []
    for number in numbers:
        try:
            outcomes[run_case(build_case(number))] += 1
        except AssertionError as error:
            outcomes["wrong"] += 1
            wrong.append(str(error))
    return outcomes, wrong


def main() -> int:
    """Run the command line; the code is 1 if a case is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.file.matrix.nested_campaign", description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="first case")
    arguments = parser.parse_args()
    start = time.monotonic()
    outcomes, wrong = run_cases(range(arguments.first, arguments.first + arguments.cases))
    for line in wrong:
        sys.stdout.write(f"{line}\n")
    counts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
    sys.stdout.write(f"{arguments.cases} cases in {time.monotonic() - start:.0f} s: {counts}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
