"""A standalone cluster of processes: two workers, one of which dies in the middle of a compaction.

One test, since a cluster is the dearest thing of the suite: six virtual machines.
"""

from pathlib import Path

import pytest

from tests.support.spark import run_script


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.peer
def test_everything_runs_on_two_workers_and_a_compaction_survives_the_death_of_one(tmp_path: Path) -> None:
    script = """
        import os
        import threading
        import time
        from pathlib import Path

        import lance
        import psutil

        import lance_ops as lo
        from lance_ops.spark import SparkRunner, append_dataframe, build_session
        from tests.support.spark_cluster import StandaloneCluster
        from tests.support.spark_rounds import check_round

        ROWS = 4000
        uri = str(Path("t.lance").absolute())
        marker = Path("victim").absolute()

        rewritten = Path("rewritten").absolute()

        class FatalRunner(SparkRunner):
            '''The first task that has written its files says so, and hangs until its executor is killed.'''

            def map(self, function, tasks, *, on_done=None):
                def run(task):
                    from lance_ops.maintenance.compact import recorded

                    def rewrite(group):
                        result = recorded.really(group)
                        with rewritten.open("a") as file:
                            file.write(f"{group.group.fragment_ids}\\n")
                        try:
                            with marker.open("x") as file:
                                file.write(str(os.getpid()))
                        except FileExistsError:
                            return result
                        time.sleep(300)

                    if not hasattr(recorded, "really"):
                        recorded.really = recorded.rewrite_group
                        recorded.rewrite_group = rewrite
                    return function(task)

                return super().map(run, tasks, on_done=on_done)

        def meet(folder):
            def run(batches):
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

        def kill_the_victims_worker(cluster, died, left):
            deadline = time.monotonic() + 60
            while not (marker.exists() and marker.read_text()) and time.monotonic() < deadline:
                time.sleep(0.05)
            above = {parent.pid for parent in psutil.Process(int(marker.read_text())).parents()}
            (number,) = [n for n, pid in enumerate(cluster.worker_pids) if pid in above]
            died += executors_of(cluster.worker_pids[number])
            left += executors_of(cluster.worker_pids[1 - number])
            cluster.kill_worker(number)

        me = psutil.Process()
        with StandaloneCluster(workers=2) as cluster:
            leaders = me.children()
            spark = build_session("standalone", cluster.master_url)
            folder = Path("both").absolute()
            folder.mkdir()
            two = spark.range(0, 2, 1, 2).mapInArrow(meet(str(folder)), "daemon long").collect()
            assert len({row.daemon for row in two}) == 2
            addresses = {
                connection.laddr.ip.removeprefix("::ffff:")
                for process in [me, *me.children(recursive=True)]
                for connection in process.net_connections("inet")
                if connection.status == psutil.CONN_LISTEN
            }
            assert addresses == {"127.0.0.1"}, addresses

            check_round(spark, str(Path("data").absolute()), Path("checkpoints").absolute())

            df = spark.range(0, ROWS, 1, 4).selectExpr("id", "id % 10 as digit")
            assert append_dataframe(df, uri, max_rows_per_file=250).fragments_added == 16
            more = spark.range(ROWS, 2 * ROWS, 1, 2).selectExpr("id", "id % 10 as digit")
            more.write.format("lance").mode("append").option("max_rows_per_file", 500).save(uri)
            assert lo.dataset(uri).version == 2

            runner = SparkRunner(spark)
            lo.create_index(uri, "id", rows_per_task=1000, runner=runner)
            assert lo.delete(uri, "digit = 3", runner=runner).rows_deleted == 2 * ROWS // 10
            expected = lo.dataset(uri).to_table()

            victims, survivors = [], []
            killer = threading.Thread(target=kill_the_victims_worker, args=(cluster, victims, survivors))
            killer.start()
            done = lo.compact(
                uri, target_rows_per_fragment=600, commit_every=3, job_key="night", runner=FatalRunner(spark)
            )
            killer.join()
            assert victims and survivors
            assert psutil.wait_procs(victims, timeout=60)[1] == []
            cluster.wait_for_workers(1, timeout_seconds=120)
            assert spark.range(4).mapInArrow(lambda batches: batches, "id long").count() == 4
            assert done.groups > 3, done
            groups = rewritten.read_text().splitlines()
            assert len(set(groups)) == done.groups
            assert len(groups) == done.groups + 1, "only the task that died was done twice"
            assert lo.dataset(uri).to_table().equals(expected)
            rows = spark.read.format("lance").option("filter", "id >= 7000").load(uri)
            assert rows.count() == 900
            (survivor,) = [pid for pid in cluster.worker_pids if psutil.pid_exists(pid)]
            assert executors_of(survivor) == survivors
            spark.stop()
        assert psutil.wait_procs([*leaders, *survivors], timeout=60)[1] == []
        made = {path.name for path in Path().iterdir()}
        assert made == {"both", "checkpoints", "data", "rewritten", "t.lance", "victim"}, made

        files = {path.name for path in (Path(uri) / "data").iterdir()}
        referred = {
            file.path
            for version in lo.dataset(uri).versions()
            for fragment in lo.dataset(uri, version.version).fragments
            for file in fragment.files
        }
        assert files == referred, "what the task that died had written is gone with the end of the job"
        assert not lo.list_jobs(uri)
        assert not [path for path in (Path(uri) / "_lance_ops" / "jobs").rglob("*") if path.is_file()]
        lo.cleanup(uri, retain_versions=1, delete_unverified=True)
        files = {path.name for path in (Path(uri) / "data").iterdir()}
        assert files == {file.path for fragment in lo.dataset(uri).fragments for file in fragment.files}
        assert lo.fsck(uri).ok

        peer = lance.dataset(uri)
        peer.validate()
        assert peer.to_table().equals(expected)
        assert peer.to_table(filter="id = 3999").num_rows == 1
        assert "ScalarIndexQuery" in peer.scanner(filter="id = 3999").explain_plan()
    """
    run_script(script, cwd=tmp_path, timeout=1200.0)
