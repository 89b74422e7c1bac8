"""One table, both writers in turn at every step: after each, both see the same of everything."""

from datetime import UTC, timedelta

import lance
import pytest

import lance_ops as lo
from lance_ops.storage import open_store
from tests.safety import peer
from tests.safety.actions import (
    Append,
    Cleanup,
    Compact,
    Create,
    CreateIndex,
    Delete,
    DropIndex,
    OptimizeIndices,
    Overwrite,
    ReplaceWhere,
    Restore,
    Tag,
    UpdateConfig,
)
from tests.safety.profile import SIMULATING
from tests.safety.rows import PROBES, between, compare, either, is_null, remainder
from tests.safety.table_model import TableModel, by_us

pytestmark = pytest.mark.peer

STEPS = (
    Append(first=20, count=10, pattern=1, rows_per_file=4),
    Delete(remainder(5, 2)),
    CreateIndex("v"),
    Append(first=40, count=6, pattern=2),
    ReplaceWhere(first=20, count=12, pattern=3, rows_per_file=4, predicate=between("id", 20, 29)),
    Delete(either(compare("v", ">", 100.0), between("id", 3, 5))),
    OptimizeIndices(),
    Compact(target=8),
    Tag(name="before", version=4),
    Append(first=50, count=6, pattern=3, rows_per_file=2),
    UpdateConfig(key="team", value="blue"),
    CreateIndex("id"),
    Delete(is_null("v")),
    Compact(threshold=0.0),
    OptimizeIndices(merge_segments=0),
    Restore(version=4),
    Append(first=60, count=3),
    Tag(name="after", version=12),
    Cleanup(retain=2),
    Delete(compare("id", "<", 2)),
    Compact(threshold=0.0),
    CreateIndex("k"),
    Restore(version=12),
    DropIndex(),
    UpdateConfig(key="team", value="red"),
    Overwrite(first=100, count=8, pattern=4, rows_per_file=3),
    CreateIndex("s"),
    Append(first=120, count=3),
    OptimizeIndices(),
    Cleanup(retain=1),
    Delete(remainder(2, 0)),
    Compact(),
)


def by_peer(action, store):
    peer.act(action, store.uri)


def check_agreement(uri: str, model: TableModel) -> None:
    """Both see the same rows, versions, tags, config and answers, and neither finds a fault."""
    peer.check(uri, model.rows)
    ours, theirs = lo.dataset(uri), lance.dataset(uri)
    assert theirs.version == ours.version
    known = theirs.versions()
    assert [info.version for info in ours.versions()] == [info["version"] for info in known]
    for one, other in zip(ours.versions(), known, strict=True):
        # The peer takes the detour over a floating-point number.
        assert abs(one.timestamp - other["timestamp"].astimezone(UTC)) <= timedelta(microseconds=2)
    assert {name: tag["version"] for name, tag in theirs.tags.list().items()} == model.tags
    assert theirs.config() == dict(ours.config)
    assert theirs.schema == ours.schema
    for probes in PROBES.values():
        for probe in probes[:2]:
            assert theirs.count_rows(probe.sql) == ours.count_rows(probe.sql) == len(probe.select(model.rows))
    for name, version in model.tags.items():
        assert ours.checkout_version(name).version == lance.dataset(uri, version=name).version == version


CASES = [
    (creator, first, stable)
    for creator in ("ours", "peer", "peer with old names")
    for first in ("ours", "peer")
    for stable in (False, True)
    if SIMULATING or (stable == (creator == first) or creator == "peer with old names")
]


@pytest.mark.parametrize(("creator", "first", "stable_row_ids"), CASES)
def test_both_writers_take_turns(tmp_path, creator, first, stable_row_ids):
    store = open_store(str(tmp_path / "t.lance"), {"fsync": "false"})
    model = TableModel(store)

    def create_by_peer(action, store):
        peer.act(action, store.uri, enable_v2_manifest_paths=creator == "peer")

    create = Create(count=12, rows_per_file=5, stable_row_ids=stable_row_ids)
    model.step(create, by_us if creator == "ours" else create_by_peer)
    check_agreement(store.uri, model)
    for number, step in enumerate(STEPS):
        turn = (number % 2 == 0) == (first == "ours")
        # The peer has no such call.
        model.step(step, by_us if turn or isinstance(step, ReplaceWhere) else by_peer)
        check_agreement(store.uri, model)
    model.check_history()
