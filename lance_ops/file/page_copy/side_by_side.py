"""Columns side by side: columns of several files with the same rows become one file, page by page.

Pages keep their bytes, rows and order: only their positions change. Columns that are not asked for are left
behind with their pages.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lance_ops.errors import CorruptFileError, InvalidArgumentError, UnsupportedError
from lance_ops.file.container.read import Column, Page
from lance_ops.file.container.write import ContainerWriter
from lance_ops.file.page_copy.evolved import page_starts
from lance_ops.file.page_copy.obstacles import (
    SameSchema,
    assign_to_schema,
    assigned_columns,
    is_same_field,
    obstacles,
)
from lance_ops.file.page_copy.source import CopySource, OpenSource, copy_buffers, open_source
from lance_ops.file.schema.model import Field, Schema
from lance_ops.file.self_check import check_columns
from lance_ops.file.writer import WrittenFile
from lance_ops.storage import Store


@dataclass(frozen=True, slots=True, eq=False)
class ColumnSource:
    """A data file some of whose columns are copied.

    Attributes:
        store: Where it is.
        path: Relative to the store.
        size: Size of the file in bytes, if known; saves a request.
        columns: Physical column of the file by field id of the new file's schema.
    """

    store: Store
    path: str
    size: int | None
    columns: Mapping[int, int]


def join_columns(store: Store, path: str, schema: Schema, sources: Sequence[ColumnSource]) -> WrittenFile:
    """Write the columns of a schema to one file, by copying their pages.

    Args:
        store: Store of the new file.
        path: Relative to the store.
        schema: Of the new file. Each column, with everything below it, is in one of the sources.
        sources: Files of the same storage version with the same number of rows, at least one.

    Raises:
        UnsupportedError: A column is in no source or differs from that of its file, or its pages cannot be
            moved. Nothing is left behind.
        CorruptFileError: A file is damaged, or the files have different numbers of rows. Likewise.
        FileMissingError: A file does not exist.
        InvalidArgumentError: There are no sources.
    """
    if not sources:
        raise InvalidArgumentError("there are no files to join", path=path, field="sources")
    opened = [_select(source, schema) for source in sources]
    first = opened[0]
    for other in opened[1:]:
        if other.version is not first.version:
            raise UnsupportedError(
                f"its storage version is {other.version.name}, that of {first.path} {first.version.name}",
                path=other.path,
            )
        if other.num_rows != first.num_rows:
            raise CorruptFileError(
                f"number of rows differs from that of {first.path} (expected {first.num_rows}, got "
                f"{other.num_rows})",
                path=other.path,
            )
    assigned = assign_to_schema(first.version, SameSchema(schema))
    places = {
        field_id: (number, column)
        for number, source in enumerate(opened)
        for field_id, column in assigned_columns(source).items()
    }
    if places.keys() != assigned.keys():
        missing = sorted(assigned.keys() - places.keys())
        raise UnsupportedError(f"no file has the fields {missing[:8]}", path=path)
    with store.open_writer(path) as output:
        container = ContainerWriter(output, len(assigned))
        moved = [_copy_pages(container, source) for source in opened]
        encodings = []
        for field_id, target in sorted(assigned.items(), key=lambda item: item[1]):
            number, column = places[field_id]
            for page in moved[number][column]:
                container.add_page(target, page.buffers, page.length, page.priority, page.encoding)
            encodings.append(opened[number].columns[column].encoding)
        check_columns(schema, assigned, container.pages, first.num_rows, container.tell(), first.version.name)
        container.finish(schema, first.num_rows, encodings, first.version.footer)
    return WrittenFile(
        path=path,
        num_rows=first.num_rows,
        size_bytes=container.tell(),
        field_ids=tuple(assigned),
        column_indices=tuple(assigned.values()),
        major=first.version.manifest[0],
        minor=first.version.manifest[1],
    )


def column_sizes(store: Store, path: str, size: int | None = None) -> tuple[int, ...]:
    """Return the bytes of the pages of each physical column of a file.

    Raises:
        UnsupportedError: The storage version has no pages that can be copied.
        CorruptFileError: The file is damaged.
        FileMissingError: It does not exist.
    """
    opened = open_source(CopySource(store, path, size))
    return tuple(
        sum(length for page in column.pages for _, length in page.buffers) for column in opened.columns
    )


def _select(source: ColumnSource, schema: Schema) -> OpenSource:
    """Open a file and show it with those columns of a schema that it has."""
    opened = open_source(CopySource(source.store, source.path, source.size))
    own = assigned_columns(opened)
    if len(own) != len(opened.columns):
        raise UnsupportedError(
            f"its schema has {len(own)} columns, but the file has {len(opened.columns)}", path=source.path
        )
    lines = {own[line[-1].id]: line for line in _lines(opened.schema) if line[-1].id in own}
    every = assign_to_schema(opened.version, SameSchema(schema))
    wanted = {top.id for top in schema.fields for node in top.walk() if node.id in source.columns}
    part = Schema(tuple(top for top in schema.fields if top.id in wanted), schema.metadata)
    assigned = assign_to_schema(opened.version, SameSchema(part))
    columns: dict[int, Column] = {}
    for line in _lines(part):
        node = line[-1]
        if node.id not in every:
            continue
        found = lines.get(source.columns.get(node.id, -1))
        # What has no columns of its own, such as the members of a packed struct, lies in those of the field.
        is_whole = not any(child.id in every for child in node.children)
        if found is None or not _is_same_line(line, found, is_whole=is_whole):
            raise UnsupportedError(
                f"its column {part.path(node.id)!r} differs from that of the table",
                path=source.path,
                field=part.path(node.id),
            )
        columns[assigned[node.id]] = opened.columns[source.columns[node.id]]
    chosen = tuple(columns[number] for number in range(len(assigned)))
    seen = replace(opened, schema=part, columns=chosen, starts=page_starts(chosen))
    found_obstacles = list(obstacles([seen]))
    if found_obstacles:
        raise UnsupportedError(
            "\n  - ".join(["its columns cannot be moved", *found_obstacles]), path=source.path
        )
    return seen


def _lines(schema: Schema) -> list[tuple[Field, ...]]:
    """Return every field with the fields above it, the outermost first."""
    found: list[tuple[Field, ...]] = []

    def descend(node: Field, above: tuple[Field, ...]) -> None:
        found.append((*above, node))
        for child in node.children:
            descend(child, (*above, node))

    for top in schema.fields:
        descend(top, ())
    return found


def _is_same_line(left: Sequence[Field], right: Sequence[Field], *, is_whole: bool) -> bool:
    """Return whether two columns have the same type, and so the fields above them.

    Args:
        left: A field with those above it.
        right: The other.
        is_whole: Compare what lies below as well.
    """
    if len(left) != len(right) or not all(map(is_same_field, left, right)):
        return False
    return not is_whole or _is_same_tree(left[-1], right[-1])


def _is_same_tree(left: Field, right: Field) -> bool:
    return len(left.children) == len(right.children) and all(
        is_same_field(one, other) and _is_same_tree(one, other)
        for one, other in zip(left.children, right.children, strict=True)
    )


def _copy_pages(container: ContainerWriter, source: OpenSource) -> list[list[Page]]:
    """Copy the buffers of all pages; return the pages of each column."""
    pages = (page for column in source.columns for page in column.pages)
    moved = copy_buffers(container, source, (buffer for page in pages for buffer in page.buffers))
    return [
        [
            replace(page, buffers=tuple((moved.get(buffer, 0), buffer[1]) for buffer in page.buffers))
            for page in column.pages
        ]
        for column in source.columns
    ]
