"""Our operations as the peer's, so that both engines can be given the same commit."""

from lance import LanceOperation
from lance.dataset import Index
from lance.fragment import DataFile, DeletionFile, FragmentMetadata
from lance.schema import LanceSchema

from lance_ops.file.schema.model import Schema
from lance_ops.table.manifest.fragment import DeletionFileType, Fragment
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.transaction import operations as ops


def peer_fragment(fragment: Fragment) -> FragmentMetadata:
    deletion = fragment.deletion_file
    return FragmentMetadata(
        fragment.id,
        [
            DataFile(
                file.path,
                list(file.fields),
                list(file.column_indices),
                file.major,
                file.minor,
                file.size_bytes or None,
            )
            for file in fragment.files
        ],
        fragment.physical_rows,
        None
        if deletion is None
        else DeletionFile(
            deletion.read_version,
            deletion.id,
            "array" if deletion.file_type is DeletionFileType.ARROW_ARRAY else "bitmap",
            deletion.num_deleted_rows,
            deletion.base_id,
        ),
    )


def peer_index(index: IndexMetadata) -> Index:
    return Index(
        uuid=str(index.uuid),
        name=index.name,
        fields=list(index.fields),
        dataset_version=index.dataset_version,
        fragment_ids=set(index.fragment_ids or ()),
        index_version=index.index_version or 0,
        index_details=None if index.type_url is None else (index.type_url, index.details),
    )


def peer_schema(schema: Schema) -> LanceSchema:
    """The peer's schema; it numbers the fields from 0, so only such a schema keeps its ids."""
    assert [node.id for node in schema.walk()] == list(range(len(list(schema.walk()))))
    return LanceSchema.from_pyarrow(schema.to_arrow())


def peer_operation(operation: ops.Operation) -> LanceOperation.BaseOperation | None:
    """The same operation for the peer; None where its Python interface has none."""
    match operation:
        case ops.Append():
            return LanceOperation.Append([peer_fragment(f) for f in operation.fragments])
        case ops.Delete():
            return LanceOperation.Delete(
                [peer_fragment(f) for f in operation.updated_fragments],
                list(operation.deleted_fragment_ids),
                operation.predicate,
            )
        case ops.Update():
            return LanceOperation.Update(
                list(operation.removed_fragment_ids),
                [peer_fragment(f) for f in operation.updated_fragments],
                [peer_fragment(f) for f in operation.new_fragments],
                [],
                [],
            )
        case ops.Overwrite():
            return LanceOperation.Overwrite(
                operation.schema.to_arrow(), [peer_fragment(f) for f in operation.fragments]
            )
        case ops.CreateIndex():
            return LanceOperation.CreateIndex(
                [peer_index(index) for index in operation.new_indices],
                [peer_index(index) for index in operation.removed_indices],
            )
        case ops.Rewrite():
            return LanceOperation.Rewrite(
                [
                    LanceOperation.RewriteGroup(
                        [peer_fragment(f) for f in group.old_fragments],
                        [peer_fragment(f) for f in group.new_fragments],
                    )
                    for group in operation.groups
                ],
                [],
            )
        case ops.Merge():
            return LanceOperation.Merge(
                [peer_fragment(f) for f in operation.fragments],
                peer_schema(operation.schema),
                preserves_nullability=operation.preserves_nullability,
            )
        case ops.Project():
            return LanceOperation.Project(
                peer_schema(operation.schema), preserves_nullability=operation.preserves_nullability
            )
        case ops.DataReplacement():
            return LanceOperation.DataReplacement(
                [
                    LanceOperation.DataReplacementGroup(
                        number, peer_fragment(Fragment(0, (file,), 1)).files[0]
                    )
                    for number, file in operation.replacements
                ]
            )
        case ops.Restore():
            return LanceOperation.Restore(operation.version)
        case ops.UpdateConfig():
            return LanceOperation.UpdateConfig(
                _map(operation.config),
                _map(operation.table_metadata),
                _map(operation.schema_metadata),
                {key: _map(update) for key, update in operation.field_metadata.items()} or None,
            )
        case _:
            return None


def _map(update: ops.MapUpdate | None) -> LanceOperation.UpdateMap | None:
    return None if update is None else LanceOperation.UpdateMap(dict(update.entries), update.replace)
