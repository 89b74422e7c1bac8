"""Links between pages of Dagster, as Markdown: they lead to the same webserver, wherever that is."""

from urllib.parse import quote

import dagster as dg


def run_path(run_id: str) -> str:
    """Path of a run's page."""
    return f"/runs/{quote(run_id, safe='')}"


def asset_path(key: dg.AssetKey) -> str:
    """Path of an asset's page."""
    return "/assets/" + "/".join(quote(part, safe="") for part in key.path)


def run_link(run_id: str) -> dg.MarkdownMetadataValue:
    """A run's page."""
    return dg.MetadataValue.md(f"[{run_id.partition('-')[0]}]({run_path(run_id)})")


def asset_link(key: dg.AssetKey) -> dg.MarkdownMetadataValue:
    """An asset's page."""
    return dg.MetadataValue.md(f"[{key.to_user_string()}]({asset_path(key)})")
