"""MINHASHLSH as an index kind: existing segments are maintained, building is left to pylance."""

from collections.abc import Iterator
from typing import NoReturn

from lance_ops.errors import CorruptFileError, InvalidArgumentError
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Field
from lance_ops.index.column_query import ColumnQuery
from lance_ops.index.kind import BuildTask, BuiltSegment, IndexKind, Match, SegmentBuild, SegmentMove, Share
from lance_ops.index.reading import check_addresses, reading
from lance_ops.index.row_id_files import move_row_ids, read_row_ids
from lance_ops.table.manifest.index_metadata import IndexFile, IndexMetadata
from lance_ops.table.manifest.row_set import Addresses
from lance_ops.table.snapshot import Snapshot

SIGNATURES = "signatures.lance"
"""A row for each text: its row id and its signature."""
BANDS = "bands.lance"
"""File of strings that share a band of their signatures, by position in the other file."""

_DOCUMENTS = "minhash_lsh_num_docs"


class MinHashLshKind(IndexKind):
    """MINHASHLSH in the layout of version 0, which holds row ids where a table has stable ones."""

    name = "MINHASHLSH"
    type_url = "/lance.index.pb.MinHashLshIndexDetails"
    names_every_row = False
    keeps_gone_rows = True
    can_build = False

    def check_field(self, field: Field) -> None:
        """See `IndexKind.check_field`."""
        self._refuse(field.name)

    def build_share(self, task: BuildTask, path: str) -> Share:
        """See `can_build`."""
        del path
        self._refuse(task.column)

    def merge(self, build: SegmentBuild) -> BuiltSegment:
        """See `can_build`."""
        self._refuse(build.column)

    def remap(self, move: SegmentMove) -> BuiltSegment:
        """See `IndexKind.remap`."""
        files = move.segment.files or (IndexFile(SIGNATURES, 0), IndexFile(BANDS, 0))
        return BuiltSegment(move_row_ids(move, files), move.segment.details)

    def addresses(self, dataset: Snapshot, segment: IndexMetadata) -> Iterator[Addresses]:
        """See `IndexKind.addresses`."""
        with reading(segment):
            store, directory = dataset.bases.index_directory(segment)
            yield from read_row_ids(FileReader.open(store, f"{directory}/{SIGNATURES}"))

    def search(self, dataset: Snapshot, segment: IndexMetadata, query: ColumnQuery) -> Match | None:
        """See `IndexKind.search`: it answers no filter."""
        del dataset, segment, query
        return None

    def verify(self, dataset: Snapshot, segment: IndexMetadata, *, deep: bool) -> None:
        """See `IndexKind.verify`."""
        with reading(segment):
            store, directory = dataset.bases.index_directory(segment)
            signatures = FileReader.open(store, f"{directory}/{SIGNATURES}")
            bands = FileReader.open(store, f"{directory}/{BANDS}")
            stated = int(bands.schema.metadata.get(_DOCUMENTS, b"-1"))
            if stated != signatures.num_rows:
                raise CorruptFileError(
                    f"number of signatures does not match (expected {stated:,}, got {signatures.num_rows:,})",
                    path=bands.path,
                    field=_DOCUMENTS,
                )
            for addresses in read_row_ids(signatures):
                if not dataset.manifest.uses_stable_row_ids:
                    check_addresses(dataset.manifest, addresses, signatures.path)
                if not deep:
                    break

    def _refuse(self, column: str) -> NoReturn:
        raise InvalidArgumentError(
            f"lance_ops keeps indices of kind {self.name}, and builds none",
            field="kind",
            hint=f"build the index on {column!r} with pylance",
        )
