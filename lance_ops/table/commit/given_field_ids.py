"""Given field ids: the highest one so far, for a commit after which other field ids are in use."""

from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.storage import Store
from lance_ops.table.manifest.field_ids import highest_given
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.transaction.operations import Merge, Operation, Overwrite, Project


def highest_field_id(
    store: Store, operation: Operation, head: Manifest, restored: Manifest | None
) -> int | None:
    """The highest field id that was ever given out; None where an operation leaves all field ids in use.

    Args:
        store: Root of the dataset.
        operation: What is to be committed.
        head: On top of which version.
        restored: The version that a Restore goes back to.
    """
    schema = operation.schema if isinstance(operation, Merge | Overwrite | Project) else None
    schema = schema if restored is None else restored.schema
    if schema is None or set(prepare_schema(schema).ids) == set(prepare_schema(head.schema).ids):
        return None
    return highest_given(store, head)
