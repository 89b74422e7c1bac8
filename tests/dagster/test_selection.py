"""Selections of datasets by verdict, class, owner and policy."""

import dagster as dg
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.dagster import (
    LanceDatasetRef,
    MaintenancePolicy,
    build_fleet_definitions,
    build_lance_definitions,
    select_datasets,
)
from lance_ops.errors import InvalidArgumentError


def names(definitions, selection: dg.AssetSelection) -> list[str]:
    graph = definitions.resolve_asset_graph()
    return sorted(key.to_user_string() for key in selection.resolve(graph))


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Datasets of three, two and one fragments."""
    folder = tmp_path_factory.mktemp("lake")
    for name, writes in (("gold", 3), ("silver", 2), ("dust", 1)):
        for _ in range(writes):
            lo.append(str(folder / f"{name}.lance"), pa.table({"id": [1]}))
    return folder


def test_datasets_are_selected_by_what_their_references_say(lake):
    defs = build_lance_definitions(
        [
            LanceDatasetRef("gold", str(lake / "gold.lance"), owners=["team:sales"]),
            LanceDatasetRef(
                "silver", str(lake / "silver.lance"), policy=MaintenancePolicy(max_small_fragments=1)
            ),
            LanceDatasetRef("gone", str(lake / "gone.lance")),
        ]
    )
    assert names(defs, select_datasets(defs)) == ["gold", "gone", "silver"]
    assert names(defs, select_datasets(defs, owner="team:sales")) == ["gold"]
    strict = select_datasets(defs, policy=lambda policy: policy.max_small_fragments < 5)
    assert names(defs, strict) == ["silver"]
    assert names(defs, select_datasets(defs, verdict="due")) == ["silver"]
    assert names(defs, select_datasets(defs, verdict={"healthy", "unreadable"})) == ["gold", "gone"]
    assert names(defs, select_datasets(defs, verdict="due", owner="team:sales")) == []
    with pytest.raises(InvalidArgumentError, match="unknown verdict bad"):
        select_datasets(defs, verdict="bad")


def test_datasets_of_a_fleet_are_selected_by_class(lake, tmp_path):
    (tmp_path / "fleet.yaml").write_text(
        f"version: 1\nstores: {{lake: {{root: {lake}}}}}\n"
        "classes:\n  default: {}\n  precious: {max_small_fragments: 2}\n"
        "assign:\n  - {match: gold*, class: precious}\n"
    )
    defs = build_fleet_definitions(tmp_path / "fleet.yaml", exclude="key:dust")
    assert names(defs, select_datasets(defs)) == ["gold", "silver"]
    assert names(defs, select_datasets(defs, class_name="precious")) == ["gold"]
    assert names(defs, select_datasets(defs, verdict="due")) == ["gold"]
