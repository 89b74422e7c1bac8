"""Catalog of checks: what each examines in a version, and its condition."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.links import code, plain
from lance_ops.index.search.recall import measure_recall, vector_indices
from lance_ops.maintenance.fsck.files import check_files
from lance_ops.maintenance.fsck.findings import Finding, Severity
from lance_ops.maintenance.fsck.fragments import check_deletions, check_fragments
from lance_ops.maintenance.fsck.operation import check_indices
from lance_ops.maintenance.fsck.remedy import damage_commands
from lance_ops.maintenance.health.measure import DatasetHealth
from lance_ops.maintenance.health.policy import MaintenancePolicy, Verdict
from lance_ops.maintenance.text import count_text
from lance_ops.table.dataset import Dataset

_SHOWN = 20
_NEEDS_INDEX = "Not evaluated without an index."


@dataclass(frozen=True, slots=True)
class Examination:
    """Input of the checks.

    Attributes:
        uri: URI as declared in the code location.
        dataset: The version.
        health: Measured numbers.
        policy: Thresholds.
        verdicts: Verdicts by operation.
        days_to: Days until thresholds are passed at the present rate of commits, by measure.
    """

    uri: str
    dataset: Dataset
    health: DatasetHealth
    policy: MaintenancePolicy
    verdicts: Mapping[str, Verdict]
    days_to: Mapping[str, float]

    def mended_by(self, operation: str) -> tuple[str, Mapping[str, object]]:
        """Return a note for a failed check when the operation that would repair it is blocked."""
        verdict = self.verdicts.get(operation)
        if verdict is None or not verdict.blocked:
            return "", {}
        return f"; {operation} is blocked: {verdict.blocked}", {keys.BLOCKED: verdict.blocked}


def _always(_: Dataset) -> bool:
    return True


def _has_index(dataset: Dataset) -> bool:
    return bool(dataset.indices)


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes:
        description: Text in the UI.
        blocking: A failure blocks downstream assets of the same run.
        evaluate: Returns (passed, reason, metadata).
        reads_files: It reads more than the manifest.
        is_costly: Expensive: evaluated with full checks and on request only, see `applies`.
        applies: Returns False if there is nothing to examine; the check is then skipped.
    """

    description: str
    evaluate: Callable[[Examination], tuple[bool, str, Mapping[str, object]]]
    blocking: bool = False
    reads_files: bool = False
    is_costly: bool = False
    applies: Callable[[Dataset], object] = _always

    @property
    def of_indices(self) -> bool:
        """True if it examines indices."""
        return self.applies is not _always


def _manifest(examination: Examination) -> tuple[bool, str, Mapping[str, object]]:
    dataset = examination.dataset
    found = [*check_fragments(dataset), *check_indices(dataset)]
    return _verdict(examination, found, f"version {dataset.version} is readable and consistent")


def _files(examination: Examination) -> tuple[bool, str, Mapping[str, object]]:
    health = examination.health
    good = f"{count_text(health.data_files, 'data file')}, none missing"
    return _verdict(examination, check_files(examination.dataset), good)


def _deletion_vectors(examination: Examination) -> tuple[bool, str, Mapping[str, object]]:
    deleted = examination.health.deleted_rows
    good = f"{deleted:,} deleted rows, as recorded in the manifest"
    return _verdict(examination, check_deletions(examination.dataset), good)


def _verdict(
    examination: Examination, findings: Iterable[Finding], good: str
) -> tuple[bool, str, Mapping[str, object]]:
    found = list(findings)
    errors = [finding for finding in found if finding.severity is Severity.ERROR]
    metadata: dict[str, object] = {"lance/findings": len(found)}
    if found:
        lines = [f"- {plain(finding.message)} {code(finding.path or '')}" for finding in found[:_SHOWN]]
        metadata["lance/finding_list"] = dg.MetadataValue.md("\n".join(lines))
    if not errors:
        return True, good, metadata
    metadata[keys.ERROR_HINT] = damage_commands(examination.uri)
    more = f" and {len(errors) - 1:,} more" if len(errors) > 1 else ""
    where = f" ({errors[0].path})" if errors[0].path else ""
    return False, f"{errors[0].message}{where}{more}", metadata


def _with_verdict(
    examination: Examination, operation: str, passed: bool, why: str, numbers: Mapping[str, object]
) -> tuple[bool, str, Mapping[str, object]]:
    if passed:
        return True, why, numbers
    more, metadata = examination.mended_by(operation)
    return False, why + more, {**numbers, **metadata}


def _foreseen(examination: Examination, measure: str) -> dict[str, object]:
    """Return in how many days the threshold of a measure is passed at the present rate; empty if unknown."""
    days = examination.days_to.get(measure)
    return {} if days is None else {"lance/days_to_limit": days}


def _fragmentation(examination: Examination) -> tuple[bool, str, Mapping[str, object]]:
    value, limit = examination.health.small_fragments, examination.policy.max_small_fragments
    health = examination.health
    why = f"{value:,} of {health.fragments:,} fragments are small, the limit is {limit:,}"
    numbers = {
        "lance/small_fragments": value,
        "lance/limit": limit,
        "lance/debt_seconds": health.debt_seconds,
        "lance/debt_requests": health.debt_requests,
        "lance/debt_bytes": health.debt_bytes,
        **_foreseen(examination, "small_fragments"),
    }
    return _with_verdict(examination, "compact", value <= limit, why, numbers)


def _deleted_ratio(examination: Examination) -> tuple[bool, str, Mapping[str, object]]:
    value, limit = examination.health.deleted_ratio, examination.policy.max_deleted_ratio
    why = f"{value:.1%} of the stored rows are deleted, the limit is {limit:.1%}"
    numbers = {
        "lance/deleted_ratio": value,
        "lance/limit": limit,
        **_foreseen(examination, "deleted_ratio"),
    }
    return _with_verdict(examination, "compact", value <= limit, why, numbers)


def _index_coverage(examination: Examination) -> tuple[bool, str, Mapping[str, object]]:
    health, limit = examination.health, examination.policy.min_index_coverage
    value = health.index_coverage
    why = f"every index covers at least {value:.1%} of the rows, the limit is {limit:.1%}"
    numbers = {
        "lance/index_coverage": value,
        "lance/limit": limit,
        "lance/unindexed_rows": health.unindexed_rows,
        **_foreseen(examination, "index_coverage"),
    }
    return _with_verdict(examination, "index", value >= limit, why, numbers)


def _index_upkeep(examination: Examination) -> tuple[bool, str, Mapping[str, object]]:
    health, policy = examination.health, examination.policy
    segments, deferred = health.index_segments, health.deferred_compactions
    why = (
        f"no index has more than {count_text(segments, 'segment')}, the limit is "
        f"{policy.max_index_segments:,}; {count_text(deferred, 'deferred compaction')}, the limit is "
        f"{policy.max_deferred_compactions:,}"
    )
    numbers = {
        "lance/index_segments": segments,
        "lance/limit": policy.max_index_segments,
        "lance/deferred_compactions": deferred,
        "lance/deferred_limit": policy.max_deferred_compactions,
    }
    passed = segments <= policy.max_index_segments and deferred <= policy.max_deferred_compactions
    return _with_verdict(examination, "index", passed, why, numbers)


def _index_wear(examination: Examination) -> tuple[bool, str, Mapping[str, object]]:
    health, policy = examination.health, examination.policy
    numbers: dict[str, object] = {
        "lance/worn_indices": health.worn_indices or 0,
        "lance/short_indices": health.short_indices or 0,
        "lance/limit": policy.max_index_dead_ratio,
    }
    parts = []
    if health.index_dead_ratio is not None:
        numbers["lance/index_dead_ratio"] = health.index_dead_ratio
        parts.append(
            f"at most {health.index_dead_ratio:.1%} of the rows of a segment are deleted, the limit is "
            f"{policy.max_index_dead_ratio:.1%}"
        )
    if health.index_imbalance is not None:
        numbers["lance/index_imbalance"] = health.index_imbalance
        parts.append(f"the imbalance of partitions is at most {health.index_imbalance:.2f}")
    if health.index_drift is not None:
        numbers |= {"lance/index_drift": health.index_drift, "lance/drift_limit": policy.max_index_drift}
        parts.append(
            f"the distance of newer vectors from their centroids is at most {health.index_drift:.2f} times "
            f"that of older ones, the limit is {policy.max_index_drift:.2f}"
        )
    worn = health.worn_indices or 0
    short = health.short_indices or 0
    if short:
        named = count_text(short, "index", "indices")
        parts.insert(0, f"pylance returns too few rows from {named}")
    why = "; ".join([*([f"{count_text(worn, 'index', 'indices')} worn"] if worn else []), *parts])
    return _with_verdict(
        examination, "index", not (worn or short), why or "no index degradation was measured", numbers
    )


def _vector_recall(examination: Examination) -> tuple[bool, str, Mapping[str, object]]:
    limit = examination.policy.min_vector_recall
    samples = [measure_recall(examination.dataset, item.name) for item in vector_indices(examination.dataset)]
    known = [(sample.recall, sample) for sample in samples if sample.recall is not None]
    if not known:
        return True, "there is no vector index with rows", {"lance/limit": limit}
    value, worst = min(known, key=lambda item: item[0])
    of = "all rows" if worst.is_whole else f"a sample of {worst.rows:,} rows"
    why = (
        f"{worst.index} finds {value:.1%} of the {worst.k} nearest in {of} "
        f"({count_text(worst.queries, 'query', 'queries')}), the limit is {limit:.1%}"
    )
    numbers: dict[str, object] = {
        "lance/vector_recall": value,
        "lance/limit": limit,
        "lance/recall_queries": worst.queries,
        "lance/recall_rows": worst.rows,
    }
    return value >= limit, why, numbers


def _version_backlog(examination: Examination) -> tuple[bool, str, Mapping[str, object]]:
    value, limit = examination.health.live_versions, examination.policy.max_versions
    why = f"{count_text(value, 'version')} kept, the limit is {limit:,}"
    numbers = {
        "lance/live_versions": value,
        "lance/limit": limit,
        **_foreseen(examination, "live_versions"),
    }
    return _with_verdict(examination, "cleanup", value <= limit, why, numbers)


CHECKS: Mapping[str, Check] = {
    keys.MANIFEST_READABLE: Check(
        "The newest manifest is readable and consistent.", _manifest, blocking=True
    ),
    "fragmentation": Check("Number of small fragments is within the policy.", _fragmentation),
    "deleted_ratio": Check("Share of deleted rows is within the policy.", _deleted_ratio),
    "index_coverage": Check(
        f"Every index covers the share of rows required by the policy. {_NEEDS_INDEX}",
        _index_coverage,
        applies=_has_index,
    ),
    "index_upkeep": Check(
        f"No index has more segments or deferred compactions than the policy allows. {_NEEDS_INDEX}",
        _index_upkeep,
        applies=_has_index,
    ),
    "index_wear": Check(
        f"Index degradation (deleted rows, drift) is within the policy. {_NEEDS_INDEX}",
        _index_wear,
        reads_files=True,
        applies=_has_index,
    ),
    "vector_recall": Check(
        "Recall of vector indices on a bounded sample is within the policy. Not evaluated without a vector "
        "index.",
        _vector_recall,
        is_costly=True,
        applies=vector_indices,
    ),
    "version_backlog": Check("Number of versions is within the policy.", _version_backlog),
    "files_present": Check(
        "Every file of the newest version exists with its recorded size.",
        _files,
        blocking=True,
        reads_files=True,
    ),
    "deletion_vectors_valid": Check(
        "Every deletion file is readable and has the number of rows recorded in the manifest.",
        _deletion_vectors,
        blocking=True,
        reads_files=True,
    ),
}
"""The checks by name; those that read files come last."""


def page_name(name: str) -> str:
    """Return the name of a check in Dagster, whose page sorts by name: damage first, then maintenance."""
    check = CHECKS.get(name)
    return name if check is None else f"{'damage' if check.blocking else 'upkeep'}_{name}"


_BY_PAGE_NAME = {page_name(name): name for name in CHECKS}


def own_name(name: str) -> str:
    """Return the name of a check in lance_ops and in alerts from its name in Dagster."""
    return _BY_PAGE_NAME.get(name, name)
