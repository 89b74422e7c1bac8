"""A fleet as a ledger knows it after a month: many datasets with long names, a few in trouble, daily runs.

Only rows of a ledger are written, no dataset: five hundred take a second or two.
"""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lance_ops.fleet.ledger.ledger import FleetLedger
from lance_ops.fleet.ledger.rows import Look, OperationRow, RunRow
from lance_ops.fleet.policy.load import parse_policy
from lance_ops.fleet.policy.model import FleetPolicy

NOW = datetime(2026, 11, 27, 9, 30, tzinfo=UTC)

_POLICY = """
version: 1
mode: auto
stores: {{lake: {root}}}
ledger: {{path: {ledger}}}
classes:
  default: {{max_small_fragments: 20, max_deleted_ratio: 10%, max_versions: 100}}
  events: {{max_small_fragments: 50, priority: 10}}
  vectors: {{min_index_coverage: 95%, max_versions: 40}}
  frozen: {{compact: off, windows: [{{days: sat, hours: 0-24}}]}}
assign:
  - {{match: "events/*", class: events, owner: team-streaming}}
  - {{match: "search/*", class: vectors, owner: team-search}}
  - {{match: "archive/*", class: frozen, owner: data-platform@example.com}}
  - {{match: "sales/*", class: default, owner: team-sales}}
windows: [{{days: all, hours: 22-06, timezone: Europe/Berlin}}]
"""

_NAMES = {
    "events": ("clicks", "page_views", "add_to_cart", "sessions", "impressions_by_campaign_and_placement"),
    "search": ("product_embeddings", "query_log", "documents_multilingual_minilm_l12_v2_1024d", "images"),
    "archive": ("orders_2019", "orders_2020", "invoices", "call_recordings_transcribed"),
    "sales": ("orders", "customers", "returns", "daily_revenue_by_store_and_product_category", "refunds"),
}
TROUBLE = (
    ("search/documents_multilingual_minilm_l12_v2_1024d.lance", "damaged"),
    ("events/clicks.lance", "overdue"),
    ("sales/<b>orders</b> | *eu* & [uk](x).lance", "overdue"),
    ("events/impressions_by_campaign_and_placement_with_viewability_and_attribution_windows.lance", "due"),
    ("search/product_embeddings.lance", "due"),
    ("sales/returns.lance", "due"),
    ("events/sessions.lance", "due"),
    ("archive/invoices.lance", "due"),
    ("sales/customers.lance", "blocked"),
)
_WHY = {
    "damaged": "data/0f3a9c1e-5b7d-4e0e-9a53-2f4c7f1f2f10.lance: not found; 3 of 118 data files are missing",
    "overdue": "412 small fragments (limit 50); 31.0% of rows are deleted (limit 10.0%); 640 versions",
    "due": "74 small fragments (limit 50); an index covers 88.0% of rows (limit 95.0%)",
    "blocked": "5 runs in a row had commit conflicts (limit 5); 41 small fragments (limit 20)",
    "healthy": "",
}
_DUE = {"overdue": ("compact", "cleanup"), "due": ("compact", "index"), "blocked": ("compact",)}


def sample_policy(folder: Path, root: str = "s3://analytics-lake-eu-central-1/warehouse") -> FleetPolicy:
    """The policy; its ledger lies in a folder."""
    return parse_policy(_POLICY.format(root=root, ledger=folder / "ledger"))


def write_sample(policy: FleetPolicy, datasets: int, *, now: datetime = NOW, days: int = 30) -> FleetLedger:
    """Fill the ledger of a policy.

    Args:
        policy: From `sample_policy`.
        datasets: How many there are.
        now: Time of the newest survey.
        days: Of history, one survey and one run a day.
    """
    ledger = FleetLedger.of(policy)
    names = list(_names(datasets))
    looks = [look for name in names for look in _looks(policy, name, now, days)]
    ledger.add_looks(looks, key="sample")
    operations = [row for number, name in enumerate(names) for row in _operations(policy, name, number, now)]
    ledger.add_operations(operations)
    for day in range(1, min(days, 9)):
        run = f"nightly-{(now - timedelta(days=day)):%m%d}-7f3c9a"
        of_run = [row for row in operations if row.run == run]
        ledger.add_run(
            RunRow(
                key=run,
                at=now - timedelta(days=day, hours=7),
                seconds=sum(row.seconds for row in of_run),
                datasets=len(of_run) + 2,
                done=len(of_run),
                left=2,
                stopped="" if day % 3 else "the window closed",
                operations=len(of_run),
                bytes_read=sum(row.bytes_read for row in of_run),
                bytes_written=sum(row.bytes_written for row in of_run),
                bytes_freed=sum(row.bytes_freed for row in of_run),
            )
        )
    return ledger


def _names(count: int) -> Iterator[str]:
    yield from [name for name, _ in TROUBLE][:count]
    stems = [f"{folder}/{name}" for folder, names in _NAMES.items() for name in names]
    for number in range(count - len(TROUBLE)):
        region = ("eu", "us", "apac", "latam")[number % 4]
        yield f"{stems[number % len(stems)]}_{region}_{number:03d}.lance"


def _looks(policy: FleetPolicy, name: str, now: datetime, days: int) -> Iterator[Look]:
    rules, dice = policy.of_dataset(name), random.Random(name)
    verdict = dict(TROUBLE).get(name, "healthy")
    size = dice.lognormvariate(22, 2)
    debt, maintained = dice.uniform(0.5, 9.0), 10 - dice.triangular(0, 8, 1)
    for ago in range(days - 1, -1, -1):
        at = now - timedelta(days=ago)
        # Maintenance began ten days ago: what is healthy now was due before.
        state = "due" if ago > maintained and verdict == "healthy" else verdict
        open_debt = debt * (1 + (days - ago) / 10) if state != "healthy" else debt * 0.04
        yield Look(
            key=f"{at:%m%d}/{name}",
            survey=f"{at:%m%d}",
            at=at,
            dataset=name,
            store="lake",
            uri=f"{policy.stores[0].root}/{name}",
            class_name=rules.class_name,
            owner=rules.owner,
            mode=rules.mode,
            verdict=state,
            why=_WHY[state],
            due=_DUE.get(state, ()),
            due_since=now - timedelta(days=_DUE_DAYS[state], hours=3) if state in _DUE_DAYS else None,
            version=None if state == "damaged" else 900 + days - ago,
            version_at=at - timedelta(minutes=20),
            rows=round(size / 180 * (1 - ago / 100)),
            deleted_ratio=0.31 if state == "overdue" else 0.02,
            fragments=round(40 + dice.random() * 30) + (372 if state == "overdue" else 0),
            small_fragments=412 if state == "overdue" else 9,
            data_bytes=round(size * (1 - ago / 100)),
            indices=1 if name.startswith("search") else 0,
            index_coverage=0.88,
            versions=60 + days - ago,
            debt_seconds=open_debt,
            debt_requests=300,
            reclaimable_bytes=round(size * 0.4) if state == "overdue" else 0,
            cost_seconds=size / 4e7 if state in _DUE else 0.0,
            cost_bytes=round(size * 1.8) if state in _DUE else 0,
            rank=1.0,
            rules=rules.fingerprint(),
        )


_DUE_DAYS = {"overdue": 9, "due": 2, "blocked": 4}


def _operations(policy: FleetPolicy, name: str, number: int, now: datetime) -> Iterator[OperationRow]:
    """One on each third day, from ten days ago on."""
    dice = random.Random(f"{name} operations")
    for day in range(10):
        if (number + day) % 3 or name == TROUBLE[0][0]:
            continue
        run = f"nightly-{(now - timedelta(days=day)):%m%d}-7f3c9a"
        size = round(dice.lognormvariate(20, 1))
        cleanup = dice.random() < 0.4
        yield OperationRow(
            key=f"{run}/{name}",
            run=run,
            at=now - timedelta(days=day, hours=7),
            dataset=name,
            store="lake",
            uri=f"{policy.stores[0].root}/{name}",
            operation="cleanup" if cleanup else "compact",
            outcome="done",
            fragments_before=88,
            fragments_after=6,
            bytes_read=0 if cleanup else size,
            bytes_written=0 if cleanup else round(size * 0.8),
            bytes_freed=size if cleanup else 0,
            seconds=dice.uniform(2, 30),
            seconds_planned=12.0,
            bytes_planned=size,
            scan_seconds_saved=0.0 if cleanup else dice.uniform(1, 9),
            summary="88 fragments -> 6",
        )
