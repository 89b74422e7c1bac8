"""All names that this package writes into Dagster or into transactions.

Keys of the `dagster/` namespace are Dagster's own, so that its pages show row counts, columns and locations;
keys of the `lance/` namespace are ours. Numbers stay numbers, so that they can be plotted.
"""

# Metadata displayed by Dagster's pages.
ROW_COUNT = "dagster/row_count"
SIZE_BYTES = "dagster/size_bytes"
PARTITION_ROW_COUNT = "dagster/partition_row_count"
URI = "dagster/uri"
TABLE_NAME = "dagster/table_name"
COLUMN_SCHEMA = "dagster/column_schema"
COLUMN_LINEAGE = "dagster/column_lineage"
STORAGE_KIND = "dagster/storage_kind"

# Event tags.
DATA_VERSION_TAG = "dagster/data_version"
VERSION = "lance/version"
OPERATION = "lance/operation"
TRANSACTION_UUID = "lance/transaction_uuid"
# Metadata of a partition loaded in a run of several, whose events have the same tags.
JOB_DIGEST = "lance/job_digest"
SUMMARISED_FROM = "lance/summarised_from"
# Metadata of a materialization by the IO manager: the version of the event, and the written one, which
# another publisher may have reported.
PUBLISHED_VERSION = "lance/published_version"
WRITTEN_VERSION = "lance/written_version"

# Metadata of a version, beside VERSION and the plotted numbers. RAW is JSON of every measure, threshold and
# property.
NAMESPACE = "lance/"
COMMITTED_AT = "lance/committed_at"
DESCRIPTION = "lance/transaction"
RAW = "lance/raw"
# Metadata of a dataset's definition: the thresholds by name.
POLICY = "lance/policy"
# Limits of the policy, beside their numbers: long names would leave no space for the values.
SMALL_LIMIT = "lance/small_limit"
DELETED_LIMIT = "lance/deleted_limit"
INDEX_LIMIT = "lance/index_limit"
VERSION_LIMIT = "lance/live_limit"
STREAM_QUERY = "lance/stream_query"
STREAM_EPOCH = "lance/stream_epoch"
ENRICHMENT_ERROR = "lance/enrichment_error"
# Metadata of assets computed from datasets: the versions read, by name.
INPUT_VERSIONS = "lance/input_versions"
SUMMARISED_VERSIONS = "lance/summarised_versions"
SUMMARISED_OPERATIONS = "lance/summarised_operations"
# Earlier versions that cannot be read, with the reason.
DAMAGED_VERSIONS = "lance/damaged_versions"

# Metadata of observations of a dataset during an operation.
TASKS_DONE = "lance/tasks_done"
TASKS_TOTAL = "lance/tasks_total"
BYTES_DONE = "lance/bytes_done"
BYTES_TOTAL = "lance/bytes_total"
SECONDS_LEFT = "lance/seconds_left"
EXPECTED_END = "lance/expected_end"

# Links from a version to the run that made it, from an ingest or a failed step to the dataset.
RUN_PAGE = "lance/run"
DATASET_PAGE = "lance/dataset_page"

# Metadata of a run's steps.
PLAN = "lance/plan"
PLAN_TABLE = "lance/plan_table"
CHANGES = "lance/changes"
DRY_RUN = "lance/dry_run"
# Metadata of a failed check: why the operation that would repair it is blocked.
BLOCKED = "lance/blocked"
# Metadata of a check that could not be evaluated: it does not pass, and raises no alert of its own.
NOT_EVALUATED = "lance/not_evaluated"
SUMMARY = "lance/summary"
CONFLICTS = "lance/conflicts"
CONFLICTS_MET = "lance/conflicts_met"
REBASED_OVER = "lance/rebased_over"
CONFLICT_KIND = "lance/conflict_kind"
CONFLICT_OURS = "lance/conflict_ours"
CONFLICT_THEIRS = "lance/conflict_theirs"
CONFLICT_VERSION = "lance/conflict_version"
DATASET = "lance/dataset"
ERROR = "lance/error"
ERROR_PATH = "lance/error_path"
ERROR_FIELD = "lance/error_field"
ERROR_HINT = "lance/error_hint"

# Metadata of an asset written by the IO manager: its column lineage.
COLUMNS_FROM = "lance/columns_from"

# Tags of the assets of a fleet.
CLASS_TAG = "lance/class"
STORE_TAG = "lance/store"
MODE_TAG = "lance/mode"
VERDICT_TAG = "lance/verdict"

# Tag of runs: dagster.yaml limits the runs of one value to one at a time.
DATASET_TAG = "lance_ops/dataset"
# Tag of runs that the sensor starts, with the name of the job: dagster.yaml limits these to one at a time as
# well, so that results from older data do not arrive last.
DOWNSTREAM_TAG = "lance_ops/downstream"
# Another tag of them: their dataset and version.
TRIGGER_TAG = "lance_ops/trigger"
# And their data version.
DATA_TAG = "lance_ops/data"
# Tags of retries: number of the attempt, the failed run, and the first one, whose job keys are reused.
ATTEMPT_TAG = "lance_ops/attempt"
RETRY_OF_TAG = "lance_ops/retry_of"
RETRY_ROOT_TAG = "lance_ops/retry_root"
# Tag of runs with a process that was seen: the machine.
MACHINE_TAG = "lance_ops/machine"
# Dagster's tag for the maximum duration of a run, in seconds.
MAX_RUNTIME_TAG = "dagster/max_runtime"
# Tag of runs that a schedule starts: the reason.
DUE_TAG = "lance_ops/due"
# And the version and policy, so that a failed run is recognized.
DUE_FOR_TAG = "lance_ops/due_for"
# Tag of runs that change a tag: request and finding, for retries.
TAG_FOUND = "lance_ops/tag_found"
# Tag of runs of a fleet that its schedule starts: location of its policy.
FLEET_TAG = "lance_ops/fleet"

# Pools: of steps of maintenance jobs, and of the ingests of one dataset.
COMMIT_POOL = "lance_commit"
INGEST_POOL_PREFIX = "lance_ingest_"

# Properties of our transactions, by which the sensor recognizes them.
RUN_ID = "dagster.run_id"
JOB = "dagster.job"
STEP = "dagster.step"
PARTITION = "dagster.partition"
# JSON with the SQL of each column that a commit computed: proof of its lineage.
EXPRESSIONS = "dagster.expressions"
# The output of a step that the IO manager wrote: its run reports the version, but no checks.
IO_MANAGER = "dagster.io_manager"

# Names of resources and checks.
STORE_RESOURCE = "lance_store"
MANIFEST_READABLE = "manifest_readable"
ROWS_LOADED = "rows_loaded"
PARTITIONS_LOADED = "partitions_loaded"
DOWNSTREAM_COMPUTED = "downstream_computed"


def prefixed(prefix: str, name: str) -> str:
    """Return a name with the prefix of a factory call: `eu_lance_compact`."""
    return f"{prefix}_{name}" if prefix else name
