"""JSON schema of what `lance-ops ... --json` prints, made from the results: docs/cli-output.schema.json."""

import json
import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import lance_ops as lo
from lance_ops.answers.rows_file import RowsFile
from lance_ops.maintenance.metadata.result import MetadataResult
from lance_ops.maintenance.results import OperationResult
from lance_ops.table.dataset import Dataset as Snapshot

SCHEMA = Path(__file__).resolve().parents[1] / "docs" / "cli-output.schema.json"

_PLAIN: Mapping[Any, str] = {
    int: "integer",
    float: "number",
    str: "string",
    bool: "boolean",
    datetime: "string",
}
_RESULTS: Mapping[str, type] = {
    "append": lo.AppendResult,
    "replace": lo.AppendResult,
    "delete": lo.DeleteResult,
    "truncate": lo.DeleteResult,
    "update": lo.UpdateResult,
    "merge-insert": lo.MergeResult,
    "add-columns": lo.AddColumnsResult,
    "alter-column": lo.AlterColumnsResult,
    "replace-columns": lo.ReplaceColumnsResult,
    "drop-columns": MetadataResult,
    "restore": MetadataResult,
    "compact": lo.CompactResult,
    "index": lo.IndexResult,
    "cleanup": lo.CleanupResult,
    "fsck": lo.FsckResult,
    "migrate-paths": lo.MigratePathsResult,
    "migrate-store": lo.MigrateStoreResult,
    "export": lo.ExportResult,
    "diff": lo.DatasetDiff,
}
"""Commands whose output has the fields of a class."""

_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
_COUNT = {"type": "integer", "minimum": 0}
_ROWS = {"type": "array", "items": {"type": "object"}}
_VERSION = {"operation": _TEXT, "uri": _TEXT, "version": _COUNT}


def output_schema() -> dict[str, Any]:
    """Return the schema, with one definition for each command."""
    found = {name: _object({"operation": _TEXT, **_fields(kind)}) for name, kind in _RESULTS.items()}
    for name, more in (("diff", {"changes": _ROWS}), ("fsck", {"ok": _FLAG, "remedy": _TEXT})):
        found[name]["properties"] |= more
        found[name]["required"] += more
    column = _object(_fields(lo.ColumnDescription))
    verdict = _object({"due": _FLAG, "state": _TEXT, "reason": _TEXT})
    index = _fields(lo.IndexDescription) | {"coverage": {"type": "number"}}
    maintenance = {"type": "object", "additionalProperties": verdict}
    health = _fields(lo.DatasetHealth)
    found |= {
        "show": _object(
            {
                **_VERSION,
                "timestamp": _TEXT,
                "branch": {"type": ["string", "null"]},
                "storage_version": _TEXT,
                "stable_row_ids": _FLAG,
                "columns": {"type": "array", "items": column},
                "health": _some(health),
                "indices": {"type": "array", "items": _object(index)},
                "tags": {"type": "object", "additionalProperties": _COUNT},
                "maintenance": maintenance,
            }
        ),
        "schema": _object({**_VERSION, "columns": {"type": "array", "items": column}}),
        "head": _object({**_VERSION, "rows": _ROWS}),
        "count": _object({**_VERSION, "rows": _COUNT}),
        "query": _object({**_VERSION, "rows": _ROWS}),
        "query --output": _object({**_VERSION, **_fields(RowsFile)}),
        "query --explain": _object({**_VERSION, "plan": _TEXT}),
        "changes": _object(
            {**_VERSION, "counts": {"type": "object", "additionalProperties": _COUNT}, "rows": _ROWS}
        ),
        "sql": _object({"rows": _ROWS}),
        "sql --output": _object(_fields(RowsFile)),
        "history": _object({"operation": _TEXT, "uri": _TEXT, "versions": _ROWS}),
        "health": _some(
            {"operation": _TEXT, "uri": _TEXT, **health, "maintenance": maintenance, "forecast": _ROWS},
            required=["operation", "uri", "version", "rows", "maintenance", "forecast"],
        ),
        "indices": _object({**_VERSION, "indices": _ROWS}),
        "tag": {"type": "object", "description": "Versions by tag, or the new or deleted tag."},
        "branch": {
            "type": "object",
            "description": "Branches by name, or the new or deleted branch.",
        },
        "clone": _object(_VERSION),
        "maintain": _object(
            {"operation": _TEXT, **_fields(OperationResult), "complete": _FLAG, "outcomes": _ROWS}
        ),
        "--dry-run": {"type": "object", "description": "The plan; operation and uri are in each."},
        "error": _object(
            {
                **dict.fromkeys(("error", "code", "message"), _TEXT),
                **{name: {"type": ["string", "null"]} for name in ("path", "field", "hint")},
            }
        ),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Output of lance-ops with --json",
        "description": "One object a call on standard output, by command; an error is one object on standard "
        "error. Later releases may add properties.",
        "$defs": dict(sorted(found.items())),
    }


def text() -> str:
    """Return the content of the file."""
    return json.dumps(output_schema(), indent=2) + "\n"


def _fields(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    # The dataset of a result is not part of its output.
    return {item.name: _type(hints[item.name]) for item in fields(kind) if hints[item.name] is not Snapshot}


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return _some(properties, required=list(properties))


def _some(properties: Mapping[str, Any], required: Sequence[str] = ()) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "required": list(required)}


def _type(kind: Any) -> dict[str, Any]:
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        parts = [_type(part) for part in inner if part is not types.NoneType]
        if len(parts) == 1 and isinstance(parts[0].get("type"), str):
            return {**parts[0], "type": [parts[0]["type"], "null"]}
        return {}
    if origin in (tuple, list, Sequence):
        return {"type": "array", "items": _type(inner[0])}
    if is_dataclass(kind) and isinstance(kind, type):
        return _object(_fields(kind))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _TEXT
    return {"type": "object"} if origin is not None and issubclass(origin, Mapping) else {}


if __name__ == "__main__":
    SCHEMA.write_text(text(), encoding="utf-8")
