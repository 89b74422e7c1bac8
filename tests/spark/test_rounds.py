"""Batches, SQL and streams on every kind of session and store."""

import pytest

from tests.support.object_servers import SeaweedFS, running
from tests.support.spark import run_script
from tests.support.spark_rounds import check_round

pytestmark = pytest.mark.spark


@pytest.mark.slow
def test_a_round_on_a_server_of_s3(spark, tmp_path):
    # A server of its own: the shared one belongs to tests of another process.
    with running(SeaweedFS) as server:
        check_round(spark, server.new_root(), tmp_path, server.options())


@pytest.mark.slow
def test_a_round_on_two_workers(tmp_path):
    script = """
        from pathlib import Path

        from lance_ops.spark import build_session
        from tests.support.spark_cluster import StandaloneCluster
        from tests.support.spark_rounds import check_round

        with StandaloneCluster(workers=2) as cluster:
            spark = build_session("round", cluster.master_url)
            check_round(spark, str(Path("data").absolute()), Path("checkpoints").absolute())
            spark.stop()
    """
    run_script(script, cwd=tmp_path, timeout=1200.0)
