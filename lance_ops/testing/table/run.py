"""Run of the scenes against one implementation, and its report."""

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lance_ops.testing.table.adapter import TableAdapter, Unsupported
from lance_ops.testing.table.scenes import Scene, scenes

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclass(frozen=True, slots=True)
class Played:
    """Result of one scene.

    Attributes:
        scene: The scene.
        outcome: "passed", "failed" or "skipped".
        reason: Why it failed or was skipped.
    """

    scene: Scene
    outcome: str
    reason: str = ""


def play_all(adapter: TableAdapter, some: Iterable[Scene] | None = None) -> list[Played]:
    """Play scenes, each on a new table in a temporary folder.

    Args:
        adapter: The implementation.
        some: All scenes by default.

    Example:
        >>> from lance_ops.testing.table.ours import LanceOpsTables
        >>> from lance_ops.testing.table.scenes import scenes
        >>> some = [scene for scene in scenes() if scene.kind == "twice"]
        >>> [played.outcome for played in play_all(LanceOpsTables(), some)]
        ['passed']
    """
    return [_play(adapter, scene) for scene in (scenes() if some is None else some)]


def _play(adapter: TableAdapter, scene: Scene) -> Played:
    with tempfile.TemporaryDirectory() as folder:
        try:
            scene.play(adapter, str(Path(folder) / "t.lance"))
        except Unsupported as error:
            return Played(scene, SKIPPED, str(error))
        except Exception as error:  # noqa: BLE001 - each ends one scene
            what = str(error).strip().splitlines() or [""]
            prefix = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
            return Played(scene, FAILED, f"{prefix}{what[0]}")
        return Played(scene, PASSED)


def summary(played: Iterable[Played]) -> str:
    """Format how many scenes of each kind passed, failed and were skipped."""
    results = list(played)
    kinds = list(dict.fromkeys(item.scene.kind for item in results))
    lines = [f"{'scenes':10} {PASSED:>7} {FAILED:>7} {SKIPPED:>8}"]
    for kind in kinds:
        counts = [
            sum(item.scene.kind == kind and item.outcome == outcome for item in results)
            for outcome in (PASSED, FAILED, SKIPPED)
        ]
        lines.append(f"{kind:10} {counts[0]:>7} {counts[1]:>7} {counts[2]:>8}")
    return "\n".join(lines)
