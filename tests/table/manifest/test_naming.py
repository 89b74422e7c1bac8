"""File names of manifests."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.errors import InvalidArgumentError
from lance_ops.table.manifest.listing import (
    DETACHED_BIT,
    NamingScheme,
    is_detached,
    manifest_name,
    manifest_path,
    parse_manifest_name,
)

attached = st.integers(0, DETACHED_BIT - 1)


@given(attached, st.sampled_from(NamingScheme))
def test_names_of_attached_versions_read_back(version, scheme):
    assert parse_manifest_name(manifest_name(version, scheme)) == (version, scheme)


@given(st.integers(DETACHED_BIT, 2**64 - 1), st.sampled_from(NamingScheme))
def test_names_of_detached_versions_read_back_and_say_nothing_of_the_scheme(version, scheme):
    assert is_detached(version)
    assert parse_manifest_name(manifest_name(version, scheme)) == (version, None)


@given(attached, attached)
def test_a_listing_of_v2_names_has_the_newest_first(one, other):
    names = [manifest_name(version, NamingScheme.V2) for version in (one, other)]
    assert (names[0] < names[1]) == (one > other)


def test_the_names_are_those_of_the_format():
    assert manifest_path(7, NamingScheme.V1) == "_versions/7.manifest"
    assert manifest_path(7, NamingScheme.V2) == "_versions/18446744073709551608.manifest"
    assert manifest_name(2**63 + 5, NamingScheme.V2) == "d9223372036854775813.manifest"


@pytest.mark.parametrize(
    "name",
    [
        "latest_version_hint.json",
        "7.manifest-0d3d8e3c-7a2c-4a0e-9f3f-0f6e5c2f2f0a",
        ".tmp_7.manifest",
        "7.manifest.tmp",
        "-7.manifest",
        "+7.manifest",
        "\uff17.manifest",
        "99999999999999999999.manifest",
        "00000000000000000007.manifest",
        "9223372036854775813.manifest",
        "d7.manifest",
        "manifest",
        "sub/7.manifest",
    ],
)
def test_other_files_are_no_manifests(name):
    assert parse_manifest_name(name) is None


@pytest.mark.parametrize("version", [-1, 2**64])
def test_numbers_that_are_no_version_are_refused(version):
    with pytest.raises(InvalidArgumentError):
        manifest_name(version, NamingScheme.V2)
