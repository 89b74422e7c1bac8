"""Schemas of the format: a tree of fields with stable ids, with conversions to protobuf and Arrow."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError
from lance_ops.file.schema.extension_types import text_keys
from lance_ops.file.schema.field import Field as Field
from lance_ops.file.schema.field import build_field, build_tree, field_proto
from lance_ops.file.schema.field_path import format_field_path, parse_field_path
from lance_ops.pb import file_pb2


@dataclass(frozen=True, slots=True)
class Schema:
    """Fields of a dataset or of one data file.

    Attributes:
        fields: The top-level fields in order.
        metadata: Schema metadata.
    """

    fields: tuple[Field, ...]
    metadata: Mapping[str, bytes] = field(default_factory=dict, hash=False)

    @classmethod
    def from_arrow(cls, schema: pa.Schema, *, first_id: int = 0) -> "Schema":
        """Convert an Arrow schema, numbering fields depth first.

        Args:
            schema: Any Arrow schema. View types are converted to plain types, extension types to storage type
                plus metadata.
            first_id: Id of the first field; a dataset that is extended continues after its largest id.

        Raises:
            UnsupportedTypeError: A type that no storage version can hold; the field is named.
            InvalidArgumentError: Two fields of the same name, a top-level name with a dot, or a metadata key
                that is not UTF-8.
        """
        numbers = iter(range(first_id, 2**31))
        fields = tuple(build_field(arrow, -1, numbers, arrow.name) for arrow in schema)
        _check_names(fields)
        return cls(fields, text_keys(schema.metadata, "schema"))

    @classmethod
    def from_protos(
        cls, fields: Iterable[file_pb2.Field], metadata: Mapping[str, bytes] | None = None
    ) -> "Schema":
        """Rebuild the tree from the flat list of a manifest or file descriptor.

        Args:
            fields: Messages that name their parents; children follow their order in the list.
            metadata: Schema metadata.

        Raises:
            FormatError: Ids repeat, a parent is missing, or parents form a cycle.
        """
        return cls(build_tree(list(fields)), dict(metadata or {}))

    def to_protos(self) -> list[file_pb2.Field]:
        """Return messages of all fields, depth first; unknown message fields are preserved."""
        return [field_proto(node) for node in self.walk()]

    def to_arrow(self) -> pa.Schema:
        """Convert to an Arrow schema with field and schema metadata."""
        return pa.schema(
            [top.to_arrow() for top in self.fields],
            metadata={key.encode(): value for key, value in self.metadata.items()} or None,
        )

    def walk(self) -> Iterator[Field]:
        """Yield all fields, depth first."""
        for top in self.fields:
            yield from top.walk()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the top-level fields."""
        return tuple(top.name for top in self.fields)

    @property
    def max_field_id(self) -> int:
        """Largest id in use, -1 for an empty schema."""
        return max((node.id for node in self.walk()), default=-1)

    def field(self, path: str) -> Field:
        """Return the field at a path.

        Args:
            path: Name of a top-level field, or a nested path such as `a.b`; names with a backtick, and the
                empty name, are used unparsed unless they are the path of another field.

        Raises:
            InvalidArgumentError: There is no such field.
        """
        return self.ancestry(path)[-1]

    def ancestry(self, path: str, *, any_case: bool = False) -> tuple[Field, ...]:
        """Return the fields along a path, the top-level one first.

        Args:
            path: See `field`.
            any_case: Match the first field case-insensitively if there is no exact match.

        Raises:
            InvalidArgumentError: There is no such field.
        """
        segments = self._segments(path)
        found: list[Field] = []
        level = self.fields
        for segment in segments:
            node = next((candidate for candidate in level if candidate.name == segment), None)
            if node is None and any_case:
                lower = segment.lower()
                node = next((candidate for candidate in level if candidate.name.lower() == lower), None)
            if node is None:
                raise InvalidArgumentError(
                    f"no column {path!r}", field=path, hint=f"columns are: {', '.join(self.names)}"
                )
            found.append(node)
            level = node.children
        return tuple(found)

    def _segments(self, path: str) -> tuple[str, ...]:
        """Split a path into names; a column name that is not a valid path is one name."""
        own = any(field.name == path for field in self.fields)
        try:
            segments = parse_field_path(path)
        except InvalidArgumentError:
            if own:
                return (path,)
            raise
        return (path,) if own and not any(field.name == segments[0] for field in self.fields) else segments

    def by_id(self, field_id: int) -> Field | None:
        """Return the field of an id at any depth."""
        return next((node for node in self.walk() if node.id == field_id), None)

    def path(self, field_id: int) -> str:
        """Return the path of a field, such that `field(path)` returns it.

        Raises:
            InvalidArgumentError: No field has this id.
        """
        nodes = {node.id: node for node in self.walk()}
        segments: list[str] = []
        current = nodes.get(field_id)
        if current is None:
            raise InvalidArgumentError(f"field id {field_id} not found")
        while current is not None:
            segments.append(current.name)
            # Top-level fields have no parent, whatever ids a damaged manifest has.
            current = nodes.get(current.parent_id) if current.parent_id >= 0 else None
        return format_field_path(reversed(segments))

    def project(self, names: Sequence[str]) -> "Schema":
        """Select fields by name, in the order of the names.

        Args:
            names: Top-level names or nested paths; a path keeps its parents with that child only, and several
                paths into one struct are merged.

        Raises:
            InvalidArgumentError: There is no such field.
        """
        wanted: dict[int, set[int]] = {}
        for name in names:
            line = self.ancestry(name)
            keep = wanted.setdefault(id(line[0]), set())
            keep.update(id(node) for node in line[-1].walk())
            keep.update(id(node) for node in line)
        tops = {id(top): top for top in self.fields}
        return replace(self, fields=tuple(_prune(tops[key], keep) for key, keep in wanted.items()))

    def select(self, names: Sequence[str]) -> "Schema":
        """Select top-level fields by name, in the order of the names, which are not paths.

        Raises:
            InvalidArgumentError: There is no such field.
        """
        return self.project([format_field_path([name]) for name in names])

    def project_ids(self, ids: Collection[int]) -> "Schema":
        """Select fields by id, in the order of this schema.

        A field is kept when its id or that of a field below it is given. A given field keeps all of its
        descendants when none of them is given.
        """
        wanted = frozenset(ids)
        kept = (_project_ids(top, wanted) for top in self.fields)
        return replace(self, fields=tuple(top for top in kept if top is not None))


def _check_names(fields: Sequence[Field]) -> None:
    for top in fields:
        if "." in top.name:
            raise InvalidArgumentError(
                f"the top-level name {top.name!r} must not contain a dot",
                field=top.name,
                hint="use a struct, or another name",
            )
    _check_unique(fields, "")


def _check_unique(fields: Sequence[Field], prefix: str) -> None:
    seen: set[str] = set()
    for node in fields:
        if node.name in seen:
            raise InvalidArgumentError(
                f"two columns have the same name {prefix + node.name!r}",
                field=node.name,
                hint="choose another name",
            )
        seen.add(node.name)
        _check_unique(node.children, f"{prefix}{node.name}.")


def _prune(node: Field, keep: set[int]) -> Field:
    children = tuple(_prune(child, keep) for child in node.children if id(child) in keep)
    return (
        node
        if len(children) == len(node.children) and children == node.children
        else replace(node, children=children)
    )


def _project_ids(node: Field, wanted: frozenset[int]) -> Field | None:
    kept = tuple(
        child for child in (_project_ids(child, wanted) for child in node.children) if child is not None
    )
    if kept:
        return replace(node, children=kept)
    return node if node.id in wanted else None
