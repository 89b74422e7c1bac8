"""Check results as Dagster shows them, read from the event log."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.checks.catalog import CHECKS, page_name
from lance_ops.dagster.checks.evaluate import CheckOutcome
from lance_ops.dagster.dataset_ref import LanceDatasetRef

REPORTED = (*CHECKS, keys.DOWNSTREAM_COMPUTED)
"""Names of the reported checks of a dataset, which have alerts."""

_DATASETS_PER_LOOKUP = 1000


@dataclass(frozen=True, slots=True)
class CheckRecord:
    """The newest evaluation of a check.

    Attributes:
        evaluation: Dagster's stored `AssetCheckEvaluation`.
        stored_at: Time of storing, in seconds since 1970.
        is_hidden: A later run ended without evaluating the check: Dagster shows that instead.
    """

    evaluation: Any
    stored_at: float
    is_hidden: bool = False


def latest_records(
    instance: dg.DagsterInstance, refs: Sequence[LanceDatasetRef]
) -> dict[str, dict[str, CheckRecord]]:
    """Return the newest evaluations, by dataset and check, with one look-up for a thousand datasets."""
    found: dict[str, dict[str, CheckRecord]] = {}
    for start in range(0, len(refs), _DATASETS_PER_LOOKUP):
        some = refs[start : start + _DATASETS_PER_LOOKUP]
        wanted = [check_key(ref, check) for ref in some for check in REPORTED]
        records = newest_evaluations(instance, wanted)
        for ref in some:
            of_ref = {check: records.get(check_key(ref, check)) for check in REPORTED}
            found[ref.name] = {check: record for check, record in of_ref.items() if record is not None}
    return found


def check_key(ref: LanceDatasetRef, check: str) -> dg.AssetCheckKey:
    """Return the key of a check in Dagster."""
    return dg.AssetCheckKey(ref.key, page_name(check))


def newest_evaluations(
    instance: dg.DagsterInstance, wanted: Sequence[dg.AssetCheckKey]
) -> dict[dg.AssetCheckKey, CheckRecord]:
    """Return the newest evaluation of each check.

    A run stores a check record when it is created, without a result until the step is done: the newest record
    with a result counts.
    """
    storage = instance.event_log_storage
    found: dict[dg.AssetCheckKey, CheckRecord] = {}
    for key, newest in storage.get_latest_asset_check_execution_by_key(wanted).items():
        record, is_hidden = newest, False
        if not isinstance(newest.evaluation, dg.AssetCheckEvaluation):
            decided = {status for status in type(newest.status) if status is not newest.status}
            earlier = storage.get_asset_check_execution_history(key, limit=1, status=decided)
            if not earlier:
                continue
            run = instance.get_run_by_id(newest.run_id)
            record, is_hidden = earlier[0], run is None or run.is_finished
        if record.event is not None:
            # The record is as old as the run.
            found[key] = CheckRecord(record.evaluation, record.event.timestamp, is_hidden)
    return found


def says_otherwise(
    records: Mapping[str, CheckRecord], outcomes: Sequence[CheckOutcome], looked_at: float
) -> bool:
    """Return whether Dagster shows another result for some check than was just found.

    Args:
        records: The newest evaluations, by check.
        outcomes: Results just found.
        looked_at: Start of the evaluation, in seconds since 1970: records stored later are newer.
    """
    for outcome in outcomes:
        record = records.get(outcome.name)
        if record is None or record.is_hidden:
            return True
        shown = (record.evaluation.passed, record.evaluation.severity)
        differs = shown[0] != outcome.passed or (not outcome.passed and shown[1] != outcome.severity)
        if differs and record.stored_at < looked_at:
            return True
    return False
