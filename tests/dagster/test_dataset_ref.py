from datetime import timedelta

import dagster as dg
import pytest

from lance_ops.dagster import LanceDatasetRef
from lance_ops.dagster.dataset_ref import index_refs
from lance_ops.errors import InvalidArgumentError
from lance_ops.maintenance.health.policy import MaintenancePolicy


def test_a_name_is_the_path_of_an_asset_key():
    ref = LanceDatasetRef("warehouse/flights-2013", "/data/x.lance")
    assert ref.key == dg.AssetKey(["warehouse", "flights-2013"])
    assert ref.slug == "warehouse_flights_2013"
    assert ref.group_name == "warehouse"
    assert ref.table_name == "warehouse.flights-2013"


def test_a_group_of_its_own_goes_first():
    assert LanceDatasetRef("a/b", "/x", group="g").group_name == "g"
    assert LanceDatasetRef("a", "/x").group_name is None


@pytest.mark.parametrize("name", ["", "/a", "a/", "a//b", "a b", "ä", "a|b"])
def test_names_that_dagster_cannot_use_are_refused(name):
    with pytest.raises(InvalidArgumentError, match="is not a valid name"):
        LanceDatasetRef(name, "/x")


def test_a_dataset_needs_a_place():
    with pytest.raises(InvalidArgumentError, match="no URI"):
        LanceDatasetRef("a", "")


def test_the_policy_hash_moves_with_the_policy_only():
    one = LanceDatasetRef("a", "/x")
    assert one.policy_hash == LanceDatasetRef("b", "/y").policy_hash
    for policy in (MaintenancePolicy(max_versions=7), MaintenancePolicy(older_than=timedelta(days=1))):
        assert LanceDatasetRef("a", "/x", policy=policy).policy_hash != one.policy_hash


def test_no_dataset_at_all_is_refused():
    with pytest.raises(InvalidArgumentError, match="refs must not be empty"):
        index_refs([])


@pytest.mark.parametrize("uri", ["events.lance", "./events.lance", "../x", "lake/events.lance", "~/x"])
def test_a_relative_path_is_refused_for_each_process_would_look_elsewhere(uri):
    with pytest.raises(InvalidArgumentError, match=r"'events'.* is relative") as caught:
        LanceDatasetRef("events", uri)
    assert caught.value.hint


@pytest.mark.parametrize("uri", ["s3:/bucket/x", "gs:/bucket/x", "C:/lake/x"])
def test_a_misspelt_scheme_is_refused_where_the_dataset_is_declared(uri):
    with pytest.raises(InvalidArgumentError, match="folder below the working directory"):
        LanceDatasetRef("events", uri)


@pytest.mark.parametrize(
    "uri", ["/lake/x", "s3://bucket/x", "file:/lake/x", "file:///lake/x", "memory://x", "s3+ddb://b/x"]
)
def test_an_absolute_path_or_a_uri_is_kept_as_it_is(uri):
    assert LanceDatasetRef("events", uri).uri == uri


@pytest.mark.parametrize(
    "uri",
    [
        "s3://b/x?sig=HUNTER",
        "s3://b/x#t=HUNTER",
        "https://h/x;p=HUNTER",
        "s3://b/x%3Fsig%3DHUNTER",
        "sftp://me:HUNTER@h/x",
    ],
)
def test_an_address_with_a_secret_is_refused_since_assets_show_it(uri):
    with pytest.raises(InvalidArgumentError, match="secret") as caught:
        LanceDatasetRef("events", uri)
    assert "HUNTER" not in str(caught.value)
