"""Dagster definitions of the asset checks of a dataset.

Dagster drops check results with every newer materialization, so the publisher of a version also reports its
checks: runs, the manifest sensor, and the button in the UI all call `evaluate`.
"""

from collections.abc import Callable, Collection, Iterator, Sequence

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.checks.catalog import CHECKS, Check, own_name, page_name
from lance_ops.dagster.checks.computed import downstream_spec, last_verdict
from lance_ops.dagster.checks.evaluate import applies, examine
from lance_ops.dagster.dataset_ref import LanceDatasetRef, index_refs
from lance_ops.dagster.publication import last_published
from lance_ops.dagster.resource import LanceStoreResource
from lance_ops.errors import LanceOpsError
from lance_ops.storage.paths import is_address
from lance_ops.table.dataset import Dataset


def build_asset_checks(
    refs: Sequence[LanceDatasetRef], *, downstream: Collection[str] = (), prefix: str = ""
) -> list[dg.AssetChecksDefinition]:
    """Build one definition per dataset with all its checks, any of which can be executed alone.

    Args:
        refs: The datasets.
        downstream: Names of the datasets with downstream jobs: they have the check `downstream_computed`.
        prefix: Prefix of the required resource: `<prefix>_lance_store`.
    """
    store_key = keys.prefixed(prefix, keys.STORE_RESOURCE)
    return [
        _build_checks(ref, store_key, is_read=ref.name in downstream) for ref in index_refs(refs).values()
    ]


def build_check_specs(ref: LanceDatasetRef) -> list[dg.AssetCheckSpec]:
    """Return the specs of the checks that apply to a dataset.

    Only local datasets are opened for this, since a code location loads in many processes, and often. Others
    get all checks unless `ref.indexed` is False.
    """
    applying = _applying(ref)
    return [
        dg.AssetCheckSpec(
            page_name(name), asset=ref.key, description=check.description, blocking=check.blocking
        )
        for name, check in CHECKS.items()
        if applying(check)
    ]


def _applying(ref: LanceDatasetRef) -> Callable[[Check], bool]:
    if ref.indexed is not None:
        return lambda check: ref.indexed or not check.of_indices
    if is_address(ref.uri):
        return lambda _: True
    try:
        dataset = Dataset.open(ref.uri)
    except LanceOpsError:
        return lambda _: True
    return lambda check: not check.of_indices or applies(check, dataset)


def _build_checks(ref: LanceDatasetRef, store_key: str, *, is_read: bool) -> dg.AssetChecksDefinition:
    @dg.multi_asset_check(
        name=f"{ref.slug}_checks",
        specs=[*build_check_specs(ref), *([downstream_spec(ref)] if is_read else [])],
        can_subset=True,
        required_resource_keys={store_key},
        description=f"Integrity and maintenance state of {ref.name}",
    )
    def dataset_checks(
        context: dg.AssetCheckExecutionContext,
    ) -> Iterator[dg.AssetCheckResult]:
        selected = {own_name(key.name) for key in context.selected_asset_check_keys}
        store: LanceStoreResource = getattr(context.resources, store_key)
        seen = last_published(context.instance, ref.key) is not None
        found = {
            outcome.name: outcome
            for outcome in examine(ref, store, selected - {keys.DOWNSTREAM_COMPUTED}, seen=seen)
        }
        for name in sorted(selected):
            if name == keys.DOWNSTREAM_COMPUTED:
                yield last_verdict(context.instance, ref)
                continue
            outcome = found.get(name)
            if outcome is not None:
                yield outcome.to_result(ref.key)

    return dataset_checks
