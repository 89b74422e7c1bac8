"""Field ids: a new column never gets the id that another column had, whoever dropped it."""

import lance
import pyarrow as pa
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import lance_ops as lo
from lance_ops.pb import table_pb2
from lance_ops.storage.memory import MemoryStore
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.field_ids import CONFIG_KEY, highest_given
from tests.safety.profile import examples
from tests.support.tables import create, rows


@pytest.fixture
def uri(tmp_path) -> str:
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(pa.table({"i": [1, 2], "x": [0.5, 1.5]}), uri)
    return uri


def ids(uri: str) -> dict[str, int]:
    return {field.name: field.id for field in lo.dataset(uri).lance_schema.fields}


def test_the_id_of_a_dropped_column_is_not_given_out_again(uri):
    lo.append(uri, pa.table({"i": [3], "x": [2.5]}))
    lo.drop_columns(uri, ["x"])
    lo.compact(uri)
    lo.add_columns(uri, {"y": "i * 2"})
    assert ids(uri) == {"i": 0, "y": 2}
    lo.alter_columns(uri, {"path": "y", "data_type": pa.float64()})
    assert ids(uri) == {"i": 0, "y": 3}


@pytest.mark.parametrize("forget", [{CONFIG_KEY: None}, {CONFIG_KEY: "0@9"}, {CONFIG_KEY: "much"}])
def test_the_entry_does_not_go_down(uri, forget):
    lo.drop_columns(uri, ["x"])
    lo.compact(uri)
    lo.update_config(uri, forget)
    lo.add_columns(uri, {"y": "i * 2"})
    assert ids(uri) == {"i": 0, "y": 2}


@pytest.mark.parametrize("entry", ["2147483647@1", "2147483646@9", "1@4000"])
def test_an_entry_that_cannot_be_true_is_not_believed(uri, entry):
    lo.update_config(uri, {CONFIG_KEY: entry})
    lo.add_columns(uri, {"y": "i * 2"})
    assert (ids(uri), lo.dataset(uri).config[CONFIG_KEY]) == ({"i": 0, "x": 1, "y": 2}, "2@3")


def test_a_restore_keeps_the_ids_that_were_given_out_since(uri):
    lo.add_columns(uri, {"y": "i", "z": "i"})
    lo.restore(uri, 1)
    lo.add_columns(uri, {"w": "i"})
    assert ids(uri) == {"i": 0, "x": 1, "w": 4}


def test_a_table_whose_fields_do_not_change_gets_no_entry(uri):
    lo.append(uri, pa.table({"i": [3], "x": [2.5]}))
    lo.alter_columns(uri, {"path": "x", "name": "z"})
    lo.update(uri, {"z": "z + 1"})
    lo.compact(uri)
    assert CONFIG_KEY not in lo.dataset(uri).config


@pytest.mark.peer
def test_ids_that_the_peer_gave_out_and_freed_are_counted(uri):
    lo.add_columns(uri, {"y": "i"})
    lance.dataset(uri).add_columns({"p": "i"})
    lance.dataset(uri).drop_columns(["p"])
    lo.append(uri, pa.table({"i": [3], "x": [2.5], "y": [3]}))
    lance.dataset(uri).optimize.compact_files()
    lo.add_columns(uri, {"q": "i"})
    assert ids(uri)["q"] == 4
    assert lance.dataset(uri).to_table().sort_by("i")["q"].to_pylist() == [1, 2, 3]


def test_the_number_of_the_format_is_read():
    dataset = create(MemoryStore("memory://max-allocated-field-id"), rows(0, 3))
    unknown = table_pb2.Manifest(max_allocated_field_id=40).SerializeToString()
    assert highest_given(dataset.store, dataset.manifest) == 1
    assert highest_given(dataset.store, dataset.manifest.replace(unknown=unknown)) == 40


class Histories(RuleBasedStateMachine):
    """Columns come and go by both writers; no id of ours is one that a column had in a kept version."""

    count = 0

    @initialize()
    def begin(self) -> None:
        Histories.count += 1
        self.store = MemoryStore(f"memory://field-ids/{Histories.count}")
        self.dataset = create(self.store, rows(0, 4), rows_per_fragment=2)
        self.seen: dict[int, str] = {0: "a", 1: "b"}
        self.names = 0

    @rule()
    def add(self) -> None:
        self.names += 1
        name = f"c{self.names}"
        lo.add_columns(self.dataset, {name: "a + 1"})
        self._look()
        assert self.dataset.lance_schema.field(name).id not in self.seen
        self.seen[self.dataset.lance_schema.field(name).id] = name

    @precondition(lambda self: len(self.dataset.lance_schema.names) > 1)
    @rule(data=st.data())
    def drop(self, data) -> None:
        name = data.draw(st.sampled_from([name for name in self.dataset.lance_schema.names if name != "a"]))
        lo.drop_columns(self.dataset, [name])
        self._look()

    @rule()
    def compact(self) -> None:
        lo.compact(self.dataset)
        self._look()

    @rule(data=st.data())
    def restore(self, data) -> None:
        version = data.draw(st.integers(1, self.dataset.version))
        if version < self.dataset.version:
            lo.restore(self.dataset, version)
        self._look()

    def _look(self) -> None:
        self.dataset = Dataset.open(self.store)


Histories.TestCase.settings = examples(6, stateful_step_count=8)
TestHistories = Histories.TestCase
