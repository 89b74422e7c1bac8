"""JSON as an index kind: delegates to the index kind of the extracted values."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import pyarrow as pa
from google.protobuf.message import DecodeError

from lance_ops.errors import CorruptFileError, InvalidArgumentError, PredicateError, check_type
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.logical_types import JSON_TYPE
from lance_ops.file.schema.model import Field, Schema
from lance_ops.filter.functions.json_path import parse_path
from lance_ops.index.column_query import ColumnQuery, column_query
from lance_ops.index.json.condition import value_condition
from lance_ops.index.json.view import VALUE_TYPES, ExtractedDataset, Extraction, extracted_schema, first_type
from lance_ops.index.kind import (
    BuildTask,
    BuiltSegment,
    IndexKind,
    Match,
    Parameters,
    SegmentBuild,
    SegmentMove,
    Share,
)
from lance_ops.index.opened import opened
from lance_ops.index.reading import reading
from lance_ops.pb import index_pb2
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.row_set import Addresses
from lance_ops.table.snapshot import Snapshot

# The type of the values is known from the first column of a file of the other kind, or is string.
_VALUE_FILES = {
    "btreeindexdetails": "page_lookup.lance",
    "bitmapindexdetails": "bitmap_page_lookup.lance",
    "zonemapindexdetails": "zonemap.lance",
}
_TEXT_KINDS = frozenset({"ngramindexdetails", "invertedindexdetails"})
_TYPE_NUMBERS = {
    "boolean": index_pb2.JSON_TARGET_DATA_TYPE_BOOLEAN,
    "int64": index_pb2.JSON_TARGET_DATA_TYPE_INT64,
    "float64": index_pb2.JSON_TARGET_DATA_TYPE_FLOAT64,
    "utf8": index_pb2.JSON_TARGET_DATA_TYPE_UTF8,
}


@dataclass(frozen=True, slots=True)
class _Opened:
    """A segment as seen by the other kind."""

    kind: IndexKind
    dataset: ExtractedDataset
    segment: IndexMetadata
    path: str
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class _Values:
    """Metadata of a segment without its files, except the type of its values.

    Attributes:
        kind: Index kind of the values.
        segment: The segment as one of that kind.
        extraction: The extracted values.
        schema: Of the dataset with these.
    """

    kind: IndexKind
    segment: IndexMetadata
    extraction: Extraction
    schema: Schema


class JsonKind(IndexKind):
    """JSON: answers json_get_string, json_get_int, json_get_float and json_get_bool of its path, by its type.

    Also json_extract compared with a string, which is rechecked.

    Args:
        targets: Index kinds of the values.
    """

    name = "JSON"
    type_url = "/lance.index.pb.JsonIndexDetails"
    names_every_row = False
    one_segment_after_updates = True
    reads_documents = True

    def __init__(self, targets: Sequence[IndexKind]) -> None:
        self._targets = tuple(targets)

    def parameters(self, field: Field, given: Parameters) -> Parameters:
        """See `IndexKind.parameters`.

        These are `path`, `target_index_type` (or `target`; "btree" if none is given), parameters of that kind
        as `target_index_parameters`, and `target_data_type`: a key of `VALUE_TYPES`, that of the first value
        if none is given.
        """
        known = {"path", "target", "target_index_type", "target_index_parameters", "target_data_type"}
        unknown = next((name for name in given if name not in known), None)
        if unknown is not None:
            return super().parameters(field, {unknown: given[unknown]})
        if "path" not in given:
            raise InvalidArgumentError(
                "an index of kind JSON needs a path", field="parameters", hint='{"path": "a"}'
            )
        check_type(given["path"], str, "a path within documents", field="parameters")
        try:
            parse_path(given["path"])
        except PredicateError as error:
            raise InvalidArgumentError(error.message, field="parameters", hint=error.hint) from error
        target = self._target_by_name(given.get("target_index_type", given.get("target", "btree")))
        if target.name == "INVERTED":
            # Its index version is one that no reader takes for a JSON index.
            raise InvalidArgumentError(
                "a JSON index cannot have the target INVERTED, as in pylance",
                field="target_index_type",
                hint="create an index of kind INVERTED on the JSON column itself",
            )
        type_name = given.get("target_data_type")
        if type_name is not None and str(type_name).lower() not in VALUE_TYPES:
            raise InvalidArgumentError(
                f"unknown target_data_type {type_name!r}",
                field="parameters",
                hint=f"types: {', '.join(VALUE_TYPES)}",
            )
        rest = given.get("target_index_parameters") or {}
        rest = json.loads(rest) if isinstance(rest, str) else rest
        values = Extraction("", given["path"], str(type_name).lower() if type_name else "utf8").field(field)
        return {
            "path": given["path"],
            "target_index_type": target.name.lower(),
            "target_index_parameters": target.parameters(values, rest),
            "target_data_type": None if type_name is None else str(type_name).lower(),
        }

    def parameters_of(self, dataset: Snapshot, segment: IndexMetadata) -> Parameters:
        """See `IndexKind.parameters_of`."""
        opened = self._open(dataset, segment)
        return {
            "path": opened.path,
            "target_index_type": opened.kind.name.lower(),
            "target_index_parameters": opened.kind.parameters_of(opened.dataset, opened.segment),
            "target_data_type": _name_of(opened.type),
        }

    def recorded_parameters(self, segment: IndexMetadata) -> Parameters:
        """Return recorded parameters; the type of the values is recorded in the files only."""
        message, found = _read_details(segment.details), self._target(segment)
        if message is None or found is None:
            return {}
        kind, inner = found
        return {
            "path": message.path,
            "target_index_type": kind.name.lower(),
            "target_index_parameters": dict(kind.recorded_parameters(inner)),
        }

    def check_details(self, segment: IndexMetadata) -> None:
        """See `IndexKind.check_details`: those of the other kind are within."""
        super().check_details(segment)
        found = self._target(segment)
        if found is not None:
            kind, inner = found
            kind.check_details(inner)

    def check_field(self, field: Field) -> None:
        """See `IndexKind.check_field`."""
        if field.logical_type != JSON_TYPE:
            raise InvalidArgumentError(
                f"column {field.name!r} is {field.storage_type}, and holds no JSON documents",
                field="column",
                hint="write it with the type pyarrow.json_()",
            )

    def can_read(self, segment: IndexMetadata) -> bool:
        """See `IndexKind.can_read`: it is the other kind that has to."""
        return not segment.index_version and self._target(segment) is not None

    def may_wait(self, dataset: Snapshot, segment: IndexMetadata) -> bool:
        """See `IndexKind.may_wait`."""
        opened = self._open(dataset, segment)
        return opened.kind.may_wait(opened.dataset, opened.segment)

    def stale(self, dataset: Snapshot, segment: IndexMetadata) -> str | None:
        """See `IndexKind.stale`."""
        opened = self._open(dataset, segment)
        return opened.kind.stale(opened.dataset, opened.segment)

    def prepare(self, build: SegmentBuild) -> bytes:
        """See `IndexKind.prepare`: the type of the values, and what the other kind prepares."""
        path, type_name = build.parameters["path"], build.parameters["target_data_type"]
        if type_name is None:
            type_name = first_type(build.dataset, build.column, path, build.fragment_ids)
        kind = self._target_by_name(build.parameters["target_index_type"])
        extraction = Extraction(build.column, path, type_name)
        kind.check_field(extraction.field(build.field))
        return f"{extraction.type_name}\0".encode() + kind.prepare(self._inner(build, extraction))

    def build_share(self, task: BuildTask, path: str) -> Share:
        """See `IndexKind.build_share`."""
        type_name, prepared = _parts(task.prepared)
        extraction = Extraction(task.column, task.parameters["path"], type_name)
        kind = self._target_by_name(task.parameters["target_index_type"])
        inner = replace(
            task,
            dataset=ExtractedDataset(task.dataset, extraction),
            parameters=task.parameters["target_index_parameters"],
            prepared=prepared,
        )
        return kind.build_share(inner, path)

    def merge(self, build: SegmentBuild) -> BuiltSegment:
        """See `IndexKind.merge`."""
        type_name, prepared = _parts(build.prepared)
        extraction = Extraction(build.column, build.parameters["path"], type_name)
        kind = self._target_by_name(build.parameters["target_index_type"])
        built = kind.merge(replace(self._inner(build, extraction), prepared=prepared))
        return replace(built, details=_details(kind, extraction, built.details))

    def remap(self, move: SegmentMove) -> BuiltSegment:
        """See `IndexKind.remap`."""
        opened = self._open(move.dataset, move.segment)
        inner = replace(
            move,
            dataset=opened.dataset,
            segment=opened.segment,
            rewritten=ExtractedDataset(move.rewritten, opened.dataset.extraction),
        )
        built = opened.kind.remap(inner)
        message = index_pb2.JsonIndexDetails.FromString(move.segment.details)
        message.target_details.value = built.details
        return replace(built, details=message.SerializeToString())

    def addresses(self, dataset: Snapshot, segment: IndexMetadata) -> Iterator[Addresses]:
        """See `IndexKind.addresses`."""
        opened = self._open(dataset, segment)
        yield from opened.kind.addresses(opened.dataset, opened.segment)

    def search(self, dataset: Snapshot, segment: IndexMetadata, query: ColumnQuery) -> Match | None:
        """See `IndexKind.search`."""
        opened = self._open(dataset, segment, kept=True)
        found = value_condition(query.condition, opened.path, opened.type)
        if found is None:
            return None
        condition, exact = found
        match = opened.kind.search(opened.dataset, opened.segment, column_query(condition))
        return match if match is None or exact else replace(match, exact=False)

    def verify(self, dataset: Snapshot, segment: IndexMetadata, *, deep: bool) -> None:
        """See `IndexKind.verify`."""
        opened = self._open(dataset, segment)
        opened.kind.verify(opened.dataset, opened.segment, deep=deep)

    def statistics(self, dataset: Snapshot, segment: IndexMetadata) -> Mapping[str, Any]:
        """See `IndexKind.statistics`: those of the other kind."""
        opened = self._open(dataset, segment)
        return opened.kind.statistics(opened.dataset, opened.segment)

    def _inner(self, build: SegmentBuild, extraction: Extraction) -> SegmentBuild:
        """Return the build of the other kind."""
        return replace(
            build,
            dataset=ExtractedDataset(build.dataset, extraction),
            field=extraction.field(build.field),
            segments=tuple(self._target_of(segment)[1] for segment in build.segments),
            parameters=build.parameters["target_index_parameters"],
        )

    def _open(self, dataset: Snapshot, segment: IndexMetadata, *, kept: bool = False) -> _Opened:
        with reading(segment):
            # What is kept must not hold the dataset, which it is kept for.
            found: _Values = (
                opened(dataset, segment, lambda: self._values(dataset, segment), part="values")
                if kept
                else self._values(dataset, segment)
            )
            values = ExtractedDataset(dataset, found.extraction, found.schema)
            return _Opened(found.kind, values, found.segment, found.extraction.path, found.extraction.type)

    def _values(self, dataset: Snapshot, segment: IndexMetadata) -> _Values:
        kind, inner = self._target_of(segment)
        message = _read_details(segment.details)
        assert message is not None
        column = dataset.lance_schema.path(segment.fields[0])
        name = _stored_type(dataset, inner, message.target_data_type)
        extraction = Extraction(column, message.path, name)
        return _Values(kind, inner, extraction, extracted_schema(dataset.lance_schema, extraction))

    def _target_of(self, segment: IndexMetadata) -> tuple[IndexKind, IndexMetadata]:
        found = self._target(segment)
        if found is None:
            raise CorruptFileError("its details name no kind of index that is known", path=segment.directory)
        return found

    def _target(self, segment: IndexMetadata) -> tuple[IndexKind, IndexMetadata] | None:
        """Return the kind of the values, and the segment as one of that kind; None if there is none."""
        message = _read_details(segment.details)
        if message is None:
            return None
        target = message.target_details
        inner = replace(segment, type_url=target.type_url, details=target.value)
        for kind in self._targets:
            if inner.kind == kind.type_url.rsplit(".", 1)[-1].lower() and kind.can_read(inner):
                return kind, inner
        return None

    def _target_by_name(self, name: object) -> IndexKind:
        wanted = str(name).lower().replace("_", "")
        for kind in self._targets:
            if kind.can_build and kind.name.lower().replace("_", "") == wanted:
                return kind
        known = ", ".join(kind.name.lower() for kind in self._targets if kind.can_build)
        raise InvalidArgumentError(
            f"index kind {name!r} is not supported for values of documents",
            field="parameters",
            hint=f"known kinds: {known}",
        )


def _parts(prepared: bytes) -> tuple[str, bytes]:
    """Return the name of the type of the values, and what the other kind has prepared."""
    type_name, _, rest = prepared.partition(b"\0")
    return type_name.decode(), rest


@lru_cache(maxsize=64)
def _read_details(details: bytes) -> index_pb2.JsonIndexDetails | None:
    try:
        return index_pb2.JsonIndexDetails.FromString(details)
    except DecodeError:
        return None


def _details(kind: IndexKind, extraction: Extraction, details: bytes) -> bytes:
    short = kind.type_url.rsplit(".", 1)[-1].lower()
    message = index_pb2.JsonIndexDetails(path=extraction.path)
    if short not in _VALUE_FILES and short not in _TEXT_KINDS:
        # There is no other record of the type.
        message.target_data_type = _TYPE_NUMBERS[extraction.type_name]
    message.target_details.type_url = kind.type_url
    message.target_details.value = details
    return message.SerializeToString()


def _stored_type(dataset: Snapshot, segment: IndexMetadata, number: int) -> str:
    """Return the name of the type of the values of a segment, as the other kind sees it.

    Args:
        dataset: The version that the segment belongs to.
        segment: The segment.
        number: The type in its details; 0 without one.

    Raises:
        CorruptFileError: It is unknown, or not a type of JSON values.
    """
    for name, known in _TYPE_NUMBERS.items():
        if number == known:
            return name
    if segment.kind in _TEXT_KINDS:
        return "utf8"
    file = _VALUE_FILES.get(segment.kind or "")
    if file is None or number:
        raise CorruptFileError(
            "the type of its values is not recorded", path=segment.directory, field="details"
        )
    store, directory = dataset.bases.index_directory(segment)
    stored = FileReader.open(store, f"{directory}/{file}").schema.to_arrow().types[0]
    return _name_of(pa.string() if stored == pa.large_string() else stored, path=f"{directory}/{file}")


def _name_of(value_type: pa.DataType, path: str | None = None) -> str:
    for name, known in VALUE_TYPES.items():
        if known == value_type:
            return name
    raise CorruptFileError(f"its values are {value_type}, which no value of a document is", path=path)
