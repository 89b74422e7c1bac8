"""Details of a report: of the worst datasets, what their newest commits did, and their indices."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from lance_ops.errors import LanceOpsError
from lance_ops.fleet.discover.operation import discover_datasets
from lance_ops.fleet.plan.operation import path_of
from lance_ops.fleet.report.model import Page, Report
from lance_ops.fleet.report.tables import history_lines, index_lines
from lance_ops.fleet.stores.opened import FleetDataset, FleetStores
from lance_ops.table.dataset import Dataset

_VERSIONS = 10
_SECONDS = 30.0


def with_details(report: Report, stores: FleetStores, count: int, *, seconds: float = _SECONDS) -> Report:
    """The report with newest versions and indices of its first datasets, as far as time allows.

    What nobody could look into is in no ledger: the datasets are listed for that.

    Args:
        report: From the ledger.
        stores: Of its policy.
        count: Datasets to look at.
        seconds: Time for all.
    """
    if count <= 0:
        return report
    end = time.monotonic() + seconds

    def detailed(page: Page) -> Page:
        if time.monotonic() >= end:
            return replace(page, unread="the time for it was up")
        look = page.look
        found = FleetDataset(look.dataset, look.store, path_of(report.policy, look), look.uri)
        try:
            dataset = Dataset.open(stores.open(found))
            return replace(
                page,
                versions=history_lines(dataset, _VERSIONS, page.operations),
                indices=index_lines(dataset),
            )
        except (LanceOpsError, StopIteration) as error:
            said = error.message if isinstance(error, LanceOpsError) else "its store is in the policy no more"
            return replace(page, unread=said)

    with ThreadPoolExecutor(stores.threads, thread_name_prefix="lance-report") as pool:
        pages = tuple(pool.map(detailed, report.pages[:count]))
    unseen = discover_datasets(stores, deadline=end).errors
    return replace(report, unseen=unseen, pages=(*pages, *report.pages[count:]))
