"""Batches, SQL and streams on a store of others; `programs/test_standalone.py` has them on a cluster."""

import pytest

from tests.support.object_servers import SeaweedFS, running
from tests.support.spark_rounds import check_round

pytestmark = pytest.mark.spark


@pytest.mark.slow
def test_a_round_on_a_server_of_s3(spark, tmp_path):
    # A server of its own: the shared one belongs to tests of another process.
    with running(SeaweedFS) as server:
        check_round(spark, server.new_root(), tmp_path, server.options())
