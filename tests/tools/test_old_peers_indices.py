"""The exchange of tables with indices, with the installed peer in the place of an old one, and its report."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TOOLS))


@pytest.mark.peer
@pytest.mark.usefixtures("tools")
def test_all_steps_end_well_with_the_installed_peer() -> None:
    from old_peers_index_cases import SORTED, VARIANTS
    from old_peers_index_report import STEPS, index_failures, write_index_report
    from old_peers_indices import exchange_indices
    from old_peers_process import Peer

    python = Path(sys.executable)
    with Peer("0.22.0", python) as newest, Peer("0.22.0", python) as peer:
        outcomes = list(exchange_indices(peer, newest, VARIANTS[1:2]))
    assert len(outcomes) == len(SORTED) * len(STEPS)
    assert index_failures(outcomes) == []
    assert {one.kind for one in outcomes} == {"used"}
    wrong = [replace(one, kind="different") if one.step == STEPS[1] else one for one in outcomes]
    assert len(index_failures(wrong)) == len(SORTED)
    report = write_index_report(wrong, ["0.22.0"])
    assert "| 0.22.0 | 8 | 8 different | 8 | 8 | 8 | 8 | 8 | 8 |" in report
