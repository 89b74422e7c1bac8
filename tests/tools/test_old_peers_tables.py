"""The exchange of whole tables, with the installed peer in the place of an old one, and its report."""

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
    from old_peers_process import Peer
    from old_peers_table_cases import DIRECTIONS, TABLE_VARIANTS
    from old_peers_table_report import EQUAL, NOT_DONE, table_failures, write_table_report
    from old_peers_tables import exchange_tables

    python = Path(sys.executable)
    variant = next(variant for variant in TABLE_VARIANTS if variant.name == "A branch, stable row ids")
    with Peer("0.22.0", python) as newest, Peer("0.22.0", python) as peer:
        outcomes = list(exchange_tables(peer, newest, [variant]))
    steps = len(variant.written) + len(variant.tended) + len(variant.resumed)
    assert len(outcomes) == steps * len(DIRECTIONS)
    assert {one.kind for one in outcomes} == {EQUAL}
    # A step that a release refuses is a failure unless it refuses it after the newest as well.
    late = next(one for one in outcomes if one.writer == "lance_ops" and one.actor == "the release")
    refused = replace(late, kind=NOT_DONE, detail="no", twin=EQUAL)
    wrong = [refused if one is late else one for one in outcomes]
    assert table_failures(wrong) == [refused]
    assert table_failures([replace(refused, twin=NOT_DONE)]) == []
    report = write_table_report(wrong, ["0.22.0"])
    assert "| 0.22.0 | equal | **not done** | equal | equal | equal | equal | equal |" in report
