"""Every read of the peer answered a second time by lance_ops.

`install` replaces the few methods of the peer's Python classes that all of its reads go through. Each
replacement runs the peer's own method, asks lance_ops the same about the same version of the same dataset,
and counts how the two answers compare; what the caller sees is always the peer's answer.
"""

import contextlib
import functools
import inspect
import itertools
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import lance
import pyarrow as pa
from lance.dataset import (
    Branches,
    DatasetOptimizer,
    LanceDataset,
    LanceScanner,
    MergeInsertBuilder,
    Tags,
)
from lance.fragment import LanceFragment
from shadow_compare import difference
from shadow_known import known_reason
from shadow_reads import (
    NotOursError,
    Ours,
    dataset_count,
    dataset_fragments,
    dataset_schema,
    dataset_take,
    dataset_take_rows,
    dataset_versions,
    fragment_count,
    fragment_take,
    scan,
    scanner_count,
)
from shadow_report import Outcome, Tally
from shadow_search import keep_arguments, search_difference, text_query
from shadow_writes import WRITES, Copy, Write, copied, keep_clauses, write_dataset

from lance_ops.errors import LanceOpsError

_labels = threading.local()
_writing = threading.Lock()
_begun = [0, 0]
"""Writes that were begun, and those that are not over."""


def install(tally: Tally, every: int = 1) -> Callable[[], None]:
    """Shadow the peer's classes in this process.

    Args:
        tally: Where every call is counted.
        every: Compare one of so many writes by each method; every one when 1.

    Returns:
        Puts the peer's own methods back.
    """
    dataset, scanner, fragment = LanceDataset, LanceScanner, LanceFragment
    undo: list[Callable[[], None]] = []

    def replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        old = owner.__dict__[name]
        setattr(owner, name, make(old))
        undo.append(lambda: setattr(owner, name, old))

    for owner, names in {
        dataset: ("to_table", "to_batches", "to_pandas", "head", "slice", "sample"),
        scanner: ("to_table", "to_batches", "to_pandas", "head"),
        fragment: ("to_table", "to_batches", "to_pandas", "head"),
    }.items():
        for name in names:
            replace(owner, name, functools.partial(_labelled, f"{owner.__name__}.{name}"))
    replace(scanner, "to_reader", lambda old: _shadow_reader(tally, old))
    for owner, name, translate in (
        (scanner, "count_rows", scanner_count),
        (dataset, "count_rows", dataset_count),
        (dataset, "take", dataset_take),
        (dataset, "_take_rows", dataset_take_rows),
        (dataset, "versions", dataset_versions),
        (dataset, "get_fragments", dataset_fragments),
        (fragment, "count_rows", fragment_count),
        (fragment, "take", fragment_take),
    ):
        replace(owner, name, functools.partial(_shadowed, tally, f"{owner.__name__}.{name}", translate))
    keep_arguments(replace)
    keep_clauses(replace, dataset, MergeInsertBuilder)
    owners = {
        owner.__name__: owner for owner in (dataset, DatasetOptimizer, Tags, Branches, MergeInsertBuilder)
    }
    for name, translate_write in WRITES.items():
        owner_name, method_name = name.split(".")
        make = functools.partial(_shadowed_write, tally, name, translate_write, every)
        replace(owners[owner_name], method_name, make)
    undo.append(
        _replace_function(
            lance.write_dataset,
            functools.partial(_shadowed_write, tally, "write_dataset", write_dataset, every),
        )
    )
    schema = dataset.__dict__["schema"]
    dataset.schema = property(_shadowed(tally, "LanceDataset.schema", dataset_schema, schema.fget))
    undo.append(lambda: setattr(dataset, "schema", schema))
    return lambda: [put_back() for put_back in reversed(undo)] and None


# --- what the peer's methods become


def _labelled(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, known by its name to the reads within; the outermost name counts."""

    @functools.wraps(method)
    def labelled(*args: Any, **kwargs: Any) -> Any:
        with _label(name):
            answer = method(*args, **kwargs)
        return _labelled_batches(name, answer) if isinstance(answer, Iterator) else answer

    return labelled


def _labelled_batches(name: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    while True:
        with _label(name):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


@contextmanager
def _label(name: str) -> Iterator[None]:
    before = getattr(_labels, "name", None)
    _labels.name = before or name
    try:
        yield
    finally:
        _labels.name = before


def _shadowed(
    tally: Tally, name: str, translate: Callable[..., Ours], method: Callable[..., Any]
) -> Callable[..., Any]:
    @functools.wraps(method)
    def shadowed(self: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(_labels, "quiet", False):
            return method(self, *args, **kwargs)
        with _quiet():
            theirs, error = _attempt(lambda: method(self, *args, **kwargs))
            _compare(tally, name, lambda: translate(self, *args, **kwargs), theirs, error, (args, kwargs))
        if error is not None:
            raise error
        return theirs

    return shadowed


def _shadowed_write(
    tally: Tally, name: str, translate: Callable[..., Write], every: int, method: Callable[..., Any]
) -> Callable[..., Any]:
    calls = itertools.count()

    @functools.wraps(method)
    def shadowed(*args: Any, **kwargs: Any) -> Any:
        if getattr(_labels, "quiet", False) or next(calls) % every:
            return method(*args, **kwargs)
        shown = repr((args[1:], kwargs))[:300]
        with _quiet(), _alone() as is_alone, contextlib.ExitStack() as stack:
            call = functools.partial(method, *args, **kwargs)
            try:
                write = translate(method, *args, **kwargs)
                if write.args is not None:
                    call = functools.partial(_call_with, method, write.args)
                copy = stack.enter_context(copied(write))
            except Exception as missing:
                theirs, error = _attempt(call)
                outcome = Outcome.NOT_OURS if error is None else Outcome.BOTH_REFUSE
                known = isinstance(missing, NotOursError)
                tally.add(outcome, name, shown, str(missing) if known else f"not translated: {missing!r}")
            else:
                theirs, error = _attempt(call)
                if is_alone():
                    _compare(tally, name, lambda: copy, theirs, error, (args[1:], kwargs))
                else:
                    tally.add(Outcome.NOT_OURS, name, shown, "a write beside another one")
        if error is not None:
            raise error
        return theirs

    return shadowed


@contextmanager
def _alone() -> Iterator[Callable[[], bool]]:
    """Tells whether no other thread has written since."""
    with _writing:
        _begun[0] += 1
        before, running = _begun[0], _begun[1]
        _begun[1] += 1
    try:
        yield lambda: not running and _begun[0] == before
    finally:
        with _writing:
            _begun[1] -= 1


def _call_with(method: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """Call a method with arguments by name, some of which may be collected in `**kwargs`."""
    bound = inspect.signature(method).bind_partial()
    bound.arguments.update(arguments)
    return method(*bound.args, **bound.kwargs)


def _replace_function(old: Callable[..., Any], make: Callable[[Any], Any]) -> Callable[[], None]:
    """Replace a function of the peer in every module that holds it."""
    new = make(old)
    places = [
        (module, name)
        for path, module in list(sys.modules.items())
        if path.split(".")[0] == "lance" and module is not None
        for name, value in list(vars(module).items())
        if value is old
    ]
    for module, name in places:
        setattr(module, name, new)
    return lambda: [setattr(module, name, old) for module, name in places] and None


def _shadow_reader(tally: Tally, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def to_reader(self: Any) -> pa.RecordBatchReader:
        if getattr(_labels, "quiet", False):
            return method(self)
        name = getattr(_labels, "name", None) or "LanceScanner.to_reader"
        with _quiet():
            call = _told(self)
            reader, error = _attempt(lambda: method(self))
            if error is not None:
                _compare(tally, name, lambda: scan(self), None, error, call)
                raise error
            batches: list[pa.RecordBatch] = []
            _, error = _attempt(lambda: batches.extend(reader))
            theirs = pa.Table.from_batches(batches, schema=reader.schema)
            _compare(tally, name, lambda: scan(self), theirs, error, call)
        return pa.RecordBatchReader.from_batches(reader.schema, _again(batches, error))

    return to_reader


def _told(scanner: Any) -> dict[str, Any]:
    """What a scanner was told, without what it was not."""
    options = dict(scanner._snapshot or {})
    if (text := options.pop("_shadow_text", None)) is not None:
        options["_full_text_query"] = text_query(text)
    idle = ("_scan_in_order", "_use_stats", "_shadow_nearest")
    return {
        key: value
        for key, value in options.items()
        if value is not None and value is not False and key not in idle
    }


@contextmanager
def _quiet() -> Iterator[None]:
    """Reads that the peer makes to answer a read are not counted themselves."""
    _labels.quiet = True
    try:
        yield
    finally:
        _labels.quiet = False


def _again(batches: list[pa.RecordBatch], error: BaseException | None) -> Iterator[pa.RecordBatch]:
    yield from batches
    if error is not None:
        raise error


def _attempt(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return call(), None
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        # The peer's panics are no `Exception`.
        return None, error


def _compare(
    tally: Tally,
    name: str,
    translate: Callable[[], Any],
    theirs: Any,
    error: BaseException | None,
    call: object,
) -> None:
    shown = repr(call)[:300]
    copy: Copy | None = None
    try:
        ours = translate()
        copy = ours if isinstance(ours, Copy) else None
        mine = ours.apply() if isinstance(ours, Copy) else ours.answer()
    except NotOursError as missing:
        tally.add(Outcome.NOT_OURS, name, shown, str(missing))
    except Exception as failure:
        is_typed = isinstance(failure, LanceOpsError)
        detail = f"{type(failure).__name__}: {failure.message if is_typed else failure}"
        if copy is not None and not copy.is_unchanged():
            tally.add(Outcome.DIFFERENT, name, shown, f"a failed write left a version: {detail}")
        elif error is not None and (is_typed or copy is not None):
            # Errors of the user's own data and functions come through as they are.
            tally.add(Outcome.BOTH_REFUSE, name, shown, f"{detail} | {error}")
        else:
            tally.add(Outcome.REFUSED if is_typed else Outcome.CRASHED, name, shown, detail)
    else:
        if error is not None:
            tally.add(Outcome.ONLY_OURS, name, shown, f"{type(error).__name__}: {error}")
            return
        try:
            found, close = _difference(ours, mine, theirs)
        except Exception:
            tally.add(Outcome.BROKEN, name, shown, traceback.format_exc(limit=-3))
            return
        if found is None:
            tally.add(Outcome.CLOSE if close else Outcome.EQUAL, name, shown)
        elif (reason := known_reason(name, found)) is not None:
            tally.add(Outcome.KNOWN, name, shown, reason)
        else:
            tally.add(Outcome.DIFFERENT, name, shown, found)


def _difference(ours: Ours | Copy, mine: Any, theirs: Any) -> tuple[str | None, bool]:
    """The first difference, and whether the answers are equal in recall only."""
    if isinstance(ours, Copy):
        return ours.difference(mine, theirs), False
    if not isinstance(theirs, pa.Table):
        return (None if mine == theirs else f"ours {str(mine)[:300]} | theirs {str(theirs)[:300]}"), False
    if ours.search is not None:
        return search_difference(mine, theirs, ours.search)
    return difference(mine, theirs, ordered=ours.ordered), False
