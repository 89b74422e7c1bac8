"""The standalone cluster of processes on loopback."""

from pathlib import Path

import pytest

from lance_ops.errors import InvalidArgumentError
from tests.support.spark import run_script
from tests.support.spark_cluster import StandaloneCluster


@pytest.mark.parametrize("arguments", [{"workers": 0}, {"cores": 0}])
def test_a_cluster_of_nothing_is_refused(arguments: dict[str, int]) -> None:
    with pytest.raises(InvalidArgumentError):
        StandaloneCluster(**arguments)


@pytest.mark.spark
@pytest.mark.slow
def test_a_cluster_that_cannot_start_says_why_and_leaves_nothing_running(tmp_path: Path) -> None:
    script = """
        import psutil

        from lance_ops.errors import SparkStartError
        from tests.support.spark_cluster import StandaloneCluster

        cluster = StandaloneCluster(workers=1, memory="much")
        try:
            cluster.__enter__()
        except SparkStartError as error:
            assert "worker 0 ended" in str(error) and "--- worker-0" in str(error), error
        else:
            raise AssertionError("started")
        assert psutil.Process().children() == []
        assert cluster.worker_pids == ()
    """
    run_script(script, cwd=tmp_path)
