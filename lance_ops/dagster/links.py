"""Links between pages of Dagster, as Markdown relative to the webserver."""

import re
from urllib.parse import quote

import dagster as dg

from lance_ops.errors import encodable


def run_path(run_id: str) -> str:
    """Return the path of a run's page."""
    return f"/runs/{quote(run_id, safe='')}"


def asset_path(key: dg.AssetKey) -> str:
    """Return the path of an asset's page."""
    return "/assets/" + "/".join(quote(part, safe="") for part in key.path)


_NUMBERED = re.compile(r"^([0-9]+)(\.)")
_MARKS = re.compile(r"([\\`*_{}\[\]()<>#+!|~$&-])")


def plain(text: object) -> str:
    """Escape a text for Markdown, in one line.

    Names and messages from foreign tables may contain links and images, which a browser would fetch.
    """
    line = " ".join(encodable(str(text)).split())
    line = _NUMBERED.sub(r"\1\\\2", _MARKS.sub(r"\\\1", line))
    # A bare URL becomes a link, too.
    return line.replace("://", "&#58;//").replace("www.", "www&#46;")


def code(text: object) -> str:
    """Format a text as inline code in Markdown, in one line, with any backticks in it."""
    line = " ".join(encodable(str(text)).split()).replace("|", "\\|")
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    padded = f" {line} " if line.startswith("`") or line.endswith("`") else line
    return f"{fence}{padded}{fence}" if line else ""


def code_block(text: object) -> str:
    """Format a text as a code block in Markdown, which its backticks cannot end."""
    found = encodable(str(text))
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", found)), default=0))
    return f"{fence}text\n{found}\n{fence}"


def run_link(run_id: str) -> dg.MarkdownMetadataValue:
    """Return a link to a run's page."""
    return dg.MetadataValue.md(f"[{run_id.partition('-')[0]}]({run_path(run_id)})")


def asset_link(key: dg.AssetKey) -> dg.MarkdownMetadataValue:
    """Return a link to an asset's page."""
    return dg.MetadataValue.md(f"[{plain(key.to_user_string())}]({asset_path(key)})")
