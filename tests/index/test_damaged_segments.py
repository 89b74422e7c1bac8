"""Bytes of index files changed at random: a typed error or a warning and a scan, never a crash.

No file has a checksum, so that a changed bound or letter may pass unseen; what may not is everything that
stops a reader, makes it wait or take all memory.
"""

import random
import warnings
from pathlib import Path

import pytest

import lance_ops as lo
from lance_ops.errors import LanceOpsError, UnreadableIndexWarning
from lance_ops.index.kind import SegmentMove
from lance_ops.index.registry import kind_of
from lance_ops.table.manifest.row_address_map import AddressMap
from tests.support import geometries, zones

CASES = {
    "ZONEMAP": ("s", {"rows_per_zone": 4}, "s = 'a7'"),
    "BLOOMFILTER": ("s", {"number_of_items": 4}, "s = 'a7'"),
    "NGRAM": ("s", {}, "contains(s, 'b10')"),
    "RTREE": ("p", {"page_size": 3}, "st_intersects(p, st_point(37, 53))"),
}


@pytest.mark.parametrize("kind", CASES)
def test_changed_bytes_end_as_a_scan_or_a_typed_error(tmp_path: Path, kind: str) -> None:
    column, parameters, sql = CASES[kind]
    rows = geometries.values(range(60)) if kind == "RTREE" else zones.values(range(60))
    lo.write_dataset(rows, tmp_path, max_rows_per_file=30)
    lo.create_index(tmp_path, column, kind, parameters=parameters)
    dataset = lo.dataset(tmp_path)
    (segment,) = dataset.indices
    found = kind_of(segment)
    assert found is not None
    scanned = dataset.scanner(filter=sql, pruners=[]).to_table()
    chance = random.Random(7)
    seen = 0
    for file in sorted((tmp_path / segment.directory).iterdir()):
        sound = file.read_bytes()
        for _ in range(25):
            changed = bytearray(sound)
            for _ in range(chance.randint(1, 3)):
                changed[chance.randrange(len(changed))] = chance.randrange(256)
            cut = chance.randrange(len(changed)) if chance.random() < 0.2 else len(changed)
            file.write_bytes(changed[:cut])
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                answer = lo.dataset(tmp_path).to_table(filter=sql)
            if any(issubclass(item.category, UnreadableIndexWarning) for item in warned):
                seen += 1
                assert answer.equals(scanned)
            # What passes unseen may leave rows out; it adds none.
            assert set(answer["id"].to_pylist()) <= set(scanned["id"].to_pylist()) or answer.equals(scanned)
            for look in (
                lambda: found.verify(dataset, segment, deep=True),
                lambda: list(found.addresses(dataset, segment)),
                lambda: found.statistics(dataset, segment),
                lambda: found.parameters_of(dataset, segment),
                lambda: found.remap(SegmentMove(dataset, segment, "_indices/copy", AddressMap([]), dataset)),
            ):
                try:
                    look()
                except LanceOpsError:
                    seen += 1
        file.write_bytes(sound)
    assert seen
    assert dataset.to_table(filter=sql).equals(scanned)
