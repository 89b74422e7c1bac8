"""Entries of index segments."""

import uuid

import pytest

from lance_ops.errors import CorruptManifestError
from lance_ops.pb import table_pb2
from lance_ops.table.manifest.index_metadata import IndexFile, IndexMetadata
from tests.support.table_values import index

FULL = IndexMetadata(
    uuid=uuid.UUID(int=5),
    name="by k",
    fields=(3,),
    dataset_version=9,
    fragment_ids=frozenset({0, 7, 70_000}),
    type_url="type.googleapis.com/lance.table.BTreeIndexDetails",
    details=b"\x08\x01",
    index_version=1,
    created_at=1_700_000_000_000,
    base_id=0,
    files=(IndexFile("page_data.lance", 10),),
)


def test_an_entry_survives_the_trip():
    for entry in (FULL, index("a", None, type_url=None), index("b", set())):
        assert IndexMetadata.from_proto(entry.to_proto(), path="m") == entry


@pytest.mark.parametrize(
    "url", ["/lance.table.BTreeIndexDetails", "x/y/lance.TABLE.btreeindexDETAILS", "BTreeIndexDetails"]
)
def test_the_kind_ignores_prefix_and_case(url):
    assert index("a", None, type_url=url).kind == "btreeindexdetails"


def test_names_of_the_format_itself_mark_system_indices():
    assert index("__lance_frag_reuse", None).is_system
    assert not FULL.is_system
    assert FULL.directory == "_indices/00000000-0000-0000-0000-000000000005"
    assert index("a", None, type_url=None).kind is None


@pytest.mark.parametrize(
    "changes", [{"uuid": {"uuid": b"short"}}, {"fragment_bitmap": b"x"}, {"fragment_bitmap": b"\0" * 20}]
)
def test_damaged_entries_are_refused(changes):
    message = table_pb2.IndexMetadata(**{"uuid": {"uuid": b"0" * 16}, "name": "odd", **changes})
    with pytest.raises(CorruptManifestError, match="index_section"):
        IndexMetadata.from_proto(message, path="m")
