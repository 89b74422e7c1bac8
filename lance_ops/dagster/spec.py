"""Asset specs of datasets, and the translator to customize them."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import dagster as dg

from lance_ops.dagster import conditions, keys
from lance_ops.dagster.dataset_ref import LanceDatasetRef, index_refs
from lance_ops.dagster.ingest.asset import build_ingest_asset, ingest_spec
from lance_ops.dagster.ingest.spec import LanceIngest
from lance_ops.dagster.overview import policy_table
from lance_ops.dagster.registry import REGISTRY
from lance_ops.dagster.version_event import as_metadata
from lance_ops.errors import InvalidArgumentError

_DEFAULT_GROUP = "default"


class LanceDatasetTranslator:
    """Turns datasets and ingests into asset specs; override a method and change the base result.

    The key cannot be changed here: it is the name of the `LanceDatasetRef`, or of the `LanceIngest`, which
    jobs, checks and sensors use.
    """

    def get_asset_spec(self, ref: LanceDatasetRef) -> dg.AssetSpec:
        """Return the spec of a dataset's asset.

        Args:
            ref: The dataset.
        """
        metadata = {
            keys.URI: ref.uri,
            keys.TABLE_NAME: ref.table_name,
            keys.STORAGE_KIND: "lance",
            keys.POLICY: policy_table(ref.policy_values),
        }
        return dg.AssetSpec(
            key=ref.key,
            deps=list(ref.deps),
            description=ref.description or f"Lance dataset at `{ref.uri}`.",
            metadata=as_metadata(metadata),
            group_name=ref.group_name,
            owners=list(ref.owners) or None,
            tags=dict(ref.tags),
            kinds=set(ref.kinds),
            freshness_policy=ref.freshness,
        )

    def get_ingest_spec(self, ingest: LanceIngest) -> dg.AssetSpec:
        """Return the spec of an ingest's asset.

        Args:
            ingest: The ingest.
        """
        return ingest_spec(ingest)


def build_lance_assets(
    refs: Sequence[LanceDatasetRef],
    *,
    ingests: Sequence[LanceIngest] = (),
    assets: Sequence[dg.AssetsDefinition] = (),
    translator: LanceDatasetTranslator | None = None,
    maintained_by: str = "",
    prefix: str = "",
) -> list[dg.AssetSpec | dg.AssetsDefinition]:
    """Build one asset for each dataset, and one for each ingest upstream of it.

    The dataset's asset is reported, never executed: each of its events is a committed version. Unless one of
    `assets` has its key: that is executed, and writes the dataset through `LanceIOManager`.

    Args:
        refs: The datasets.
        ingests: Ingests into some of them.
        assets: Assets that write some of them.
        translator: Translates datasets to asset specs.
        maintained_by: Name of the maintenance for "Automation details" of their pages.
        prefix: Prefix of the resource that ingests require: `<prefix>_lance_store`.

    Raises:
        InvalidArgumentError: Ambiguous datasets.
    """
    chosen = translator or LanceDatasetTranslator()
    upstream: dict[str, list[dg.AssetKey]] = {}
    for ingest in ingests:
        upstream.setdefault(ingest.ref.name, []).append(ingest.key)
    REGISTRY.declare(index_refs(refs).values(), ingests=ingests, assets=assets)
    built: list[Any] = [
        build_ingest_asset(ingest, prefix=prefix, spec=_keyed(chosen.get_ingest_spec(ingest), ingest.key))
        for ingest in ingests
    ]
    written = {key for asset in assets for key in asset.keys}
    specs: dict[dg.AssetKey, dg.AssetSpec] = {}
    for ref in index_refs(refs).values():
        spec = _keyed(chosen.get_asset_spec(ref), ref.key)
        deps = [*spec.deps, *(dg.AssetDep(key) for key in upstream.get(ref.name, ()))]
        specs[ref.key] = spec.replace_attributes(deps=deps)
        if maintained_by and ref.key not in written and spec.automation_condition is None:
            shown = conditions.maintained_by(maintained_by, ref.policy)
            specs[ref.key] = specs[ref.key].replace_attributes(automation_condition=shown)
    built += [spec for key, spec in specs.items() if key not in written]
    return [*built, *(asset.map_asset_specs(partial(described, specs)) for asset in assets)]


def _keyed(spec: dg.AssetSpec, key: dg.AssetKey) -> dg.AssetSpec:
    """Check the key of a spec from a translator.

    Raises:
        InvalidArgumentError: The key was changed.
    """
    if spec.key != key:
        raise InvalidArgumentError(
            f"the translator changed the key of {key.to_user_string()} to {spec.key.to_user_string()}",
            field="key",
            hint="the key is the name of the LanceDatasetRef or of the LanceIngest: change it there",
        )
    return spec


def described(specs: Mapping[dg.AssetKey, dg.AssetSpec], own: dg.AssetSpec) -> dg.AssetSpec:
    """Return the spec of an asset that writes a dataset, completed by that of the dataset.

    Args:
        specs: Specs of datasets, by key.
        own: The asset.
    """
    known = specs.get(own.key)
    if known is None:
        return own
    return own.replace_attributes(
        description=own.description or known.description,
        metadata={**known.metadata, **own.metadata},
        group_name=known.group_name if own.group_name in (None, _DEFAULT_GROUP) else own.group_name,
        owners=own.owners or known.owners,
        tags={**known.tags, **own.tags},
        kinds={*known.kinds, *own.kinds},
        freshness_policy=own.freshness_policy or known.freshness_policy,
        automation_condition=own.automation_condition or known.automation_condition,
        code_version=own.code_version or known.code_version,
    )
