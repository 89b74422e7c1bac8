"""The installer of Azurite, with an npm that only notes what it was asked for."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("azurite", ROOT / "tools" / "azurite.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "FOLDER", tmp_path / "cache" / "azurite")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.delenv("CI", raising=False)
    (tmp_path / "bin").mkdir()
    return module


def make_npm(tmp_path: Path, code: int = 0) -> Path:
    asked = tmp_path / "asked"
    for name in ("node", "npm"):
        program = tmp_path / "bin" / name
        program.write_text(f'#!/bin/sh\necho "$@" >> {asked}\necho it went wrong\nexit {code}\n')
        program.chmod(0o755)
    return asked


def test_it_is_installed_once(tool, tmp_path) -> None:
    asked = make_npm(tmp_path)
    assert tool.main() == 0
    assert tool.main() == 0
    (line,) = asked.read_text().splitlines()
    assert line.endswith(f"azurite@{tool.VERSION}")
    assert tool.is_installed()


def test_another_version_is_replaced(tool, tmp_path, monkeypatch) -> None:
    asked = make_npm(tmp_path)
    assert tool.main() == 0
    monkeypatch.setattr(tool, "VERSION", "99.0.0")
    assert tool.main() == 0
    assert len(asked.read_text().splitlines()) == 2
    assert [path.name for path in tool.FOLDER.parent.iterdir()] == ["azurite"]


@pytest.mark.parametrize(("ci", "code"), [("", 0), ("true", 1)])
def test_a_failure_ends_the_run_in_ci_only(tool, tmp_path, monkeypatch, capsys, ci, code) -> None:
    monkeypatch.setenv("CI", ci)
    make_npm(tmp_path, code=3)
    assert tool.main() == code
    assert "it went wrong" in capsys.readouterr().err
    assert not tool.is_installed()


@pytest.mark.parametrize(("ci", "code"), [("", 0), ("true", 1)])
def test_without_node_nothing_is_done(tool, tmp_path, monkeypatch, ci, code) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert tool.main() == code
    assert not tool.is_installed()
