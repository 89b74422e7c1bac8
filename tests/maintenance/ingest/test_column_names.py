"""Column names that pylance cannot read: every writer refuses them, and a table with them can be repaired."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, SchemaMismatchError
from lance_ops.file.schema import column_names
from lance_ops.table.scan.row_columns import ROW_COLUMNS
from lance_ops.table.transaction.operations import Merge, Overwrite, Project
from tests.support.table_actions import commit

ROWS = pa.table({"id": [1, 2], "x": [5, 6]})
NAMES = [*ROW_COLUMNS, "", "a\0b", "a`b"]


def named(name: str) -> pa.Table:
    return pa.table({"id": [1, 2], name: [5, 6]})


def by_function(uri: str, name: str) -> None:
    schema = pa.schema([(name, pa.int64())])
    udf = lo.batch_udf(schema)(lambda batch: pa.record_batch([batch["x"]], schema=schema))
    lo.add_columns(uri, udf)


def renamed(uri: str, name: str) -> lo.Schema:
    schema = lo.dataset(uri).lance_schema
    return replace(schema, fields=(schema.fields[0], replace(schema.fields[1], name=name)))


def by_overwrite(uri: str, name: str) -> None:
    fragments = lo.write_fragments(ROWS, uri, mode="overwrite")
    commit(lo.dataset(uri), Overwrite(fragments, renamed(uri, name)))


def by_project(uri: str, name: str) -> None:
    commit(lo.dataset(uri), Project(renamed(uri, name)))


def by_merge(uri: str, name: str) -> None:
    commit(lo.dataset(uri), Merge(tuple(lo.dataset(uri).fragments), renamed(uri, name)))


WRITERS: dict[str, Callable[[str, str], object]] = {
    "create": lambda uri, name: lo.write_dataset(named(name), uri + "-new"),
    "append that creates": lambda uri, name: lo.append(uri + "-new", named(name)),
    "overwrite": lambda uri, name: lo.write_dataset(named(name), uri, mode="overwrite"),
    "write_fragments": lambda uri, name: lo.write_fragments(named(name), uri + "-new"),
    "add_columns, SQL": lambda uri, name: lo.add_columns(uri, {name: "x"}),
    "add_columns, field": lambda uri, name: lo.add_columns(uri, pa.field(name, pa.int64())),
    "add_columns, function": by_function,
    "add_columns, table": lambda uri, name: lo.add_columns(uri, named(name).select([1])),
    "alter_columns": lambda uri, name: lo.alter_columns(uri, {"path": "x", "name": name}),
    "merge": lambda uri, name: lo.merge(uri, named(name), "id"),
    "commit of an overwrite": by_overwrite,
    "commit of a projection": by_project,
    "commit of a merge": by_merge,
}


def test_the_reserved_names_are_those_of_the_row_columns() -> None:
    assert set(ROW_COLUMNS) == column_names.RESERVED_NAMES


@pytest.mark.parametrize("way", WRITERS)
def test_every_writer_refuses_them(tmp_path: Path, way: str) -> None:
    for number, name in enumerate(NAMES):
        uri = str(tmp_path / str(number))
        lo.write_dataset(ROWS, uri)
        with pytest.raises(InvalidArgumentError):
            WRITERS[way](uri, name)
        assert lo.dataset(uri).version == 1
        assert not Path(uri + "-new").exists() or not any(Path(uri + "-new").rglob("*.lance"))


def test_the_error_says_how_to_write_rows_that_were_read_with_ids(tmp_path: Path) -> None:
    uri, copy = str(tmp_path / "a"), str(tmp_path / "b")
    lo.write_dataset(ROWS, uri)
    rows = lo.dataset(uri).to_table(with_row_id=True)
    with pytest.raises(InvalidArgumentError, match=r'with_row_id=True.*drop_columns\(\["_rowid"\]\)'):
        lo.write_dataset(rows, copy)
    with pytest.raises(SchemaMismatchError, match=r'with_row_id=True.*drop_columns\(\["_rowid"\]\)'):
        lo.append(uri, rows)
    lo.write_dataset(rows.drop_columns(["_rowid"]), copy)
    assert lo.dataset(copy).to_table() == ROWS


@pytest.mark.peer
@pytest.mark.parametrize("name", [*ROW_COLUMNS, ""])
def test_fields_of_structs_may_have_them(tmp_path: Path, name: str) -> None:
    uri = str(tmp_path / "t")
    rows = pa.table({"s": pa.StructArray.from_arrays([pa.array([1, 2])], [name])})
    lo.write_dataset(rows, uri)
    assert lance.dataset(uri).to_table() == rows
    assert lo.fsck(uri, deep=True).ok


@pytest.mark.parametrize(
    "structure", [pa.struct([("a\0b", pa.int8())]), pa.list_(pa.struct([("\0", pa.int8())]))]
)
def test_no_field_may_contain_a_nul(tmp_path: Path, structure: pa.DataType) -> None:
    with pytest.raises(InvalidArgumentError, match="NUL"):
        lo.write_dataset(pa.table({"s": pa.nulls(1, structure)}), str(tmp_path / "t"))


@pytest.mark.parametrize("repair", ["rename", "rename by path", "drop"])
@pytest.mark.parametrize("name", ["_rowid", "_row_created_at_version", "", "a\0b", "a`b", "`a`"])
@pytest.mark.peer
def test_tables_of_earlier_versions_can_be_repaired(
    tmp_path: Path, name: str, repair: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = str(tmp_path / "t")
    with monkeypatch.context() as earlier:
        earlier.setattr(column_names, "refused_names", lambda schema: ())
        lo.write_dataset(named(name), uri)
    assert lo.dataset(uri).to_table() == named(name)
    (finding,) = lo.fsck(uri, deep=True).findings
    assert finding.check == "column_names"
    assert repr(name) in finding.message
    lo.append(uri, named(name))
    lo.delete(uri, "id = 1")
    quoted = "`" + name.replace("`", "``") + "`"
    if name not in ROW_COLUMNS:
        assert lo.dataset(uri).to_table([name]).column_names == [name]
        # No filter can have a NUL.
        assert "\0" in name or lo.dataset(uri).count_rows(f"{quoted} = 6") == 2
    if repair == "drop":
        lo.drop_columns(uri, [name])
        expected = pa.table({"id": [2, 2]})
    else:
        path = name if repair == "rename" else quoted
        with pytest.raises(InvalidArgumentError):
            lo.alter_columns(uri, {"path": path, "name": "b`" if name == "" else ""})
        lo.alter_columns(uri, {"path": path, "name": "x"})
        expected = pa.table({"id": [2, 2], "x": [6, 6]})
    assert lo.fsck(uri, deep=True).ok
    assert lance.dataset(uri).to_table() == expected
    assert lo.dataset(uri).to_table(with_row_id=True)["_rowid"].to_pylist() == [1, (1 << 32) + 1]


def test_a_column_that_is_broken_already_takes_no_further_broken_field(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = str(tmp_path / "t")
    rows = pa.table({"s": pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["a\0b", "c"])})
    with monkeypatch.context() as earlier:
        earlier.setattr(column_names, "refused_names", lambda schema: ())
        lo.write_dataset(rows, uri)
    with pytest.raises(InvalidArgumentError, match="NUL"):
        lo.alter_columns(uri, {"path": "s.c", "name": "d\0"})
    lo.alter_columns(uri, {"path": "s.a\0b", "name": "a"})
    assert lo.fsck(uri, deep=True).ok
    assert lance.dataset(uri).to_table().to_pylist() == [{"s": {"a": 1, "c": 2}}]


@pytest.mark.peer
@pytest.mark.parametrize("name", ["a`b", "`", "``"])
def test_a_table_of_pylance_that_pylance_cannot_read_is_repaired(tmp_path: Path, name: str) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(named(name), uri)
    with pytest.raises((ValueError, OSError)):
        lance.dataset(uri).to_table()
    assert lo.dataset(uri).to_table() == named(name)
    assert not lo.fsck(uri).ok
    lo.alter_columns(uri, {"path": name, "name": "x"})
    assert lance.dataset(uri).to_table() == named("x")
