"""Every kind of column, copied with every pattern of deletions, as both sides read it."""

import numpy as np
import pyarrow as pa
import pytest

from lance_ops.file.page_copy import DEFAULT_RULE, KEEP_ALL, CopySource, find_obstacles
from lance_ops.storage import open_store
from tests.support.arrays import ALL_2_0_TYPES, random_array
from tests.support.page_copy import (
    DELETIONS,
    copy_and_check,
    deleted_rows,
    peer_rows,
    split,
    write_peer_files,
)
from tests.support.peer_columns import COLUMNS

pytestmark = pytest.mark.peer

ROWS = 300
RULES = [pytest.param(KEEP_ALL, id="apart"), pytest.param(DEFAULT_RULE, id="merged")]


def check_all_patterns(folder, tables, version, rule, patterns=DELETIONS):
    names = write_peer_files(folder, tables, version)
    store = open_store(folder)
    assert find_obstacles([CopySource(store, name) for name in names]) == []
    expected = [peer_rows(folder / name) for name in names]
    for pattern in patterns if rule is KEEP_ALL else ("none", "scattered"):
        deletions = [deleted_rows(pattern, table.num_rows) for table in tables]
        copy_and_check(folder, names, deletions, rule=rule, expected=expected)


def one_column(arrays, metadata=None):
    schema = pa.schema([pa.field("c", arrays[0].type, metadata=metadata)])
    return [pa.table([array], schema=schema) for array in arrays]


def is_blob(column):
    return any("blob" in key for key in column.options) or "blob" in column.name


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("column", "version"),
    [
        pytest.param(column, version, id=f"{column.name}-{version}")
        for column in COLUMNS
        if not is_blob(column)
        for version in column.versions
    ],
)
def test_each_layout_and_compression(tmp_path, column, version, rule):
    tables = one_column(split(column.build()), column.options or None)
    check_all_patterns(tmp_path, tables, version, rule, ("none", "scattered", "edges", "most"))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_each_type(tmp_path, version, rule):
    tables = [
        pa.table({str(kind): random_array(kind, ROWS, nulls=nulls, seed=n) for kind in ALL_2_0_TYPES})
        for n, nulls in enumerate((0.2, 0.0, 1.0))
    ]
    check_all_patterns(tmp_path, tables, version, rule)


@pytest.mark.parametrize("rule", RULES)
def test_maps_and_fixed_size_lists_of_structs(tmp_path, rule):
    structs = pa.array([[{"x": n, "y": None}, {"x": None, "y": str(n)}] for n in range(ROWS)])
    structs = structs.cast(pa.list_(pa.struct([("x", pa.int32()), ("y", pa.string())]), 2))
    check_all_patterns(tmp_path, one_column([structs, structs]), "2.2", rule)
    maps = random_array(pa.map_(pa.string(), pa.int32()), ROWS)
    check_all_patterns(tmp_path, one_column([maps, maps]), "2.2", rule)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_null_structs_at_every_level(tmp_path, version, rule):
    rng = np.random.default_rng(5)

    def value(n):
        inner = None if rng.random() < 0.2 else {"z": None if n % 3 else n, "s": f"s{n}"}
        return None if rng.random() < 0.2 else {"x": inner, "l": None if n % 7 == 0 else [inner] * (n % 3)}

    inner = pa.struct([("z", pa.int64()), ("s", pa.string())])
    data_type = pa.struct([("x", inner), ("l", pa.list_(inner))])
    arrays = [pa.array([value(n) for n in range(ROWS)], data_type) for _ in range(2)]
    check_all_patterns(tmp_path, one_column(arrays), version, rule)


@pytest.mark.parametrize("version", ["2.0", "2.2"])
def test_many_columns_with_many_pages(tmp_path, version):
    kinds = [pa.int64(), pa.string(), pa.list_(pa.int32()), pa.struct([("a", pa.list_(pa.string()))])]
    kinds += [pa.list_(pa.float32(), 16), pa.dictionary(pa.int32(), pa.string()), pa.bool_()]
    tables = [
        pa.table(
            {f"c{n}": random_array(kind, rows, nulls=0.1, seed=n + rows) for n, kind in enumerate(kinds)}
        )
        for rows in (9_000, 1, 3_000)
    ]
    names = write_peer_files(tmp_path, [table.slice(0) for table in tables], version)
    for pattern, rule in (("none", DEFAULT_RULE), ("scattered", DEFAULT_RULE), ("run", KEEP_ALL)):
        deletions = [deleted_rows(pattern, table.num_rows) for table in tables]
        copy_and_check(tmp_path, names, deletions, rule=rule)
