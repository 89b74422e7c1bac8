"""The release command: which interpreters it wants, and what it runs in them."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import lance_ops
from tools import release

ROOT = Path(__file__).resolve().parents[2]
RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"


def test_every_python_of_the_classifiers_is_tried_and_the_oldest_is_the_lower_bound():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    versions = release.supported_pythons()
    assert f">={versions[0]}" == project["requires-python"]
    assert len(versions) > 1


def test_an_interpreter_that_runs_is_found():
    assert release.find_pythons([RUNNING], lambda name: sys.executable) == {RUNNING: sys.executable}


def test_missing_interpreters_are_named_together():
    with pytest.raises(release.ReleaseError, match=r"Python 3\.98, 3\.99: .*install them"):
        release.find_pythons(
            ["3.98", RUNNING, "3.99"], lambda name: (name == f"python{RUNNING}" and sys.executable) or None
        )


@pytest.mark.parametrize("script", ["#!/bin/sh\nexit 127\n", "#!/bin/sh\necho 2.7\n", "no program"])
def test_a_shim_without_a_python_behind_it_is_missing(tmp_path, script):
    shim = tmp_path / "python"
    shim.write_text(script)
    shim.chmod(0o755)
    with pytest.raises(release.ReleaseError, match=RUNNING.replace(".", r"\.")):
        release.find_pythons([RUNNING], lambda name: str(shim))


def test_the_first_example_of_the_readme_is_python():
    compile(release.first_example((ROOT / "README.md").read_text()), "README.md", "exec")


def test_a_readme_without_an_example_is_refused():
    with pytest.raises(release.ReleaseError, match="no block"):
        release.first_example("# Title\n\n```sh\nls\n```\n")


def test_the_citation_names_the_version_of_the_package():
    assert f"\nversion: {lance_ops.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_a_failed_step_ends_the_release_with_its_message(monkeypatch, capsys):
    def fail(*_):
        raise subprocess.CalledProcessError(3, ["build"])

    monkeypatch.setattr(release, "find_pythons", lambda versions: {})
    monkeypatch.setattr(release, "make_environment", fail)
    assert release.main() == 1
    assert "release: " in capsys.readouterr().err


def test_each_change_is_one_line_of_a_known_kind():
    kinds = {
        kind["directory"]
        for kind in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]["type"]
    }
    fragments = [path for path in (ROOT / "changes").iterdir() if path.name != "README.md"]
    for path in fragments:
        name, kind, ending = path.name.rsplit(".", 2)
        assert (kind in kinds, ending) == (True, "md"), path.name
        assert name.startswith("+"), path.name
        assert len(path.read_text().splitlines()) == 1, path.name
