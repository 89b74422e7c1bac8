"""The data version moves when the data do, and only then."""

from collections.abc import Mapping

import pytest

from lance_ops.errors import CorruptManifestError
from lance_ops.storage import open_store
from lance_ops.table.history.data_version import DATA_TRANSACTION_KEY, data_transaction, data_version
from lance_ops.table.manifest.file.read import read_manifest
from lance_ops.table.manifest.file.write import encode_manifest
from lance_ops.table.transaction.operations import (
    Append,
    CreateIndex,
    DataReplacement,
    Delete,
    Merge,
    Operation,
    Overwrite,
    Project,
    ReserveFragments,
    Restore,
    Rewrite,
    Update,
    UpdateConfig,
)
from lance_ops.table.transaction.transaction import Transaction, encode_transaction
from tests.support.faulty_store import FaultyStore
from tests.support.snapshots import location
from tests.support.table_values import SCHEMA, manifest

LAYOUT = [CreateIndex(()), Rewrite(()), ReserveFragments(3), UpdateConfig()]
DATA = [
    Append(()),
    Delete((), (), "x = 1"),
    Overwrite((), SCHEMA),
    Merge((), SCHEMA),
    Project(SCHEMA),
    Update((), (), ()),
    DataReplacement(()),
]


class History:
    """Versions that consist of nothing but their transactions."""

    def __init__(self, store):
        self.store = store
        self.count = 0

    def add(
        self,
        operation: Operation,
        *,
        read_version: int | None = None,
        properties: Mapping[str, str] | None = None,
        inline: bool = True,
    ) -> None:
        self.count += 1
        made = Transaction(
            self.count - 1 if read_version is None else read_version,
            f"uuid-{self.count}",
            operation,
            properties or {},
        )
        data = encode_transaction(made)
        self.store.put(made.path, data)
        self.store.put(
            location(self.count).path,
            encode_manifest(
                manifest(
                    version=self.count,
                    transaction=data if inline else None,
                    transaction_file=made.file_name,
                )
            ),
        )

    def forget(self, *versions):
        self.store.delete_many(location(version).path for version in versions)

    def last(self):
        return read_manifest(self.store, location(self.count))

    def uuid(self, store=None):
        return data_transaction(store or self.store, self.last())


@pytest.fixture
def history(tmp_path):
    made = History(open_store(tmp_path))
    made.add(Overwrite((), SCHEMA))
    return made


@pytest.mark.parametrize("operation", DATA, ids=lambda o: o.name)
@pytest.mark.parametrize("inline", [True, False])
def test_operations_that_change_data_move_it(history, operation, inline):
    before = data_version(history.store, history.last())
    history.add(operation, inline=inline)
    assert history.uuid() == "uuid-2"
    assert data_version(history.store, history.last()) != before


@pytest.mark.parametrize("operation", LAYOUT, ids=lambda o: o.name)
def test_operations_on_the_layout_leave_it(history, operation):
    before = data_version(history.store, history.last())
    history.add(operation)
    history.add(operation, inline=False)
    assert history.uuid() == "uuid-1"
    assert data_version(history.store, history.last()) == before


def test_it_is_a_digest_of_fixed_length(history):
    value = data_version(history.store, history.last())
    assert len(value) == 32
    assert int(value, 16)


def test_a_restore_brings_back_that_of_the_restored_version(history):
    history.add(Append(()))
    history.add(CreateIndex(()))
    history.add(Delete((), (), ""))
    history.add(Restore(3))
    assert history.uuid() == "uuid-2"
    history.add(Restore(5))
    history.add(Rewrite(()))
    assert history.uuid() == "uuid-2"


def test_a_note_spares_the_way_back_and_outlives_cleanup(history):
    history.add(CreateIndex(()), properties={DATA_TRANSACTION_KEY: "uuid-1"})
    reads = FaultyStore(history.store, count="any")
    assert history.uuid(reads) == "uuid-1"
    assert reads.calls == []
    history.add(Rewrite(()), properties={DATA_TRANSACTION_KEY: "uuid-1"})
    history.forget(1, 2)
    assert history.uuid() == "uuid-1"


def test_a_note_is_about_the_version_below_whatever_was_read(history):
    history.add(Append(()))
    history.add(ReserveFragments(1), properties={DATA_TRANSACTION_KEY: "uuid-2"})
    # Worked out on version 2 and committed after the reservation, as a compaction is.
    history.add(Rewrite(()), read_version=2, properties={DATA_TRANSACTION_KEY: "uuid-2"})
    history.forget(1, 2, 3)
    assert history.uuid() == "uuid-2"


def test_a_note_of_a_restore_is_about_the_restored_version(history):
    history.add(Append(()))
    history.add(Restore(1), properties={DATA_TRANSACTION_KEY: "uuid-1"})
    history.forget(1)
    assert history.uuid() == "uuid-1"


def test_notes_on_operations_that_change_data_are_not_believed(history):
    history.add(Append(()), properties={DATA_TRANSACTION_KEY: "uuid-1"})
    assert history.uuid() == "uuid-2"


def test_without_notes_the_oldest_version_left_stands_in_and_does_so_every_time(history):
    history.add(CreateIndex(()))
    history.add(Rewrite(()))
    history.forget(1)
    assert history.uuid() == "uuid-2"
    history.add(UpdateConfig())
    assert history.uuid() == "uuid-2"
    history.add(Restore(1))
    assert history.uuid() == "uuid-5"


def test_a_lost_transaction_file_leaves_its_name(history):
    history.add(Append(()), inline=False)
    history.store.delete("_transactions/1-uuid-2.txn")
    assert history.uuid() == "uuid-2"
    old = history.last().replace(transaction_file="")
    assert data_transaction(history.store, old).startswith("version 2 of 2026")


def test_restores_that_point_forward_do_not_send_us_in_circles(history):
    history.add(Restore(2))
    assert history.uuid() == "uuid-2"
    history.add(Restore(9))
    assert history.uuid() == "uuid-3"


def test_a_damaged_transaction_is_refused(history):
    broken = history.last().replace(transaction=b"\xff\xff")
    with pytest.raises(CorruptManifestError, match="version 1"):
        data_transaction(history.store, broken)
