"""Puts the loop library into wheels: hatchling calls this for each build of a wheel.

A wheel for Linux x86-64 has the library and needs no compiler where it is installed. Elsewhere, and where
there is no C compiler or no numba, the wheel is pure. An editable install builds nothing:
`lance-ops warmup` does.
"""

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TAG = "py3-none-manylinux_2_17_x86_64"


class LibraryHook(BuildHookInterface):  # type: ignore[type-arg]
    """Builds the loop library unless one of these sources is there."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the library to a wheel, and tag the wheel for the platform."""
        if version == "editable":
            return
        root = Path(self.root)
        sources = load_sources(root)
        if not sources.is_supported():
            return
        library = sources.packaged_path()
        if not sources.is_sealed(library, sources.digest_sources()):
            library.unlink(missing_ok=True)
            if importlib.util.find_spec("numba") is None:
                self.app.display_warning("numba is not installed: the wheel is without compiled loops")
                return
            done = subprocess.run(
                [sys.executable, "-m", "lance_ops.encoding.library"], cwd=root, capture_output=True, text=True
            )
            if done.returncode:
                self.app.display_warning(f"the wheel is without compiled loops: {done.stderr.strip()}")
                return
        build_data["artifacts"].append(library.relative_to(root).as_posix())
        build_data["pure_python"] = False
        build_data["tag"] = TAG


def load_sources(root: Path) -> Any:
    """Import the module that knows the sources, without the package and what that needs."""
    spec = importlib.util.spec_from_file_location(
        "loop_sources", root / "lance_ops" / "encoding" / "library" / "sources.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
