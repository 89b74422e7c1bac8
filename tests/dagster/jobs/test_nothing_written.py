"""A run that changed nothing says what it committed all the same."""

import dagster as dg
import lance
import pytest

import lance_ops.maintenance.runner as runner
from lance_ops.dagster import LanceDatasetRef
from lance_ops.dagster.jobs.operations import COMPACT
from lance_ops.table.dataset import Dataset
from tests.support.dagster import run_job, write


@pytest.mark.peer
@pytest.mark.parametrize("lost", [True, False])
def test_a_compaction_that_lost_names_the_version_that_reserved_ids(tmp_path, monkeypatch, capfd, lost):
    ref = LanceDatasetRef("t", str(tmp_path / "t.lance"))
    for start in range(0, 50 if lost else 10, 10):
        write(ref.uri, start, start + 10)
    original, fired = runner.LocalRunner.map, []

    def late(self, function, tasks, *, on_done=None):
        done = original(self, function, tasks, on_done=on_done)
        if lost and not fired:
            fired.append(True)
            lance.dataset(ref.uri).optimize.compact_files()
        return done

    monkeypatch.setattr(runner.LocalRunner, "map", late)
    with dg.DagsterInstance.ephemeral() as instance:
        result = run_job(ref, COMPACT, instance)
    assert result.success
    own = []
    for version in (item["version"] for item in lance.dataset(ref.uri).versions()):
        properties = Dataset.open(ref.uri, version).read_transaction().properties
        own += [version] if properties.get("dagster.run_id") == result.run_id else []
    said = capfd.readouterr().err
    if lost:
        (version,) = own
        assert f"reserved unused fragment ids in version {version}" in said
        assert "nothing was written" not in said
    else:
        assert own == []
        assert "nothing was written by this run" in said
