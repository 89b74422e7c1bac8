"""The table of versions at the end of the demo: what each commit did, what it cost, and whom it met."""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import dagster as dg
from rich.console import Console
from rich.table import Table

from examples.demo.definitions import FLIGHTS
from lance_ops.dagster import keys
from lance_ops.maintenance.text import bytes_text
from lance_ops.table.dataset import Dataset


def version_rows(dataset: Dataset, instance: dg.DagsterInstance) -> list[dict[str, Any]]:
    """One row for each version; versions that the second writer made in a row share one."""
    costs = _costs(instance)
    rows: list[dict[str, Any]] = []
    for entry in sorted(dataset.history(), key=lambda item: item.version):
        ours = keys.RUN_ID in entry.properties
        if not ours and rows and not rows[-1]["ours"]:
            row = rows[-1]
        else:
            row = {"first": entry.version, "ours": ours, "operations": Counter()}
            rows.append(row)
        row["operations"][entry.operation] += 1
        seconds, conflicts = costs.get(entry.version, (None, None))
        row |= {
            "version": entry.version,
            "rows": entry.size.rows,
            "fragments": entry.size.fragments,
            "bytes": entry.size.data_bytes,
            "seconds": seconds,
            "conflicts": conflicts,
        }
    return rows


def _costs(instance: dg.DagsterInstance) -> dict[int, tuple[float | None, int | None]]:
    """(seconds, conflicts met) of the versions that our runs made, as their events say."""
    records = instance.fetch_materializations(dg.AssetKey(FLIGHTS), limit=1000).records
    costs: dict[int, tuple[float | None, int | None]] = {}
    for record in records:
        event = record.asset_materialization
        if event is None:
            continue
        values = {name: value.value for name, value in event.metadata.items()}
        version = values.get(keys.VERSION)
        if isinstance(version, int):
            costs[version] = (values.get("lance/seconds"), values.get(keys.CONFLICTS))  # type: ignore[assignment]
    return costs


def _fate(first: int, last: int, kept: Collection[int]) -> str:
    """What became of the versions of a row: it may begin with some that are gone."""
    left = [version for version in range(first, last + 1) if version in kept]
    if len(left) == last - first + 1:
        return "kept"
    if not left:
        return "cleaned up"
    names = f"{left[0]}-{left[-1]}" if left[-1] - left[0] + 1 == len(left) > 1 else ", ".join(map(str, left))
    return f"{names} kept"


def print_versions(console: Console, rows: Sequence[dict[str, Any]], *, kept: Collection[int]) -> None:
    """Print the table."""
    table = Table(title="Versions of flights", title_justify="left", header_style="bold")
    for name in ("version", "operation", "by", "rows", "fragments", "bytes", "seconds", "conflicts", "now"):
        table.add_column(name, justify="left" if name in ("operation", "by", "now") else "right")
    for row in rows:
        alone = row["first"] == row["version"]
        table.add_row(
            str(row["version"]) if alone else f"{row['first']}-{row['version']}",
            ", ".join(name if alone else f"{count} {name}" for name, count in row["operations"].items()),
            "Dagster" if row["ours"] else "second writer",
            f"{row['rows']:,}",
            str(row["fragments"]),
            bytes_text(row["bytes"]),
            "" if row["seconds"] is None else f"{row['seconds']:.2f}",
            "" if row["conflicts"] is None else str(row["conflicts"]),
            _fate(row["first"], row["version"], kept),
        )
    console.print(table)
