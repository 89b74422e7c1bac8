"""A library of loops does what numba's loops do, is tied to its sources, and needs no numba."""

import ctypes
import hashlib
import shutil
import subprocess
import sys
import textwrap
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lance_ops.encoding.library import load as loading
from lance_ops.encoding.library.build import BuildError, build_library, find_compiler
from lance_ops.encoding.library.load import open_file, open_library
from lance_ops.encoding.library.sources import cached_path, digest_sources, is_supported

pytestmark = pytest.mark.skipif(
    not is_supported() or find_compiler() is None, reason="there is no library for this platform"
)

# One of several variants, one that allocates, and one that returns several numbers.
TECHNIQUES = ("steps", "values.numbering", "wire")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("library") / "loops.so"
    build_library(TECHNIQUES, built)
    return built


@pytest.fixture(scope="module")
def library(path: Path) -> Mapping[str, Any]:
    found = open_file(path, digest_sources())
    assert found is not None
    return found


def number_words(loops: Any, words: np.ndarray, name: str = "number_words") -> tuple[int, list[np.ndarray]]:
    room = [np.zeros(len(words), np.uint32), np.zeros(len(words), np.int64), np.zeros(len(words), np.uint64)]
    return getattr(loops, name)(words, 1, len(words), *room), room


def words_of(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 5_000, 20_000).astype(np.uint64)


def test_the_library_does_what_numba_does(library: Mapping[str, Any]) -> None:
    code = """
        import hashlib
        from lance_ops.encoding.kernels import loops
        loops.compile_with_numba()
        from lance_ops.encoding.kernels.values import numbering
        from tests.encoding.library.test_library import number_words, words_of
        found, filled = number_words(numbering, words_of(1), "_number_words")
        print(found, hashlib.blake2b(b"".join(one.tobytes() for one in filled)).hexdigest())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    found, filled = number_words(library["values.numbering"], words_of(1))
    assert done.stdout.split() == [
        str(found),
        hashlib.blake2b(b"".join(one.tobytes() for one in filled)).hexdigest(),
    ]


def test_it_takes_the_variant_of_the_arrays(library: Mapping[str, Any]) -> None:
    rises_by = library["steps"].rises_by
    assert rises_by(np.arange(0, 80, 8), 8) == 1
    assert rises_by(np.arange(0, 80, 8, dtype=np.int32), 8) == 1
    assert rises_by(np.arange(0, 80, 8, dtype=np.int32), 7) == 0
    anywhere = np.zeros(73, np.uint8)[1:].view(np.int64)
    anywhere[:] = np.arange(9)
    assert not anywhere.flags.aligned
    assert rises_by(anywhere, 1) == 1
    readonly = np.arange(9)
    readonly.flags.writeable = False
    assert rises_by(readonly, 1) == 1


@pytest.mark.parametrize(
    "numbers",
    [
        np.arange(4, dtype=np.uint8),
        np.arange(4.0),
        np.arange(4, dtype=">i8"),
        np.arange(8)[::2],
        np.zeros((2, 2), np.int64),
        [1, 2],
        b"12345678",
        None,
    ],
    ids=str,
)
def test_other_arguments_are_refused(library: Mapping[str, Any], numbers: Any) -> None:
    with pytest.raises(TypeError, match=r"steps\.rises_by"):
        library["steps"].rises_by(numbers, 1)


def test_an_array_that_cannot_be_written_to_is_not_filled(library: Mapping[str, Any]) -> None:
    words, numbers = words_of(1), np.zeros(20_000, np.uint32)
    numbers.flags.writeable = False
    rest = np.zeros(20_000, np.int64), np.zeros(20_000, np.uint64)
    with pytest.raises(TypeError, match=r"uint32\[20000\]"):
        library["values.numbering"].number_words(words, 1, 20_000, numbers, *rest)


def test_threads_share_the_loops(library: Mapping[str, Any], path: Path) -> None:
    expected = [number_words(library["values.numbering"], words_of(seed))[0] for seed in range(8)]
    found: dict[int, int] = {}

    def work(seed: int) -> None:
        for _ in range(20):
            own = open_file(path, digest_sources())
            assert own is not None
            found[seed] = number_words(own["values.numbering"], words_of(seed))[0]
            assert library["steps"].rises_by(np.arange(seed, 1000, 3), 3) == 1

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[seed] for seed in range(8)] == expected


def test_both_variants_of_processors_agree(path: Path, library: Mapping[str, Any]) -> None:
    use_newer = ctypes.CDLL(str(path))["lance_ops_use_newer"]
    newest = use_newer(1)
    try:
        found = []
        for newer in (0, 1):
            use_newer(newer)
            count, filled = number_words(library["values.numbering"], words_of(3))
            found.append((count, [one.tobytes() for one in filled]))
        assert found[0] == found[1]
    finally:
        use_newer(newest)


def test_a_library_of_other_sources_is_not_used(path: Path) -> None:
    assert open_file(path, "0" * 32) is None


def test_what_is_no_library_is_passed_over(
    tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = tmp_path / "damaged.so"
    damaged.write_bytes(path.read_bytes()[:5000])
    monkeypatch.setattr(loading, "packaged_path", lambda: damaged)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert open_library() is None


def test_the_cache_of_the_user_has_a_library_that_nobody_else_can_write_to(
    tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "packaged_path", lambda: tmp_path / "none.so")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cached = cached_path(digest_sources())
    cached.parent.mkdir(mode=0o755)
    shutil.copyfile(path, cached)
    cached.chmod(0o644)
    assert open_library() is not None
    cached.chmod(0o666)
    assert open_library() is None


def test_a_process_needs_no_numba(path: Path) -> None:
    code = f"""
        import sys
        from pathlib import Path
        import numpy as np
        from lance_ops.encoding.library.load import open_file
        from lance_ops.encoding.library.sources import digest_sources
        library = open_file(Path({str(path)!r}), digest_sources())
        assert library["steps"].rises_by(np.arange(5), 1) == 1
        assert not {{"numba", "llvmlite"}} & set(sys.modules)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_a_build_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BuildError, match="no_such_technique"):
        build_library(["no_such_technique"], tmp_path / "loops.so")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(BuildError, match="C compiler"):
        build_library(["steps"], tmp_path / "loops.so")
    assert not list(tmp_path.glob("loops.so*"))
