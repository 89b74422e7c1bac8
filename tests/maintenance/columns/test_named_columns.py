"""Expressions that are the name of a column mean it, also where SQL would read a constant, as in pylance."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_ops as lo

pytestmark = pytest.mark.peer

NAMES = ["0", "-1", "true", "null", "'s'", "a+1", "x y", "lower(a)", "A", "NULL", "True", "select", "other"]


def value(uri: str, library: object, how: str, text: str) -> list[object] | str:
    try:
        dataset = library.dataset(uri)
        if how == "scan":
            return dataset.to_table(columns={"o": text})["o"].to_pylist()
        if how == "add":
            changes = dataset if library is lance else lo
            arguments = () if library is lance else (uri,)
            changes.add_columns(*arguments, {"o": text})
            return lance.dataset(uri).to_table()["o"].to_pylist()
        changes = dataset if library is lance else lo
        arguments = () if library is lance else (uri,)
        changes.update(*arguments, {"a": text})
        return lance.dataset(uri).to_table()["a"].to_pylist()
    except (ValueError, OSError, lo.errors.LanceOpsError):
        return "refused"


@pytest.mark.parametrize("how", ["scan", "add", "update"])
@pytest.mark.parametrize("name", NAMES)
def test_a_text_that_names_a_column_means_it(tmp_path: Path, name: str, how: str) -> None:
    stored = {"A": "a", "NULL": "null", "True": "true", "other": "third"}.get(name, name)
    table = pa.table({"a": ["v"], "b": [7], **({} if stored == "a" else {stored: ["val"]})})
    found = []
    for library in (lo, lance):
        uri = str(tmp_path / library.__name__)
        lance.write_dataset(table, uri)
        found.append(value(uri, library, how, name))
    assert found[0] == found[1]


def test_a_filter_does_not_name_columns_so(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2], "true": [False, True], "a > 1": [True, False]})
    dataset = lance.write_dataset(table, tmp_path)
    for condition in ("true", "a > 1", "`true`", "`a > 1`"):
        expected = dataset.to_table(filter=condition)
        assert lo.dataset(str(tmp_path)).to_table(filter=condition).equals(expected)


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize(
    "columns",
    [
        {"n": "CAST(NULL AS INT)"},
        {"n": "cast( null as string)", "m": "CAST(NULL AS TIMESTAMP)"},
        {"n": "CAST(NULL AS INT)", "m": "id + 1"},
        {"n": "CAST(CAST(NULL AS INT) AS STRING)"},
        {"n": "nullif(1, 1)"},
        {"n": "id + CAST(NULL AS BIGINT)"},
    ],
)
def test_nulls_of_a_type_are_added_as_pylance_adds_them(
    tmp_path: Path, columns: dict[str, str], stable: bool
) -> None:
    found = []
    for name in ("ours", "theirs"):
        uri = str(tmp_path / name)
        dataset = lance.write_dataset(
            pa.table({"id": [1, 2, 3]}), uri, max_rows_per_file=2, enable_stable_row_ids=stable
        )
        if name == "ours":
            lo.add_columns(uri, columns)
        else:
            dataset.add_columns(columns)
        dataset = lance.dataset(uri)
        more = ["_row_last_updated_at_version"] if stable else []
        files = [len(fragment.data_files()) for fragment in dataset.get_fragments()]
        found.append((files, dataset.to_table([*dataset.schema.names, *more])))
    assert found[0] == found[1]
