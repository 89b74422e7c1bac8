"""Every store keeps its promises on real servers, behind a proxy that can make them fail."""

import contextlib
import gc

import pytest

from lance_ops.storage import open_store
from lance_ops.storage.fsspec_store import FsspecStore
from lance_ops.testing import StoreConformance
from tests.support.fault_proxy import FaultProxy, Rule


@pytest.fixture(scope="session")
def seaweed_proxy(seaweed):
    with FaultProxy(seaweed.port) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def moto_proxy(moto):
    with FaultProxy(moto.port) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def azurite_proxy(azurite):
    with FaultProxy(azurite.port) as proxy:
        yield proxy


def options(server, proxy):
    # Few retries: here servers that fail go on failing.
    return {**server.options(proxy.endpoint), "client_max_retries": "1"}


def refusing(proxy):
    """Make a context manager in which the server answers that it cannot do anything."""

    @contextlib.contextmanager
    def failing():
        proxy.rules.append(Rule("", "error before", times=1 << 30, status=501))
        try:
            yield
        finally:
            proxy.rules.clear()

    return failing


class TestSeaweedFS(StoreConformance):
    @pytest.fixture
    def store(self, seaweed, seaweed_proxy):
        return open_store(seaweed.new_root() + "/some%20prefix/root", options(seaweed, seaweed_proxy))

    @pytest.fixture
    def failing(self, seaweed_proxy):
        return refusing(seaweed_proxy)


class TestMoto(StoreConformance):
    @pytest.fixture
    def store(self, moto, moto_proxy):
        return open_store(moto.new_bucket(), options(moto, moto_proxy))

    @pytest.fixture
    def failing(self, moto_proxy):
        return refusing(moto_proxy)


class TestFsspecOnSeaweedFS(StoreConformance):
    @pytest.fixture
    def store(self, seaweed, seaweed_proxy):
        yield FsspecStore(seaweed.new_root(), options(seaweed, seaweed_proxy))
        gc.collect()

    @pytest.fixture
    def failing(self, seaweed_proxy):
        return refusing(seaweed_proxy)


@pytest.mark.azurite
class TestAzurite(StoreConformance):
    @pytest.fixture
    def store(self, azurite, azurite_proxy):
        return open_store(azurite.new_root() + "/some%20prefix", options(azurite, azurite_proxy))

    @pytest.fixture
    def failing(self, azurite_proxy):
        return refusing(azurite_proxy)
