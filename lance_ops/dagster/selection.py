"""Selections of datasets: by Dagster's syntax, or by verdict, class, owner and policy."""

from collections.abc import Callable, Collection, Iterable, Sequence

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.dataset_ref import LanceDatasetRef
from lance_ops.dagster.registry import REGISTRY
from lance_ops.dagster.resource import LanceStoreResource
from lance_ops.errors import InvalidArgumentError, LanceOpsError
from lance_ops.maintenance.health.policy import MaintenancePolicy
from lance_ops.maintenance.health.verdicts import judge_dataset

VERDICTS = ("healthy", "due", "overdue", "blocked", "damaged", "unreadable")
_WORST_LAST = ("healthy", "due", "blocked")


def select_datasets(
    definitions: dg.Definitions,
    *,
    verdict: str | Collection[str] | None = None,
    class_name: str | None = None,
    owner: str | None = None,
    policy: Callable[[MaintenancePolicy], bool] | None = None,
    store: LanceStoreResource | None = None,
) -> dg.AssetSelection:
    """Select the datasets of some definitions that match all arguments.

    The result is an asset selection: for downstream jobs (`select_datasets(...).downstream()`), for
    automation sensors and for checks (`dg.AssetSelection.checks_for_assets`). It is evaluated when the code
    location is loaded.

    Args:
        definitions: From `build_lance_definitions` or `build_fleet_definitions`.
        verdict: One or several of `VERDICTS`: the worst of the operations. For a dataset of a fleet it comes
            from the newest survey; others are opened and evaluated now.
        class_name: Class in the fleet's policy.
        owner: An e-mail address or `team:<name>`.
        policy: Selects by policy: `lambda policy: policy.max_versions > 100`.
        store: Opens datasets to evaluate them; local files and threads by default.

    Raises:
        InvalidArgumentError: Unknown verdict.
    """
    wanted = {verdict} if isinstance(verdict, str) else set(verdict or ())
    if unknown := sorted(wanted - set(VERDICTS)):
        raise InvalidArgumentError(
            f"unknown verdict {', '.join(unknown)}", field="verdict", hint=f"one of {', '.join(VERDICTS)}"
        )
    resource = store or LanceStoreResource()
    found = [
        spec.key
        for spec in definitions.resolve_all_asset_specs()
        if (ref := REGISTRY.refs.get("/".join(spec.key.path))) is not None
        and class_name in (None, spec.tags.get(keys.CLASS_TAG))
        and (owner is None or owner in spec.owners)
        and (policy is None or policy(ref.policy))
        and (not wanted or (spec.tags.get(keys.VERDICT_TAG) or verdict_of(ref, resource)) in wanted)
    ]
    return dg.AssetSelection.assets(*found)


def verdict_of(ref: LanceDatasetRef, store: LanceStoreResource) -> str:
    """Return the worst verdict of a dataset, one of `VERDICTS`."""
    try:
        states = {item.state for item in judge_dataset(store.open(ref), ref.policy)}
    except LanceOpsError:
        return "unreadable"
    return max(states, key=_WORST_LAST.index, default="healthy")


def filter_refs(
    refs: Iterable[LanceDatasetRef],
    spec_of: Callable[[LanceDatasetRef], dg.AssetSpec],
    *,
    select: str | None = None,
    exclude: str | None = None,
) -> list[LanceDatasetRef]:
    """Return the datasets whose assets match a selection in Dagster's syntax.

    Args:
        refs: The datasets.
        spec_of: Their assets with keys, tags, owners, groups and kinds.
        select: Selection; all by default.
        exclude: Selection to exclude.

    Raises:
        InvalidArgumentError: A selection does not parse, or leaves no dataset.
    """
    known = {spec_of(ref).key: ref for ref in refs}
    if select is None and exclude is None:
        return list(known.values())
    assets = [_selectable(f"dataset_{number}", spec_of(ref)) for number, ref in enumerate(known.values())]
    kept = set(known) if select is None else _resolve("select", select, assets)
    kept -= set() if exclude is None else _resolve("exclude", exclude, assets)
    found = [ref for key, ref in known.items() if key in kept]
    if not found:
        raise InvalidArgumentError(
            f"the selection matches none of {len(known):,} datasets (select={select!r}, exclude={exclude!r})",
            field="select",
            hint='such as tag:tier=gold, owner:"team:sales", group:sales or key:"sales/*"',
        )
    return found


def _selectable(name: str, spec: dg.AssetSpec) -> dg.AssetsDefinition:
    """Return a selectable asset; assets that are never executed are in no selection."""

    @dg.multi_asset(name=name, specs=[spec.replace_attributes(automation_condition=None)])
    def selectable() -> None:
        """Never executed."""

    return selectable


def _resolve(field: str, text: str, assets: Sequence[dg.AssetsDefinition]) -> set[dg.AssetKey]:
    try:
        return set(dg.AssetSelection.from_string(text).resolve(assets, allow_missing=True))
    except dg.DagsterError as error:
        raise InvalidArgumentError(
            f"{text!r} is not a selection of assets: {error}",
            field=field,
            hint='such as tag:tier=gold, owner:"team:sales", group:sales or key:"sales/*"',
        ) from error
