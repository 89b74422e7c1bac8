"""Column lineage: what is declared, and what commits prove, in the events of versions."""

import dagster as dg
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.dagster import (
    LanceDatasetRef,
    LanceIngest,
    LanceIOManager,
    LanceStoreResource,
    build_lance_definitions,
    column_lineage,
    version_materialization,
)
from lance_ops.dagster.jobs.operations import ADD_COLUMNS
from lance_ops.errors import InvalidArgumentError
from tests.support.dagster import STORE, materializations, run_job, tell


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


def sources(event):
    """{column: {"asset.column"}} of an event; None when it tells no lineage."""
    value = event.metadata.get("dagster/column_lineage")
    if value is None:
        return None
    assert isinstance(value, dg.TableColumnLineageMetadataValue)
    return {
        column: {f"{dep.asset_key.to_user_string()}.{dep.column_name}" for dep in deps}
        for column, deps in value.value.deps_by_column.items()
    }


def test_columns_that_sql_computes_come_from_the_columns_that_it_reads(tmp_path, instance):
    ref = LanceDatasetRef("shop/orders", str(tmp_path / "t.lance"))
    lo.append(ref.uri, pa.table({"price": [1.5], "amount": [2], "note": ["a"]}))
    tell(ref, instance)
    values = {"total": "price * amount", "one": "1", "again": "upper(note)"}
    assert run_job(ref, ADD_COLUMNS, instance, values=values).success
    first, added = materializations(instance, ref)
    assert sources(first) is None
    assert sources(added) == {
        "total": {"shop/orders.price", "shop/orders.amount"},
        "again": {"shop/orders.note"},
    }


def test_whoever_publishes_the_version_finds_the_proof_in_its_commit(tmp_path, instance):
    ref = LanceDatasetRef("orders", str(tmp_path / "t.lance"))
    lo.append(ref.uri, pa.table({"x": [1]}))
    lo.add_columns(ref.uri, {"y": "x + 1"}, properties={"dagster.expressions": '{"y": "x + 1"}'})
    lo.append(ref.uri, pa.table({"x": [1], "y": [2]}), properties={"dagster.expressions": "no json"})
    lo.append(
        ref.uri, pa.table({"x": [1], "y": [2]}), properties={"dagster.expressions": '{"y": "gone + 1"}'}
    )
    tell(ref, instance)
    assert [sources(event) for event in materializations(instance, ref)] == [
        None,
        {"y": {"orders.x"}},
        None,
        # What the commit itself notes proves nothing; what an earlier one proved still holds.
        {"y": {"orders.x"}},
    ]


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (lambda uri: lo.append(uri, pa.table({"x": [5], "w": [5], "y": [6]})), {"y": {"t.x"}}),
        (lambda uri: lo.delete(uri, "x = 1"), {"y": {"t.x"}}),
        (lo.compact, {"y": {"t.x"}}),
        (lambda uri: lo.create_index(uri, "x"), {"y": {"t.x"}}),
        (lambda uri: lo.alter_columns(uri, {"path": "y", "name": "z"}), {"z": {"t.x"}}),
        (lambda uri: lo.alter_columns(uri, {"path": "x", "name": "z"}), {"y": {"t.z"}}),
        (lambda uri: lo.add_columns(uri, {"v": "w * 2"}), {"y": {"t.x"}}),
        (lambda uri: lo.drop_columns(uri, ["w"]), {"y": {"t.x"}}),
        (lambda uri: lo.drop_columns(uri, ["y"]), None),
        (lambda uri: lo.drop_columns(uri, ["x"]), None),
        (lambda uri: (lo.drop_columns(uri, ["y"]), lo.add_columns(uri, {"y": "7"})), None),
        (lambda uri: lo.alter_columns(uri, {"path": "y", "data_type": pa.int32()}), None),
        (lambda uri: lo.update(uri, {"y": "7"}), None),
        (lambda uri: lo.update(uri, {"y": "7"}, rewrite="columns"), None),
        (
            lambda uri: lo.write_dataset(pa.table({"x": [1], "w": [1], "y": [2]}), uri, mode="overwrite"),
            None,
        ),
        (lambda uri: lo.restore(uri, 1), None),
    ],
)
def test_what_a_commit_proved_stays_on_the_newest_event_while_the_column_is_the_same(tmp_path, change, left):
    ref = LanceDatasetRef("t", str(tmp_path / "t.lance"))
    for number in range(2):
        lo.append(ref.uri, pa.table({"x": [2 * number, 2 * number + 1], "w": [0, 0]}))
    lo.add_columns(ref.uri, {"y": "x + 1"}, properties={"dagster.expressions": '{"y": "x + 1"}'})
    lo.append(ref.uri, pa.table({"x": [8], "w": [8], "y": [9]}))
    change(ref.uri)
    dataset = lo.dataset(ref.uri)
    assert sources(version_materialization(ref, dataset, newest=True)) == left
    assert sources(version_materialization(ref, dataset)) is None


def test_what_is_declared_of_columns_that_are_there_is_in_every_event(tmp_path, instance):
    declared = {"x": [("raw/a", "ax"), (dg.AssetKey(["raw", "b"]), "bx")], "later": [("raw/a", "l")]}
    ref = LanceDatasetRef("t", str(tmp_path / "t.lance"), columns_from=declared)
    for start in (0, 1):
        lo.append(ref.uri, pa.table({"x": [start]}))
    tell(ref, instance)
    assert [sources(event) for event in materializations(instance, ref)] == [
        {"x": {"raw/a.ax", "raw/b.bx"}}
    ] * 2


@pytest.mark.parametrize("wrong", ["raw.a", [("raw", 1)], [("a",)], ["ab"]])
def test_a_declaration_of_another_shape_is_refused(wrong):
    with pytest.raises(InvalidArgumentError, match="pairs of an asset and a column"):
        LanceDatasetRef("t", "/lake/t.lance", columns_from={"x": wrong})


def test_a_dataset_has_columns_from_its_ingest_and_the_ingest_from_its_sources(tmp_path, instance):
    ref = LanceDatasetRef("t", str(tmp_path / "t.lance"))
    ingest = LanceIngest(
        ref,
        lambda _: pa.table({"x": [1], "unknown": [2]}),
        mode="overwrite",
        deps=["raw"],
        columns_from={"x": [("raw", "a")]},
    )
    defs = build_lance_definitions([ref], ingests=[ingest], store=STORE)
    defs = dg.Definitions.merge(defs, dg.Definitions(executor=dg.in_process_executor))
    result = defs.resolve_job_def("t_ingest_job").execute_in_process(instance=instance)
    assert result.success
    told = [item for item in result.all_events if item.event_type_value == "ASSET_MATERIALIZATION"]
    (of_ingest,) = [item.materialization for item in told if item.asset_key == ingest.key]
    assert sources(of_ingest) == {"x": {"raw.a"}}
    assert "/assets/t" in of_ingest.metadata["lance/dataset_page"].value
    (event,) = materializations(instance, ref)
    assert sources(event) == {"x": {"t_ingest.x"}}
    assert f"/runs/{result.run_id}" in event.metadata["lance/run"].value


def test_an_asset_that_is_a_dataset_declares_in_its_metadata(tmp_path, instance):
    @dg.asset(metadata={"lance/columns_from": {"x": [["raw/a", "ax"]]}})
    def owned() -> pa.Table:
        return pa.table({"x": [1]})

    manager = LanceIOManager(root=str(tmp_path), store=LanceStoreResource(storage_options={"fsync": "false"}))
    assert dg.materialize([owned], instance=instance, resources={"io_manager": manager}).success
    found = instance.fetch_materializations(dg.AssetKey("owned"), limit=1).records[0]
    assert sources(found.asset_materialization) == {"x": {"raw/a.ax"}}


def test_assets_of_ones_own_say_it_in_the_same_words():
    value = column_lineage({"x": [("a/b", "y")]})
    (dep,) = value.value.deps_by_column["x"]
    assert (dep.asset_key, dep.column_name) == (dg.AssetKey(["a", "b"]), "y")
