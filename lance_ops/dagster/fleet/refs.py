"""Dataset references of a fleet: keys, groups, owners, tags and thresholds. Pure."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from datetime import timedelta

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.dataset_ref import LanceDatasetRef, slugify
from lance_ops.fleet.policy.model import FleetPolicy
from lance_ops.fleet.stores.opened import FleetDataset
from lance_ops.storage.variables import expand

_SUFFIX = ".lance"
_UNFIT = re.compile(r"[^A-Za-z0-9_.-]+")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_OWNER = re.compile(r"[^@\s]+@[^@\s]+|team:\S+")
_MOST_OF_A_TAG = 63
_LEAST_WINDOW = timedelta(seconds=61)


def fleet_refs(
    policy: FleetPolicy, datasets: Iterable[FleetDataset], verdicts: Mapping[str, str] | None = None
) -> dict[str, LanceDatasetRef]:
    """Return the datasets of a fleet, by their names in the fleet.

    Args:
        policy: Of the fleet.
        datasets: From a discovery.
        verdicts: Of the newest survey, by name: tags for filters in Dagster's pages.
    """
    found: dict[str, LanceDatasetRef] = {}
    slugs: set[str] = set()
    for dataset in sorted(datasets):
        rules = policy.of_dataset(dataset.name)
        name = asset_name(dataset.name)
        if slugify(name) in slugs:
            name = f"{name}_{_short_digest(dataset.name)}"
        slugs.add(slugify(name))
        found[dataset.name] = LanceDatasetRef(
            name,
            dataset.uri,
            group=slugify(name.split("/", 1)[0]) if "/" in name else slugify(dataset.store),
            owners=[_owner(rules.owner)] if rules.owner else [],
            tags={
                keys.CLASS_TAG: _tag(rules.class_name),
                keys.STORE_TAG: _tag(dataset.store),
                keys.MODE_TAG: rules.mode,
                **(
                    {keys.VERDICT_TAG: verdicts[dataset.name]}
                    if verdicts and dataset.name in verdicts
                    else {}
                ),
                **{f"lance/{_tag(tag)}": "" for tag in rules.tags},
            },
            policy=rules.maintenance,
            freshness=_freshness(rules.settings["silent_after"]),
            storage_options=store_options(policy, dataset.store),
        )
    return found


def asset_name(name: str) -> str:
    """Return the name of a dataset as the path of an asset key: `sales/orders` for `sales/orders.lance`."""
    parts = [part for part in name.removesuffix(_SUFFIX).split("/") if part]
    fit = "/".join(_UNFIT.sub("_", part) for part in parts)
    return fit if fit and fit == "/".join(parts) else f"{fit or 'dataset'}_{_short_digest(name)}"


def store_options(policy: FleetPolicy, store: str) -> dict[str, str | dg.EnvVar]:
    """Return the options of a store with `dg.EnvVar`, of which Dagster shows the names only.

    Raises:
        InvalidArgumentError: A variable in a value is not set.
    """
    found: dict[str, str | dg.EnvVar] = {}
    for name, text in policy.store(store).options.items():
        whole = _VARIABLE.fullmatch(text)
        found[name] = expand(text) if whole is None else dg.EnvVar(whole.group(1))
    return found


def _freshness(silent_after: timedelta | None) -> dg.FreshnessPolicy | None:
    """Return the freshness policy for `silent_after`. Dagster accepts a minute and more."""
    if silent_after is None:
        return None
    return dg.FreshnessPolicy.time_window(fail_window=max(silent_after, _LEAST_WINDOW))


def _owner(owner: str) -> str:
    """Return an owner in Dagster's form: an address, or a team."""
    return owner if _OWNER.fullmatch(owner) else f"team:{_UNFIT.sub('_', owner)}"


def _tag(text: str) -> str:
    return _UNFIT.sub("_", text)[:_MOST_OF_A_TAG]


def _short_digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:6]
