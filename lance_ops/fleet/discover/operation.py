"""Discovery of the datasets of a fleet, by the rules of its policy."""

import fnmatch
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from posixpath import join

from lance_ops.errors import LanceOpsError
from lance_ops.fleet.discover.folders import SUFFIX, list_folders, unusable, walk
from lance_ops.fleet.discover.namespace import list_tables
from lance_ops.fleet.policy.model import DiscoverRule
from lance_ops.fleet.stores.opened import FleetDataset, FleetStores


@dataclass(frozen=True, slots=True)
class Discovery:
    """Result of a discovery.

    Attributes:
        datasets: Sorted by name.
        errors: Failed rules and unreadable folders, one line each: their datasets are unknown.
        requests: Number of requests to the stores.
        complete: True if it ended before the deadline, and no rule failed.
        unseen: Locations of unreadable folders.
        empty: Rules that found no dataset, one line each: often a typing error in root or pattern.
    """

    datasets: tuple[FleetDataset, ...]
    errors: tuple[str, ...]
    requests: int
    complete: bool
    unseen: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()

    def hides(self, uri: str) -> bool:
        """Return whether a dataset may exist although it was not found."""
        return not self.complete or any(f"{uri}/".startswith(f"{folder}/") for folder in self.unseen)


def discover_datasets(stores: FleetStores, *, deadline: float | None = None) -> Discovery:
    """Find datasets by all rules; a failed rule does not affect the others.

    Args:
        stores: Stores of the policy.
        deadline: `time.monotonic()` at which to stop.
    """
    import time

    found: dict[str, FleetDataset] = {}
    errors: list[str] = []
    skipped: dict[str, str] = {}
    empty: list[str] = []
    requests = 0
    for rule in stores.policy.rules:
        try:
            root = stores.root(rule.store)
            before = root.requests
            ledger = stores.ledger_below(rule.store)

            def skip(path: str, why: str, rule: DiscoverRule = rule, root: str = root.uri) -> None:
                if not _is_excluded(rule, path):
                    skipped[join(root, path)] = f"store {rule.store}: folder {path!r} is skipped: {why}"

            any_found = False
            for path in _by_rule(stores, rule, deadline, skip, ledger):
                if (why := unusable(path)) is not None:
                    skip(path, why)
                elif not _is_excluded(rule, path) and not _is_below(path, ledger):
                    item = stores.dataset(rule.store, path)
                    found[item.name] = item
                    any_found = True
            if not any_found:
                place = join(root.uri, rule.path) if rule.path else root.uri
                named = f" by the pattern {rule.glob!r}" if rule.kind == "glob" else ""
                empty.append(f"store {rule.store}: no dataset was found below {place}{named}")
            requests += root.requests - before
        except LanceOpsError as error:
            errors.append(f"store {rule.store}: {error.message}")
    late = deadline is not None and time.monotonic() >= deadline
    return Discovery(
        tuple(sorted(found.values())),
        (*errors, *skipped.values()),
        requests,
        complete=not (errors or late),
        unseen=tuple(skipped),
        empty=() if late else tuple(empty),
    )


discover = discover_datasets
"""Short name within the package."""


def _is_below(path: str, folder: str | None) -> bool:
    return folder is not None and f"{path}/".startswith(f"{folder}/")


def _by_rule(
    stores: FleetStores,
    rule: DiscoverRule,
    deadline: float | None,
    skip: Callable[[str, str], None],
    ledger: str | None,
) -> Iterator[str]:
    root = stores.root(rule.store)
    if rule.kind == "lancedb":
        for name in list_folders(root, rule.path):
            if name.endswith(SUFFIX):
                yield join(rule.path, name) if rule.path else name
        return
    if rule.kind == "namespace":
        yield from list_tables(root, rule.path)
        return
    pattern = _pattern(rule) if rule.kind == "glob" else None
    deep = rule.depth if pattern is None or "**" in rule.glob else rule.glob.count("/")
    found = walk(
        root,
        rule.path,
        depth=deep,
        threads=stores.threads,
        deadline=deadline,
        enters=lambda path: not _is_below(path, ledger),
        skips=skip,
    )
    for path in found:
        if pattern is None or pattern.fullmatch(path):
            yield path


def _pattern(rule: DiscoverRule) -> re.Pattern[str]:
    """Compile a glob of paths: `*` matches part of one name, `**` any folders."""
    whole = join(rule.path, rule.glob) if rule.path else rule.glob
    parts = ["(?:.+/)?" if part == "**" else f"{_of_name(part)}/" for part in whole.split("/")]
    return re.compile("".join(parts).removesuffix("/"))


def _of_name(part: str) -> str:
    return "".join("[^/]*" if char == "*" else "[^/]" if char == "?" else re.escape(char) for char in part)


def _is_excluded(rule: DiscoverRule, path: str) -> bool:
    below = path.removeprefix(f"{rule.path}/") if rule.path else path
    return any(fnmatch.fnmatchcase(below, pattern) for pattern in rule.exclude)
