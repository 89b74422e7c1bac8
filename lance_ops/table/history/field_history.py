"""Field history: origin of the columns of a newer version in an older one."""

from collections.abc import Callable, Mapping

from lance_ops.errors import LanceOpsError
from lance_ops.file.schema.model import Field, Schema
from lance_ops.table.snapshot import Snapshot
from lance_ops.table.transaction.field_trace import FieldTrace, is_stored_alike, keeps_files
from lance_ops.table.transaction.operations import ForeignOperation, Operation, Restore


def find_origins(old: Snapshot, new: Snapshot, operation_of: Callable[[int], Operation]) -> Mapping[int, int]:
    """Map each field of the newer version to its origin in the older one.

    A renamed column keeps its origin, and so does one whose type changed. A column that was dropped has no
    successor, also where another column got its field id or its name. Transactions are read only if the
    schemas and data files of the two versions are ambiguous.

    Args:
        old: The older version.
        new: The newer one, of the same branch.
        operation_of: Returns the operation of a version between them.

    Returns:
        Field ids of the older version by those of the newer one. If a version in between was removed, fields
        are matched by id and path, and by data files that both versions share.
    """
    if old.lance_schema.fields == new.lance_schema.fields and (
        old.version == new.version or _share_a_fragment(old, new)
    ):
        return {node.id: node.id for node in new.lance_schema.walk()}
    traces = {old.version: FieldTrace.begin(old.lance_schema, old.manifest.fragments)}
    for version in range(old.version + 1, new.version + 1):
        try:
            operation = operation_of(version)
        except LanceOpsError:
            return _match_schemas(old, new)
        trace: FieldTrace | None = traces[version - 1].follow(operation)
        if isinstance(operation, Restore):
            trace = traces.get(operation.version)
        if trace is None or (isinstance(operation, ForeignOperation) and not operation.is_understood):
            return _match_schemas(old, new)
        traces[version] = trace
    return traces[new.version].origins


def _share_a_fragment(old: Snapshot, new: Snapshot) -> bool:
    """Return whether a fragment has the same data files in both versions, with all columns in them."""
    wanted = {node.id for node in new.lance_schema.walk() if not node.children}
    return any(
        (before := old.manifest.fragment(fragment.id)) is not None
        and before.files == fragment.files
        and wanted <= {number for file in fragment.files for number in file.fields}
        for fragment in new.manifest.fragments
    )


def _match_schemas(old: Snapshot, new: Snapshot) -> Mapping[int, int]:
    before, after = _by_path(old.lance_schema), _by_path(new.lance_schema)
    paths = {node.id: path for path, node in before.items()}
    found: dict[int, int] = {}
    for path, node in after.items():
        same = before.get(path)
        if same is not None and same.id == node.id and is_stored_alike(same, node):
            found[node.id] = same.id
        elif (
            node.id in paths
            and is_stored_alike(before[paths[node.id]], node)
            and keeps_files(node, old.manifest.fragments, new.manifest.fragments)
        ):
            found[node.id] = node.id
    return found


def _by_path(schema: Schema) -> dict[tuple[str, ...], Field]:
    found: dict[tuple[str, ...], Field] = {}

    def add(node: Field, above: tuple[str, ...]) -> None:
        path = (*above, node.name)
        found[path] = node
        for child in node.children:
            add(child, path)

    for top in schema.fields:
        add(top, ())
    return found
