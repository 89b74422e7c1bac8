"""One budget for all caches of a process, and numbers on what they hold."""

import gc
import multiprocessing
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops import cache as module
from lance_ops.cache import BUDGET_VARIABLE, DEFAULT_BUDGET, Cache, IdentityCache, size_of
from lance_ops.errors import InvalidArgumentError
from tests.support.caches import budget

ENTRY = module._ENTRY_BYTES


@pytest.fixture(autouse=True)
def empty() -> Iterator[None]:
    """Each test starts without entries and leaves the budget as it was."""
    with budget(0):
        pass
    with budget(DEFAULT_BUDGET):
        yield


def used(kind: str) -> lo.CacheUse:
    return lo.cache_stats().kinds[kind]


def held(cache: Cache[str, int], keys: str) -> list[int | None]:
    return [cache.get(key) for key in keys]


def test_what_was_not_used_for_longest_is_evicted_first_across_all_caches():
    one, other = Cache[str, int]("test one"), Cache[str, int]("test other")
    with budget(3 * (ENTRY + 100)):
        one.put("a", 1, 100)
        other.put("a", 2, 100)
        one.put("b", 3, 100)
        assert one.get("a") == 1
        other.put("b", 4, 100)
        assert (held(one, "ab"), held(other, "ab")) == ([1, 3], [None, 4])
        other.put("c", 5, 2 * (ENTRY + 100) - ENTRY)
        assert (held(one, "ab"), held(other, "bc")) == ([None, None], [4, 5])


def test_stats_count_by_kind_of_entry():
    before = used("test counted") if "test counted" in lo.cache_stats().kinds else lo.CacheUse(0, 0, 0, 0, 0)
    caches = [Cache[int, str]("test counted") for _ in range(2)]
    with budget(3 * (ENTRY + 10)):
        for number in range(5):
            caches[number % 2].put(number, "x", 10)
        caches[0].get(4)
        caches[0].get(0)
        caches[1].get(99)
        assert used("test counted") == replace(
            before,
            entries=3,
            size_bytes=3 * (ENTRY + 10),
            hits=before.hits + 1,
            misses=before.misses + 2,
            evictions=before.evictions + 2,
        )
        stats = lo.cache_stats()
        assert (stats.budget_bytes, stats.size_bytes) == (3 * (ENTRY + 10), 3 * (ENTRY + 10))
    assert (len(caches[0]), len(caches[1])) == (2, 1)


def test_an_entry_replaces_one_of_its_key_and_one_that_is_too_large_leaves_none():
    cache = Cache[str, int]("test replaced")
    with budget(1000):
        cache.put("a", 1, 100)
        cache.put("a", 2, 200)
        assert cache.get("a") == 2
        assert (used("test replaced").entries, used("test replaced").size_bytes) == (1, ENTRY + 200)
        cache.put("b", 3, 10)
        cache.put("a", 4, 1000)
        assert held(cache, "ab") == [None, 3]


def test_a_cache_may_have_a_bound_of_its_own():
    cache = Cache[str, int]("test bounded", most=2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert held(cache, "abc") == [1, None, 3]
    assert cache.items() == [("a", 1), ("c", 3)]
    nothing = Cache[str, int]("test bounded", most=0)
    nothing.put("a", 1)
    assert (nothing.get("a"), len(nothing)) == (None, 0)
    small = Cache[str, int]("test bounded", largest=10)
    small.put("a", 1, 10)
    small.put("b", 2, 11)
    assert held(small, "ab") == [1, None]


def test_a_lower_budget_evicts_at_once_and_zero_keeps_nothing():
    cache = Cache[int, int]("test lowered")
    for number in range(4):
        cache.put(number, number, 100)
    lo.set_cache_budget(2 * (ENTRY + 100))
    assert cache.items() == [(2, 2), (3, 3)]
    lo.set_cache_budget(0)
    cache.put(5, 5, 0)
    assert (cache.items(), lo.cache_stats().size_bytes) == ([], 0)


@pytest.mark.parametrize("wrong", [-1, 1.5, "1", None, True])
def test_a_budget_is_a_whole_number_of_bytes(wrong):
    with pytest.raises(InvalidArgumentError, match=f"got {wrong!r}"):
        lo.set_cache_budget(wrong)


@pytest.mark.parametrize(("text", "expected"), [("4096", "4096"), ("", str(DEFAULT_BUDGET)), ("0", "0")])
def test_the_budget_is_read_from_the_environment(text: str, expected: str):
    code = "import lance_ops as lo; print(lo.cache_stats().budget_bytes)"
    assert run(code, text).stdout.strip() == expected


def test_a_budget_of_the_environment_that_is_none_is_refused():
    done = run("import lance_ops as lo; lo.cache_stats()", "1GB")
    assert done.returncode == 1
    assert "LANCE_OPS_CACHE_BYTES must be a number of bytes, got '1GB'" in done.stderr


def run(code: str, text: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, BUDGET_VARIABLE: text}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )


class Value:
    """Anything that a weak reference can name."""


def test_entries_end_with_their_cache():
    cache: Cache[str, Value] | None = Cache("test ended")
    value = Value()
    cache.put("a", value, 100)
    gone = weakref.ref(value)
    del value
    assert gone() is not None
    cache = None
    assert gone() is None
    assert used("test ended").entries == 0
    assert lo.cache_stats().size_bytes == 0


def test_entries_that_refer_to_their_cache_are_collected():
    cache = Cache[str, object]("test cycle")
    value = Value()
    value.cache = cache
    cache.put("a", value, 100)
    gone = weakref.ref(value)
    del cache, value
    gc.collect()
    assert gone() is None
    assert used("test cycle").entries == 0


def test_a_destructor_of_an_entry_may_use_caches():
    other = Cache[str, int]("test destructor")

    class Ends:
        def __del__(self) -> None:
            other.put("ended", 1, 10)

    cache = Cache[str, object]("test destructor", most=1)
    cache.put("a", Ends())
    cache.put("b", 1)
    assert other.get("ended") == 1
    other.put("ended", 0, 10)
    cache.put("a", Ends())
    lo.set_cache_budget(1000)
    cache.put("a", 1)
    assert other.get("ended") == 1


def test_no_lock_is_held_while_a_value_is_made():
    cache = Cache[str, int]("test made")
    assert cache.load("a", lambda: cache.load("b", lambda: 2) + 1) == 3
    assert held(cache, "ab") == [3, 2]
    assert cache.load("a", lambda: 1 // 0) == 3
    with pytest.raises(ZeroDivisionError):
        cache.load("c", lambda: 1 // 0)
    assert cache.get("c") is None


def test_objects_are_known_again_by_identity_while_they_are_kept():
    asked: list[list[int]] = []

    def compute(one: list[int], other: list[int]) -> int:
        asked.append(one)
        return len(one) + len(other)

    cache = IdentityCache("test identity", compute, 2)
    first, same = [1], [1]
    assert [cache(first, same), cache(first, same), cache(same, first)] == [2, 2, 2]
    assert asked == [first, same]
    assert asked[0] is first
    for number in range(20):
        # The id of a list that was freed is given to the next one.
        assert cache([0] * number, []) == number
    assert used("test identity").entries == 2


def test_values_of_objects_are_made_once_and_keep_the_objects_alive():
    cache: Cache[object, int] = Cache("test objects")
    known = ([1], [2])
    gone = weakref.ref(given := Value())
    assert [cache.load_for(known, lambda: 5), cache.load_for(known, lambda: 6)] == [5, 5]
    assert cache.load_for((*known, given), lambda: 7) == 7
    del given
    assert gone() is not None
    del cache
    assert gone() is None


def test_threads_share_caches():
    caches = [Cache[int, int]("test threads", most) for most in (None, None, 20)]
    wrong: list[object] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for number in rng.integers(0, 60, 3000).tolist():
            cache = caches[number % 3]
            found = cache.load(number, lambda number=number: number * 7)
            if found != number * 7:
                wrong.append((number, found))
            if number == 0:
                Cache[int, int]("test threads").put(1, 1)

    with budget(40 * (ENTRY + 30)):
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        gc.collect()
        stats = lo.cache_stats()
        assert wrong == []
        assert stats.size_bytes <= stats.budget_bytes
        assert stats.kinds["test threads"].entries == sum(map(len, caches))
        assert stats.size_bytes == sum(use.size_bytes for use in stats.kinds.values())


def test_a_fork_finds_the_lock_open_and_what_was_kept():
    cache = Cache[str, int]("test fork")
    cache.put("a", 1)
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=lambda: answers.put(cache.get("a")), daemon=True)
    with module._lock:
        child.start()
    try:
        assert answers.get(timeout=30) == 1
    finally:
        child.kill()
        child.join()


@dataclass
class Sized:
    """Of two arrays."""

    numbers: np.ndarray
    rows: pa.Table


def test_sizes_are_those_of_the_arrays_within():
    numbers, rows = np.zeros(1000), pa.table({"x": pa.array(range(500), pa.int64())})
    assert 12_000 <= size_of((Sized(numbers, rows), {"a": None})) <= 13_000
    assert size_of(b"x" * 5000) == sys.getsizeof(b"x" * 5000)
    many = [b"x" * 1000] * 10_000
    assert 10_000_000 <= size_of(many) <= 11_000_000
    assert 10_000_000 <= size_of(dict(enumerate(many))) <= 12_000_000
    nested: list[object] = []
    nested.append(nested)
    assert size_of(nested) < 1000
    assert size_of(frozenset(range(100_000))) > 2_000_000
