"""The dataset as it would be if a column of documents held the values at one path of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.encoding.values.jsonb import decode_jsonb
from lance_ops.encoding.values.jsonb_members import members_of
from lance_ops.errors import InvalidArgumentError, PredicateError
from lance_ops.file.schema.field_path import parse_field_path
from lance_ops.file.schema.json_values import stored_documents
from lance_ops.file.schema.logical_types import encode_logical_type
from lance_ops.file.schema.model import Field, Schema
from lance_ops.filter.functions.json import type_at, values_at
from lance_ops.filter.functions.json_path import member_names
from lance_ops.table.dataset import Dataset, snapshot_of
from lance_ops.table.snapshot import Snapshot

VALUE_TYPES = {"boolean": pa.bool_(), "int64": pa.int64(), "float64": pa.float64(), "utf8": pa.string()}
"""Types of the values at a path, by the names that pylance gives them."""
_LOOKED_AT = 64


@dataclass(frozen=True, slots=True)
class Extraction:
    """Extraction of values from documents.

    Attributes:
        column: Path of the column.
        path: Path within each document.
        type_name: A key of `VALUE_TYPES`.
    """

    column: str
    path: str
    type_name: str

    @property
    def type(self) -> pa.DataType:
        """Arrow type of the values."""
        return VALUE_TYPES[self.type_name]

    def field(self, documents: Field) -> Field:
        """Return the field of the values in place of that of the documents."""
        return replace(
            documents, logical_type=encode_logical_type(self.type), metadata={}, extension_name="", source=b""
        )

    def values(self, documents: pa.Array) -> pa.Array:
        """Return the values of some documents.

        Raises:
            InvalidArgumentError: A value is of another type.
        """
        try:
            found = self._stored_values(documents)
            return values_at(_texts(documents), self.path, self.type) if found is None else found
        except PredicateError as error:
            raise _refused(self.column, error) from error

    def _stored_values(self, documents: pa.Array) -> pa.Array | None:
        """Return the same of documents as files hold them; None where they have to be read as text."""
        names = member_names(self.path)
        if not names or not _is_stored(documents):
            return None
        values, others = members_of(documents, names, self.type)
        if not others.any():
            return values
        rest = values_at(decode_jsonb(documents.filter(pa.array(others))), self.path, self.type)
        return pc.replace_with_mask(values, pa.array(others), rest)


class ExtractedDataset(Dataset):
    """A dataset with extracted values in a column. Only what index kinds need of it is of these values.

    Args:
        documents: The dataset with the documents.
        extraction: Which values.
        schema: Result of `extracted_schema` for them, where that is known; it is the same for each question.

    Attributes:
        extraction: The same.
    """

    def __init__(self, documents: Snapshot, extraction: Extraction, schema: Schema | None = None) -> None:
        documents = snapshot_of(documents) or documents
        # Everything else is that of the documents, what they have read already included.
        self.__dict__.update(documents.__dict__)
        self._documents = documents
        self.extraction = extraction
        self._schema = extracted_schema(documents.lance_schema, extraction) if schema is None else schema

    def __reduce__(self) -> tuple[object, ...]:
        return (ExtractedDataset, (self._documents, self.extraction))

    @property
    def origin(self) -> Snapshot:
        """See `Snapshot.origin`: the dataset with the documents."""
        return self._documents.origin

    @property
    def lance_schema(self) -> Schema:
        """See `Snapshot.lance_schema`: with a field of the values."""
        return self._schema

    def to_batches(self, *arguments: Any, **options: Any) -> pa.RecordBatchReader:
        """Yield batches with the column of the values first; see `Dataset.to_batches`."""
        assert isinstance(self._documents, Dataset)
        batches = _as_stored(self._documents).to_batches(*arguments, **options)
        schema = batches.schema.set(0, pa.field(batches.schema.names[0], self.extraction.type))

        def extracted() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                values = self.extraction.values(batch.column(0))
                yield pa.record_batch([values, *batch.columns[1:]], schema=schema)

        return pa.RecordBatchReader.from_batches(schema, extracted())


def extracted_schema(documents: Schema, extraction: Extraction) -> Schema:
    """Return a schema with a field of the values in place of that of the documents."""
    names = parse_field_path(extraction.column)
    return Schema(tuple(_with(field, names, extraction) for field in documents.fields), documents.metadata)


def first_type(dataset: Dataset, column: str, path: str, fragment_ids: Sequence[int]) -> str:
    """Return the name of the type of the first value at a path; "utf8" if there is none.

    Raises:
        InvalidArgumentError: It is an object or an array.
    """
    for batch in _as_stored(dataset).to_batches(columns=[column], fragments=fragment_ids):
        # The first few values are usually enough.
        for start in range(0, batch.num_rows, _LOOKED_AT):
            try:
                found = type_at(_texts(batch.column(0).slice(start, _LOOKED_AT)), path)
            except PredicateError as error:
                raise _refused(column, error) from error
            if found is not None:
                return next(name for name, known in VALUE_TYPES.items() if known == found)
    return "utf8"


def _refused(column: str, error: PredicateError) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"the documents of column {column!r} cannot be indexed: {error.message}",
        field="parameters",
        hint="choose another path, or another target_data_type",
    )


def _texts(documents: pa.Array) -> pa.Array:
    if _is_stored(documents):
        return decode_jsonb(documents)
    return documents.storage if isinstance(documents, pa.ExtensionArray) else documents


def _is_stored(documents: pa.Array) -> bool:
    return bool(pa.types.is_large_binary(documents.type))


def _as_stored(documents: Dataset) -> Dataset:
    """Return the dataset with documents as files hold them."""
    stored = documents.counted_manifest.replace(schema=stored_documents(documents.lance_schema))
    return Dataset(
        documents.store, documents.location, stored, storage_options=documents.storage_options, pruners=()
    )


def _with(field: Field, names: Sequence[str], extraction: Extraction) -> Field:
    if field.name != names[0]:
        return field
    if len(names) == 1:
        return extraction.field(field)
    return replace(field, children=tuple(_with(child, names[1:], extraction) for child in field.children))
