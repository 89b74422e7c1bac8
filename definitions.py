"""The demo as a Dagster code location; `make ui` opens it. Your own looks much the same, see the README."""

import os
from pathlib import Path

from examples.demo.definitions import build_demo_definitions

folder = Path(os.environ.get("LANCE_OPS_DEMO", Path(__file__).parent / ".demo"))
defs = build_demo_definitions(folder.resolve())
