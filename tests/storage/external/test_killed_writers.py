"""A writer that is killed at any step leaves a dataset that both libraries read alike and commit on."""

import pytest

from tests.storage.external.killed_writers import at_step, kill_writer

pytestmark = pytest.mark.peer


# The other steps, and each request before and after the server has seen it: killed_writers as a program.
@pytest.mark.parametrize("step", ["reserved", "copied"])
@pytest.mark.parametrize("side", ["lance_ops", "pylance"])
def test_both_libraries_finish_what_a_killed_writer_of_either_has_begun(dynamo, side, step):
    found = kill_writer(dynamo, side, at_step(step), sent=True)
    assert found.committed
    assert found.staged
