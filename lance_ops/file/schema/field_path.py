"""Field paths: `outer.inner`, with backticks around names that contain a dot or a backtick, or nothing."""

from collections.abc import Iterable

from lance_ops.errors import InvalidArgumentError, check_type


def parse_field_path(path: str) -> tuple[str, ...]:
    """Split a field path into its segments.

    Args:
        path: Such as ``a``, ``a.b`` or ``a.`b.c` ``; a backtick inside a quoted segment is doubled. A name
            without a letter is two backticks.

    Raises:
        InvalidArgumentError: The path is empty, has an empty segment, or its quotes do not match.
    """
    check_type(path, str, "the name of a column", field="column")
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
                raise InvalidArgumentError(f"backtick in the middle of a name in the field path {path!r}")
            if not segment:
                raise InvalidArgumentError(f"empty name in the field path {path!r}")
        segments.append(segment)
        if position == len(path):
            return tuple(segments)
        if path[position] != ".":
            raise InvalidArgumentError(f"expected '.' after the closing backtick in the field path {path!r}")
        position += 1


def _read_quoted(path: str, start: int) -> tuple[str, int]:
    parts: list[str] = []
    while True:
        end = path.find("`", start)
        if end < 0:
            raise InvalidArgumentError(f"unclosed backtick in the field path {path!r}")
        parts.append(path[start:end])
        if path[end + 1 : end + 2] != "`":
            return "`".join(parts), end + 1
        start = end + 2


def format_field_path(segments: Iterable[str]) -> str:
    """Join segments into the path that `parse_field_path` splits again."""
    return ".".join(
        "`" + segment.replace("`", "``") + "`" if not segment or "." in segment or "`" in segment else segment
        for segment in segments
    )
