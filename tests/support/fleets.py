"""Small fleets: datasets with fragments, and policies under which they are due."""

from pathlib import Path

import pyarrow as pa

import lance_ops as lo
from lance_ops.fleet.policy.load import parse_policy
from lance_ops.fleet.policy.model import FleetPolicy
from lance_ops.fleet.report.model import Report
from lance_ops.fleet.report.operation import write_report
from lance_ops.fleet.run.operation import run_fleet
from lance_ops.fleet.survey.operation import survey_fleet

STRICT = "{max_small_fragments: 2, max_versions: 4, older_than: 0s, retain_versions: 1}"


def rows(start: int, stop: int) -> pa.Table:
    return pa.table({"id": list(range(start, stop)), "name": [f"row {n}" for n in range(start, stop)]})


def write(root: Path, path: str, fragments: int = 1, *, index: bool = False) -> str:
    """A dataset of some fragments of ten rows."""
    uri = str(root / path)
    for part in range(fragments):
        lo.append(uri, rows(part * 10, part * 10 + 10), storage_options={"fsync": "false"})
        if index and not part:
            lo.create_index(uri, "id")
    return uri


def policy(root: Path, *, mode: str = "auto", default: str = STRICT, more: str = "") -> FleetPolicy:
    """A policy of one store with strict thresholds."""
    return parse_policy(
        f"version: 1\nmode: {mode}\nstores: {{s: {root}}}\nclasses:\n  default: {default}\n{more}"
    )


def ids(uri: str) -> list[int]:
    return sorted(lo.dataset(uri).to_table()["id"].to_pylist())


def written_report(root: Path) -> tuple[Path, Report]:
    """The report on a fleet: of its datasets one was maintained, one is due since, one is damaged."""
    write(root, "a.lance", 5)
    write(root, "<b>&.lance", 1)
    rules = policy(root)
    run_fleet(rules)
    write(root, "late.lance", 4)
    write(root, "bad.lance")
    next((root / "bad.lance" / "_versions").glob("*.manifest")).write_bytes(b"x" * 100)
    survey_fleet(rules)
    return root / "fleet.html", write_report(rules, root / "fleet.html")
