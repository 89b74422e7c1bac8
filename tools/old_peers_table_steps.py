"""What is done to whole tables by an old pylance: the half of the exchange of tables that runs under it.

Needs nothing but pylance, and avoids what the oldest one does not know. A release that lacks something fails
with the error of the missing name, which the document then quotes.
"""

from inspect import signature
from typing import Any

import lance
import pyarrow as pa

PARAMETERS = signature(lance.write_dataset).parameters
STABLE_ROW_IDS = ("enable_stable_row_ids", "enable_move_stable_row_ids")
MAIN = "main"


def read_values(path: str) -> pa.Table:
    """A table from an Arrow stream."""
    with pa.ipc.open_stream(path) as stream:
        return stream.read_all()


def keep_values(table: pa.Table, path: str) -> None:
    """A table as an Arrow stream."""
    with pa.ipc.new_stream(path, table.schema) as stream:
        stream.write_table(table)


def open_line(path: str, line: str) -> "lance.LanceDataset":
    """The newest version of main or of a branch."""
    dataset = lance.dataset(path)
    if line == MAIN:
        return dataset
    # The one version of a branch that every release finds, some of them by its number only.
    first = dataset.branches.list()[line]["parent_version"]
    return dataset.checkout_version((line, dataset.checkout_version((line, first)).latest_version))


def act_on_table(job: dict[str, Any]) -> None:
    """Do one operation."""
    path, step, line = job["path"], job["step"], job["step"].get("line", MAIN)
    name = step["do"]
    if name == "create":
        create(path, read_values(job["values"]), step)
        return
    dataset = open_line(path, line)
    if name == "append":
        version = step.get("version")
        options = {} if version is None else {"data_storage_version": version}
        target = path if line == MAIN else dataset
        lance.write_dataset(read_values(job["values"]), target, mode="append", **options)
        if version is not None and version not in versions_of(open_line(path, line)):
            lance.dataset(path, version=dataset.version).restore()
            raise ValueError(f"a file of version {version} in a table of 2.0 is of 2.0")
    elif name == "add column":
        dataset.add_columns({step["column"]: step["expression"]})
    elif name == "delete":
        dataset.delete(step["where"])
    elif name == "update":
        dataset.update(step["set"], where=step["where"])
    elif name == "compact":
        dataset.optimize.compact_files()
    elif name == "tag":
        dataset.tags.create(step["name"], dataset.version)
    elif name == "branch":
        dataset.create_branch(step["name"])
    else:
        raise NotImplementedError(name)


def create(path: str, rows: pa.Table, step: "dict[str, Any]") -> None:
    """Write a table of several fragments, of copies, because early releases lose the nulls of slices."""
    options: dict[str, Any] = {"data_storage_version": "2.0"}
    if step["stable"]:
        known = [option for option in STABLE_ROW_IDS if option in PARAMETERS]
        if not known:
            raise NotImplementedError("there are no stable row ids")
        options[known[0]] = True
    size = step["rows_per_file"]
    for start in range(0, rows.num_rows, size):
        part = rows.take(list(range(start, min(start + size, rows.num_rows))))
        lance.write_dataset(part, path, mode="append" if start else "create", **options)


def versions_of(dataset: "lance.LanceDataset") -> set[str]:
    """Storage versions of the data files, as far as the release shows them."""
    files = [file for fragment in dataset.get_fragments() for file in fragment.data_files()]
    return {
        f"{file.file_major_version}.{file.file_minor_version}"
        for file in files
        if hasattr(file, "file_minor_version")
    }


def read_lines(job: dict[str, Any]) -> None:
    """Read what each name of `names` means: all rows, and those that a filter keeps."""
    for name, target in job["names"].items():
        if target["kind"] == "line":
            if name != MAIN and not hasattr(lance.LanceDataset, "branches"):
                continue
            dataset = open_line(job["path"], name)
        else:
            dataset = lance.dataset(job["path"], version=name)
        options = {"with_row_id": True} if job["row_ids"] else {}
        rows = dataset.to_table(**options)
        if dataset.count_rows() != rows.num_rows:
            raise ValueError(f"{dataset.count_rows()} rows are counted of {rows.num_rows}")
        keep_values(rows, target["found"])
        keep_values(dataset.to_table(filter=job["filter"]), target["filtered"])
