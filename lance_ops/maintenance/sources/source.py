"""Sources: input data as a stream of record batches in bounded memory."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError, SchemaMismatchError
from lance_ops.maintenance.sources.file_source import INFERRED
from lance_ops.maintenance.sources.views import plain_batches, schema_without_views

_FOREIGN_METADATA = (b"PARQUET:field_id", b"org.apache.spark.version", INFERRED)


@runtime_checkable
class Source(Protocol):
    """Data to be written, without views of Arrow (see `views`); read once, in order."""

    def read_schemas(self) -> Sequence[tuple[str, pa.Schema]]:
        """Return (what, schema) of each part whose schema may differ: the input files, or all data."""
        ...

    def typed_by(self, schema: pa.Schema) -> "Source":
        """Return the same data, with text parsed as the types of a dataset."""
        ...

    def split(self, bytes_per_part: int) -> "Sequence[Source]":
        """Return parts of at least that size for parallel tasks, in order."""
        ...

    def num_rows(self) -> int | None:
        """Return the number of rows, if it is known without reading them."""
        ...

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows; the schema of a batch is that of its part."""
        ...


@dataclass(frozen=True, slots=True)
class StreamSource:
    """Any stream of record batches.

    Attributes:
        schema: Of all batches.
        stream: The batches.
        what: Name of the data in messages.
    """

    schema: pa.Schema
    stream: Iterable[pa.RecordBatch]
    what: str = "the data"

    def read_schemas(self) -> Sequence[tuple[str, pa.Schema]]:
        """See `Source.read_schemas`."""
        return ((self.what, schema_without_views(self.schema)),)

    def typed_by(self, schema: pa.Schema) -> "StreamSource":  # noqa: ARG002 - its rows have types
        """See `Source.typed_by`."""
        return self

    def split(self, bytes_per_part: int) -> "Sequence[Source]":  # noqa: ARG002 - a stream is one part
        """See `Source.split`."""
        return [self]

    def num_rows(self) -> int | None:
        """See `Source.num_rows`; of batches in memory."""
        return sum(batch.num_rows for batch in self.stream) if isinstance(self.stream, list) else None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """See `Source.batches`."""
        try:
            yield from plain_batches(self.stream)
        except pa.ArrowException as error:
            raise InvalidArgumentError(f"cannot read {self.what}: {error}", field="data") from error


@dataclass(slots=True)
class LazySource:
    """A source that is opened when something is read of it: a job that is done reads nothing.

    Attributes:
        make: Opens it; called once, for all copies.
        types: Schema of the dataset, if it is known.
        drain: Called instead, where the data are not needed.
    """

    make: Callable[[], Source]
    types: pa.Schema | None = None
    drain: Callable[[], None] | None = None
    _made: list[Source] = field(default_factory=list, repr=False)
    _typed: Source | None = field(default=None, repr=False)

    def read_schemas(self) -> Sequence[tuple[str, pa.Schema]]:
        """See `Source.read_schemas`."""
        return self._source.read_schemas()

    def typed_by(self, schema: pa.Schema) -> "LazySource":
        """See `Source.typed_by`."""
        return LazySource(self.make, schema, self.drain, self._made)

    def split(self, bytes_per_part: int) -> "Sequence[Source]":
        """See `Source.split`."""
        return self._source.split(bytes_per_part)

    def num_rows(self) -> int | None:
        """See `Source.num_rows`."""
        return self._source.num_rows()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """See `Source.batches`."""
        return self._source.batches()

    @property
    def _source(self) -> Source:
        if self._typed is None:
            if not self._made:
                self._made.append(self.make())
            made = self._made[0]
            self._typed = made if self.types is None else made.typed_by(self.types)
        return self._typed


def leave_unread(source: object) -> None:
    """Note that a source is not needed: a pipe is read to its end."""
    if isinstance(source, LazySource) and source.drain is not None:
        source.drain()


def unify_schemas(parts: Sequence[tuple[str, pa.Schema]]) -> pa.Schema:
    """Return the schema of a dataset from all parts of a source, without irrelevant metadata.

    Raises:
        SchemaMismatchError: the parts contradict each other.
    """
    schemas = [schema for _, schema in parts]
    try:
        unified = pa.unify_schemas(schemas, promote_options="permissive") if len(schemas) > 1 else schemas[0]
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise SchemaMismatchError(
            "the input files contradict each other", _conflicts(parts, error)
        ) from error
    fields = [item.with_metadata(_own_metadata(item.metadata)) for item in unified]
    return pa.schema(fields, metadata=_own_metadata(unified.metadata))


def _conflicts(parts: Sequence[tuple[str, pa.Schema]], error: Exception) -> list[str]:
    """Return each column that two parts have as types that do not unify, with both parts."""
    seen: dict[str, tuple[str, pa.Field]] = {}
    found = []
    for what, schema in parts:
        for item in schema:
            first, known = seen.setdefault(item.name, (what, item))
            try:
                pa.unify_schemas([pa.schema([known]), pa.schema([item])], promote_options="permissive")
            except (pa.ArrowInvalid, pa.ArrowTypeError):
                found.append(f"{item.name}: {known.type} in {first}, {item.type} in {what}")
    return found or [str(error)]


def _own_metadata(metadata: dict[bytes, bytes] | None) -> dict[bytes, bytes] | None:
    return {key: value for key, value in (metadata or {}).items() if key not in _FOREIGN_METADATA} or None
