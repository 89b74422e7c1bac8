"""Fleet policy as frozen dataclasses: contents of the YAML file, and the policy of one dataset."""

import fnmatch
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from hashlib import blake2b
from typing import Any, Literal

from lance_ops.alerts.rule import AlertRule, problems_of
from lance_ops.errors import InvalidArgumentError, PolicyError, PolicyProblem
from lance_ops.fleet.policy.overlaps import ledger_in_the_way, overlaps
from lance_ops.fleet.policy.secrets import Options
from lance_ops.fleet.policy.settings import OPERATIONS, SETTINGS, THRESHOLDS, Mode, setting_text
from lance_ops.fleet.policy.ttl import RowTTL
from lance_ops.fleet.policy.windows import Blackout, Window
from lance_ops.maintenance.health.policy import MaintenancePolicy

DEFAULT_CLASS = "default"
LEDGER_FOLDER = "_lance_ops_fleet"
DiscoverKind = Literal["folder", "lancedb", "namespace", "glob"]


_LATER_SETTINGS = ("strategy", "max_files_per_fragment", "max_dead_column_ratio", "cleanup_grace")
"""Settings that the releases did not have whose digests are in ledgers: their defaults change no digest."""


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """A store with datasets below its root.

    Attributes:
        name: Short name; datasets of a fleet with several stores are called `store/path`.
        root: Folder or URI.
        options: Options of the store, with `${VARIABLE}` for environment variables.
    """

    name: str
    root: str
    options: Options = field(default_factory=Options)

    def storage_options(self) -> dict[str, str] | None:
        """Return the options that open the store.

        Raises:
            InvalidArgumentError: A variable is not set.
        """
        return self.options.expanded()


@dataclass(frozen=True, slots=True)
class DiscoverRule:
    """Rule for finding the datasets of a store.

    Attributes:
        store: Name of the store.
        kind: `folder`: every dataset below, at any depth up to `depth`; `lancedb`: the tables `*.lance` of a
            LanceDB database; `namespace`: a directory namespace of lance-namespace; `glob`: matches of a
            pattern.
        path: Folder below the root of the store.
        glob: For `glob`: pattern of paths, where `*` matches a part of one name, and `**` any folders.
        exclude: Patterns of paths to leave out.
        depth: For `folder`: maximum depth.
    """

    store: str
    kind: DiscoverKind = "folder"
    path: str = ""
    glob: str = "*.lance"
    exclude: tuple[str, ...] = ()
    depth: int = 6


@dataclass(frozen=True, slots=True)
class PolicyClass:
    """A class of datasets.

    Attributes:
        name: Its name; every class but `default` extends `default` by default.
        settings: Its settings, by the names of `SETTINGS`.
        extends: The class of its other settings.
        windows: When its datasets may be maintained; those of the fleet if None.
        blackouts: When they may not, in addition to those of the fleet.
    """

    name: str
    settings: Mapping[str, object] = field(default_factory=dict)
    extends: str | None = None
    windows: tuple[Window, ...] | None = None
    blackouts: tuple[Blackout | Window, ...] = ()


@dataclass(frozen=True, slots=True)
class Assignment:
    """Assigns datasets to a class; the first match decides.

    Attributes:
        match: Pattern of names: `*`, `?`, `[seq]`.
        class_name: The class.
        owner: Recipient of alerts; that of the class if None.
        tags: Tags of the datasets, e.g. for Dagster.
    """

    match: str
    class_name: str = DEFAULT_CLASS
    owner: str | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of maintenance; None for no limit.

    Attributes:
        bytes_per_hour: Read and written within any hour.
        runs: Concurrently maintained datasets.
        requests_per_second: Requests to a store.
    """

    bytes_per_hour: int | None = None
    runs: int | None = None
    requests_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class DatasetPolicy:
    """Effective policy of one dataset.

    Attributes:
        name: Name of the dataset.
        class_name: Its class.
        maintenance: Thresholds.
        operations: Allowed operations of `ttl`, `compact`, `index`, `cleanup`, in this order.
        mode: `observe`, `propose` or `auto`.
        windows: When maintenance may run; always if empty.
        blackouts: When it may not.
        owner: Recipient of alerts.
        tags: Tags of its assignment.
        settings: All values by the names of `SETTINGS`.
        origins: Origin of each, for display: `class hot, line 12`, `default`.
    """

    name: str
    class_name: str
    maintenance: MaintenancePolicy
    operations: tuple[str, ...]
    mode: Mode
    windows: tuple[Window, ...]
    blackouts: tuple[Blackout | Window, ...]
    owner: str | None
    tags: tuple[str, ...]
    settings: Mapping[str, Any]
    origins: Mapping[str, str]

    @property
    def ttl(self) -> RowTTL | None:
        """Row time-to-live; None to keep all rows."""
        found = self.settings["ttl"]
        assert found is None or isinstance(found, RowTTL)
        return found

    def terms(self, operation: str) -> str:
        """Return what an operation removes permanently, as a person approves it; empty if nothing."""
        rules = self.maintenance
        if operation == "ttl":
            return f"{self.ttl}, {setting_text(self.settings['ttl_max_fraction'])} of the rows at most"
        if operation == "cleanup":
            return f"older than {setting_text(rules.older_than)}, {rules.retain_versions} kept"
        return ""

    def fingerprint(self) -> str:
        """Digest of all values: a change may change the verdict."""
        known = [
            name
            for name in SETTINGS
            if name not in _LATER_SETTINGS or self.settings[name] != SETTINGS[name].default
        ]
        text = "\n".join(f"{name}={self.settings[name]!r}" for name in known)
        return blake2b(text.encode(), digest_size=8).hexdigest()

    def rows(self) -> list[tuple[str, str, str]]:
        """Return setting, value and origin of each, for a table."""
        return [(name, setting_text(self.settings[name]), self.origins[name]) for name in SETTINGS]


@dataclass(frozen=True, slots=True)
class FleetPolicy:
    """A whole policy file.

    Attributes:
        stores: Stores, at least one.
        discover: Discovery rules; by default every store as a folder.
        classes: Classes of datasets; `default` always exists.
        assign: Assignments of datasets to classes.
        mode: `observe` changes nothing, `propose` waits for the approval of a plan, `auto` runs.
        windows: When maintenance may run; always if empty.
        blackouts: When it may not.
        budget: Limits in total.
        budgets: Limits by store name.
        ledger: Folder or URI of the ledger; `_lance_ops_fleet` below the first store if None.
        ledger_options: Options of its store; those of the first store if `ledger` is None.
        keep: Retention of observations and operations.
        alerts: Alert routing rules.
        source: Path of the file, for messages.
        lines: Line of each value by its path.
    """

    stores: tuple[StoreSpec, ...]
    discover: tuple[DiscoverRule, ...] = ()
    classes: tuple[PolicyClass, ...] = ()
    assign: tuple[Assignment, ...] = ()
    mode: Mode = "observe"
    windows: tuple[Window, ...] = ()
    blackouts: tuple[Blackout | Window, ...] = ()
    budget: Budget = field(default_factory=Budget)
    budgets: Mapping[str, Budget] = field(default_factory=dict)
    ledger: str | None = None
    ledger_options: Options = field(default_factory=Options)
    keep: timedelta = timedelta(days=90)
    alerts: tuple[AlertRule, ...] = ()
    source: str = ""
    lines: Mapping[str, int] = field(default_factory=dict, repr=False, compare=False)
    _of_rules: dict[int | None, DatasetPolicy] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        problems = [PolicyProblem(self.line(path), path, message) for path, message in _problems(self)]
        if problems:
            raise PolicyError(problems, path=self.source or None)

    def line(self, path: str) -> int | None:
        """Return the line of a value, or of the enclosing one; None for a policy without a file."""
        while path and path not in self.lines:
            path = path.rpartition(".")[0]
        return self.lines.get(path)

    def store(self, name: str) -> StoreSpec:
        """Return a store by its name."""
        return next(store for store in self.stores if store.name == name)

    @property
    def rules(self) -> tuple[DiscoverRule, ...]:
        """Discovery rules; by default all stores as folders."""
        return self.discover or tuple(DiscoverRule(store.name) for store in self.stores)

    @property
    def ledger_uri(self) -> str:
        """Folder or URI of the ledger."""
        return self.ledger or f"{self.stores[0].root.rstrip('/')}/{LEDGER_FOLDER}"

    def ledger_storage_options(self) -> dict[str, str] | None:
        """Options that open the store of the ledger."""
        chosen = self.stores[0].options if self.ledger is None else self.ledger_options
        return chosen.expanded()

    def budget_of(self, store: str) -> Budget:
        """Return the limits of a store."""
        return self.budgets.get(store, Budget())

    def lineage(self, name: str) -> Iterator[PolicyClass]:
        """Return a class, and those that it extends."""
        known = {item.name: item for item in self.classes}
        seen: set[str] = set()
        while name not in seen:
            seen.add(name)
            found = known.get(name, PolicyClass(name))
            yield found
            name = found.extends or DEFAULT_CLASS

    def of_dataset(self, name: str) -> DatasetPolicy:
        """Return the effective policy of one dataset.

        Args:
            name: Name of the dataset, as in discovery.
        """
        position, assigned = next(
            ((i, item) for i, item in enumerate(self.assign) if fnmatch.fnmatchcase(name, item.match)),
            (None, Assignment("*")),
        )
        # All but the name is the same for all datasets of an assignment, and a fleet has thousands of these.
        known = self._of_rules.get(position)
        if known is None:
            known = self._of_rules[position] = self._of_assignment(position, assigned)
        return replace(known, name=name)

    def _of_assignment(self, position: int | None, assigned: Assignment) -> DatasetPolicy:
        settings: dict[str, Any] = {key: item.default for key, item in SETTINGS.items()}
        origins = dict.fromkeys(SETTINGS, "default")
        windows: tuple[Window, ...] | None = None
        blackouts: list[Blackout | Window] = list(self.blackouts)
        seen: set[str] = set()
        for item in self.lineage(assigned.class_name):
            for key in item.settings.keys() - seen:
                settings[key] = item.settings[key]
                origins[key] = self._origin(f"class {item.name}", f"classes.{item.name}.{key}")
            seen |= item.settings.keys()
            windows = item.windows if windows is None else windows
            blackouts += item.blackouts
        if settings["mode"] is None:
            settings["mode"] = self.mode
            origins["mode"] = self._origin("fleet", "mode") if "mode" in self.lines else "default"
        if assigned.owner is not None:
            settings["owner"] = assigned.owner
            origins["owner"] = self._origin(f"assignment of {assigned.match}", f"assign[{position}].owner")
        enabled = {key for key in ("compact", "index", "cleanup") if settings[key]}
        if settings["ttl"] is not None:
            enabled.add("ttl")
        return DatasetPolicy(
            name="",
            class_name=assigned.class_name,
            maintenance=MaintenancePolicy(**{key: settings[key] for key in THRESHOLDS}),
            operations=tuple(item for item in OPERATIONS if item in enabled),
            mode=settings["mode"],
            windows=self.windows if windows is None else windows,
            blackouts=tuple(blackouts),
            owner=settings["owner"],
            tags=assigned.tags,
            settings=settings,
            origins=origins,
        )

    def _origin(self, what: str, path: str) -> str:
        line = self.lines.get(path)
        return what if line is None else f"{what}, line {line}"


def _problems(policy: FleetPolicy) -> Iterator[tuple[str, str]]:
    """Yield the problems of a policy, with the path of each."""
    names = [store.name for store in policy.stores]
    if not names:
        yield "stores", "a fleet requires at least one store"
    yield from _duplicates(names, "stores.{}")
    for store in policy.stores:
        if not store.root:
            yield f"stores.{store.name}", "a store requires a root"
    places = [(store.name, store.root, store.options) for store in policy.stores]
    yield from overlaps(places)
    yield from ledger_in_the_way(policy.ledger, [(name, root) for name, root, _ in places])
    for i, rule in enumerate(policy.discover):
        if rule.store not in names:
            yield f"discover[{i}].store", f"unknown store {rule.store!r}; expected one of {', '.join(names)}"
    for name in policy.budgets:
        if name not in names:
            yield f"budget.per_store.{name}", f"unknown store {name!r}; expected one of {', '.join(names)}"
    yield from _class_problems(policy)
    known = _class_names(policy)
    for i, assigned in enumerate(policy.assign):
        if assigned.class_name not in known:
            yield f"assign[{i}].class", f"unknown class {assigned.class_name!r}"
    yield from problems_of(policy.alerts)


def _class_names(policy: FleetPolicy) -> set[str]:
    return {item.name for item in policy.classes} | {DEFAULT_CLASS}


def _class_problems(policy: FleetPolicy) -> Iterator[tuple[str, str]]:
    known = _class_names(policy)
    yield from _duplicates([item.name for item in policy.classes], "classes.{}")
    for item in policy.classes:
        place = f"classes.{item.name}"
        if item.extends is not None and item.extends not in known:
            yield f"{place}.extends", f"unknown class {item.extends!r} in extends"
        elif _extends_itself(policy, item):
            yield f"{place}.extends", f"class {item.name!r} extends itself"
        for key in item.settings:
            if key not in SETTINGS:
                yield f"{place}.{key}", f"unknown setting {key!r} of a class"
        try:
            chosen = {key: value for key, value in item.settings.items() if key in THRESHOLDS}
            MaintenancePolicy(**chosen)  # type: ignore[arg-type]
        except InvalidArgumentError as error:
            yield f"{place}.{error.field}", error.message


def _duplicates(names: Iterable[str], place: str) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            yield place.format(name), f"duplicate name {name!r}"
        seen.add(name)


def _extends_itself(policy: FleetPolicy, item: PolicyClass) -> bool:
    above = {other.name: other.extends for other in policy.classes}
    name, steps = item.extends, 0
    while name is not None and name != item.name and steps <= len(above):
        name, steps = above.get(name), steps + 1
    return name == item.name
