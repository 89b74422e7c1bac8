"""A deployment whose processes are killed at random and all at once; the long campaign is `make faults`."""

import pytest

from tests.safety.fleet.campaign import Options, run_campaign


@pytest.mark.slow
def test_nothing_is_lost_done_twice_or_forgotten_when_processes_die(tmp_path):
    outcome = run_campaign(tmp_path, Options(seconds=16, datasets=2, pause=4, seed=7, partitions=3))
    assert outcome.wrong == []
    assert sum(outcome.kills.values()) >= 2
    assert outcome.kills["power cut"] == 1
    assert outcome.commits
