"""Layout of a segment: names of its files, and the content of `metadata.lance`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
from pyroaring import BitMap

from lance_ops.errors import CorruptFileError, NotFoundError, UnsupportedError
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter
from lance_ops.index.inverted.postings import LARGE_BLOCK, SMALL_BLOCK, SMALL_FIXED, PostingFormat
from lance_ops.index.inverted.tokenizers.parameters import TextParameters
from lance_ops.storage import Store
from lance_ops.table.manifest.index_metadata import IndexFile

T = TypeVar("T")

METADATA = "metadata.lance"
_OLD_FILES, _FILES = "2.0", "2.2"
"""Storage versions of the files: pylance since 0.30 reads the first, readers of format 2 the other."""

_TAILS = {"fixed32_v1": False, "varint_delta_v1": True}
_STREAM = "shared_stream_v2"
_STREAM_CODECS = {"packed_delta_v1": True, "varint_doc_delta_v2": False}
COLUMNS, TRANSDUCER = "arrow", "fst"
"""Storage of tokens."""
_VOCABULARIES = (COLUMNS, TRANSDUCER)
DELETED_FRAGMENTS = "deleted_fragments"
_OLD_TOKENS = "tokens.lance"
_OLD_POSTINGS = "invert.lance"
_OLD_PARAMETERS = "tokenizer"


@dataclass(frozen=True, slots=True)
class SegmentLayout:
    """Layout of the files of a segment.

    Attributes:
        parameters: Tokenizer parameters.
        partitions: Numbers of the partitions.
        postings: Format of posting lists.
        packed_positions: True if streams of positions have packed groups.
        vocabulary: `COLUMNS` or `TRANSDUCER`.
        format_version: 1, 2 or 3, as pylance counts.
        deleted_fragments: Fragments whose rows are ignored although the files contain them.
        names_deleted: True if it records these, as since release 4 of pylance.
    """

    parameters: TextParameters
    partitions: tuple[int, ...]
    postings: PostingFormat = SMALL_FIXED
    packed_positions: bool = True
    vocabulary: str = COLUMNS
    format_version: int = 1
    deleted_fragments: frozenset[int] = frozenset()
    names_deleted: bool = True

    @classmethod
    def read(cls, store: Store, directory: str) -> "SegmentLayout":
        """Read `metadata.lance`.

        Raises:
            CorruptFileError: It is inconsistent.
            UnsupportedError: It has an unknown format.
        """
        path = f"{directory}/{METADATA}"
        reader = FileReader.open(store, path)
        said = _texts(reader)
        if "params" not in said or "partitions" not in said:
            raise CorruptFileError("index metadata lists no partitions", path=path, field="partitions")
        block_size = _number(said, "posting_block_size", path, SMALL_BLOCK)
        if block_size not in (SMALL_BLOCK, LARGE_BLOCK):
            raise UnsupportedError(
                f"blocks of {block_size} documents are not known here", path=path, field="posting_block_size"
            )
        return cls(
            TextParameters.from_json(said["params"], path),
            _partitions(said["partitions"], path),
            PostingFormat(block_size, _choice(said, "posting_tail_codec", "fixed32_v1", _TAILS, path)),
            _choice(said, "positions_codec", "packed_delta_v1", _STREAM_CODECS, path),
            _choice(said, "token_set_format", "arrow", {name: name for name in _VOCABULARIES}, path),
            _number(said, "format_version", path, 1),
            _deleted_fragments(reader),
            DELETED_FRAGMENTS in reader.schema.names,
        )

    def metadata(self) -> Mapping[str, str]:
        """Return the metadata of `metadata.lance`."""
        return {
            "params": self.parameters.to_json(),
            "partitions": json.dumps(list(self.partitions), separators=(",", ":")),
            "token_set_format": self.vocabulary,
            **self.posting_metadata(),
        }

    def posting_metadata(self) -> Mapping[str, str]:
        """Return the metadata of each `part_N_invert.lance`."""
        tails = {varint: name for name, varint in _TAILS.items()}
        said = {
            "format_version": str(self.format_version),
            "posting_block_size": str(self.postings.block_size),
            "posting_tail_codec": tails[self.postings.varint_tail],
        }
        if self.streams_positions:
            codecs = {packed: name for name, packed in _STREAM_CODECS.items()}
            said |= {"positions_layout": _STREAM, "positions_codec": codecs[self.packed_positions]}
        return said

    @property
    def file_version(self) -> str:
        """Storage version of files that are written."""
        return _FILES if self.format_version > 1 else _OLD_FILES

    @property
    def has_impacts(self) -> bool:
        """Return whether posting lists are written with what their blocks score at most."""
        return self.format_version > 2

    @property
    def streams_positions(self) -> bool:
        """Return whether there are positions, in the newer layout."""
        return self.parameters.with_position and self.format_version > 1

    def write(self, store: Store, directory: str) -> IndexFile:
        """Write `metadata.lance`."""
        field = pa.field(DELETED_FRAGMENTS, pa.binary(), nullable=False)
        schema = pa.schema([field] if self.names_deleted else [])
        path = f"{directory}/{METADATA}"
        with FileWriter(store, path, Schema.from_arrow(schema), version=self.file_version) as writer:
            if self.names_deleted:
                writer.write(pa.table([[BitMap(self.deleted_fragments).serialize()]], schema=schema))
            writer.add_schema_metadata({key: value.encode() for key, value in self.metadata().items()})
            return IndexFile(METADATA, writer.finish().size_bytes)


def read_text_parameters(store: Store, directory: str) -> TextParameters:
    """Read the tokenizer parameters of a segment, also of releases up to 0.25, which are not read otherwise.

    Raises:
        NotFoundError: No file has them.
        CorruptFileError: They are invalid.
        UnsupportedError: They are not supported.
    """
    try:
        return SegmentLayout.read(store, directory).parameters
    except NotFoundError:
        reader = FileReader.open(store, f"{directory}/{_OLD_TOKENS}")
        said = _texts(reader)
        if _OLD_PARAMETERS not in said:
            raise
        return TextParameters.from_json(said[_OLD_PARAMETERS], reader.path)


def is_without_partitions(store: Store, directory: str) -> bool:
    """Return whether a segment has the files of pylance 0.27 and older, which knew no partitions."""
    return store.exists(f"{directory}/{_OLD_POSTINGS}")


def tokens_file(partition: int) -> str:
    """Return the name of the file with the words of a partition."""
    return f"part_{partition}_tokens.lance"


def postings_file(partition: int) -> str:
    """Return the name of the file with the posting lists of a partition."""
    return f"part_{partition}_invert.lance"


def documents_file(partition: int) -> str:
    """Return the name of the file with the documents of a partition."""
    return f"part_{partition}_docs.lance"


def _texts(reader: FileReader) -> Mapping[str, str]:
    try:
        return {key: value.decode() for key, value in reader.schema.metadata.items()}
    except UnicodeDecodeError as error:
        raise CorruptFileError(f"metadata are not valid UTF-8: {error}", path=reader.path) from error


def _partitions(text: str, path: str) -> tuple[int, ...]:
    try:
        numbers = json.loads(text)
    except ValueError:
        numbers = None
    known = isinstance(numbers, list) and all(type(number) is int and number >= 0 for number in numbers)
    if not known or len(set(numbers)) != len(numbers):
        raise CorruptFileError("its partitions cannot be read", path=path, field="partitions")
    return tuple(numbers)


def _number(said: Mapping[str, str], name: str, path: str, default: int) -> int:
    try:
        return int(said.get(name, default))
    except ValueError:
        raise CorruptFileError(
            f"metadata {name} is not a number: {said[name]!r}", path=path, field=name
        ) from None


def _choice(said: Mapping[str, str], name: str, default: str, known: Mapping[str, T], path: str) -> T:
    chosen = said.get(name, default)
    if chosen not in known:
        raise UnsupportedError(f"{name} {chosen!r} is not known here", path=path, field=name)
    return known[chosen]


def _deleted_fragments(reader: FileReader) -> frozenset[int]:
    rows = reader.read_table()
    if not rows.num_rows or DELETED_FRAGMENTS not in rows.column_names:
        return frozenset()
    data = rows[DELETED_FRAGMENTS][0].as_py()
    try:
        return frozenset(BitMap.deserialize(data) if data else ())
    except ValueError as error:
        raise CorruptFileError(
            f"a bitmap cannot be read: {error}", path=reader.path, field=DELETED_FRAGMENTS
        ) from error
