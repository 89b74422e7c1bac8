"""Every name that this floor writes into Dagster or into transactions, in one place.

Keys of the `dagster/` namespace are Dagster's own, so that its pages show row counts, columns and locations;
keys of the `lance/` namespace are ours. Numbers stay numbers, so that they plot.
"""

# Metadata that Dagster's pages know.
ROW_COUNT = "dagster/row_count"
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
# Metadata of a partition that was loaded in a run of several, whose events have the same tags.
JOB_DIGEST = "lance/job_digest"
SUMMARISED_FROM = "lance/summarised_from"
# Metadata of a materialization through the IO manager: the version that it is the event of, and the one that
# was written, be it published by others.
PUBLISHED_VERSION = "lance/published_version"
WRITTEN_VERSION = "lance/written_version"

# Metadata of a version, beside VERSION, OPERATION and one `lance/<name>` for each number of its health.
NAMESPACE = "lance/"
COMMITTED_AT = "lance/committed_at"
READ_VERSION = "lance/read_version"
DESCRIPTION = "lance/transaction"
PROPERTIES = "lance/properties"
STREAM_QUERY = "lance/stream_query"
STREAM_EPOCH = "lance/stream_epoch"
ENRICHMENT_ERROR = "lance/enrichment_error"
# Metadata of what is computed from datasets: the versions that were read, by name.
INPUT_VERSIONS = "lance/input_versions"
SUMMARISED_VERSIONS = "lance/summarised_versions"
SUMMARISED_OPERATIONS = "lance/summarised_operations"
# Versions before that of the event which nobody can read, and why.
DAMAGED_VERSIONS = "lance/damaged_versions"

# Metadata of observations of a dataset while an operation is at work on it.
TASKS_DONE = "lance/tasks_done"
TASKS_TOTAL = "lance/tasks_total"
BYTES_DONE = "lance/bytes_done"
BYTES_TOTAL = "lance/bytes_total"
SECONDS_LEFT = "lance/seconds_left"
EXPECTED_END = "lance/expected_end"

# Links of a version to the run that made it, of an ingest or a failed step to the dataset.
RUN_PAGE = "lance/run"
DATASET_PAGE = "lance/dataset_page"

# Metadata of a run's steps.
PLAN = "lance/plan"
PLAN_TABLE = "lance/plan_table"
CHANGES = "lance/changes"
DRY_RUN = "lance/dry_run"
# Metadata of a failed check: why the operation that would mend it could not help.
BLOCKED = "lance/blocked"
# Metadata of a check that could not be evaluated: it is not green, and no alert of its own.
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

# Metadata of an asset that the IO manager writes: which columns of others feed which of its own.
COLUMNS_FROM = "lance/columns_from"

# Tag of runs: dagster.yaml limits the runs of one value to one at a time.
DATASET_TAG = "lance_ops/dataset"
# Tag of runs that the sensor starts, with the name of the job: dagster.yaml limits these to one at a time as
# well, so that what was computed from older data does not arrive last.
DOWNSTREAM_TAG = "lance_ops/downstream"
# Another tag of them: the dataset and version that they were started for.
TRIGGER_TAG = "lance_ops/trigger"
# And the data version that they were started for.
DATA_TAG = "lance_ops/data"
# Tags of runs that are asked for again: which attempt it is, the run that ended without success, and the
# first one, under whose job keys it works.
ATTEMPT_TAG = "lance_ops/attempt"
RETRY_OF_TAG = "lance_ops/retry_of"
RETRY_ROOT_TAG = "lance_ops/retry_root"
# Tag of runs whose process was seen: the machine.
MACHINE_TAG = "lance_ops/machine"
# Dagster's tag of the longest time of a run, in seconds.
MAX_RUNTIME_TAG = "dagster/max_runtime"
# Tag of runs that a schedule starts: why the operation was due.
DUE_TAG = "lance_ops/due"
# And the version and policy for which it was, so that a failed run is known.
DUE_FOR_TAG = "lance_ops/due_for"
# Tag of runs that change a tag: what they found and were asked for, for those that try again.
TAG_FOUND = "lance_ops/tag_found"
# Tag of runs of a fleet that its schedule starts: where its policy is.
FLEET_TAG = "lance_ops/fleet"

# Tags of the assets of a fleet: the class of a dataset, and the verdict of its newest look.
CLASS_TAG = "lance/class"
VERDICT_TAG = "lance/verdict"

# Pools: of steps of maintenance jobs, and of the ingests of one dataset.
COMMIT_POOL = "lance_commit"
INGEST_POOL_PREFIX = "lance_ingest_"

# Properties of our transactions, by which the sensor knows its own house's commits again.
RUN_ID = "dagster.run_id"
JOB = "dagster.job"
STEP = "dagster.step"
PARTITION = "dagster.partition"
# JSON with the SQL of each column that a commit computed: what feeds them is proven by it.
EXPRESSIONS = "dagster.expressions"
# The output of a step that the IO manager wrote: its run reports the version, and no checks on it.
IO_MANAGER = "dagster.io_manager"

# Names of resources and checks.
STORE_RESOURCE = "lance_store"
MANIFEST_READABLE = "manifest_readable"
ROWS_LOADED = "rows_loaded"
PARTITIONS_LOADED = "partitions_loaded"
DOWNSTREAM_COMPUTED = "downstream_computed"


def prefixed(prefix: str, name: str) -> str:
    """A name of ours in a code location that calls the factory several times: `eu_lance_compact`."""
    return f"{prefix}_{name}" if prefix else name
