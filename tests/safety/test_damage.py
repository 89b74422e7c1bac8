"""Damaged files met by the operations that users call: a typed error or a right answer, and nothing lost."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import lance_ops as lo
from lance_ops.errors import LanceOpsError
from tests.support.interop import our_dataset, rows

OPERATIONS: dict[str, Callable[[Path], object]] = {
    "read": lambda path: lo.dataset(path).to_table(),
    "filter": lambda path: lo.dataset(path).to_table(filter="x = 30"),
    "append": lambda path: lo.append(path, rows(1000, 1010)),
    "delete": lambda path: lo.delete(path, "x % 9 = 0"),
    "compact": lambda path: lo.compact(path),
    "index": lambda path: lo.optimize_indices(path),
    "cleanup": lambda path: lo.cleanup(path, retain_versions=2),
    "restore": lambda path: lo.restore(path, 2),
    "fsck": lambda path: lo.fsck(path, deep=True),
}
PATTERNS = {
    "manifest": "_versions/*.manifest",
    "transaction": "_transactions/*.txn",
    "deletions": "_deletions/*",
    "data": "data/*.lance",
    "index": "_indices/*/*.lance",
}
DAMAGES = 12


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three fragments, deleted rows, and an index that misses one fragment."""
    path = tmp_path_factory.mktemp("sound") / "t.lance"
    our_dataset(path, [40, 40])
    lo.create_index(path, "x")
    lo.delete(path, "x < 7")
    lo.append(path, rows(80, 100))
    return path


def damaged(data: bytes, random_source: random.Random) -> bytes:
    """Cut off somewhere, or with a few bytes changed."""
    if random_source.random() < 0.4:
        return data[: random_source.randrange(len(data))]
    changed = bytearray(data)
    for _ in range(random_source.randint(1, 4)):
        changed[random_source.randrange(len(changed))] = random_source.randrange(256)
    return bytes(changed)


def contents(path: Path) -> dict[str, bytes]:
    """Every file, but for the hint, which follows the newest version."""
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in path.rglob("*")
        if file.is_file() and file.suffix != ".json"
    }


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("kind", PATTERNS)
def test_damage_ends_in_a_typed_error_or_an_answer(
    sound: Path, tmp_path: Path, kind: str, operation: str
) -> None:
    source = random.Random(f"{kind} {operation}")
    for number in range(DAMAGES):
        path = tmp_path / f"{number}.lance"
        shutil.copytree(sound, path)
        files = sorted(path.glob(PATTERNS[kind]))
        file = files[0] if kind == "manifest" and number % 2 else source.choice(files)
        file.write_bytes(damaged(file.read_bytes(), source))
        before = contents(path)
        try:
            OPERATIONS[operation](path)
        except LanceOpsError:
            after = contents(path)
            # New files of a failed operation may wait for cleanup; nothing that was there may go or change.
            assert {name: after.get(name) for name in before} == before
