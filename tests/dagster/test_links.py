"""Names and messages from tables of others in links and in Markdown."""

import dataclasses
from datetime import UTC, datetime
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from lance_ops.alerts.message import link_of
from lance_ops.alerts.row import AlertRow
from lance_ops.dagster.links import code, code_block, plain

HOSTILE = [
    "![x](https://evil.example/a.png)",
    "[click](javascript:alert(1))",
    "<img src=https://evil.example/a.png>",
    "`code` and ```\nblock\n```",
    "https://evil.example/a.png",
    "www.evil.example",
    "a|b\nc",
    "# heading",
    "1. list",
    "*bold* _it_ ~~gone~~",
    "\\![x](y)",
    "&lt;b&gt;",
    "[ref]: https://evil.example",
]


def _tokens(text):
    found = []
    for token in MarkdownIt("commonmark").parse(text):
        found += [token, *(token.children or ())]
    return found


def _targets(text):
    """What a browser would fetch or offer to follow, and raw HTML."""
    return [
        token.attrs.get("href") or token.attrs.get("src") or token.content
        for token in _tokens(text)
        if token.type in ("link_open", "image", "html_inline", "html_block")
    ]


def _text(text):
    return "".join(
        token.content for token in _tokens(text) if token.type in ("text", "text_special", "code_inline")
    )


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_message_of_a_stranger_is_text_and_nothing_else(hostile):
    line = f"- {plain(hostile)} {code(hostile)}"
    assert _targets(line) == []
    assert "://" not in plain(hostile)
    assert "www." not in plain(hostile)
    shown = " ".join(hostile.split())
    assert _text(f"- {plain(hostile)}") == shown


@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1).filter(str.strip))
def test_any_text_is_shown_as_it_is(text):
    shown = " ".join(text.split())
    assert _text("x " + plain(text)).removeprefix("x ") == shown
    assert _text("x " + code(text)).removeprefix("x ").strip() == shown.replace("|", "\\|").strip()


@given(st.text("`\n a~", max_size=30))
def test_nothing_in_a_block_of_code_ends_it(text):
    (block,) = [token for token in MarkdownIt().parse(code_block(text)) if token.type == "fence"]
    assert block.content == f"{text}\n"


@given(st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20))
def test_the_name_of_a_dataset_takes_its_place_in_a_link_and_nothing_else(name):
    values = {field.name: None for field in dataclasses.fields(AlertRow)}
    row = AlertRow(**{**values, "dataset": name, "uri": f"s3://b/{name}", "at": datetime.now(UTC)})
    template = "https://d.example/assets/{dataset}?at={uri}#x"
    parts = urlsplit(link_of(template, row))
    assert (parts.netloc, parts.fragment) == ("d.example", "x")
    assert unquote(parts.path) == f"/assets/{name}"
    assert unquote(parts.query) == f"at=s3://b/{name}"


def test_a_name_with_signs_of_urls_leads_to_its_page():
    values = {field.name: None for field in dataclasses.fields(AlertRow)}
    row = AlertRow(**{**values, "dataset": "team/a b#c?x=%2e{uri}.lance", "uri": "/l"})
    assert link_of("https://d.example/{dataset}", row) == (
        "https://d.example/team/a%20b%23c%3Fx%3D%252e%7Buri%7D.lance"
    )


def test_hostile_texts_would_be_followed_if_they_were_not_escaped():
    assert [_targets(text) for text in HOSTILE[:1]] == [["https://evil.example/a.png"]]
    assert _targets(HOSTILE[2])
