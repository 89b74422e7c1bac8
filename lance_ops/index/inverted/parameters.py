"""Build parameters of the index, besides those of the tokenizer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lance_ops.errors import InvalidArgumentError, UnsupportedError
from lance_ops.index.inverted.layout import COLUMNS, TRANSDUCER, SegmentLayout
from lance_ops.index.inverted.postings import LARGE_BLOCK, SMALL_BLOCK, PostingFormat
from lance_ops.index.inverted.tokenizers.documents import TEXT
from lance_ops.index.inverted.tokenizers.parameters import (
    CODE,
    JSON_MODE,
    ONE_DOCUMENT,
    TextParameters,
    text_parameters,
)
from lance_ops.pb import table_pb2
from lance_ops.table.manifest.index_metadata import IndexMetadata

_FORMAT = "format_version"
_MEMORY = "memory_limit"
_GRANULARITY = "document_granularity"
_VOCABULARY = "vocabulary"
_MEBIBYTE = 1 << 20
_DEFAULT_MEMORY = 512
_FORMATS = (0, 1, 2, 3)
_NEW_FORMAT = 3
"""The format of segments with blocks of 256 documents, or with words of code."""
_FORMAT_NAMES = {"1": 1, "v1": 1, "2": 2, "v2": 2, "3": 3, "v3": 3}
"""Names that pylance takes for a format."""


@dataclass(frozen=True, slots=True)
class BuildParameters:
    """Build parameters of a segment.

    Attributes:
        text: Tokenizer parameters.
        format_version: 2, which releases of pylance since 4 read; 3, which release 14 writes for blocks of
            256 documents and for code; or 1, which those since 0.30 read and which takes more bytes. 0 is 1
            without a list of removed fragments, which releases before 4 ignore: such a segment is rewritten
            if a compaction removes rows.
        memory_limit: Approximate memory of a task in MiB; a partition is written when it is full.
        vocabulary: Storage of tokens; "" for the default of the format. Pylance merges segments of one index
            only if they are equal.
    """

    text: TextParameters
    format_version: int = 2
    memory_limit: int = _DEFAULT_MEMORY
    vocabulary: str = ""

    @classmethod
    def of_user(cls, given: Mapping[str, Any], tokenizer: str = TEXT) -> "BuildParameters":
        """Parse the parameters of a user.

        Args:
            given: The parameters.
            tokenizer: The `lance_tokenizer` of the column type.

        Raises:
            InvalidArgumentError: A parameter is invalid.
            UnsupportedError: The format is not supported.
        """
        own = {name: given[name] for name in (_FORMAT, _MEMORY) if name in given}
        if isinstance(own.get(_FORMAT), str):
            own[_FORMAT] = _FORMAT_NAMES.get(own[_FORMAT].strip().lower(), own[_FORMAT])
        granularity = given.get(_GRANULARITY)
        if str(getattr(granularity, "value", granularity)).lower() not in ("none", "row"):
            raise UnsupportedError(
                f"a full-text index with {_GRANULARITY} {granularity!r} is not supported",
                field=_GRANULARITY,
                hint="leave it out: each row is a document; pylance can build the index",
            )
        if own.get(_FORMAT, 2) not in _FORMATS:
            raise InvalidArgumentError(f"no {_FORMAT} {own[_FORMAT]!r}", field=_FORMAT, hint="0, 1, 2 or 3")
        memory = own.get(_MEMORY, 1)
        if isinstance(memory, bool) or not isinstance(memory, int) or memory < 1:
            raise InvalidArgumentError(f"{_MEMORY} cannot be {memory!r}", field=_MEMORY, hint="MiB")
        own_names = {*own, _GRANULARITY}
        text = text_parameters(
            {name: value for name, value in given.items() if name not in own_names}, tokenizer
        )
        if text.block_size not in (SMALL_BLOCK, LARGE_BLOCK):
            raise InvalidArgumentError(
                f"block_size cannot be {text.block_size}", field="block_size", hint="128 or 256"
            )
        is_new = text.block_size == LARGE_BLOCK or text.base_tokenizer == CODE
        if is_new and own.setdefault(_FORMAT, _NEW_FORMAT) != _NEW_FORMAT:
            raise InvalidArgumentError(
                f"{_FORMAT} {own[_FORMAT]} has neither blocks of {LARGE_BLOCK} nor the tokenizer {CODE!r}",
                field=_FORMAT,
                hint=f"omit it, or use {_NEW_FORMAT}",
            )
        return cls(text, **own)

    @classmethod
    def of_layout(cls, layout: SegmentLayout) -> "BuildParameters":
        """Return the parameters of an existing segment, as far as they are supported."""
        least = 1 if layout.names_deleted else 0
        version = min(max(layout.format_version, 1), _FORMATS[-1])
        if layout.postings.block_size == LARGE_BLOCK:
            version = _NEW_FORMAT
        text = layout.parameters.with_block_size(layout.postings.block_size)
        return cls(text, least if version == 1 else version, vocabulary=layout.vocabulary)

    @classmethod
    def of_dict(cls, values: Mapping[str, Any]) -> "BuildParameters":
        """Return the reverse of `to_dict`."""
        own = {name: values[name] for name in (_FORMAT, _MEMORY, _VOCABULARY) if name in values}
        return cls(
            TextParameters.from_dict({name: value for name, value in values.items() if name not in own}),
            **own,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values by name."""
        own = {_FORMAT: self.format_version, _MEMORY: self.memory_limit, _VOCABULARY: self.words_as}
        return {**self.text.to_dict(), **own}

    @property
    def words_as(self) -> str:
        """Storage of tokens: `COLUMNS` or `TRANSDUCER`."""
        return self.vocabulary or (TRANSDUCER if self.format_version > 1 else COLUMNS)

    def layout(self, partitions: tuple[int, ...] = ()) -> SegmentLayout:
        """Return the layout of the segment."""
        return SegmentLayout(
            self.text,
            partitions,
            PostingFormat(self.text.block_size, self.format_version > 1),
            vocabulary=self.words_as,
            format_version=max(self.format_version, 1),
            names_deleted=self.format_version > 0,
        )

    @property
    def memory_bytes(self) -> int:
        """Memory limit of a task in bytes."""
        return self.memory_limit * _MEBIBYTE

    @property
    def index_version(self) -> int:
        """Minimum reader version: readers without the newer format support tokens as a column."""
        if self.format_version > 1:
            return self.format_version
        return 0 if self.words_as == COLUMNS else 1


def require_rows(segment: IndexMetadata) -> None:
    """Refuse segments whose documents are not rows but elements of lists or parts of JSON documents.

    Raises:
        UnsupportedError: It is one.
    """
    details = table_pb2.InvertedIndexDetails.FromString(segment.details)
    asked = {
        _GRANULARITY: details.document_granularity != table_pb2.InvertedIndexDetails.ROW,
        JSON_MODE: details.json_tokenizer_mode not in ("", ONE_DOCUMENT),
        "disable_cross_array_unnest": details.disable_cross_array_unnest,
    }
    for name, is_asked in asked.items():
        if is_asked:
            raise UnsupportedError(
                f"a full-text index with {name} {getattr(details, name)!r} is not supported",
                path=segment.directory,
                field=name,
                hint="pylance can search and refresh the index",
            )
