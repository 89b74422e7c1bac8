"""Bytes of lookups changed at random: a typed error or a warning and a scan, never anything else.

No file has a checksum, so that another key or row may pass unseen.
"""

import json
import random
import warnings
from pathlib import Path

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import LanceOpsError, UnreadableIndexWarning
from lance_ops.index.kind import SegmentMove
from lance_ops.index.registry import kind_of
from lance_ops.table.manifest.row_address_map import AddressMap

NUMBERS = range(60)
ROWS = pa.table(
    {
        "id": NUMBERS,
        "i": [None if n % 9 == 0 else n % 5 for n in NUMBERS],
        "l": [None if n % 9 == 0 else [f"x{n % 3}", None] for n in NUMBERS],
        "j": pa.array([json.dumps({"a": n % 5}) for n in NUMBERS], pa.json_()),
    }
)
CASES = {
    "BITMAP": ("i", {}, ("i = 3", "i IS NULL")),
    "LABEL_LIST": ("l", {}, ("array_has(l, 'x1')", "NOT array_has(l, 'x1')")),
    "JSON": ("j", {"path": "a", "target": "bitmap"}, ("json_get_int(j, 'a') = 2",)),
}


@pytest.mark.parametrize("kind", CASES)
def test_changed_bytes_end_as_a_scan_or_a_typed_error(tmp_path: Path, kind: str) -> None:
    column, parameters, conditions = CASES[kind]
    lo.write_dataset(ROWS, tmp_path, max_rows_per_file=30)
    lo.create_index(tmp_path, column, kind, parameters=parameters)
    dataset = lo.dataset(tmp_path)
    (segment,) = dataset.indices
    found = kind_of(segment)
    assert found is not None
    scanned = {sql: dataset.to_table(filter=sql, pruners=[]) for sql in conditions}
    chance = random.Random(11)
    (file,) = (tmp_path / segment.directory).iterdir()
    sound = file.read_bytes()
    seen = 0
    for number in range(60):
        changed = bytearray(sound)
        for _ in range(chance.randint(1, 3)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        file.write_bytes(changed[: chance.randrange(len(changed))] if number % 6 == 0 else changed)
        for sql, expected in scanned.items():
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                answer = dataset.to_table(filter=sql)
            if any(issubclass(item.category, UnreadableIndexWarning) for item in warned):
                seen += 1
                assert answer.equals(expected)
            assert set(answer["id"].to_pylist()) <= set(NUMBERS)
        move = SegmentMove(dataset, segment, f"_indices/moved{number}", AddressMap([]), dataset)
        for look in (
            lambda: found.verify(dataset, segment, deep=True),
            lambda: list(found.addresses(dataset, segment)),
            lambda: found.statistics(dataset, segment),
            lambda move=move: found.remap(move),
        ):
            try:
                look()
            except LanceOpsError:
                seen += 1
    assert seen > 50
