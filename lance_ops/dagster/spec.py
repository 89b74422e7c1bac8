"""Asset specs of datasets, and the hook with which a code location names and groups them its own way."""

from collections.abc import Sequence
from typing import Any

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.dataset_ref import LanceDatasetRef, index_refs
from lance_ops.dagster.ingest import build_ingest_asset
from lance_ops.dagster.ingest_spec import LanceIngest
from lance_ops.dagster.version_event import as_metadata


class LanceDatasetTranslator:
    """Turns a dataset into an asset spec; override `get_asset_spec`, call the base, change what it returns.

    Changing the key is not for this hook: it is the name of the `LanceDatasetRef`, by which jobs, checks and
    the sensor know the dataset.
    """

    def get_asset_spec(self, ref: LanceDatasetRef) -> dg.AssetSpec:
        """The spec of a dataset's asset.

        Args:
            ref: The dataset.
        """
        metadata = {
            keys.URI: ref.uri,
            keys.TABLE_NAME: ref.table_name,
            keys.STORAGE_KIND: "lance",
            **{f"lance/policy/{name}": value for name, value in ref.policy_values.items()},
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


def build_lance_assets(
    refs: Sequence[LanceDatasetRef],
    *,
    ingests: Sequence[LanceIngest] = (),
    translator: LanceDatasetTranslator | None = None,
    prefix: str = "",
) -> list[dg.AssetSpec | dg.AssetsDefinition]:
    """One asset for each dataset, and one for each ingest upstream of it.

    The dataset's asset is reported, never executed: each of its events is a version that somebody committed.

    Args:
        refs: The datasets.
        ingests: How rows come into some of them.
        translator: Says how a dataset looks as an asset.
        prefix: Of the resource that ingests want: `<prefix>_lance_store`.

    Raises:
        InvalidArgumentError: Datasets that cannot be told apart.
    """
    chosen = translator or LanceDatasetTranslator()
    upstream: dict[str, list[dg.AssetKey]] = {}
    for ingest in ingests:
        upstream.setdefault(ingest.ref.name, []).append(ingest.key)
    assets: list[Any] = [build_ingest_asset(ingest, prefix=prefix) for ingest in ingests]
    for ref in index_refs(refs).values():
        spec = chosen.get_asset_spec(ref)
        deps = [*spec.deps, *(dg.AssetDep(key) for key in upstream.get(ref.name, ()))]
        assets.append(spec.replace_attributes(deps=deps))
    return assets
