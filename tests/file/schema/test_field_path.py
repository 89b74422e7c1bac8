import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.errors import InvalidArgumentError
from lance_ops.file.schema.field_path import format_field_path, parse_field_path


@given(st.lists(st.text(alphabet="a.`é "), min_size=1, max_size=4))
def test_formatted_paths_are_parsed_again(segments: list[str]) -> None:
    assert parse_field_path(format_field_path(segments)) == tuple(segments)


def test_plain_and_quoted_names() -> None:
    assert parse_field_path("a.b") == ("a", "b")
    assert parse_field_path("a.`b.c`.d") == ("a", "b.c", "d")
    assert parse_field_path("`x``y`") == ("x`y",)
    assert format_field_path(["a", "b.c"]) == "a.`b.c`"
    assert parse_field_path("``.a") == ("", "a")


@pytest.mark.parametrize("path", ["", ".", "a.", ".a", "a..b", "`a", "a`b", "`a`b", "`a`."])
def test_malformed_paths_are_refused(path: str) -> None:
    with pytest.raises(InvalidArgumentError):
        parse_field_path(path)
