"""Names the layouts and compressions of a file's pages, for tests that must not miss one."""

from typing import Any

from lance_ops.file.reader import FileReader
from lance_ops.file.v2_1.columns import LayoutColumn


def page_signatures(reader: FileReader, only: int | None = None) -> set[str]:
    """One text a page, such as "mini_block value=fsst[variable[flat32]]"; of all columns, or of only one."""
    found = set()
    for index in range(reader.num_columns) if only is None else [only]:
        column = reader.column(index)
        assert isinstance(column, LayoutColumn)
        found.update(_layout(page.layout) for page in column.pages)
    return found


def _layout(layout: Any) -> str:
    kind = layout.WhichOneof("layout")
    if kind == "blob_layout":
        return f"blob {_layout(layout.blob_layout.inner_layout)}"
    message = getattr(layout, kind)
    parts = [kind.removesuffix("_layout")]
    if kind == "constant_layout" and message.HasField("inline_value"):
        parts.append("inline")
    for field, value in message.ListFields():
        if field.message_type is not None and field.message_type.name == "CompressiveEncoding":
            parts.append(f"{field.name.removesuffix('_compression')}={_compression(value)}")
    return " ".join(parts)


def _compression(encoding: Any) -> str:
    kind = encoding.WhichOneof("compression")
    message = getattr(encoding, kind)
    bits = getattr(message, "bits_per_value", "") if kind == "flat" else ""
    if kind == "fixed_size_list" and message.has_validity:
        kind += "_with_validity"
    inner = [
        _compression(value)
        for field, value in message.ListFields()
        if field.message_type is not None and field.message_type.name == "CompressiveEncoding"
    ]
    return f"{kind}{bits}" + (f"[{','.join(inner)}]" if inner else "")
