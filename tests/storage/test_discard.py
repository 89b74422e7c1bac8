"""Objects of no further use are deleted without waiting long for a server that does not answer."""

import threading

import pytest

from lance_ops.errors import StorageError
from lance_ops.storage import retry
from lance_ops.storage.memory import MemoryStore
from tests.support.faulty_store import FaultyStore


class Server:
    """A store of a server whose deletions wait until the test lets them."""

    server = "a server"

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.deleted: list[str] = []
        self.done = threading.Event()

    def delete(self, path: str) -> None:
        self.answers.wait(60)
        self.deleted.append(path)
        self.done.set()
        raise StorageError("the server failed", path=path)


def test_a_server_that_does_not_answer_is_left_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "PATIENCE", 0.0)
    store = Server()
    retry.discard(store, "a")
    assert store.deleted == []
    store.answers.set()
    assert store.done.wait(60)
    assert store.deleted[0] == "a"


def test_an_answer_is_waited_for() -> None:
    store = Server()
    store.answers.set()
    retry.discard(store, "a")
    assert set(store.deleted) == {"a"}


@pytest.mark.parametrize("failures", [0, 2, 9])
def test_a_local_deletion_is_tried_again_at_once_and_may_fail(failures: int) -> None:
    store = MemoryStore("memory://discard/a")
    store.put("a", b"1")
    retry.discard(FaultyStore(store, lambda _: True, mode="error", times=failures), "a")
    assert store.exists("a") == (failures == 9)
