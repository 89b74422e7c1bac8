"""Cleanups of a source, its clones and their clones, in any order: each removes only files of its own."""

import random
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import LanceOpsError
from lance_ops.storage import open_store

pytestmark = pytest.mark.peer

PARENTS = {"c1": "s", "c2": "c1", "c3": "s", "c4": "c2"}
"""A source with two clones, a clone of one of these, and a clone of that."""


def values(uri: str) -> list[int]:
    return sorted(lo.dataset(uri).to_table()["x"].to_pylist())


def files(uri: str) -> list[str]:
    return sorted(info.path for info in open_store(uri).list(""))


def changes(chance: random.Random) -> list[Callable[[str], object]]:
    digit = chance.randrange(7)
    return [
        lambda uri: lo.delete(uri, f"x % 7 = {digit}"),
        lambda uri: lo.append(uri, pa.table({"x": [chance.randrange(100, 999)]})),
        lo.compact,
        lambda uri: lo.update(uri, {"x": "x + 1000"}, "x % 5 = 1"),
        lambda uri: lo.create_index(uri, "x", replace=True),
        lo.optimize_indices,
    ]


def make(uris: dict[str, str], *, by_peer: bool, stable: bool) -> None:
    source = uris["s"]
    lo.write_dataset(pa.table({"x": range(20)}), source, max_rows_per_file=5, enable_stable_row_ids=stable)
    lo.create_index(source, "x")
    lo.delete(source, "x = 3")
    for name, parent in PARENTS.items():
        if by_peer:
            above = lance.dataset(uris[parent])
            above.shallow_clone(uris[name], above.version)
        else:
            lo.shallow_clone(uris[parent], uris[name])


@pytest.mark.parametrize("by_peer", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_rows_of_all_clones_stay_whichever_is_cleaned(tmp_path: Path, seed: int, by_peer: bool) -> None:
    chance = random.Random(seed)
    uris = {name: str(tmp_path / name) for name in ("s", *PARENTS)}
    make(uris, by_peer=by_peer, stable=chance.random() < 0.5)
    for _ in range(8):
        with suppress(LanceOpsError):
            chance.choice(changes(chance))(chance.choice([*uris.values()]))
    before = {uri: values(uri) for uri in uris.values()}
    # A source does not know of the clones that pylance made of it.
    cleaned = [name for name in uris if name in PARENTS or not by_peer]
    for name in chance.sample(cleaned, len(cleaned)):
        others = {uri: files(uri) for uri in uris.values() if uri != uris[name]}
        lo.cleanup(uris[name], older_than=timedelta(0), retain_versions=1, delete_unverified=True)
        assert {uri: files(uri) for uri in others} == others
        for uri, rows in before.items():
            assert values(uri) == rows
            assert sorted(lance.dataset(uri).to_table()["x"].to_pylist()) == rows


@pytest.mark.parametrize("place", ["memory", "gone"])
def test_a_clone_is_cleaned_where_its_base_is_in_another_store_or_cannot_be_read(
    tmp_path: Path, place: str
) -> None:
    uris = {name: str(tmp_path / name) for name in PARENTS}
    uris["s"] = f"memory://{uuid4()}/s" if place == "memory" else str(tmp_path / "s")
    make(uris, by_peer=False, stable=False)
    for name in PARENTS:
        lo.append(uris[name], pa.table({"x": [100, 101]}))
        lo.delete(uris[name], "x in (5, 100)")
        lo.compact(uris[name])
    before = {uri: values(uri) for uri in uris.values()}
    if place == "gone":
        Path(uris["s"]).rename(tmp_path / "moved")
    removed = 0
    for name in PARENTS:
        done = lo.cleanup(uris[name], older_than=timedelta(0), retain_versions=1, delete_unverified=True)
        removed += done.bytes_removed
    assert removed > 0
    if place == "gone":
        (tmp_path / "moved").rename(uris["s"])
    assert {uri: values(uri) for uri in uris.values()} == before
