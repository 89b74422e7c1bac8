"""An asset that is fed by a streaming query: its versions are published as those of anybody."""

import dagster as dg

import lance_ops as lo
from lance_ops.dagster import LanceDatasetRef, LanceDownstream, SensorOptions, build_manifest_sensor
from tests.safety.stream_crashes import epoch, query
from tests.support.dagster import Daemon, materializations, published_versions, versions_of
from tests.support.streams import SPARK_ID


@dg.job
def recompute():
    pass


def test_commits_of_a_stream_are_published_with_query_and_epoch(tmp_path):
    ref = LanceDatasetRef("events", str(tmp_path / "events.lance"))
    stream = query(ref.uri)
    with dg.DagsterInstance.ephemeral() as instance:
        sensor = build_manifest_sensor(
            [ref], downstream=[LanceDownstream(recompute, ["events"])], options=SensorOptions()
        )
        daemon = Daemon(sensor, instance)
        for number in range(2):
            stream.run(number, epoch(number))
        assert versions_of(daemon.tick().asset_events) == [1, 2]
        stream.run(1, epoch(1))  # comes again after a crash
        assert versions_of(daemon.tick().asset_events) == []
        runs = list(daemon.run_keys)
        stream.run(2, epoch(2))
        lo.compact(ref.uri)
        daemon.tick()
        # The data changed once; what a compaction leaves is no reason for downstream jobs.
        assert len(daemon.run_keys) == len(runs) + 1
        told = [
            (
                event.metadata["lance/stream_query"].value,
                event.metadata["lance/stream_epoch"].value,
                event.metadata["dagster/row_count"].value,
            )
            for event in materializations(instance, ref)
            if "lance/stream_query" in event.metadata
        ]
        assert told == [(SPARK_ID, 0, 10), (SPARK_ID, 1, 20), (SPARK_ID, 2, 30)]
        assert published_versions(instance, ref)[:3] == [1, 2, 3]
