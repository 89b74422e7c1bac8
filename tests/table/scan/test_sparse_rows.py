"""Few rows of many fragments: read as one or one by one, they are the same."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import CorruptFileError
from lance_ops.filter import Expression
from lance_ops.table.dataset import Dataset
from lance_ops.table.joined_fragments import JoinedViews
from lance_ops.table.manifest.row_set import RowSet
from lance_ops.table.scan.plan import FragmentPlan
from lance_ops.table.scan.pruner import Pruning
from lance_ops.table.scan.sparse_rows import find_sparse
from lance_ops.table.snapshot import Snapshot
from tests.table.scan.test_small_fragments import rows

ROWS, FRAGMENTS = 3000, 5


@dataclass(frozen=True)
class Told:
    """A pruner that was told which rows can match."""

    addresses: Sequence[int]
    fragments: frozenset[int]
    is_exact: bool

    def prune(self, dataset: Snapshot, expression: Expression) -> Pruning:
        """See `Pruner.prune`."""
        del dataset, expression
        exact = self.fragments if self.is_exact else frozenset[int]()
        return Pruning(self.fragments, RowSet.of(self.addresses), exact)


def write_fragments(path: Path, version: str) -> Dataset:
    """A dataset of fragments whose columns are not all described alike, some rows of it deleted."""
    for seed in range(FRAGMENTS):
        lo.write_dataset(
            rows(ROWS + seed, seed), path, mode="append" if seed else "create", data_storage_version=version
        )
    lo.delete(path, "id % 10000 BETWEEN 100 AND 180")
    return lo.dataset(path)


def some_addresses(dataset: Dataset, seed: int, fragments: frozenset[int]) -> list[int]:
    rng = np.random.default_rng(seed)
    chosen = []
    for fragment in dataset.fragments:
        if fragment.id in fragments:
            offsets = rng.choice(fragment.physical_rows, int(rng.integers(0, 60)), replace=False)
            chosen += [(fragment.id << 32) + int(offset) for offset in offsets]
    return sorted(chosen)


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("is_exact", [True, False])
def test_sparse_rows_of_many_fragments_are_those_of_a_scan(
    tmp_path: Path, version: str, is_exact: bool
) -> None:
    dataset = write_fragments(tmp_path / "t", version)
    everything = dataset.to_table(with_row_address=True)
    columns = ["word", "id", "list", "constant", "few", "pair", "struct.x", "nullable"]
    for seed, fragments in enumerate(({1, 3}, {0, 1, 2, 3, 4}, {2, 3, 4}, {0, 4})):
        addresses = some_addresses(dataset, seed, frozenset(fragments))
        pruner = Told(addresses, frozenset(range(FRAGMENTS)), is_exact)
        wanted = everything.filter(
            pa.array(np.isin(everything["_rowaddr"].to_numpy(), np.array(addresses, np.uint64)))
        )
        condition = "number >= -1000" if is_exact else "number > 100"
        if not is_exact:
            wanted = wanted.filter(pa.array(np.asarray(wanted["number"]) > 100))
        found = dataset.to_table(
            columns, condition, pruners=[pruner], with_row_id=True, with_row_address=True
        )
        assert found["_rowaddr"].to_pylist() == wanted["_rowaddr"].to_pylist()
        assert found["_rowid"].to_pylist() == wanted["_rowaddr"].to_pylist()
        for name in columns:
            known = wanted["struct"].combine_chunks().field("x") if name == "struct.x" else wanted[name]
            assert found[name].to_pylist() == known.to_pylist(), name
        assert dataset.count_rows(condition, pruners=[pruner]) == len(wanted)


def test_files_of_other_columns_stand_apart_and_null_is_read_for_what_they_lack(tmp_path: Path) -> None:
    path = tmp_path / "t"
    lo.write_dataset(pa.table({"k": np.arange(4000)}), path, max_rows_per_file=2000)
    lance.dataset(str(path)).add_columns({"twice": "k * 2"})
    more = pa.table({"k": np.arange(4000, 8000)})
    lo.write_dataset(more, path, mode="append", max_rows_per_file=2000, fill_missing=True)
    dataset = lo.dataset(path)
    chosen = [5, 1999, (1 << 32) + 7, (2 << 32) + 3, (3 << 32) + 1999]
    pruner = Told(chosen, frozenset(range(4)), is_exact=True)
    found = dataset.to_table(["twice", "k"], "k >= 0", pruners=[pruner])
    assert found.to_pydict() == {"twice": [10, 3998, 4014, None, None], "k": [5, 1999, 2007, 4003, 7999]}


def test_the_damaged_one_of_joined_files_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t"
    lo.write_dataset(pa.table({"k": np.arange(20_000)}), path, max_rows_per_file=5000)
    dataset = lo.dataset(path)
    name = dataset.fragments[2].files[0].path
    file = path / "data" / name
    content = bytearray(file.read_bytes())
    content[: len(content) // 2] = b"\xff" * (len(content) // 2)
    chosen = [(number << 32) + offset for number in range(4) for offset in range(0, 200, 30)]
    pruner = Told(chosen, frozenset(range(4)), is_exact=True)
    assert len(dataset.to_table(["k"], "k >= 0", pruners=[pruner])) == len(chosen)
    file.write_bytes(content[: len(content) // 2])
    with pytest.raises(CorruptFileError, match=name):
        lo.dataset(path).to_table(["k"], "k >= 0", pruners=[pruner])


def test_fragments_of_which_many_rows_or_many_bytes_are_wanted_are_read_by_themselves(tmp_path: Path) -> None:
    dataset = write_fragments(tmp_path / "t", "2.1")

    def plan(number: int, count: int, *, exact: bool = True) -> list[FragmentPlan]:
        return [FragmentPlan(dataset.fragments[number], 0, np.arange(count, dtype=np.uint32) * 2, exact)]

    few, many = [plan(number, 10) for number in range(3)], plan(3, 1400)
    assert [(len(group), sparse) for group, sparse in find_sparse([*few, many, plan(4, 1)], 8)] == [
        (3, True),
        (1, False),
        (1, False),
    ]
    wide = [(len(group), sparse) for group, sparse in find_sparse(few, 500_000)]
    assert wide == [(1, False), (1, False), (1, False)]
    mixed = [(len(group), sparse) for group, sparse in find_sparse([few[0], plan(1, 10, exact=False)], 8)]
    assert mixed == [(1, False), (1, False)]


def test_a_question_about_more_fragments_joins_them_to_those_that_are_open(tmp_path: Path) -> None:
    dataset = write_fragments(tmp_path / "t", "2.1")
    views, bases, files = JoinedViews(), dataset.bases, dataset.open_files
    some = views.join(bases, files, dataset.fragments[1:3])
    more = views.join(bases, files, [dataset.fragments[0], dataset.fragments[4]])
    assert some is not None
    assert more is not None
    assert [fragment.id for fragment in more.fragments] == [0, 1, 2, 4]
    assert views.join(bases, files, dataset.fragments[1:3]) is more


def test_fragments_of_the_same_ids_with_other_files_are_not_taken_for_those_that_are_joined(
    tmp_path: Path,
) -> None:
    dataset = write_fragments(tmp_path / "t", "2.1")
    views, some = JoinedViews(), dataset.fragments[1:3]
    joined = views.join(dataset.bases, dataset.open_files, some)
    assert joined is not None
    assert views.find(some) is joined
    others = [
        fragment.replace(files=tuple(replace(file, path=f"x{file.path}") for file in fragment.files))
        for fragment in some
    ]
    assert views.find(others) is None
    assert views.find(dataset.fragments[:3]) is None
