"""Self-check of a written file before it is visible: refuse files that other readers cannot read."""

from collections.abc import Iterator, Mapping, Sequence

from lance_ops.cache import IdentityCache
from lance_ops.file.container.read import ALIGNMENT, Page
from lance_ops.file.io.page_errors import broken
from lance_ops.file.schema.logical_types import LIST_TYPES
from lance_ops.file.schema.model import Field, Schema
from lance_ops.file.schema.packing import is_packed_2_0
from lance_ops.file.v2_1.columns import is_leaf
from lance_ops.pb import encodings20_pb2

_STRUCT_LISTS = "fixed_size_list:struct:"


def check_columns(
    schema: Schema,
    columns: Mapping[int, int],
    pages: Sequence[Sequence[Page]],
    num_rows: int,
    data_end: int,
    version: str,
) -> None:
    """Check that the pages of a file are consistent.

    Args:
        schema: Of the file.
        columns: Physical column of each field id.
        pages: Of each physical column.
        num_rows: Of the file.
        data_end: End of the last buffer.
        version: Storage version.

    Raises:
        LanceOpsError: They do not.
    """
    if sorted(columns.values()) != list(range(len(pages))):
        raise broken(f"{len(columns)} fields share {len(pages)} columns", "schema")
    for column in pages:
        for page in column:
            for position, size in page.buffers:
                if position % ALIGNMENT or size < 0 or position + size > data_end:
                    raise broken(
                        f"a buffer of {size} bytes at {position} exceeds the data, which end at {data_end}",
                        "page",
                    )
    expected = _lengths_2_0 if version == "2.0" else _lengths_2_1
    for field, length in expected(schema, columns, pages, num_rows):
        column = pages[columns[field.id]]
        if len(column) == 1 and column[0].length == length and column[0].priority == 0 and num_rows:
            # Most columns of wide tables pass this check.
            continue
        found = sum(page.length for page in column)
        if found != length:
            raise broken(f"row count of pages does not match (expected {length}, got {found})", field.name)
        starts = [page.priority for page in column]
        # In 2.0 the items of lists have separate pages, which begin with the first non-empty list.
        late = starts[:1] != [0] and (version != "2.0" or field.parent_id < 0)
        if starts and (late or starts != sorted(starts) or starts[-1] > max(num_rows - 1, 0)):
            raise broken("the pages of a column are not consecutive", field.name)


def _lengths_2_1(
    schema: Schema, columns: Mapping[int, int], pages: Sequence[Sequence[Page]], num_rows: int
) -> Iterator[tuple[Field, int]]:
    del columns, pages
    for leaf, span in _spans_of(schema):
        yield leaf, num_rows * span


def _all_spans(schema: Schema) -> tuple[tuple[Field, int], ...]:
    return tuple([found for top in schema.fields for found in _spans(top, 1)])


_spans_of = IdentityCache("list spans", _all_spans, 8)


def _spans(field: Field, span: int) -> Iterator[tuple[Field, int]]:
    if field.logical_type.startswith(_STRUCT_LISTS):
        span *= int(field.storage_type.list_size)
    if is_leaf(field):
        yield field, span
        return
    for child in field.children:
        yield from _spans(child, span)


def _lengths_2_0(
    schema: Schema, columns: Mapping[int, int], pages: Sequence[Sequence[Page]], num_rows: int
) -> Iterator[tuple[Field, int]]:
    for top in schema.fields:
        yield from _tree_2_0(top, columns, pages, num_rows)


def _tree_2_0(
    field: Field, columns: Mapping[int, int], pages: Sequence[Sequence[Page]], length: int
) -> Iterator[tuple[Field, int]]:
    yield field, length
    if is_packed_2_0(field):
        return
    column = pages[columns[field.id]]
    if field.logical_type == "struct" and len(column) != 1:
        raise broken(f"a struct column has {len(column)} pages, readers expect one", field.name)
    if field.logical_type in LIST_TYPES:
        length = sum(_num_items(page) for page in column)
    for child in field.children:
        yield from _tree_2_0(child, columns, pages, length)


def _num_items(page: Page) -> int:
    return encodings20_pb2.ArrayEncoding.FromString(page.encoding.value).list.num_items
