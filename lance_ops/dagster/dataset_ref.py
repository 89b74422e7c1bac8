"""Dataset reference: asset key, URI, and maintenance policy."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import PurePath

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.lineage import ColumnSources, check_sources
from lance_ops.errors import InvalidArgumentError, LanceOpsError
from lance_ops.fleet.policy.overlaps import resolved
from lance_ops.maintenance.health.policy import MaintenancePolicy
from lance_ops.storage.paths import is_address, parse_location, refuse_secrets

_NAME = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*")
_UNSAFE = re.compile(r"[^A-Za-z0-9_]")


def slugify(name: str) -> str:
    """Convert a name for ops, jobs, sensors and pools of Dagster."""
    return _UNSAFE.sub("_", name)


@dataclass(frozen=True, slots=True)
class LanceDatasetRef:
    """One dataset of a code location. It becomes one asset and one partition of every maintenance job.

    Attributes:
        name: Path of the asset key, parts joined by "/": `flights`, `warehouse/flights`.
        uri: Absolute path or URI. The dataset may not exist yet.
        description: Markdown for the asset's page.
        group: Asset group; the first part of the name when it has several, else Dagster's default.
        owners: E-mail addresses or `team:<name>`.
        tags: Asset tags.
        deps: Upstream assets.
        policy: Thresholds of maintenance.
        freshness: Maximum age of the newest version.
        storage_options: Options of the object store for this dataset, on top of those of the resource;
            secrets as `dg.EnvVar`. They are not shown.
        columns_from: Declared column lineage: {column: [(asset, column)]}.
        run_limit: Maximum duration of a maintenance or ingest run, as the run tag `dagster/max_runtime`;
            default that of `dagster.yaml`.
        indexed: False omits the checks of indices. For a local dataset this is read when the code location
            loads; a dataset in an object store has these checks unless this is False.
        kinds: Kinds that Dagster shows beside the name, e.g. `pyspark`; at most three.
    """

    name: str
    uri: str
    description: str = ""
    group: str | None = None
    owners: Sequence[str] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    deps: Sequence[dg.AssetKey | str] = ()
    policy: MaintenancePolicy = field(default_factory=MaintenancePolicy)
    freshness: dg.FreshnessPolicy | None = None
    storage_options: Mapping[str, str | dg.EnvVar] = field(default_factory=dict, repr=False)
    kinds: frozenset[str] = frozenset({"lance"})
    columns_from: ColumnSources = field(default_factory=dict)
    run_limit: timedelta | None = None
    indexed: bool | None = None

    def __post_init__(self) -> None:
        check_sources(self.columns_from, f"dataset {self.name!r}")
        if not _NAME.fullmatch(self.name):
            raise InvalidArgumentError(
                f"{self.name!r} is not a valid name of a dataset",
                field="name",
                hint="use letters, digits, underscores, dots and hyphens, in parts joined by '/'",
            )
        if not self.uri:
            raise InvalidArgumentError(f"dataset {self.name!r} has no URI", field="uri")
        refuse_secrets(self.uri)
        if is_address(self.uri):
            if "://" not in self.uri:
                parse_location(self.uri)
        elif not PurePath(self.uri).is_absolute():
            # Sensors, runs and the UI are separate processes, and so is a shell.
            raise InvalidArgumentError(
                f"the path {self.uri!r} of dataset {self.name!r} is relative: it would differ between "
                "processes started in different folders",
                field="uri",
                hint='use an absolute path, e.g. str(Path(__file__).parent / "..."), or a URI',
            )

    @property
    def key(self) -> dg.AssetKey:
        """The asset key."""
        return dg.AssetKey(self.name.split("/"))

    @property
    def run_tags(self) -> dict[str, str]:
        """Tags of the runs on it."""
        limit = self.run_limit
        limited = {} if limit is None else {keys.MAX_RUNTIME_TAG: str(int(limit.total_seconds()))}
        return {keys.DATASET_TAG: self.name, **limited}

    @property
    def slug(self) -> str:
        """The name as Dagster allows it for ops, sensors and pools."""
        return slugify(self.name)

    @property
    def group_name(self) -> str | None:
        """The group, or the first part of a name of several parts."""
        if self.group is None and "/" in self.name:
            return slugify(self.name.split("/", 1)[0])
        return self.group

    @property
    def table_name(self) -> str:
        """The name in Dagster's table panels."""
        return self.name.replace("/", ".")

    @property
    def policy_values(self) -> dict[str, str | int | float]:
        """The thresholds of the policy by name."""
        return policy_values(self.policy)

    @property
    def policy_hash(self) -> str:
        """Digest of the thresholds; 12 hexadecimal digits."""
        content = repr(sorted(self.policy_values.items()))
        return hashlib.sha256(content.encode()).hexdigest()[:12]


def policy_values(policy: MaintenancePolicy) -> dict[str, str | int | float]:
    """Return the thresholds of a policy by name."""
    values = asdict(policy)
    if policy.strategy is None:
        # Cursors and run keys have digests of releases without it.
        del values["strategy"]
    return {name: value if isinstance(value, int | float) else str(value) for name, value in values.items()}


def place_of(uri: str) -> str:
    """Return a normalized URI: links, slashes and scheme aliases resolved."""
    try:
        return resolved(uri)
    except LanceOpsError:
        return uri  # The error is raised where the dataset is opened.


def _server_of(ref: LanceDatasetRef) -> tuple[tuple[str, str], ...]:
    """Return the options that identify the server of a bucket: bucket names may recur on other servers."""
    return tuple(
        sorted(
            (name.lower(), value.env_var_name if isinstance(value, dg.EnvVar) else value)
            for name, value in ref.storage_options.items()
            if "endpoint" in name.lower() or "account_name" in name.lower()
        )
    )


def index_refs(refs: Iterable[LanceDatasetRef]) -> dict[str, LanceDatasetRef]:
    """Return the datasets by name.

    Raises:
        InvalidArgumentError: There are none, two with conflicting names, or two with the same URI.
    """
    by_name: dict[str, LanceDatasetRef] = {}
    slugs: dict[str, str] = {}
    places: dict[tuple[object, ...], LanceDatasetRef] = {}
    for ref in refs:
        other = slugs.setdefault(ref.slug, ref.name)
        if ref.name in by_name or other != ref.name:
            raise InvalidArgumentError(
                f"the names {other!r} and {ref.name!r} of two datasets collide",
                field="name",
                hint="rename one of them",
            )
        same = places.setdefault((place_of(ref.uri), _server_of(ref)), ref)
        if same is not ref:
            raise InvalidArgumentError(
                f"datasets {same.name!r} ({same.uri}) and {ref.name!r} ({ref.uri}) are the same dataset: "
                "both would publish and maintain it",
                field="uri",
                hint=f"remove one of them, and refer to the other by its asset key {same.name!r}",
            )
        by_name[ref.name] = ref
    if not by_name:
        raise InvalidArgumentError("refs must not be empty", field="refs")
    return by_name
