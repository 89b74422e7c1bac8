"""Reads with MemWAL: random histories of pylance's writer, with compactions in between, lose no row.

`python -m tests.table.mem_wal.test_histories 2000` runs that many.
"""

import random
import sys
import tempfile
from pathlib import Path

import lance
import pytest

import lance_ops as lo
from tests.support.mem_wal import (
    as_rows,
    create,
    has_key_indices,
    keys,
    new_shard,
    peer_agrees,
    read_all,
    settle,
    table,
    writer,
)

pytestmark = pytest.mark.peer

STEPS = 14


def run_history(seed: int, folder: Path) -> None:
    """Write, delete, flush, restart, fold, compact and clean up at random; each read has every row once."""
    rng = random.Random(seed)
    uri, model = folder / f"{seed}.lance", {key: key for key in range(6)}
    create(uri, model, enable_stable_row_ids=bool(seed % 2))
    shard = new_shard()
    open_writer = writer(uri, shard)
    value, done = 100, []
    for _ in range(STEPS):
        step = rng.choice(["put", "put", "put", "delete", "restart", "fold", "fold", "compact", "cleanup"])
        done.append(step)
        if step == "put":
            rows = {rng.randrange(12): (value := value + 1) for _ in range(rng.randint(1, 5))}
            open_writer.put(table(rows))
            model |= rows
        elif step == "delete":
            gone = {rng.randrange(12) for _ in range(rng.randint(1, 3))}
            open_writer.delete(keys(gone))
            model = {key: value for key, value in model.items() if key not in gone}
        elif step == "restart":
            open_writer.close()
            open_writer = writer(uri, shard)
        elif step == "fold":
            lo.compact_wal(uri, max_bytes=rng.choice([1, 1 << 20]))
        elif step == "compact" and rng.random() < 0.5:
            lance.dataset(str(uri)).optimize.compact_files()
        elif step == "compact":
            lo.compact(uri)
        else:
            lo.cleanup(uri, retain_versions=1, older_than=None)
        settle(open_writer)
        assert read_all(uri) == model, (seed, done)
    open_writer.close()
    open_writer = writer(uri, shard)
    if has_key_indices(uri):
        assert as_rows(open_writer.lsm_scanner().to_table()) == model, (seed, done)
    open_writer.close()
    assert peer_agrees(uri, model), (seed, done)
    assert read_all(uri) == model, (seed, done)
    lo.compact_wal(uri)
    assert as_rows(lance.dataset(str(uri)).to_table()) == model, (seed, done)
    assert as_rows(lo.dataset(uri).to_table()) == model, (seed, done)
    assert lo.dataset(uri).to_table(mem_wal=True).num_rows == len(model)


@pytest.mark.parametrize("seed", range(4))
def test_histories_keep_every_row(seed: int, tmp_path: Path) -> None:
    run_history(seed, tmp_path)


if __name__ == "__main__":
    for number in range(int(sys.argv[1]) if len(sys.argv) > 1 else 2000):
        with tempfile.TemporaryDirectory() as place:
            run_history(number, Path(place))
