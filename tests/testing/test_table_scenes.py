"""Scenes of two writers: lance_ops passes all, and what the official library passes is as documented."""

import subprocess
import sys
from dataclasses import dataclass, field

import pytest

from lance_ops.testing.table.adapter import Unsupported
from lance_ops.testing.table.ours import LanceOpsTables
from lance_ops.testing.table.run import FAILED, PASSED, SKIPPED, play_all, summary
from lance_ops.testing.table.scenes import scenes
from tests.testing.pylance_tables import PylanceTables


def test_lance_ops_passes_every_scene():
    played = play_all(LanceOpsTables())
    assert len(played) == 149
    assert [(item.scene.name, item.reason) for item in played if item.outcome != PASSED] == []


@pytest.mark.peer
def test_the_official_library_passes_what_the_documentation_says():
    """A new release that passes more is good news, and a line of docs/simulator.md."""
    played = play_all(PylanceTables(), [scene for scene in scenes() if scene.kind != "pair"])
    assert {item.scene.name for item in played if item.outcome != PASSED} == {
        "delete while others compact, append, cleanup",
        "upsert while others delete, append, cleanup",
        "upsert while others compact, append, cleanup",
        "upsert while others upsert of new keys, index, cleanup",
        "upsert of new keys while others upsert of new keys, index, cleanup",
        "compact while others delete, append, cleanup",
        "files of one job committed by two drivers",
    }


@dataclass
class Forgetful(LanceOpsTables):
    """An implementation that loses updates, and has no tags."""

    done: list[str] = field(default_factory=list)

    def update(self, uri, plus, where, meanwhile):
        meanwhile()
        self.done.append(where)

    def tag(self, uri, name, version, meanwhile):
        raise Unsupported("no tags")


def test_a_lost_update_is_found_and_missing_parts_are_skipped():
    some = [
        scene
        for scene in scenes()
        if scene.kind == "tag" or scene.name in ("update while others append", "append while others compact")
    ]
    played = play_all(Forgetful(), some)
    outcomes = {item.scene.name: item.outcome for item in played}
    assert outcomes == {
        "append while others compact": PASSED,
        "update while others append": FAILED,
        "tag while its version is cleaned up": SKIPPED,
        "cleanup keeps tagged versions": SKIPPED,
    }
    assert summary(played).splitlines()[1:] == [
        "pair             1       1        0",
        "tag              0       0        2",
    ]


def test_the_command_prints_what_did_not_pass():
    command = [sys.executable, "-m", "lance_ops.testing.table", "tests.testing.test_table_scenes:Forgetful"]
    done = subprocess.run(
        [*command, "--only", "update while others append"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stdout.startswith("failed   pair     update while others append: rows (id, k)")
