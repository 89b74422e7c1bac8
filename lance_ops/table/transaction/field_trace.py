"""Field trace: fields of one version that are unchanged in a later one.

A field id alone does not identify a column over time. Older writers, and pylance, give the id of a dropped
column to a new one once no data file has it any more, and a column whose type changes gets a new id. The
operations between two versions contain their result schemas, which distinguish a drop, a cast and a rename.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lance_ops.file.schema.blob_fields import BLOB_KEY
from lance_ops.file.schema.logical_types import EXTENSION_NAME_KEY
from lance_ops.file.schema.model import Field, Schema
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.transaction.operations import Merge, Operation, Overwrite, Project

_STORED_AS = (EXTENSION_NAME_KEY, BLOB_KEY)


@dataclass(frozen=True, slots=True)
class FieldTrace:
    """Origins of the fields of a version.

    Attributes:
        schema: Schema of the version.
        origins: For a field id of the version, the field id in the first version that had its values. It is
            another id where a cast or an overwrite replaced the column. Fields added later are missing.
        kept: Ids that meant the same field, with the same type, in every version since the first.
        fragments: Fragments of the first version.
    """

    schema: Schema
    origins: Mapping[int, int]
    kept: frozenset[int]
    fragments: Sequence[Fragment] = field(default=(), repr=False)

    @classmethod
    def begin(cls, schema: Schema, fragments: Sequence[Fragment] = ()) -> "FieldTrace":
        """Create the trace of the first version.

        Args:
            schema: Of the version.
            fragments: Of the version; they prove that a Merge renamed a column and did not replace it.
        """
        ids = [node.id for node in schema.walk()]
        return cls(schema, {number: number for number in ids}, frozenset(ids), fragments)

    def follow(self, operation: Operation) -> "FieldTrace":
        """Return the trace after an operation; the same trace if the operation does not change the schema."""
        if not isinstance(operation, Merge | Overwrite | Project):
            return self
        pairs = list(self._pair(operation.schema.fields, self.schema.fields, operation))
        origins = {new.id: self.origins[old.id] for new, old in pairs if old.id in self.origins}
        if isinstance(operation, Overwrite):
            return FieldTrace(operation.schema, origins, frozenset())
        same = {new.id for new, old in pairs if new.id == old.id and is_stored_alike(new, old)}
        return FieldTrace(operation.schema, origins, self.kept & same, self.fragments)

    def _pair(
        self, new: Iterable[Field], old: Sequence[Field], operation: Merge | Overwrite | Project
    ) -> Iterator[tuple[Field, Field]]:
        """Pair fields of the next version with those that they were before, parents first."""
        new = tuple(new)
        by_id = {} if isinstance(operation, Overwrite) else {node.id: node for node in old}
        matched = {
            node.id: by_id[node.id]
            for node in new
            if node.id in by_id and self._stays(node, by_id[node.id], operation)
        }
        # A Project adds no values: omitted fields are dropped, and not replaced.
        by_place = isinstance(operation, Merge)
        replaced = {} if isinstance(operation, Project) else _replaced(new, old, matched, by_place=by_place)
        for node in new:
            before = matched.get(node.id) or replaced.get(node.id)
            if before is not None:
                yield node, before
                yield from self._pair(node.children, before.children, operation)

    def _stays(self, new: Field, old: Field, operation: Merge | Overwrite | Project) -> bool:
        if not is_stored_alike(new, old):
            return False
        if new.name == old.name or isinstance(operation, Project):
            return True
        return isinstance(operation, Merge) and keeps_files(new, self.fragments, operation.fragments)


def is_stored_alike(one: Field, other: Field) -> bool:
    """Return whether two fields have the same type, apart from their children, names and nullability."""
    return one.logical_type == other.logical_type and all(
        _option(one, key) == _option(other, key) for key in _STORED_AS
    )


def _option(node: Field, key: str) -> bytes:
    default = node.extension_name.encode() if key == EXTENSION_NAME_KEY else b""
    return node.metadata.get(key, default)


def _replaced(
    new: Sequence[Field], old: Sequence[Field], matched: Mapping[int, Field], *, by_place: bool
) -> Mapping[int, Field]:
    """Return fields that replaced others under a new id: at the same position, or else of the same name.

    A cast and a rename in one step, also of two columns that take each other's names, keep the position.
    """
    taken = {node.id for node in matched.values()}
    by_name = {node.name: node for node in old if node.id not in taken}
    in_place = by_place and len(new) == len(old)
    found: dict[int, Field] = {}
    for position, node in enumerate(new):
        if node.id in matched:
            continue
        before = by_name.get(node.name)
        if in_place and old[position].id not in taken:
            before = old[position]
        if before is not None:
            found[node.id] = before
    return found


def keeps_files(node: Field, before: Sequence[Fragment], after: Sequence[Fragment]) -> bool:
    """Return whether shared fragments of both versions have a field in the same files."""
    present = {fragment.id: fragment for fragment in after}
    found = [
        (_paths(fragment, node), _paths(present[fragment.id], node))
        for fragment in before
        if fragment.id in present
    ]
    return any(old for old, _ in found) and all(old == new for old, new in found)


def _paths(fragment: Fragment, node: Field) -> frozenset[str]:
    ids = {item.id for item in node.walk()}
    return frozenset(file.path for file in fragment.files if not ids.isdisjoint(file.fields))
