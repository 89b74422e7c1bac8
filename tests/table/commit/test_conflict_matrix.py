"""The conflict matrix: complete, readable, and the same verdicts as the peer's where it can be driven."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.commit import CommitConflictError as PeerConflictError

from lance_ops.errors import CommitConflictError
from lance_ops.file.schema.model import Schema
from lance_ops.table.commit.conflict_matrix import MATRIX, RULE_OF, RULES, Outcome, judge
from lance_ops.table.data_writer import write_data_files
from lance_ops.table.dataset import Dataset
from lance_ops.table.transaction import operations as ops
from lance_ops.table.transaction.operations import ForeignOperation, MapUpdate, Operation
from tests.support.peer_operations import peer_fragment, peer_operation
from tests.support.table_actions import commit, reserve_fragments
from tests.support.table_values import SCHEMA, data_file, fragment, index, transaction
from tests.support.tables import (
    append_operation,
    create,
    delete_operation,
    rewrite_operation,
    rows,
    update_operation,
)

FOREIGN_KINDS = {"DataOverlay", "UpdateMemWalState", "Clone", "UpdateBases"}


def operation_classes() -> set[type[Operation]]:
    classes = {c for c in vars(ops).values() if isinstance(c, type) and issubclass(c, Operation)}
    return classes - {Operation, ops.CommittedOperation, ForeignOperation}


# The table itself


def test_every_operation_has_its_row_and_its_column():
    rows_of_matrix = {row for row, _ in RULE_OF}
    columns = {column for _, column in RULE_OF}
    assert operation_classes() == set(ops.OPERATIONS)
    kinds = {operation.name for operation in ops.OPERATIONS}
    assert columns == kinds | FOREIGN_KINDS
    committed = {operation for operation in ops.OPERATIONS if issubclass(operation, ops.CommittedOperation)}
    assert rows_of_matrix == {operation.name for operation in committed}
    assert len(RULE_OF) == len(rows_of_matrix) * len(columns)
    # An operation that is not committed says so here, and nowhere else.
    assert kinds == rows_of_matrix


def test_every_symbol_of_the_matrix_is_a_rule_and_every_rule_is_used():
    symbols = set()
    for line in MATRIX.splitlines():
        words = line.split()
        if words and words[0] in {row for row, _ in RULE_OF}:
            symbols.update(words[1:])
    assert symbols == set(RULES)


def test_operations_that_nobody_knows_collide_with_everything():
    for ours in (ops.Append(()), ops.Restore(1), ops.ReserveFragments(1), ops.UpdateConfig()):
        for theirs in (ForeignOperation("Unknown"), ForeignOperation("OfTheFuture")):
            assert judge(transaction(ours), transaction(theirs)).outcome is Outcome.RETRYABLE


# The rules


def verdict(ours: Operation, theirs: Operation) -> str:
    symbols = {Outcome.COMPATIBLE: ".", Outcome.RETRYABLE: "r", Outcome.INCOMPATIBLE: "X"}
    return symbols[judge(transaction(ours), transaction(theirs)).outcome]


def rewrite(*ids: int, remapped: tuple[ops.RewrittenIndex, ...] = (), **more) -> ops.Rewrite:
    group = ops.RewriteGroup(tuple(fragment(i) for i in ids), (fragment(90),))
    return ops.Rewrite((group,), remapped, **more)


def delete(*ids: int, emptied: tuple[int, ...] = ()) -> ops.Delete:
    return ops.Delete(tuple(fragment(i, deleted=1) for i in ids), emptied, "")


def update(*ids: int, emptied: tuple[int, ...] = ()) -> ops.Update:
    return ops.Update(emptied, tuple(fragment(i, deleted=1) for i in ids), (fragment(0, name="new"),))


def build(name: str, ids: set[int] | None, **more) -> ops.CreateIndex:
    return ops.CreateIndex((index(name, ids, **more),))


def config(**entries: str | None) -> ops.UpdateConfig:
    return ops.UpdateConfig(MapUpdate(entries))


SEGMENT = index("a_idx", {1})
REMAPPED = (ops.RewrittenIndex(SEGMENT.uuid, index("x", None).uuid),)
REUSE = index("__lance_frag_reuse", {1})
MEM_WAL = index("__lance_mem_wal", set())
WITHOUT_A = Schema(SCHEMA.project(["b"]).fields)
OVERWRITE = ops.Overwrite((), SCHEMA, {"k": "1"})
SCHEMA_NOTE = ops.UpdateConfig(schema_metadata=MapUpdate({}))
FIELD_NOTE = ops.UpdateConfig(field_metadata={1: MapUpdate({})})


@pytest.mark.parametrize(
    ("expected", "ours", "theirs"),
    [
        # frag
        ("r", rewrite(1, 2), rewrite(2, 3)),
        (".", rewrite(1, 2), rewrite(3)),
        ("r", rewrite(1, remapped=REMAPPED), rewrite(3, remapped=REMAPPED)),
        ("r", rewrite(1, fragment_reuse_index=REUSE), rewrite(3)),
        ("r", rewrite(1), ops.DataReplacement(((1, data_file("x")),))),
        (".", rewrite(1), ops.DataReplacement(((2, data_file("x")),))),
        ("r", rewrite(1), ForeignOperation("DataOverlay", b"", (1,))),
        (".", rewrite(1), ForeignOperation("DataOverlay", b"", (2,))),
        # follow
        (".", delete(1), rewrite(1)),
        (".", delete(1), rewrite(2)),
        (".", update(1), rewrite(1)),
        ("r", delete(1), ops.Rewrite((ops.RewriteGroup((fragment(1), fragment(2)), (fragment(90),)),))),
        (".", delete(3), ops.Rewrite((ops.RewriteGroup((fragment(1), fragment(2)), (fragment(90),)),))),
        # carry
        (".", rewrite(1), delete(1)),
        (".", rewrite(1), delete(emptied=(1,))),
        (".", rewrite(1), delete(2, emptied=(3,))),
        (".", rewrite(1), ops.Update((1,), (), ())),
        (".", rewrite(1), ops.Update((), (fragment(1, deleted=1),), ())),
        ("r", rewrite(1), ops.Update((), (fragment(1),), (), (0,))),
        (".", rewrite(1), ops.Update((), (fragment(2),), (), (0,))),
        (".", rewrite(1), ops.Update((), (), (fragment(0),))),
        # rows
        (".", delete(1), delete(1)),
        (".", delete(1), delete(2)),
        ("r", delete(emptied=(1,)), delete(1)),
        ("r", delete(1), delete(emptied=(1,))),
        ("r", delete(1), ops.Update((1,), (), ())),
        (".", update(1), delete(1)),
        ("r", update(1), delete(emptied=(1,))),
        ("r", update(emptied=(1,)), delete(1)),
        # added
        ("r", update(1), update(2)),
        ("r", update(), update()),
        (".", update(1), ops.Update((), (fragment(1, deleted=1),), ())),
        ("r", update(1), ops.Update((1,), (), ())),
        ("r", update(1), ops.Append((fragment(0, name="added"),))),
        ("r", update(), ops.Append((fragment(0, name="added"),))),
        (".", update(1), ops.Append(())),
        ("r", update(1), ops.DataReplacement(((2, data_file("x")),))),
        ("r", update(1), ForeignOperation("DataOverlay", b"", (1,))),
        ("r", update(1), ops.Project(SCHEMA)),
        (".", delete(1), ops.Update((), (fragment(1, deleted=1),), ())),
        # null
        ("r", ops.Append(()), ops.Merge((), SCHEMA)),
        (".", ops.Append(()), ops.Merge((), SCHEMA, preserves_nullability=True)),
        ("r", ops.Append(()), ops.Project(SCHEMA)),
        (".", ops.Append(()), ops.Project(SCHEMA, preserves_nullability=True)),
        ("r", ops.Project(SCHEMA), ops.Append(())),
        (".", ops.Project(SCHEMA, preserves_nullability=True), ops.Append(())),
        # config
        ("X", config(k="1"), config(k="2")),
        ("X", config(k="1"), config(k=None)),
        (".", config(k="1"), config(j="1")),
        ("X", ops.UpdateConfig(MapUpdate({}, replace=True)), config(k="1")),
        (".", ops.UpdateConfig(table_metadata=MapUpdate({}, replace=True)), config(k="1")),
        ("X", SCHEMA_NOTE, SCHEMA_NOTE),
        ("X", FIELD_NOTE, FIELD_NOTE),
        (".", FIELD_NOTE, ops.UpdateConfig(field_metadata={2: MapUpdate({})})),
        ("X", OVERWRITE, config(k="2")),
        (".", OVERWRITE, config(j="2")),
        (".", OVERWRITE, SCHEMA_NOTE),
        ("X", SCHEMA_NOTE, OVERWRITE),
        ("X", FIELD_NOTE, OVERWRITE),
        ("r", OVERWRITE, ops.Overwrite((), SCHEMA)),
        ("X", OVERWRITE, OVERWRITE),
        ("X", config(k="2"), OVERWRITE),
        (".", config(j="2"), OVERWRITE),
        # meta
        ("r", ops.Merge((), SCHEMA), SCHEMA_NOTE),
        (".", ops.Merge((), SCHEMA), config(k="1")),
        ("r", FIELD_NOTE, ops.Merge((), SCHEMA)),
        (".", config(k="1"), ops.Merge((), SCHEMA)),
        ("r", ops.Project(SCHEMA), FIELD_NOTE),
        (".", ops.Project(SCHEMA), SCHEMA_NOTE),
        # back
        ("X", ops.Restore(1), FIELD_NOTE),
        ("X", SCHEMA_NOTE, ops.Restore(1)),
        (".", ops.UpdateConfig(table_metadata=MapUpdate({})), ops.Restore(1)),
        (".", ops.Restore(1), config(k="1")),
        # index
        ("r", build("a_idx", {1}), build("a_idx", {2})),
        ("r", build("a_idx", {1}), ops.CreateIndex((), (SEGMENT,))),
        (".", build("a_idx", {1}), build("b_idx", {1})),
        # moved
        (".", build("a_idx", {1, 5}), rewrite(1)),
        (".", build("a_idx", {5}), rewrite(1)),
        ("r", build("a_idx", None), rewrite(1)),
        ("r", ops.CreateIndex((), (SEGMENT,)), rewrite(1, remapped=REMAPPED)),
        (".", ops.CreateIndex((), (SEGMENT,)), rewrite(1)),
        # schema
        ("r", ops.Merge((), SCHEMA), ops.Append(())),
        ("r", ops.Merge((), SCHEMA), delete(1)),
        (".", ops.Merge((), SCHEMA, schema_only=True), ops.Append(())),
        (".", ops.Merge((), SCHEMA, schema_only=True), rewrite(1)),
        ("r", ops.Merge((), SCHEMA, schema_only=True), ops.Merge((), SCHEMA)),
        # built
        ("r", rewrite(1), build("a_idx", {1})),
        (".", rewrite(1), build("a_idx", {2})),
        ("r", rewrite(1), build("a_idx", None)),
        ("r", rewrite(1, remapped=REMAPPED), ops.CreateIndex((), (SEGMENT,))),
        ("r", rewrite(1, fragment_reuse_index=REUSE), ops.CreateIndex((REUSE,))),
        (".", rewrite(1), ops.CreateIndex((REUSE,))),
        # prune, field, kept, memwal
        (".", build("a_idx", {1}), ops.Update((), (fragment(1),), (), (0,))),
        ("r", build("a_idx", {1}), ops.DataReplacement(((7, data_file("x", fields=(0,))),))),
        (".", build("a_idx", {1}), ops.DataReplacement(((1, data_file("x", fields=(1,))),))),
        ("r", build("a_idx", {1}), ops.Project(WITHOUT_A)),
        (".", build("a_idx", {1}), ops.Project(SCHEMA)),
        ("r", build("a_idx", {1}), ops.Merge((), WITHOUT_A)),
        (".", build("a_idx", {1}), ops.Merge((), SCHEMA)),
        ("r", ops.Merge((), SCHEMA), ops.CreateIndex((MEM_WAL,))),
        (".", ops.Merge((), SCHEMA), build("a_idx", {1})),
    ],
)  # fmt: skip
def test_rules_look_into_both_operations(expected, ours, theirs):
    assert verdict(ours, theirs) == expected


def test_a_verdict_says_what_collides():
    found = judge(transaction(rewrite(1, 2, 3)), transaction(rewrite(2, 3)))
    assert found.reason == "both change fragments 2, 3"
    found = judge(transaction(config(k="1")), transaction(config(k="2")))
    assert found.reason == "both change config 'k'"


# The peer. Every pair is committed twice from one read version: theirs first by the peer, then ours once by
# us and once, on a copy, by the peer. Three fragments of ten rows; segment a_idx covers fragments 0 and 1.


@dataclass(frozen=True)
class Scene:
    dataset: Dataset
    reserved: range

    def merge(self) -> ops.Merge:
        """A column more, without values."""
        wider = self.dataset.schema.append(pa.field("extra", pa.int32()))
        return ops.Merge(self.dataset.fragments, Schema.from_arrow(wider), preserves_nullability=True)

    def replace(self, offsets: dict[int, list[int]]) -> ops.Update:
        return update_operation(self.dataset, offsets, rows(200, 205))

    def overwrite(self) -> ops.Overwrite:
        table = rows(500, 505)
        schema = Schema.from_arrow(table.schema)
        return ops.Overwrite(write_data_files(self.dataset.store, table.to_batches(), schema), schema)

    def index(self, name: str, ids: set[int], **more) -> ops.CreateIndex:
        return ops.CreateIndex((replace(index(name, ids, **more), dataset_version=self.dataset.version),))

    def columns(self, fragment_id: int, name: str) -> ops.DataReplacement:
        """Other values for one column of a fragment."""
        schema = self.dataset.lance_schema.project([name])
        old = self.dataset.to_table([name], fragments=[fragment_id])
        (new,) = write_data_files(self.dataset.store, old.to_batches(), schema)
        return ops.DataReplacement(((fragment_id, new.files[0]),))

    def rewrite(self, *fragment_ids: int) -> ops.Rewrite:
        # The last of the rewritten ids decides, so that two rewrites of one scene can stand side by side.
        return rewrite_operation(self.dataset, fragment_ids, new_ids=[self.reserved[fragment_ids[-1] == 2]])


Make = Callable[[Scene], Operation]

CASES: dict[str, Make] = {
    "Append": lambda s: append_operation(s.dataset, rows(100, 105)),
    "Delete in 0": lambda s: delete_operation(s.dataset, {0: [1]}),
    "Delete of 0": lambda s: delete_operation(s.dataset, {0: range(10)}),
    "Delete in 2": lambda s: delete_operation(s.dataset, {2: [1]}),
    "replace in 0": lambda s: s.replace({0: [1]}),
    "replace in 2": lambda s: s.replace({2: [1]}),
    "replace nothing": lambda s: s.replace({}),
    "Overwrite": Scene.overwrite,
    "CreateIndex a_idx on 2": lambda s: s.index("a_idx", {2}),
    "CreateIndex c_idx on 0": lambda s: s.index("c_idx", {0}),
    "CreateIndex d_idx on 0, 1, 2": lambda s: s.index("d_idx", {0, 1, 2}),
    "CreateIndex b_idx on 0": lambda s: s.index("b_idx", {0}, fields=(1,)),
    "drop a_idx": lambda s: ops.CreateIndex((), s.dataset.indices),
    "Rewrite 0, 1": lambda s: s.rewrite(0, 1),
    "Rewrite 2": lambda s: s.rewrite(2),
    "Merge": Scene.merge,
    "Merge of the schema alone": lambda s: replace(s.merge(), schema_only=True),
    "Merge unsafe": lambda s: replace(s.merge(), preserves_nullability=False),
    "Restore": lambda s: ops.Restore(1),
    "ReserveFragments": lambda s: ops.ReserveFragments(2),
    "Project": lambda s: ops.Project(s.dataset.lance_schema.project(["a"]), preserves_nullability=True),
    "Project unsafe": lambda s: ops.Project(s.dataset.lance_schema.project(["a"])),
    "replace b of 0": lambda s: s.columns(0, "b"),
    "replace a of 2": lambda s: s.columns(2, "a"),
    "UpdateConfig k": lambda s: ops.UpdateConfig(MapUpdate({"k": "1"})),
    "UpdateConfig j": lambda s: ops.UpdateConfig(MapUpdate({"j": "1"})),
    "UpdateConfig schema": lambda s: ops.UpdateConfig(schema_metadata=MapUpdate({"m": "1"})),
    "UpdateConfig field b": lambda s: ops.UpdateConfig(field_metadata={1: MapUpdate({"m": "1"})}),
    "UpdateConfig table": lambda s: ops.UpdateConfig(table_metadata=MapUpdate({"m": "1"})),
}


def peer_update(scene: Scene) -> None:
    # By the column without index: the segments of these tests have no files.
    lance.dataset(scene.dataset.uri).update({"b": "'changed'"}, where="b = 'row 3'")


def peer_data_replacement(scene: Scene) -> None:
    old = scene.dataset.to_table(fragments=[0])
    (new,) = write_data_files(scene.dataset.store, old.to_batches(), scene.dataset.lance_schema)
    (file,) = peer_fragment(new).files
    operation = lance.LanceOperation.DataReplacement([lance.LanceOperation.DataReplacementGroup(0, file)])
    lance.LanceDataset.commit(scene.dataset.uri, operation, read_version=scene.dataset.version)


def peer_bases(scene: Scene) -> None:
    base = lance.DatasetBasePath("/somewhere/else", "elsewhere", True, 7)
    lance.dataset(scene.dataset.uri).add_bases([base])


PEER_CASES: dict[str, Callable[[Scene], None]] = {
    "Update in 0": peer_update,
    "DataReplacement in 0": peer_data_replacement,
    "UpdateBases": peer_bases,
}

DIFFERENCES = {
    # (ours, theirs): (our verdict, the peer's).
    # Nobody is hurt by dropping an index twice, but the second time there is nothing to drop.
    ("drop a_idx", "drop a_idx"): ("r", "."),
    # The peer commits an index on a column that does not exist.
    ("CreateIndex b_idx on 0", "Project"): ("r", "."),
    ("CreateIndex b_idx on 0", "Project unsafe"): ("r", "."),
    # The peer fails, but not with a conflict.
    ("UpdateConfig field b", "Project"): ("r", "error"),
    ("UpdateConfig field b", "Project unsafe"): ("r", "error"),
    # Different rows of one fragment. Ours reads the deletion files and merges them; the peer's callers can
    # say which rows they delete, but not through this interface.
    ("Delete in 0", "Update in 0"): (".", "r"),
    # Two that replace rows by new ones: neither saw the new rows of the other.
    **{
        (ours, theirs): ("r", ".")
        for ours in ("replace in 0", "replace in 2", "replace nothing")
        for theirs in ("replace in 0", "replace in 2", "replace nothing", "Update in 0")
        if not (ours == theirs != "replace nothing") and (ours, theirs) != ("replace in 0", "Update in 0")
    },
    # Nor those that came otherwise, or the values that others were given.
    **{
        (ours, theirs): ("r", ".")
        for ours in ("replace in 0", "replace in 2", "replace nothing")
        for theirs in ("Append", "DataReplacement in 0", "replace b of 0", "replace a of 2")
        if theirs == "Append" or ours[-4:] not in (theirs[-4:], theirs.replace(" of ", " in ")[-4:])
    },
    # Rows deleted since the rewrite read them are deleted in its new fragments, too.
    **{
        ("Rewrite 0, 1", theirs): (".", "r")
        for theirs in ("Delete in 0", "Delete of 0", "replace in 0", "Update in 0")
    },
    **{("Rewrite 2", theirs): (".", "r") for theirs in ("Delete in 2", "replace in 2")},
    # Rows to be deleted are found where a rewrite put them.
    **{(ours, "Rewrite 0, 1"): (".", "r") for ours in ("Delete in 0", "Delete of 0", "replace in 0")},
    **{(ours, "Rewrite 2"): (".", "r") for ours in ("Delete in 2", "replace in 2")},
    # An index leaves what was rewritten meanwhile to scans, where most of it was left alone.
    ("CreateIndex d_idx on 0, 1, 2", "Rewrite 2"): (".", "r"),
    # A column without values is null in whatever rows there are.
    **{
        ("Merge of the schema alone", theirs): (".", "r")
        for theirs in (
            "replace b of 0",
            "replace a of 2",
            "Append",
            "Delete in 0",
            "Delete of 0",
            "Delete in 2",
            "replace in 0",
            "replace in 2",
            "replace nothing",
            "Rewrite 0, 1",
            "Rewrite 2",
            "Update in 0",
            "DataReplacement in 0",
        )
    },
    # Planning again may succeed: another column was renamed or dropped, or other fragments are left.
    **{
        (ours, theirs): ("r", "X")
        for ours in ("Merge", "Merge unsafe", "Merge of the schema alone")
        for theirs in ("Project", "Project unsafe")
    },
    ("replace b of 0", "Delete of 0"): ("r", "X"),
    # The peer throws the new metadata away.
    ("Project", "UpdateConfig field b"): ("r", "."),
    ("Project unsafe", "UpdateConfig field b"): ("r", "."),
}


@pytest.fixture(scope="module")
def scene(tmp_path_factory) -> Scene:
    path = tmp_path_factory.mktemp("conflicts") / "table"
    dataset = create(str(path), rows(0, 30), rows_per_fragment=10)
    dataset = commit(dataset, ops.CreateIndex((index("a_idx", {0, 1}),))).dataset
    result, reserved = reserve_fragments(dataset, 2)
    return Scene(result.dataset, reserved)


def at(scene: Scene, path: Path) -> Scene:
    """The scene on a copy."""
    shutil.copytree(scene.dataset.uri, path)
    return Scene(Dataset.open(str(path)), scene.reserved)


def ours_says(scene: Scene, operation: Operation) -> str:
    try:
        commit(scene.dataset, operation)
    except CommitConflictError as error:
        return "r" if error.retryable else "X"
    return "."


def peer_says(scene: Scene, operation: Operation) -> str | None:
    translated = peer_operation(operation)
    if translated is None:
        return None
    try:
        lance.LanceDataset.commit(scene.dataset.uri, translated, read_version=scene.dataset.version)
    except PeerConflictError as error:
        return "r" if error.retryable else "X"
    except OSError:
        return "error"
    return "."


def commit_theirs(scene: Scene, case: str) -> None:
    if case in PEER_CASES:
        PEER_CASES[case](scene)
        return
    operation = CASES[case](scene)
    # The peer's Python interface has no ReserveFragments.
    verdict = peer_says(scene, operation) or ours_says(scene, operation)
    assert verdict == "."


@pytest.mark.peer
@pytest.mark.parametrize("theirs", [*CASES, *PEER_CASES])
def test_verdicts_are_those_of_the_peer(scene, tmp_path, theirs):
    expected, found = {}, {}
    for number, (ours, make) in enumerate(CASES.items()):
        for_us = at(scene, tmp_path / f"{number}-ours")
        operation = make(for_us)
        commit_theirs(for_us, theirs)
        shutil.copytree(for_us.dataset.uri, tmp_path / f"{number}-peer")
        before = Dataset.open(str(tmp_path / f"{number}-peer"), scene.dataset.version)
        verdict = peer_says(Scene(before, scene.reserved), operation)
        if verdict is None:
            continue
        found[ours] = (ours_says(for_us, operation), verdict)
        expected[ours] = DIFFERENCES.get((ours, theirs), (verdict, verdict))
    assert found == expected


@pytest.mark.peer
def test_the_peer_reads_what_stands_after_pairs_that_we_let_pass(scene, tmp_path):
    for number, (theirs, ours) in enumerate(
        [
            ("Append", "Rewrite 0, 1"),
            ("Rewrite 0, 1", "Delete in 2"),
            ("Delete in 0", "Append"),
            ("Merge", "ReserveFragments"),
        ]
    ):
        copy = at(scene, tmp_path / f"{number}")
        operation = CASES[ours](copy)
        commit_theirs(copy, theirs)
        dataset = commit(copy.dataset, operation).dataset
        peer = lance.dataset(dataset.uri)
        peer.validate()
        assert peer.to_table().num_rows == dataset.count_rows()
