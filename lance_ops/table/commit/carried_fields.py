"""Carried fields: columns that our new files hold by field id, tracked through concurrent commits.

New files name their columns by field id. If another writer dropped a column, cast it, or gave its id to
another column since the read version, the same id has another meaning at the head, and the operation must be
planned again. A rename keeps the id, and the files stay valid.
"""

from dataclasses import dataclass, field

from lance_ops.file.schema.model import Schema
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.table.dataset import Dataset
from lance_ops.table.transaction.field_trace import FieldTrace, is_stored_alike
from lance_ops.table.transaction.operations import (
    Append,
    CreateIndex,
    DataReplacement,
    Merge,
    Operation,
    Project,
    Rewrite,
    Update,
    UpdateConfig,
)


@dataclass(slots=True)
class CarriedFields:
    """The fields that an operation depends on, and how concurrent commits changed them.

    Attributes:
        ids: Field ids of the read version that the operation uses.
        trace: Of the last version that was checked.
        dropped: Paths of the fields that others dropped and did not replace, by field id.
    """

    ids: frozenset[int]
    trace: FieldTrace
    dropped: dict[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, operation: Operation, base: Dataset | None) -> "CarriedFields":
        """Return the fields of an operation planned on a version; none if it creates the dataset."""
        if base is None:
            return cls(frozenset(), FieldTrace.begin(Schema(())))
        used = fields_used(operation).intersection(prepare_schema(base.lance_schema).ids)
        return cls(used, FieldTrace.begin(base.lance_schema, base.manifest.fragments))

    def judge(self, operation: Operation) -> str | None:
        """Track the fields through a commit of another writer.

        Returns:
            Reason why the operation conflicts with it; None if it does not.
        """
        if not self.ids or not isinstance(operation, Merge | Project):
            return None
        before = self.trace
        self.trace = before.follow(operation)
        if isinstance(operation, Merge) and self.dropped:
            path = next(iter(self.dropped.values()))
            return f"column {path!r} was dropped, and the schema has changed again since then"
        present = {node.id for node in operation.schema.walk()}
        lost = self.ids - self.trace.kept - self.dropped.keys()
        replaced = {number for number in lost if number in present or isinstance(operation, Merge)}
        if replaced:
            number = min(replaced)
            what = (
                "was replaced by another column or cast to another type"
                if number in present
                else "was replaced"
            )
            return f"column {before.schema.path(number)!r} (field {number}) {what}"
        # A plain drop removes the values of these rows too, as it would after our commit.
        self.dropped.update((number, before.schema.path(number)) for number in sorted(lost))
        return None

    def judge_head(self, schema: Schema) -> str | None:
        """Compare the fields with the schema of the head, independent of the transactions in between."""
        nodes = {node.id: node for node in schema.walk()}
        for node in self.trace.schema.walk():
            now = nodes.get(node.id)
            if node.id not in self.ids or node.id in self.dropped or now is node:
                continue
            if now is None or now.parent_id != node.parent_id or not is_stored_alike(now, node):
                column = f"column {self.trace.schema.path(node.id)!r} (field {node.id})"
                return f"{column} has changed since the read version"
        return None


def fields_used(operation: Operation) -> frozenset[int]:
    """Field ids that the new files, index segments or metadata of an operation refer to."""
    if isinstance(operation, CreateIndex):
        return frozenset(number for index in operation.new_indices for number in index.fields)
    if isinstance(operation, UpdateConfig):
        return frozenset(operation.field_metadata)
    if isinstance(operation, DataReplacement):
        return operation.fields
    fragments = operation.fragments if isinstance(operation, Append) else ()
    if isinstance(operation, Rewrite | Update):
        fragments = operation.new_fragments
    used = {number for fragment in fragments for file in fragment.files for number in file.fields}
    return frozenset(used.union(operation.fields_modified if isinstance(operation, Update) else ()))
