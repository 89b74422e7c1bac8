"""Who narrows and searches a dataset when the caller does not say: the indices, as the package names them."""

import pytest

import lance_ops as lo
from lance_ops.errors import UnsupportedError
from lance_ops.index.search.index_search import IndexSearch
from lance_ops.index.search.pruner import IndexPruner
from lance_ops.storage import open_store
from lance_ops.table.manifest.row_set import RowSet
from lance_ops.table.scan import accelerators
from lance_ops.table.scan.accelerators import Accelerators, default_pruners, default_search
from lance_ops.table.scan.search import FixedPruner
from tests.support.tables import create, rows


def test_the_package_names_the_indices():
    assert [type(pruner) for pruner in default_pruners()] == [IndexPruner]
    assert type(default_search()) is IndexSearch


def test_what_is_named_narrows_the_scans_of_every_dataset(tmp_path, monkeypatch):
    create(open_store(tmp_path), rows(0, 10))
    monkeypatch.setattr(accelerators, "_named", [])
    dataset = lo.dataset(tmp_path)
    assert dataset.count_rows("a < 5") == 5
    nothing = RowSet()
    accelerators.name_accelerators(Accelerators(lambda: FixedPruner(frozenset({0}), nothing), IndexSearch))
    assert dataset.count_rows("a < 5") == 0


def test_a_search_that_nobody_named_is_refused(monkeypatch):
    monkeypatch.setattr(accelerators, "_named", [])
    assert default_pruners() == ()
    with pytest.raises(UnsupportedError, match="rows by score"):
        default_search()
