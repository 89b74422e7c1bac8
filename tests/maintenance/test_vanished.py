"""Operations beside a cleanup that removes the version they read."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import FileMissingError, RetryableCommitConflictError, TaskFailedError
from lance_ops.maintenance.runner import LocalRunner

Operation = Callable[..., Any]


def new_rows() -> pa.Table:
    return pa.table({"x": pa.array([1000], pa.int64()), "day": ["b"]})


OPERATIONS: dict[str, Operation] = {
    "create_index": lambda path, **options: lo.create_index(path, "x", name="other", **options),
    "optimize_indices": lambda path, **options: lo.optimize_indices(path, rebuild=True, **options),
    "delete": lambda path, **options: lo.delete(path, "x % 10 = 3", **options),
    "replace_where": lambda path, **options: lo.replace_where(path, new_rows(), "day = 'b'", **options),
    "compact": lambda path, **options: lo.compact(path, target_rows_per_fragment=1000, **options),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "t.lance"
    for start in (0, 20, 40):
        values = list(range(start, start + 20))
        days = ["b" if x % 2 else "a" for x in values]
        lo.append(path, pa.table({"x": pa.array(values, pa.int64()), "day": days}))
    lo.create_index(path, "x")
    return path


class Interrupted(LocalRunner):
    """Runs tasks after others did something, the first time."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        super().__init__(2)
        self.meanwhile: Callable[[], object] | None = meanwhile

    def map(self, function: Any, tasks: Sequence[Any], **options: Any) -> list[Any]:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return super().map(function, tasks, **options)


@pytest.mark.parametrize("name", OPERATIONS)
def test_what_a_cleanup_took_from_under_an_operation_is_planned_anew_on_the_head(
    path: Path, name: str
) -> None:
    def meanwhile() -> None:
        lo.compact(path, target_rows_per_fragment=50 if name == "compact" else 1000)
        lo.cleanup(path, retain_versions=1)

    alone = path.with_name("alone.lance")
    lo.write_dataset(lo.dataset(path).to_table(), alone)
    lo.create_index(alone, "x")
    OPERATIONS[name](alone)
    result = OPERATIONS[name](path, runner=Interrupted(meanwhile))
    assert any("a cleanup that removed version 4" in line for line in result.conflicts)
    expected = sorted(lo.dataset(alone).to_table()["x"].to_pylist())
    assert sorted(lo.dataset(path).to_table()["x"].to_pylist()) == expected
    assert lo.dataset(path).count_rows("x = 7") == (7 in expected)
    assert {index.name for index in lo.dataset(path).indices} >= {"x_idx"}
    assert lo.fsck(path, deep=True).ok
    lo.cleanup(path, retain_versions=1, delete_unverified=True)
    assert lo.fsck(path, deep=True).ok


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_file_that_is_missing_of_a_version_that_is_there_is_damage(path: Path, name: str) -> None:
    def meanwhile() -> None:
        for file in (path / "data").glob("*.lance"):
            file.unlink()

    with pytest.raises((TaskFailedError, FileMissingError)) as raised:
        OPERATIONS[name](path, runner=Interrupted(meanwhile))
    assert not isinstance(raised.value, RetryableCommitConflictError)
