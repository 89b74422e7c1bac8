"""Random sequences of calls on a store and on a dict: both must say the same."""

import tempfile
import uuid

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lance_ops.errors import AlreadyExistsError, CorruptFileError, FileMissingError
from lance_ops.storage import open_store

# No name is a folder of another: local files cannot be both.
PATHS = st.sampled_from(
    ["a", "a.b/c", "a.b/d/e", "a-b", "b/x/y/z", "b/x/y0", "b/x.y", "b/x-/q", "c/1", "c/2", "ü/ä"]
)
FOLDERS = st.sampled_from(["", "a.b", "a.b/d", "b", "b/x", "b/x/y", "c", "missing", "a"])
DATA = st.binary(max_size=40)
SETTINGS = settings(
    max_examples=40, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


class StoreMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.model = {}
        self.store = self.make_store()

    @rule(path=PATHS, data=DATA)
    def put(self, path, data):
        self.store.put(path, data)
        self.model[path] = data

    @rule(path=PATHS, data=DATA)
    def put_if_absent(self, path, data):
        try:
            self.store.put(path, data, if_absent=True)
        except AlreadyExistsError:
            assert path in self.model
        else:
            assert path not in self.model
            self.model[path] = data

    @rule(path=PATHS, pieces=st.lists(DATA, max_size=4), abort=st.booleans())
    def write(self, path, pieces, abort):
        writer = self.store.open_writer(path)
        for piece in pieces:
            writer.write(piece)
        if abort:
            writer.abort()
        else:
            writer.close()
            self.model[path] = b"".join(pieces)

    @rule(path=PATHS)
    def delete(self, path):
        self.store.delete(path)
        self.model.pop(path, None)

    @rule(paths=st.lists(PATHS, max_size=5))
    def delete_many(self, paths):
        self.store.delete_many(paths)
        for path in paths:
            self.model.pop(path, None)

    @rule(src=PATHS, dst=PATHS, if_absent=st.booleans())
    def copy(self, src, dst, if_absent):
        try:
            self.store.copy(src, dst, if_absent=if_absent)
        except FileMissingError:
            assert src not in self.model
        except AlreadyExistsError:
            assert if_absent
            assert dst in self.model
        else:
            assert not (if_absent and dst in self.model)
            self.model[dst] = self.model[src]

    @precondition(lambda self: self.model)
    @rule(data=st.data(), ranges=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=6))
    def read_ranges(self, data, ranges):
        path = data.draw(st.sampled_from(sorted(self.model)))
        content = self.model[path]
        try:
            found = [buffer.to_pybytes() for buffer in self.store.read_ranges(path, ranges)]
        except CorruptFileError:
            assert any(offset + length > len(content) for offset, length in ranges)
        else:
            assert found == [content[offset : offset + length] for offset, length in ranges]

    @rule(folder=FOLDERS, start_after=st.none() | PATHS | FOLDERS)
    def listing(self, folder, start_after):
        lead = folder + "/" if folder else ""
        expected = [
            (path, len(self.model[path]))
            for path in sorted(self.model)
            if path.startswith(lead) and (start_after is None or path > start_after)
        ]
        assert [
            (info.path, info.size) for info in self.store.list(folder, start_after=start_after)
        ] == expected

    @rule(folder=FOLDERS)
    def folders(self, folder):
        lead = folder + "/" if folder else ""
        below = [path[len(lead) :] for path in self.model if path.startswith(lead)]
        assert self.store.list_dirs(folder) == sorted({rest.split("/")[0] for rest in below if "/" in rest})

    @rule(path=PATHS)
    def existence(self, path):
        assert self.store.exists(path) == (path in self.model)

    @invariant()
    def same_content(self):
        assert {
            info.path: self.store.read(info.path).to_pybytes() for info in self.store.list("")
        } == self.model


class LocalMachine(StoreMachine):
    def make_store(self):
        self.folder = tempfile.TemporaryDirectory()
        return open_store(self.folder.name, {"fsync": "false"})

    def teardown(self):
        self.folder.cleanup()


class MemoryMachine(StoreMachine):
    def make_store(self):
        return open_store(f"memory://{uuid.uuid4().hex}")


TestLocalModel = LocalMachine.TestCase
TestLocalModel.settings = SETTINGS
TestMemoryModel = MemoryMachine.TestCase
TestMemoryModel.settings = SETTINGS
