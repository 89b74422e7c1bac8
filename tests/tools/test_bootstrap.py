"""The set-up of the environment, with an installer that only notes what it was asked for."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def bootstrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, working on a clone that has only its declarations."""
    spec = importlib.util.spec_from_file_location("bootstrap", ROOT / "tools" / "bootstrap.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    (tmp_path / "constraints.txt").write_text("")
    environment = tmp_path / ".venv"
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "ENVIRONMENT", environment)
    monkeypatch.setattr(module, "PYTHON", environment / "bin" / "python")
    monkeypatch.setattr(module, "STAMP", environment / "stamp.json")
    monkeypatch.setattr(module, "DECLARATIONS", (tmp_path / "pyproject.toml", tmp_path / "constraints.txt"))
    return module


@pytest.fixture
def installed(bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The extras that each run of the installer was asked for, as they came."""
    asked: list[str] = []
    monkeypatch.setattr(bootstrap, "succeeds", lambda command: True)
    monkeypatch.setattr(
        bootstrap, "run_installer", lambda command: asked.append(command[-1].partition("[")[2].rstrip("]"))
    )
    return asked


def test_a_second_run_installs_nothing(bootstrap: ModuleType, installed: list[str]) -> None:
    assert bootstrap.main(["demo,java"]) == 0
    assert bootstrap.main(["demo,java"]) == 0
    assert bootstrap.main(["java"]) == 0
    assert installed == ["demo,java"]


def test_more_extras_keep_those_that_are_there(bootstrap: ModuleType, installed: list[str]) -> None:
    bootstrap.main(["demo"])
    bootstrap.main(["dev"])
    bootstrap.main(["demo"])
    assert installed == ["demo", "demo,dev"]


@pytest.mark.parametrize("changed", ["pyproject.toml", "constraints.txt"])
def test_changed_declarations_are_installed(
    bootstrap: ModuleType, installed: list[str], tmp_path: Path, changed: str
) -> None:
    bootstrap.main(["demo"])
    (tmp_path / changed).write_text("# changed\n")
    bootstrap.main(["demo"])
    assert installed == ["demo", "demo"]


def test_a_touched_file_is_no_change(bootstrap: ModuleType, installed: list[str], tmp_path: Path) -> None:
    bootstrap.main(["demo"])
    os.utime(tmp_path / "pyproject.toml")
    bootstrap.main(["demo"])
    assert installed == ["demo"]


@pytest.mark.parametrize(("error", "code"), [(None, 1), (KeyboardInterrupt(), 130)])
def test_a_failed_or_interrupted_install_leaves_no_stamp(
    bootstrap: ModuleType,
    installed: list[str],
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException | None,
    code: int,
) -> None:
    bootstrap.main(["demo"])

    def fail(command: list[str]) -> None:
        raise error or bootstrap.SetupError("no network")

    with monkeypatch.context() as patch:
        patch.setattr(bootstrap, "run_installer", fail)
        assert bootstrap.main(["demo,dev"]) == code
    assert not bootstrap.STAMP.exists()
    assert bootstrap.main(["demo"]) == 0
    assert installed == ["demo", "demo"]


def test_an_environment_whose_python_is_gone_is_made_anew(
    bootstrap: ModuleType, installed: list[str]
) -> None:
    bootstrap.main(["demo"])
    bootstrap.PYTHON.unlink()
    bootstrap.PYTHON.symlink_to("/nowhere/python3")
    assert bootstrap.main(["demo"]) == 0
    assert installed == ["demo", "demo"]
    assert bootstrap.is_usable(bootstrap.PYTHON)


def test_the_failure_of_the_installer_is_shown(
    bootstrap: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [sys.executable, "-c", "print('no such package'); raise SystemExit(2)"]
    with pytest.raises(bootstrap.SetupError, match="code 2"):
        bootstrap.run_installer(command)
    assert "no such package" in capsys.readouterr().err


def test_without_a_new_python_the_message_says_so(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    script = tmp_path / "tools" / "bootstrap.sh"
    script.write_text((ROOT / "tools" / "bootstrap.sh").read_text())
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "dirname").symlink_to("/usr/bin/dirname")
    # What a version manager puts on PATH for a Python that is not chosen, and one that is too old.
    for name in ("python3.13", "python3"):
        (tools / name).write_text("#!/bin/sh\nexit 127\n")
        (tools / name).chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", script, "demo"], env={"PATH": str(tools)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "needs Python 3.11 or newer" in done.stderr
