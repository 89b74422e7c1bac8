"""Play the table scenes: `python -m lance_ops.testing.table [module:Class]`."""

import argparse
import sys
from importlib import import_module

from lance_ops.testing.table.adapter import TableAdapter
from lance_ops.testing.table.run import FAILED, PASSED, play_all, summary
from lance_ops.testing.table.scenes import scenes

OURS = "lance_ops.testing.table.ours:LanceOpsTables"


def main(arguments: list[str]) -> int:
    """Play the scenes, print those that did not pass, and return 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m lance_ops.testing.table", description=__doc__)
    parser.add_argument("adapter", nargs="?", default=OURS, help="module:Class of a TableAdapter")
    parser.add_argument("--only", default="", help="part of the names of scenes")
    options = parser.parse_args(arguments)
    module, _, name = options.adapter.partition(":")
    adapter: TableAdapter = getattr(import_module(module), name)()
    played = play_all(adapter, [scene for scene in scenes() if options.only in scene.name])
    for item in played:
        if item.outcome != PASSED:
            print(f"{item.outcome:8} {item.scene.kind:8} {item.scene.name}: {item.reason[:160]}")  # noqa: T201
    print(summary(played))  # noqa: T201
    return int(any(item.outcome == FAILED for item in played))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
