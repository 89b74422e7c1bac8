"""An index of a kind that nobody has invented yet, on tables that are there already."""

import uuid
from dataclasses import replace

import lance_ops as lo
from lance_ops.index import registry
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.transaction.operations import CreateIndex
from tests.support.table_actions import commit

CONTENT = b"nobody knows"


def add_unknown_index(uri, column: str, name: str = "strange") -> IndexMetadata:
    """Commit an index over all fragments, with one file of one's own."""
    dataset = lo.dataset(uri)
    entry = IndexMetadata(
        uuid=uuid.uuid4(),
        name=name,
        fields=(dataset.lance_schema.field(column).id,),
        dataset_version=dataset.version,
        fragment_ids=frozenset(fragment.id for fragment in dataset.fragments),
        type_url="/lance.table.StrangeIndexDetails",
        index_version=0,
    )
    dataset.store.put(f"{entry.directory}/part.bin", CONTENT)
    commit(dataset, CreateIndex((entry,)))
    return entry


def forget_kind(monkeypatch, name: str) -> None:
    """Act as an older release that does not know a kind which the peer builds."""
    known = tuple(
        replace(family, load=lambda family=family: tuple(one for one in family.load() if one.name != name))
        for family in registry.FAMILIES
    )
    monkeypatch.setattr(registry, "FAMILIES", known)
    monkeypatch.setattr(registry, "_BY_DETAILS", {family.type_name: family for family in known})
