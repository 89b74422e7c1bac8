"""Scenes: an operation is planned, others commit meanwhile, it commits. A serial order must explain the rows.

A scene passes if the operation is refused and the table has what the others did, or if it is done and one of
the two orders gives the rows that are there. Afterwards every row can be read, and an index gives the rows
that a scan gives.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from lance_ops.testing.table.adapter import Meanwhile, Rows, TableAdapter, Unsupported

Versions = Mapping[int, Rows]
Effect = Callable[[Rows, Versions], Rows]
"""Rows after an operation, given those before and those of each version."""


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of a scene.

    Attributes:
        name: In the names of scenes.
        run: Does it.
        effect: What it does to the rows.
    """

    name: str
    run: Callable[[TableAdapter, str, Meanwhile], None]
    effect: Effect = field(default=lambda rows, _: rows)


def _new(first: int, count: int, value: int = 1) -> dict[int, int]:
    return dict.fromkeys(range(first, first + count), value)


def _without(rows: Rows, low: int, high: int) -> Rows:
    return {number: value for number, value in rows.items() if not low <= number < high}


def _raised(rows: Rows, low: int, high: int, plus: int) -> Rows:
    return {number: value + plus if low <= number < high else value for number, value in rows.items()}


def _append(first: int) -> Operation:
    rows = _new(first, 3)
    return Operation("append", lambda t, uri, m: t.append(uri, rows, m), lambda now, _: {**now, **rows})


def _delete(name: str, low: int, high: int) -> Operation:
    where = f"id >= {low} AND id < {high}"
    return Operation(name, lambda t, uri, m: t.delete(uri, where, m), lambda now, _: _without(now, low, high))


def _update(plus: int) -> Operation:
    where = "id >= 1 AND id < 7"
    return Operation(
        "update", lambda t, uri, m: t.update(uri, plus, where, m), lambda now, _: _raised(now, 1, 7, plus)
    )


def _upsert(value: int) -> Operation:
    rows = _new(4, 2, value) | _new(60, 2, value)
    return Operation("upsert", lambda t, uri, m: t.upsert(uri, rows, m), lambda now, _: {**now, **rows})


def _insert(value: int) -> Operation:
    rows = _new(60, 2, value)
    return Operation(
        "upsert of new keys", lambda t, uri, m: t.upsert(uri, rows, m), lambda now, _: {**now, **rows}
    )


def _overwrite(first: int) -> Operation:
    rows = _new(first, 2)
    return Operation("overwrite", lambda t, uri, m: t.overwrite(uri, rows, m), lambda _now, _: rows)


def _restore(version: int) -> Operation:
    return Operation(
        "restore", lambda t, uri, m: t.restore(uri, version, m), lambda _now, versions: versions[version]
    )


_COMPACT = Operation("compact", lambda t, uri, m: t.compact(uri, m))
_INDEX = Operation("index", lambda t, uri, m: t.create_index(uri, "k", m))
_CLEANUP = Operation("cleanup", lambda t, uri, _: t.cleanup(uri))

OURS = (
    _append(20),
    _delete("delete", 2, 5),
    _update(100),
    _upsert(70),
    _insert(71),
    _overwrite(40),
    _COMPACT,
    _INDEX,
    _restore(2),
)
"""Operations that are planned before the others commit."""

THEIRS = (
    _append(30),
    _delete("delete of the same rows", 2, 5),
    _delete("delete of other rows", 7, 9),
    _delete("delete of some rows of each file", 4, 7),
    _update(1000),
    _upsert(80),
    _overwrite(50),
    _COMPACT,
    _INDEX,
    _restore(1),
)
"""What others commit meanwhile."""

GAPS = (
    (_delete("delete", 3, 6), _append(30), _CLEANUP),
    (_COMPACT, _append(30), _CLEANUP),
    (_update(1000), _delete("delete", 0, 1), _CLEANUP),
    (_append(30), _append(33), _CLEANUP),
    (_overwrite(50), _append(33), _CLEANUP),
    (_insert(81), _INDEX, _CLEANUP),
)
"""Commits of others of which a cleanup removes the record: the newest version alone is left."""


@dataclass(frozen=True, slots=True)
class Scene:
    """One scene.

    Attributes:
        kind: "pair", "gap", "twice", "restore", or "tag".
        name: Unique.
        play: Plays it in a folder that does not exist yet. Raises `AssertionError` where a promise is broken.
    """

    kind: str
    name: str
    play: Callable[[TableAdapter, str], None]


def scenes() -> Iterator[Scene]:
    """Yield all scenes."""
    for ours in OURS:
        for theirs in THEIRS:
            yield Scene("pair", f"{ours.name} while others {theirs.name}", _pair(ours, (theirs,)))
    for ours in OURS:
        for gap in GAPS:
            names = ", ".join(part.name for part in gap)
            yield Scene("gap", f"{ours.name} while others {names}", _pair(ours, gap))
    yield Scene("twice", "files of one job committed by two drivers", _twice)
    yield Scene("restore", "restore while its version is cleaned up", _restore_and_cleanup)
    yield Scene("restore", "restore, then cleanup, then compaction", _restore_in_turn)
    yield Scene("tag", "tag while its version is cleaned up", _tag_and_cleanup)
    yield Scene("tag", "cleanup keeps tagged versions", _tag_kept)


def _start(table: TableAdapter, uri: str) -> dict[int, Rows]:
    """Make a table of two files and three versions, with a deleted row; returns the rows of each version."""
    table.create(uri, _new(0, 10), rows_per_file=5)
    table.delete(uri, "id = 9", _nothing)
    table.append(uri, _new(10, 3, 2), _nothing)
    first = _new(0, 10)
    second = _without(first, 9, 10)
    return {1: first, 2: second, 3: {**second, **_new(10, 3, 2)}}


def _pair(ours: Operation, theirs: tuple[Operation, ...]) -> Callable[[TableAdapter, str], None]:
    def play(table: TableAdapter, uri: str) -> None:
        versions = _start(table, uri)
        done: list[Operation] = []

        def meanwhile() -> None:
            # An operation that is planned again calls it again.
            if done:
                return
            for part in theirs:
                part.run(table, uri, _nothing)
                done.append(part)

        try:
            ours.run(table, uri, meanwhile)
        except (Unsupported, AssertionError):
            raise
        except Exception:
            if len(done) < len(theirs):
                raise
            allowed = [_apply(versions, theirs)]
        else:
            allowed = [_apply(versions, order) for order in ((ours, *theirs), (*theirs, ours))]
        _check(table, uri, allowed)

    return play


def _apply(versions: Mapping[int, Rows], operations: tuple[Operation, ...]) -> Rows:
    rows = versions[max(versions)]
    for operation in operations:
        rows = operation.effect(rows, versions)
    return rows


def _check(table: TableAdapter, uri: str, allowed: list[Rows]) -> None:
    found = table.read(uri)
    ids = [number for number, _ in found]
    doubled = sorted({number for number in ids if ids.count(number) > 1})
    assert not doubled, f"rows {doubled} are there more than once"
    rows = dict(found)
    if rows not in [dict(item) for item in allowed]:
        expected = dict(allowed[-1])
        extra = sorted(rows.items() - expected.items())
        lost = sorted(expected.items() - rows.items())
        raise AssertionError(f"rows (id, k) {extra} are wrong, {lost} are missing")
    for value in sorted(set(rows.values())):
        by_index = sorted(number for number, _ in table.read(uri, where=f"k = {value}"))
        by_scan = sorted(number for number, k in rows.items() if k == value)
        assert by_index == by_scan, f"k = {value} finds {by_index}, a scan {by_scan}"


def _twice(table: TableAdapter, uri: str) -> None:
    versions = _start(table, uri)
    rows = _new(20, 3)
    table.append_twice(uri, rows)
    _check(table, uri, [{**versions[3], **rows}])


def _restore_and_cleanup(table: TableAdapter, uri: str) -> None:
    versions = _start(table, uri)
    table.compact(uri, _nothing)
    try:
        table.restore(uri, 2, lambda: table.cleanup(uri))
    except (Unsupported, AssertionError):
        raise
    except Exception:  # noqa: BLE001 - refused
        _check(table, uri, [versions[3]])
    else:
        _check(table, uri, [versions[2]])
    table.append(uri, _new(90, 1), _nothing)


def _restore_in_turn(table: TableAdapter, uri: str) -> None:
    versions = _start(table, uri)
    table.restore(uri, 1, _nothing)
    table.cleanup(uri)
    table.delete(uri, "id = 0", _nothing)
    table.compact(uri, _nothing)
    table.append(uri, _new(90, 1), _nothing)
    _check(table, uri, [{**_without(versions[1], 0, 1), **_new(90, 1)}])


def _tag_and_cleanup(table: TableAdapter, uri: str) -> None:
    versions = _start(table, uri)
    try:
        table.tag(uri, "kept", 2, lambda: table.cleanup(uri))
    except (Unsupported, AssertionError):
        raise
    except Exception:  # noqa: BLE001 - refused
        return
    found = dict(table.read(uri, version=2))
    assert found == versions[2], f"the tagged version has {found}"


def _tag_kept(table: TableAdapter, uri: str) -> None:
    versions = _start(table, uri)
    table.tag(uri, "kept", 1, _nothing)
    table.cleanup(uri)
    found = dict(table.read(uri, version=1))
    assert found == versions[1], f"the tagged version has {found}"
    _check(table, uri, [versions[3]])
