"""The asset checks of a dataset: is it sound, and is maintenance keeping up?

Dagster forgets the verdict on a check with every newer materialization, so whoever publishes a version also
reports the checks on it: runs, the manifest sensor, and the button in the UI all come through here.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.dataset_ref import LanceDatasetRef, index_refs
from lance_ops.dagster.publication import last_published
from lance_ops.dagster.resource import LanceStoreResource
from lance_ops.dagster.version_event import as_metadata
from lance_ops.errors import DatasetNotFoundError, LanceOpsError
from lance_ops.index.search.recall import measure_recall, vector_indices
from lance_ops.maintenance.fsck.files import check_files
from lance_ops.maintenance.fsck.findings import Finding, Severity
from lance_ops.maintenance.fsck.fragments import check_deletions, check_fragments
from lance_ops.maintenance.fsck.operation import check_indices
from lance_ops.maintenance.fsck.remedy import damage_commands, hint_for
from lance_ops.maintenance.health.measure import DatasetHealth, measure_health
from lance_ops.maintenance.health.policy import MaintenancePolicy, Verdict
from lance_ops.maintenance.health.verdicts import judge_dataset
from lance_ops.maintenance.text import count_text
from lance_ops.table.dataset import Dataset

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """What one check found.

    Attributes:
        name: Name of the check.
        passed: Whether all is well.
        description: Why, in one line.
        severe: A failure means damage, not only neglect.
        metadata: Numbers and lists that the verdict rests on.
    """

    name: str
    passed: bool
    description: str
    severe: bool
    metadata: Mapping[str, object] = field(default_factory=dict)

    def to_result(self, key: dg.AssetKey) -> dg.AssetCheckResult:
        """For a step that executes the check."""
        return dg.AssetCheckResult(
            asset_key=key,
            check_name=self.name,
            passed=self.passed,
            severity=self.severity,
            description=self.description,
            metadata=as_metadata(self.metadata),
        )

    def to_evaluation(self, key: dg.AssetKey) -> dg.AssetCheckEvaluation:
        """For a sensor, or a step that does something else."""
        return dg.AssetCheckEvaluation(
            asset_key=key,
            check_name=self.name,
            passed=self.passed,
            severity=self.severity,
            description=self.description,
            metadata=as_metadata(self.metadata),
            blocking=CHECKS[self.name].blocking,
        )

    @property
    def severity(self) -> dg.AssetCheckSeverity:
        """How a failure counts."""
        return dg.AssetCheckSeverity.ERROR if self.severe else dg.AssetCheckSeverity.WARN


@dataclass(frozen=True, slots=True)
class Examination:
    """What checks look at.

    Attributes:
        uri: Where it lies, as the code location says it.
        dataset: The version.
        health: Its measures.
        policy: When maintenance is due.
        verdicts: What maintenance could do, by operation.
    """

    uri: str
    dataset: Dataset
    health: DatasetHealth
    policy: MaintenancePolicy
    verdicts: Mapping[str, Verdict]

    def mended_by(self, operation: str) -> tuple[str, Mapping[str, object]]:
        """What to add to a failed check when the operation that would mend it is blocked."""
        verdict = self.verdicts.get(operation)
        if verdict is None or not verdict.blocked:
            return "", {}
        return f"; {operation} is blocked: {verdict.blocked}", {keys.BLOCKED: verdict.blocked}


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes:
        description: For the UI.
        blocking: A failure keeps downstream assets of the same run from being computed.
        evaluate: (passed, why, metadata).
        reads_files: It asks the store for more than the manifest.
        is_costly: It reads so much that it is made with full checks and on request only, see `applies`.
        applies: Whether there is anything to look at.
    """

    description: str
    evaluate: Callable[[Examination], tuple[bool, str, Mapping[str, object]]]
    blocking: bool = False
    reads_files: bool = False
    is_costly: bool = False
    applies: Callable[[Dataset], object] = bool


def evaluate_checks(
    ref: LanceDatasetRef,
    dataset: Dataset,
    names: Iterable[str] | None = None,
    *,
    max_files: int | None = None,
) -> list[CheckOutcome]:
    """Evaluate checks on one version. A check that cannot be evaluated has failed; nothing is raised.

    Args:
        ref: The dataset.
        dataset: The version.
        names: Which; all by default.
        max_files: Checks that look at files are left out when there are more than this, and those that read
            many rows in any case; None leaves out nothing.
    """
    wanted = set(CHECKS if names is None else names)
    try:
        too_many = max_files is not None and sum(len(item.files) for item in dataset.fragments) > max_files
        limits = None if too_many else ref.policy.wear_limits
        health = measure_health(dataset, target_rows=ref.policy.target_rows, limits=limits)
        examination = Examination(ref.uri, dataset, health, ref.policy, _verdicts(ref, dataset, health))
    except LanceOpsError as error:
        return [unreadable(ref, error)]
    return [
        _evaluate(name, check, examination)
        for name, check in CHECKS.items()
        if name in wanted
        and not (check.reads_files and too_many)
        and not (check.is_costly and max_files is not None and check.applies(dataset))
    ]


def _verdicts(ref: LanceDatasetRef, dataset: Dataset, health: DatasetHealth) -> dict[str, Verdict]:
    """What maintenance could do; nothing when that cannot be told: the numbers stand without it."""
    try:
        return {verdict.operation: verdict for verdict in judge_dataset(dataset, ref.policy, health)}
    except LanceOpsError:
        return {}


def unreadable(ref: LanceDatasetRef, error: Exception, *, severe: bool = True) -> CheckOutcome:
    """The failure of `manifest_readable`: there is no snapshot on which to evaluate anything."""
    metadata: dict[str, object] = {keys.ERROR: f"{type(error).__name__}: {error}"}
    if isinstance(error, LanceOpsError):
        metadata |= {keys.ERROR_PATH: error.path, keys.ERROR_HINT: hint_for(error, ref.uri)}
    return CheckOutcome(keys.MANIFEST_READABLE, False, str(error), severe, metadata)


def examine(
    ref: LanceDatasetRef,
    store: LanceStoreResource,
    names: Iterable[str] | None = None,
    *,
    seen: bool = False,
) -> list[CheckOutcome]:
    """Open the newest version and evaluate checks on it; nothing is raised.

    Args:
        ref: The dataset.
        store: For opening it.
        names: Which; all by default.
        seen: There was a dataset, so that it is damage when there is none.
    """
    try:
        dataset = store.open(ref)
    except DatasetNotFoundError as error:
        return [unreadable(ref, error, severe=seen)]
    except Exception as error:  # noqa: BLE001 - whatever keeps us from opening it is the finding
        return [unreadable(ref, error)]
    return evaluate_checks(ref, dataset, names)


def build_asset_checks(
    refs: Sequence[LanceDatasetRef], *, prefix: str = ""
) -> list[dg.AssetChecksDefinition]:
    """One definition per dataset with all its checks, any of which can be executed alone.

    Args:
        refs: The datasets.
        prefix: Of the resource that they want: `<prefix>_lance_store`.
    """
    store_key = keys.prefixed(prefix, keys.STORE_RESOURCE)
    return [_build_checks(ref, store_key) for ref in index_refs(refs).values()]


def build_check_specs(ref: LanceDatasetRef) -> list[dg.AssetCheckSpec]:
    """The checks of a dataset as Dagster knows them."""
    return [
        dg.AssetCheckSpec(name=name, asset=ref.key, description=check.description, blocking=check.blocking)
        for name, check in CHECKS.items()
    ]


def _build_checks(ref: LanceDatasetRef, store_key: str) -> dg.AssetChecksDefinition:
    @dg.multi_asset_check(
        name=f"{ref.slug}_checks",
        specs=build_check_specs(ref),
        can_subset=True,
        required_resource_keys={store_key},
        description=f"Is {ref.name} sound, and is maintenance keeping up?",
    )
    def dataset_checks(
        context: dg.AssetCheckExecutionContext,
    ) -> Iterator[dg.AssetCheckResult]:
        selected = {key.name for key in context.selected_asset_check_keys}
        store: LanceStoreResource = getattr(context.resources, store_key)
        seen = last_published(context.instance, ref.key) is not None
        found = {outcome.name: outcome for outcome in examine(ref, store, selected, seen=seen)}
        reason = found.get(keys.MANIFEST_READABLE)
        for name in sorted(selected):
            outcome = found.get(name)
            if outcome is None and reason is not None:
                # A step has to report on every selected check.
                outcome = CheckOutcome(name, False, reason.description, reason.severe, reason.metadata)
            if outcome is not None:
                yield outcome.to_result(ref.key)

    return dataset_checks


def _evaluate(name: str, check: Check, examination: Examination) -> CheckOutcome:
    try:
        passed, why, metadata = check.evaluate(examination)
    except Exception as error:  # noqa: BLE001 - a check that cannot be evaluated has failed
        passed, why, metadata = False, f"could not be evaluated: {error}", {keys.ERROR: repr(error)}
        if isinstance(error, LanceOpsError):
            metadata = {**metadata, keys.ERROR_HINT: hint_for(error, examination.uri)}
    values = {keys.VERSION: examination.dataset.version, **metadata}
    return CheckOutcome(name, passed, why, check.blocking, values)


def _manifest(examination: Examination) -> tuple[bool, str, Mapping[str, object]]:
    dataset = examination.dataset
    found = [*check_fragments(dataset), *check_indices(dataset)]
    return _verdict(examination, found, f"version {dataset.version} can be read and fits together")


def _files(examination: Examination) -> tuple[bool, str, Mapping[str, object]]:
    health = examination.health
    good = f"{count_text(health.data_files, 'data file')}, none missing"
    return _verdict(examination, check_files(examination.dataset), good)


def _deletion_vectors(examination: Examination) -> tuple[bool, str, Mapping[str, object]]:
    deleted = examination.health.deleted_rows
    good = f"{deleted:,} deleted rows, as the manifest says"
    return _verdict(examination, check_deletions(examination.dataset), good)


def _verdict(
    examination: Examination, findings: Iterable[Finding], good: str
) -> tuple[bool, str, Mapping[str, object]]:
    found = list(findings)
    errors = [finding for finding in found if finding.severity is Severity.ERROR]
    metadata: dict[str, object] = {"lance/findings": len(found)}
    if found:
        lines = [f"- {finding.message} `{finding.path or ''}`" for finding in found[:_SHOWN]]
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


def _fragmentation(examination: Examination) -> tuple[bool, str, Mapping[str, object]]:
    value, limit = examination.health.small_fragments, examination.policy.max_small_fragments
    why = f"{value:,} of {examination.health.fragments:,} fragments are small, {limit:,} may be"
    return _with_verdict(
        examination, "compact", value <= limit, why, {"lance/small_fragments": value, "lance/limit": limit}
    )


def _deleted_ratio(examination: Examination) -> tuple[bool, str, Mapping[str, object]]:
    value, limit = examination.health.deleted_ratio, examination.policy.max_deleted_ratio
    why = f"{value:.1%} of the stored rows are deleted, {limit:.1%} may be"
    return _with_verdict(
        examination, "compact", value <= limit, why, {"lance/deleted_ratio": value, "lance/limit": limit}
    )


def _index_coverage(examination: Examination) -> tuple[bool, str, Mapping[str, object]]:
    health, limit = examination.health, examination.policy.min_index_coverage
    value = health.index_coverage
    why = f"every index covers at least {value:.1%} of the rows, {limit:.1%} are asked for"
    numbers = {
        "lance/index_coverage": value,
        "lance/limit": limit,
        "lance/unindexed_rows": health.unindexed_rows,
    }
    why = why if health.indices else "there is no index"
    return _with_verdict(examination, "index", value >= limit, why, numbers)


def _index_upkeep(examination: Examination) -> tuple[bool, str, Mapping[str, object]]:
    health, policy = examination.health, examination.policy
    segments, deferred = health.index_segments, health.deferred_compactions
    why = (
        f"no index has more than {count_text(segments, 'segment')}, {policy.max_index_segments:,} may be; "
        f"{count_text(deferred, 'compaction')} to follow, {policy.max_deferred_compactions:,} may be"
    )
    numbers = {
        "lance/index_segments": segments,
        "lance/limit": policy.max_index_segments,
        "lance/deferred_compactions": deferred,
        "lance/deferred_limit": policy.max_deferred_compactions,
    }
    passed = segments <= policy.max_index_segments and deferred <= policy.max_deferred_compactions
    why = why if health.indices else "there is no index"
    return _with_verdict(examination, "index", passed, why, numbers)


def _index_wear(examination: Examination) -> tuple[bool, str, Mapping[str, object]]:
    health, policy = examination.health, examination.policy
    numbers: dict[str, object] = {
        "lance/worn_indices": health.worn_indices or 0,
        "lance/limit": policy.max_index_dead_ratio,
    }
    parts = []
    if health.index_dead_ratio is not None:
        numbers["lance/index_dead_ratio"] = health.index_dead_ratio
        parts.append(
            f"at most {health.index_dead_ratio:.1%} of the rows of a segment are gone, "
            f"{policy.max_index_dead_ratio:.1%} may be"
        )
    if health.index_imbalance is not None:
        numbers["lance/index_imbalance"] = health.index_imbalance
        parts.append(f"partitions are uneven at most {health.index_imbalance:.2f} times")
    if health.index_drift is not None:
        numbers |= {"lance/index_drift": health.index_drift, "lance/drift_limit": policy.max_index_drift}
        parts.append(
            f"newer vectors lie at most {health.index_drift:.2f} times as far from their centroids, "
            f"{policy.max_index_drift:.2f} may be"
        )
    worn = health.worn_indices or 0
    why = "; ".join([*([f"{count_text(worn, 'index', 'indices')} worn"] if worn else []), *parts])
    return _with_verdict(examination, "index", not worn, why or "there is no index", numbers)


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
        f"({count_text(worst.queries, 'query', 'queries')}), {limit:.1%} are asked for"
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
    why = f"{count_text(value, 'version')} kept, {limit:,} may be"
    return _with_verdict(
        examination, "cleanup", value <= limit, why, {"lance/live_versions": value, "lance/limit": limit}
    )


CHECKS: Mapping[str, Check] = {
    keys.MANIFEST_READABLE: Check(
        "The newest manifest can be read and does not contradict itself.", _manifest, blocking=True
    ),
    "fragmentation": Check("Fewer small fragments than the policy allows.", _fragmentation),
    "deleted_ratio": Check("A smaller share of deleted rows than the policy allows.", _deleted_ratio),
    "index_coverage": Check(
        "Every index covers the share of rows that the policy asks for.", _index_coverage
    ),
    "index_upkeep": Check(
        "No index has more segments, or is further behind compactions, than the policy allows.", _index_upkeep
    ),
    "index_wear": Check(
        "No index names more rows that are gone, or fits its rows worse, than the policy allows.",
        _index_wear,
        reads_files=True,
    ),
    "vector_recall": Check(
        "Vector indices find the share of true neighbours that the policy asks for, on a bounded sample.",
        _vector_recall,
        is_costly=True,
        applies=vector_indices,
    ),
    "version_backlog": Check("Fewer versions than the policy allows.", _version_backlog),
    "files_present": Check(
        "Every file of the newest version is there, in the size that was recorded.",
        _files,
        blocking=True,
        reads_files=True,
    ),
    "deletion_vectors_valid": Check(
        "Every deletion file can be read and marks as many rows as the manifest says.",
        _deletion_vectors,
        blocking=True,
        reads_files=True,
    ),
}
"""The checks by name; those that read files come last, for callers in a hurry."""
