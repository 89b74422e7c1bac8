"""Column writer plans: properties of the columns of a schema, computed once.

Tables are appended to repeatedly, and wide ones have thousands of columns.
"""

from dataclasses import dataclass

import pyarrow as pa

from lance_ops.cache import IdentityCache
from lance_ops.file.schema.blob_fields import DESCRIPTOR, is_blob_v2, is_old_blob
from lance_ops.file.schema.json_values import has_json
from lance_ops.file.schema.model import Schema
from lance_ops.file.schema.packing import is_packed
from lance_ops.file.v2_1.encode_page import LeafColumn
from lance_ops.file.v2_1.leaves import LeafPath, leaf_paths
from lance_ops.file.v2_1.options import FieldOptions
from lance_ops.file.v2_1.peer_workarounds import always_nullable_layers
from lance_ops.file.v2_1.told_columns import told_type

# A plan of a column takes about half a kilobyte.
_KEPT = 8


@dataclass(frozen=True, slots=True)
class LeafPlan:
    """Properties of a column in all files of a schema.

    Attributes:
        path: The leaf and its parent fields.
        straight: See `LeafPath.straight`.
        column: Its physical column.
        leaf: Type of the column.
        always_nullable: See `always_nullable_layers`.
        has_json: True if values are converted to JSONB.
        has_blobs: True if values are stored outside of the pages.
        is_old_blob: True if they do so in the same file.
        is_packed: True if the column holds a packed struct.
    """

    path: LeafPath
    straight: tuple[int, ...]
    column: int
    leaf: LeafColumn
    always_nullable: tuple[bool, ...]
    has_json: bool
    has_blobs: bool
    is_old_blob: bool
    is_packed: bool


@dataclass(frozen=True, slots=True)
class ToldGroup:
    """Top-level columns of one type whose constant value fits into the page description.

    Attributes:
        data_type: Of the values.
        width: Bytes of a value.
        tops: Numbers of the top-level fields.
        columns: Their physical columns.
        required: True if each of them must not be null.
    """

    data_type: pa.DataType
    width: int
    tops: tuple[int, ...]
    columns: tuple[int, ...]
    required: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class FilePlan:
    """The columns of a file.

    Attributes:
        tops: The leaves of each top-level field, in the order of their columns.
        told: Top-level fields that can be constant, by type; each has one leaf.
        untold: Numbers of the other top-level fields.
    """

    tops: tuple[tuple[LeafPlan, ...], ...]
    told: tuple[ToldGroup, ...]
    untold: tuple[int, ...]


def plan_file(schema: Schema, version: str) -> FilePlan:
    """Plan the columns of a file.

    Args:
        schema: Of the file.
        version: "2.1", "2.2" or "2.3".
    """
    return _plans[version](schema)


def _plan(schema: Schema, version: str) -> FilePlan:
    tops: list[tuple[LeafPlan, ...]] = []
    told: dict[pa.DataType, list[int]] = {}
    column = 0
    for number, top in enumerate(schema.fields):
        leaves = []
        for path in leaf_paths(top):
            leaves.append(_plan_leaf(path, column, version))
            column += 1
        tops.append(tuple(leaves))
        kind = told_type(top.logical_type) if _is_plain(leaves) else None
        if kind is not None:
            told.setdefault(kind[0], []).append(number)
    groups = []
    for data_type, numbers in told.items():
        columns = tuple([tops[number][0].column for number in numbers])
        required = tuple([not schema.fields[number].nullable for number in numbers])
        groups.append(ToldGroup(data_type, data_type.bit_width // 8, tuple(numbers), columns, required))
    found = {number for numbers in told.values() for number in numbers}
    untold = tuple([number for number in range(len(tops)) if number not in found])
    return FilePlan(tuple(tops), tuple(groups), untold)


def _plan_leaf(path: LeafPath, column: int, version: str) -> LeafPlan:
    field = path.leaf
    options = FieldOptions.of_field(field, path.fields[0])
    data_type = DESCRIPTOR if is_blob_v2(field) else field.file_type
    return LeafPlan(
        path,
        path.straight,
        column,
        LeafColumn(path.name, data_type, options, version, path.dimensions),
        always_nullable_layers(path.fields),
        has_json(field),
        is_blob_v2(field) or is_old_blob(field),
        is_old_blob(field),
        is_packed(field),
    )


def _is_plain(leaves: list[LeafPlan]) -> bool:
    # Before 2.2, only nulls can be constant; pages of 2.3 have other descriptions.
    if len(leaves) != 1 or leaves[0].leaf.version != "2.2":
        return False
    plan = leaves[0]
    return not plan.path.steps and not plan.has_blobs and plan.leaf.options.structure is None


def _cache(version: str) -> IdentityCache[[Schema], FilePlan]:
    return IdentityCache("file plans", lambda schema: _plan(schema, version), _KEPT)


_plans = {version: _cache(version) for version in ("2.1", "2.2", "2.3")}
