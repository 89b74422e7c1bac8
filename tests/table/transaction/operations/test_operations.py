"""What an operation answers about itself, for every operation that the format has."""

import pytest

from lance_ops.errors import RetryableCommitConflictError
from lance_ops.pb import transaction_pb2
from lance_ops.table.transaction.operations import (
    OPERATIONS,
    Append,
    Merge,
    Scope,
    brought_files,
    present_files,
)
from lance_ops.table.transaction.operations.foreign import KEEP_DATA, WIRE_NAMES
from tests.support.table_actions import commit
from tests.support.table_values import SCHEMA, data_file, fragment, index, manifest
from tests.support.tables import append, create, rows
from tests.table.transaction.test_transaction import OPERATIONS as EXAMPLES


def test_every_operation_of_the_wire_has_a_class_or_is_foreign():
    wire = {field.name for field in transaction_pb2.Transaction.DESCRIPTOR.oneofs_by_name["operation"].fields}
    own = [operation.wire_name for operation in OPERATIONS]
    assert set(own) | set(WIRE_NAMES.values()) == wire
    assert len(own) == len(set(own))
    assert WIRE_NAMES.keys() >= KEEP_DATA


def test_every_operation_has_an_example_and_can_be_made():
    # An abstract answer that a class lacks shows here at the latest: such a class cannot be made.
    assert {type(example) for example in EXAMPLES} == set(OPERATIONS)


@pytest.mark.parametrize("operation", EXAMPLES, ids=lambda operation: operation.kind)
def test_an_operation_answers_everything_that_a_commit_asks(operation):
    assert operation.describe().startswith(operation.kind)
    assert isinstance(operation.keeps_data, bool)
    assert isinstance(operation.scope, Scope)
    assert all(not path.startswith("/") for path in operation.files())
    assert operation.changed_fragments() >= frozenset()
    assert operation.removed_segments() >= frozenset()
    assert all(part.id == 0 for part in operation.numbered_fragments())


def test_an_operation_that_names_its_changes_brings_the_files_that_it_names():
    for example in EXAMPLES:
        if example.scope is not Scope.OPEN:
            assert brought_files(example, None) == example.files()


def test_a_merge_brings_the_files_that_the_version_below_does_not_have():
    before = manifest(fragment(0, deleted=1), fragment(1, name="g"))
    wider = fragment(0, deleted=1)
    wider = wider.replace(files=(*wider.files, data_file("new", fields=(1,))))
    merge = Merge((wider, fragment(1, name="g")), SCHEMA)
    assert brought_files(merge, before) == {"data/new.lance"}
    # Without that version nobody can tell which ones they are, and none may be called a left-over.
    assert brought_files(merge, None) == frozenset()


def test_files_of_a_version_are_never_what_an_operation_brings():
    before = manifest(fragment(0), indices=(index("a_idx", {0}),))
    assert present_files(before) >= {"data/f0.lance", "_indices/" + str(before.indices[0].uuid) + "/"}
    assert brought_files(Append((fragment(0),)), before) == frozenset()


def test_a_merge_that_fails_names_its_own_files_as_orphans_and_no_others(tmp_path):
    ours = create(str(tmp_path / "t"), rows(0, 10), rows_per_fragment=5)
    theirs = append(ours, rows(10, 12)).dataset
    merged = tuple(
        part.replace(files=(*part.files, data_file(f"wider{part.id}", fields=(99,))))
        for part in ours.manifest.fragments
    )
    with pytest.raises(RetryableCommitConflictError) as caught:
        commit(ours, Merge(merged, ours.lance_schema))
    assert set(caught.value.orphans) == {"data/wider0.lance", "data/wider1.lance"}
    assert present_files(theirs.manifest).isdisjoint(caught.value.orphans)
