"""Fsck of stable row ids: unique among live rows, and never assigned again."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from lance_ops.errors import LanceOpsError
from lance_ops.maintenance.fsck.findings import Finding, Severity
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragment import SEQUENCES, Fragment
from lance_ops.table.manifest.row_ids import row_id_range, row_versions_at
from lance_ops.table.row_lineage.read import read_sequence, read_sequences
from lance_ops.table.transaction.apply_fragments import free_row_id

CHECK = "row_ids_unique"
Runs = npt.NDArray[np.uint64]
"""Row ids as runs: shape (runs, 2), first and last id of each."""


def check_row_ids(dataset: Dataset, *, deep: bool = False) -> Iterator[Finding]:
    """Check that stable row ids match rows, are unique among live rows, and are below `next_row_id`."""
    if not dataset.manifest.uses_stable_row_ids:
        return
    free = dataset.manifest.next_row_id
    found: list[tuple[int, Runs]] = []
    highest = (-1, -1)
    for fragment in dataset.manifest.fragments:
        try:
            everything, live = _runs_of(dataset, fragment, deep=deep)
        except LanceOpsError as error:
            message = f"row ids and versions of fragment {fragment.id}: {error.message}"
            yield Finding(CHECK, Severity.ERROR, message, error.path)
            continue
        if len(everything):
            highest = max(highest, (int(everything[:, 1].max()), fragment.id))
        found.append((fragment.id, live))
    if highest[0] >= free:
        message = (
            f"next_row_id is {free}, but fragment {highest[1]} has row id {highest[0]}, which would be "
            f"assigned again; {_remedy(dataset, highest[0])}"
        )
        yield Finding(CHECK, Severity.ERROR, message, dataset.location.path)
    yield from _shared_ids(found, dataset.location.path)


def _remedy(dataset: Dataset, highest: int) -> str:
    if free_row_id(dataset.manifest) > highest:
        return "the next append by lance_ops corrects it"
    return "do not append, and restore an older version"


def _runs_of(dataset: Dataset, fragment: Fragment, *, deep: bool) -> tuple[Runs, Runs]:
    """Return runs of all ids of a fragment, and of those of its live rows."""
    rows, path = fragment.physical_rows, dataset.uri
    if deep:
        ids = read_sequences(dataset.bases, fragment)["row_ids"]
    else:
        for name in SEQUENCES:
            sequence = getattr(fragment, name)
            if name != "row_ids" and isinstance(sequence, bytes):
                # Compares the number of entries.
                row_versions_at(sequence, np.empty(0, np.int64), rows=rows, path=path)
        if not isinstance(fragment.row_ids, bytes):
            # They are in files, which only a deep check reads.
            return _runs(np.empty(0, np.uint64)), _runs(np.empty(0, np.uint64))
        whole = row_id_range(fragment.row_ids, rows=rows, path=path)
        if whole is not None and fragment.deletion_file is None:
            run = np.array([[whole.start, whole.stop - 1]] if len(whole) else [], np.uint64).reshape(-1, 2)
            return run, run
        ids = read_sequence(dataset.bases, fragment, "row_ids")
    everything = _runs(ids)
    if fragment.deletion_file is None:
        return everything, everything
    try:
        deleted = dataset.deletion_vector(fragment)
    except LanceOpsError:
        # The check of deletions reports it; the live rows are unknown.
        return everything, _runs(np.empty(0, np.uint64))
    if deleted is None:
        return everything, everything
    return everything, _runs(ids[~deleted.mask(0, rows)])


def _runs(ids: npt.NDArray[np.uint64]) -> Runs:
    if not len(ids):
        return np.empty((0, 2), np.uint64)
    ids = np.sort(ids)
    breaks = np.flatnonzero(ids[1:] != ids[:-1] + np.uint64(1))
    return np.stack([ids[np.concatenate([[0], breaks + 1])], ids[np.concatenate([breaks, [-1]])]], axis=1)


def _shared_ids(found: list[tuple[int, Runs]], path: str) -> Iterator[Finding]:
    """Report the fragments that share ids, each pair once."""
    if not found:
        return
    runs = np.concatenate([item for _, item in found])
    owners = np.concatenate([np.full(len(item), owner, np.int64) for owner, item in found])
    order = np.argsort(runs[:, 0], kind="stable")
    runs, owners = runs[order], owners[order]
    # The run that extends farthest before each one may not be its neighbour.
    reach = np.maximum.accumulate(runs[:, 1])
    farthest = np.zeros(len(runs), np.int64)
    if len(runs) > 1:
        farthest[1:] = np.maximum.accumulate(np.where(runs[:, 1] == reach, np.arange(len(runs)), 0))[:-1]
    reported: set[tuple[int, int]] = set()
    for place in np.flatnonzero(runs[1:, 0] <= reach[:-1]) + 1:
        pair = int(owners[farthest[place]]), int(owners[place])
        if pair in reported:
            continue
        reported.add(pair)
        first, second = pair
        where = f"fragment {first}" if first == second else f"fragments {first} and {second}"
        message = (
            f"two live rows of {where} have row id {int(runs[place, 0])}: lookups by id find both; delete "
            "the wrong one by a filter, or restore an older version"
        )
        yield Finding(CHECK, Severity.ERROR, message, path)
