from dataclasses import replace

import pyarrow as pa
import pytest

from lance_ops.errors import InvalidArgumentError
from lance_ops.file.schema.model import Schema
from lance_ops.table.manifest.model import BasePath
from lance_ops.table.manifest.row_ids import encode_row_ids
from lance_ops.table.transaction.operations import (
    Append,
    Delete,
    MapUpdate,
    Merge,
    Overwrite,
    Project,
    ReserveFragments,
    Rewrite,
    RewriteGroup,
    Update,
    UpdateConfig,
)
from tests.support.table_values import SCHEMA, data_file, fragment, manifest

TABLE = manifest(fragment(0), fragment(1, deleted=3), fragment(2), max_fragment_id=9)
OTHER = Schema.from_arrow(pa.schema([pa.field("z", pa.int8())]), first_id=7)


def rewrite(old, new):
    return Rewrite((RewriteGroup(tuple(old), tuple(new)),))


def legacy_file(name):
    return replace(data_file(name), column_indices=(), major=0, minor=2)


GOOD = [
    # Versions from 2.0 on may lie side by side.
    rewrite([fragment(0)], [fragment(5, files=(data_file("x", minor=1),))]),
    Append((fragment(0, files=(data_file("x", minor=2),)),)),
    Append(()),
    Append((fragment(0, name="new"),)),
    Append((fragment(0, files=(data_file("only_a", fields=(0,)),)),)),
    Overwrite((fragment(0, files=(data_file("x", minor=1),)),), SCHEMA),
    Delete((fragment(0, deleted=4), fragment(1, deleted=5)), (2,), ""),
    Delete((fragment(0, deleted=10),), (), ""),
    Update((2,), (fragment(0, deleted=4), fragment(1, deleted=5)), (fragment(0, name="new"),)),
    Update((), (), (fragment(0, name="new"),)),
    rewrite([fragment(0), fragment(1, deleted=3)], [fragment(5, 17)]),
    rewrite([fragment(1, deleted=3)], [fragment(4, 3), fragment(5, 4)]),
    Merge((fragment(0), fragment(1, deleted=3), fragment(2)), SCHEMA),
    Project(SCHEMA.project(["b"])),
    ReserveFragments(1),
    UpdateConfig(field_metadata={1: MapUpdate({})}),
]


@pytest.mark.parametrize("operation", GOOD, ids=lambda operation: operation.name)
def test_sound_operations_pass(operation):
    operation.check(TABLE)


BAD = [
    ("no data file", Append((fragment(0, files=()),))),
    ("no rows", Append((fragment(0, rows=0),))),
    ("no fields", Append((fragment(0, files=(data_file("x", fields=()),)),))),
    ("does not have", Append((fragment(0, files=(data_file("x", fields=(0, 5)),)),))),
    ("the same field", Append((fragment(0, files=(data_file("x"), data_file("y", fields=(1,)))),))),
    ("part of the dataset", Append((fragment(0, name="f2"),))),
    ("part of the dataset", rewrite([fragment(0)], [fragment(5, name="f0")])),
    ("version 0.1", rewrite([fragment(0)], [fragment(5, files=(legacy_file("x"),))])),
    ("version 0.1", Append((fragment(0, files=(legacy_file("x"),)),))),
    ("dataset has no stable row ids", Append((fragment(0, name="new", row_ids=encode_row_ids(range(10))),))),
    (
        "one storage version",
        Overwrite((fragment(0), fragment(0, files=(data_file("x", minor=1),))), SCHEMA),
    ),
    ("when a dataset is created", Overwrite((), SCHEMA, {}, (BasePath(1, "/x", True),))),
    ("twice", Delete((fragment(0, deleted=1),), (0,), "")),
    ("not in version 1", Delete((), (7,), "")),
    ("fewer deleted rows", Delete((fragment(1, deleted=2),), (), "")),
    ("fewer deleted rows", Delete((fragment(0),), (), "")),
    ("more deleted rows than rows", Delete((fragment(0, deleted=11),), (), "")),
    ("only change the deletion file", Delete((fragment(0, deleted=1, name="other"),), (), "")),
    ("twice", Update((0,), (fragment(0, deleted=1),), ())),
    ("not in version 1", Update((7,), (), ())),
    ("fewer deleted rows", Update((), (fragment(1, deleted=2),), ())),
    ("only change the deletion file", Update((), (fragment(0, deleted=1, name="other"),), ())),
    ("no data file", Update((), (), (fragment(0, files=()),))),
    ("part of the dataset", Update((), (), (fragment(0, name="f2"),))),
    ("not committed", Update((), (), (), unknown=b"8\x01")),
    ("no stable row ids", Update((), (), (fragment(0, name="new", row_ids=encode_row_ids(range(10))),))),
    ("must replace at least one fragment", rewrite([], [fragment(5)])),
    ("not the fragment of that id", rewrite([fragment(1)], [fragment(5)])),
    ("not the fragment of that id", rewrite([fragment(7)], [fragment(5)])),
    ("rewritten twice", rewrite([fragment(0), fragment(0)], [fragment(5, 20)])),
    ("10 live rows into 9", rewrite([fragment(0)], [fragment(5, 9)])),
    ("7 live rows into 10", rewrite([fragment(1, deleted=3)], [fragment(5, 10)])),
    ("10 live rows into 0", rewrite([fragment(0)], [])),
    ("columns b would be lost", rewrite([fragment(0)], [fragment(5, files=(data_file("x", fields=(0,)),))])),
    ("omits it", Merge((fragment(0), fragment(2)), SCHEMA)),
    ("change its rows", Merge((fragment(0), fragment(1), fragment(2)), SCHEMA)),
    ("adds fragments", Merge((fragment(0), fragment(1, deleted=3), fragment(2), fragment(3)), SCHEMA)),
    ("not in the dataset", Project(OTHER)),
    ("got 0", ReserveFragments(0)),
    ("not in the dataset", UpdateConfig(field_metadata={5: MapUpdate({})})),
]


@pytest.mark.parametrize(
    ("message", "operation"), BAD, ids=lambda value: value if isinstance(value, str) else ""
)
def test_operations_that_would_damage_the_dataset_are_refused(message, operation):
    with pytest.raises(InvalidArgumentError, match=message):
        operation.check(TABLE)


@pytest.mark.parametrize(
    ("message", "new"),
    [("in use", [fragment(2)]), ("in use", [fragment(5), fragment(5)]), ("not reserved", [fragment(10)])],
)
def test_new_fragments_of_a_rewrite_need_ids_of_their_own(message, new):
    with pytest.raises(InvalidArgumentError, match=message):
        rewrite([fragment(0)], new).check_reserved_ids(TABLE)
    rewrite([fragment(0)], [fragment(8), fragment(9)]).check_reserved_ids(TABLE)


def test_rows_written_before_a_column_was_dropped_may_be_appended():
    narrow = TABLE.replace(schema=SCHEMA.project(["a"]))
    Append((fragment(0, name="new"),)).check(narrow, schema=SCHEMA)
    with pytest.raises(InvalidArgumentError):
        Append((fragment(0, name="new"),)).check(narrow)


def test_stable_row_ids_are_required_of_rewritten_fragments_and_counted():
    table = manifest(fragment(0, row_ids=encode_row_ids(range(10))), reader_flags=2, max_fragment_id=5)
    (old,) = table.fragments
    rewrite([old], [fragment(5, row_ids=encode_row_ids(range(10)))]).check(table)
    with pytest.raises(InvalidArgumentError, match="no row ids"):
        rewrite([old], [fragment(5)]).check(table)
    with pytest.raises(InvalidArgumentError, match="number of its row ids does not match"):
        rewrite([old], [fragment(5, row_ids=encode_row_ids(range(9)))]).check(table)


def test_a_rewrite_may_store_a_struct_in_the_manner_of_another_version():
    # Ids: a 0, s 1, s.x 2, s.y 3. Version 2.0 lists all fields, 2.1 the leaves, a packed struct only itself.
    schema = Schema.from_arrow(
        pa.schema([("a", pa.int32()), ("s", pa.struct([("x", pa.int32()), ("y", pa.int32())]))])
    )
    everything = fragment(0, files=(data_file("x", fields=(0, 1, 2, 3)),))
    table = manifest(everything, schema=schema, max_fragment_id=5)
    for fields in ((0, 1, 2, 3), (0, 2, 3), (0, 1)):
        rewrite([everything], [fragment(5, files=(data_file("y", fields=fields),))]).check(table)
    with pytest.raises(InvalidArgumentError, match=r"columns s\.y would be lost"):
        rewrite([everything], [fragment(5, files=(data_file("y", fields=(0, 1, 2)),))]).check(table)
