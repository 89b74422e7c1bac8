"""Tables of the documentation, made from the code."""

from dataclasses import dataclass, field

import pytest

from tools import docs_reference
from tools.docs_reference import fill, find, table


@dataclass
class Options:
    """What a page tells.

    Attributes:
        size: Bytes of a part,
            at most.
        names: Which.
        kind: `a` or `b`.
    """

    size: int | None = 1 << 20
    names: list[str] = field(default_factory=list)
    kind: str = "a"
    hidden: bool = False


def grow(size: int, *, kind: "str | None" = None) -> None:
    """Grow.

    Args:
        size: To what.
        kind: Of what.
    """


def test_fields_are_told_with_types_defaults_and_what_the_docstring_says(monkeypatch):
    monkeypatch.setattr(docs_reference, "find", lambda _: Options)
    assert fill("before\n{{ fields x.Options }}\nafter").splitlines() == [
        "before",
        "<!-- from the code: fields x.Options -->",
        "",
        "| option | type | default | meaning |",
        "| --- | --- | --- | --- |",
        "| `size` | `int or None` | 1,048,576 | Bytes of a part, at most. |",
        "| `names` | `list[str]` | `[]` | Which. |",
        '| `kind` | `str` | `"a"` | `a` or `b`. |',
        "",
        "<!-- end -->",
        "after",
    ]


def test_arguments_are_told_with_types_defaults_and_what_the_docstring_says(monkeypatch):
    monkeypatch.setattr(docs_reference, "find", lambda _: grow)
    assert fill("{{ parameters x.grow }}").splitlines()[4:-2] == [
        "| `size` | `int` | required | To what. |",
        "| `kind` | `str or None` | `None` | Of what. |",
    ]


def test_a_bar_ends_no_cell():
    assert table(("a",), iter([("x | y",)])).splitlines()[-1] == "| x \\| y |"


def test_a_page_that_is_filled_in_changes_only_with_the_code(monkeypatch):
    monkeypatch.setattr(docs_reference, "find", lambda _: grow)
    page = fill("a\n{{ parameters x.grow }}\nb\n")
    assert fill(page) == page
    monkeypatch.setattr(docs_reference, "find", lambda _: lambda size: None)
    assert "`size`" not in fill(page)


@pytest.mark.parametrize(
    "text", ["{{ nothing }}", "{{ fields lance_ops.NoSuchThing }}", "{{ fields no_such_module.Thing }}"]
)
def test_what_does_not_exist_is_an_error(text):
    with pytest.raises(LookupError):
        fill(text)


def test_text_that_is_no_directive_stays():
    assert fill("a {{ b }} c") == "a {{ b }} c"


def test_names_are_found_in_modules_and_classes():
    assert find("lance_ops.Dataset.scanner").__name__ == "scanner"
    assert find("lance_ops.errors").__name__ == "lance_ops.errors"


def test_every_command_is_in_the_reference():
    text = fill("{{ commands }}")
    for name in ("append", "cleanup", "fsck", "warmup"):
        assert f"### lance-ops {name}\n" in text
    assert "| `--older-than` | `AGE` |" in text
