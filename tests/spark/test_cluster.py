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
def test_a_job_runs_on_two_workers_and_survives_the_death_of_one(tmp_path: Path) -> None:
    script = """
        import os
        from pathlib import Path

        import psutil

        from tests.support.spark_cluster import StandaloneCluster
        from lance_ops.spark.session import build_session

        def meet(folder):
            def run(batches):
                import time
                import pyarrow as pa
                for batch in batches:
                    for task in batch["id"].to_pylist():
                        (Path(folder) / f"{task}-{os.getppid()}").touch()
                        # Nobody goes on before the other task has started, hence on another worker.
                        deadline = time.monotonic() + 60
                        while len(list(Path(folder).iterdir())) < 2 and time.monotonic() < deadline:
                            time.sleep(0.05)
                        yield pa.RecordBatch.from_pydict({"daemon": [os.getppid()]})
            return run

        def executors_of(worker):
            return psutil.Process(worker).children()

        me = psutil.Process()
        with StandaloneCluster() as cluster:
            leaders = me.children()
            session = build_session("cluster test", cluster.master_url)
            folder = Path("both").absolute()
            folder.mkdir()
            two = session.range(0, 2, 1, 2).mapInArrow(meet(str(folder)), "daemon long").collect()
            assert len({row.daemon for row in two}) == 2
            addresses = {
                connection.laddr.ip.removeprefix("::ffff:")
                for process in [me, *me.children(recursive=True)]
                for connection in process.net_connections("inet")
                if connection.status == psutil.CONN_LISTEN
            }
            assert addresses == {"127.0.0.1"}, addresses

            first, second = cluster.worker_pids
            victims, survivors = executors_of(first), executors_of(second)
            assert victims and survivors
            cluster.kill_worker(0)
            assert psutil.wait_procs(victims, timeout=60)[1] == []
            cluster.wait_for_workers(1, timeout_seconds=120)
            assert session.range(4).mapInArrow(lambda batches: batches, "id long").count() == 4
            assert executors_of(second) == survivors
            session.stop()
        assert psutil.wait_procs([*leaders, *survivors], timeout=60)[1] == []
    """
    run_script(script, cwd=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["both"]


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
