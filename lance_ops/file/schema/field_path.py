"""Field paths: `outer.inner`, with backticks around names that contain a dot or a backtick, or are empty."""

from collections.abc import Iterable

from lance_ops.errors import InvalidArgumentError, check_type


def parse_field_path(path: str) -> tuple[str, ...]:
    """Split a field path into its segments.

    Args:
        path: Such as ``a``, ``a.b`` or ``a.`b.c` ``; a backtick inside a quoted segment is doubled. An empty
            name is two backticks.

    Raises:
        InvalidArgumentError: The path is empty, has an empty segment, or its quotes do not match.
    """
    check_type(path, str, "a column name", field="column")
    segments: list[str] = []
    position = 0
    while True:
        if path[position : position + 1] == "`":
            segment, position = _read_quoted(path, position + 1)
        else:
            end = path.find(".", position)
            end = len(path) if end < 0 else end
            segment, position = path[position:end], end
            if "`" in segment:
                raise InvalidArgumentError(f"field path {path!r} has a backtick inside of a name")
            if not segment:
                raise InvalidArgumentError(
                    f"field path {path!r} has an empty name",
                    hint="write names between the dots, as in a.b, and no comma at the end of a list",
                )
        segments.append(segment)
        if position == len(path):
            return tuple(segments)
        if path[position] != ".":
            raise InvalidArgumentError(f"field path {path!r} needs '.' after the closing backtick")
        position += 1


def _read_quoted(path: str, start: int) -> tuple[str, int]:
    parts: list[str] = []
    while True:
        end = path.find("`", start)
        if end < 0:
            raise InvalidArgumentError(f"field path {path!r} has an unclosed backtick")
        parts.append(path[start:end])
        if path[end + 1 : end + 2] != "`":
            return "`".join(parts), end + 1
        start = end + 2


def format_field_path(segments: Iterable[str]) -> str:
    """Join segments into a path that `parse_field_path` splits again."""
    return ".".join(
        "`" + segment.replace("`", "``") + "`" if not segment or "." in segment or "`" in segment else segment
        for segment in segments
    )
