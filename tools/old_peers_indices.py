"""Tables with indices, exchanged with every age of pylance in both directions and tended by both sides.

A table has several fragments, a column that was added later (so that fragments have two data files), deleted
rows, and rows that no index covers; with and without stable row ids. All filters are answered from what was
written, not by either library.
"""

import json
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from old_peers_index_cases import LATE, NEAR, VARIANTS, Question, Row, Variant
from old_peers_index_report import STEPS, IndexOutcome, Step
from old_peers_process import Peer

import lance_ops as lo
from lance_ops.errors import LanceOpsError
from lance_ops.index.search.pruner import IndexPruner

FIRST, SECOND, THIRD, LAST = 2600, 5200, 5500, 5700
"""Ends of the first fragments, which the indices cover, of what is appended, and of what tending adds."""
DELETED = "id % 7 = 3"
TENDED = "id % 11 = 5"


def written_rows(variant: Variant) -> list[Row]:
    """What is live in a table as it was written: the deletion came before the last append."""
    return [row for row in variant.rows(0, SECOND) if row["id"] % 7 != 3] + variant.rows(SECOND, THIRD)


def tended_rows(variant: Variant) -> list[Row]:
    """What is live in it after it was tended."""
    rows = [*written_rows(variant), *variant.rows(THIRD, LAST)]
    return [row for row in rows if row["id"] % 11 != 5]


def exchange_indices(
    peer: Peer, newest: Peer, variants: Sequence[Variant] = VARIANTS
) -> Iterator[IndexOutcome]:
    """Both directions and all columns, with one release."""
    for variant in variants:
        for exchange in (_theirs, _ours):
            with tempfile.TemporaryDirectory() as folder:
                yield from exchange(peer, newest, Path(folder), variant)


def _theirs(peer: Peer, newest: Peer, folder: Path, variant: Variant) -> Iterator[IndexOutcome]:
    path, values, done = folder / "path", folder / "values", folder / "done"
    _keep(variant.table(variant.rows(0, THIRD)), values)
    columns = list(variant.columns)
    error = peer.ask(
        {
            "kind": "write_indexed",
            "path": str(path),
            "values": str(values),
            "done": str(done),
            "late": LATE,
            "expression": "id * 2",
            "cuts": [FIRST, SECOND],
            "columns": columns,
            "index": variant.kind,
            "parameters": dict(variant.parameters),
            "stable": variant.stable,
            "delete": DELETED,
        }
    )
    built = json.loads(done.read_text()) if error is None else []

    def outcome(step: Step, column: str, kind: str, detail: str = "") -> IndexOutcome:
        return IndexOutcome(peer.version, variant.name, step, column, kind, detail)

    steps = [step for step in STEPS if not step.we_wrote]
    for column in columns:
        if column not in built:
            yield from (outcome(step, column, "not built", error or "") for step in steps)
    if not built:
        return
    written, tended = written_rows(variant), tended_rows(variant)
    yield from (outcome(steps[0], *found) for found in _they_ask(peer, path, variant, built, written))
    yield from (outcome(steps[1], *found) for found in _we_ask(path, variant, built, written))
    try:
        _tend(path, variant)
    except Exception as failure:  # noqa: BLE001 - anything at all is what this looks for
        kind = "refused" if isinstance(failure, LanceOpsError) else "failed"
        yield from (outcome(step, column, kind, repr(failure)) for step in steps[2:] for column in built)
        return
    yield from (outcome(steps[2], *found) for found in _we_ask(path, variant, built, tended))
    for step, reader in zip(steps[3:], (peer, newest), strict=True):
        yield from (outcome(step, *found) for found in _they_ask(reader, path, variant, built, tended))


def _ours(peer: Peer, newest: Peer, folder: Path, variant: Variant) -> Iterator[IndexOutcome]:
    path, values = folder / "path", folder / "values"
    rows = variant.table(variant.rows(0, THIRD))
    options: dict[str, Any] = {"data_storage_version": "2.0", "enable_stable_row_ids": variant.stable}
    columns = list(variant.columns)
    lo.write_dataset(rows.slice(0, FIRST), str(path), **options)
    lo.append(str(path), rows.slice(FIRST, SECOND - FIRST))
    for column in columns:
        lo.create_index(str(path), column, variant.kind, parameters={**variant.parameters, **variant.ours})
    lo.delete(str(path), DELETED)
    lo.append(str(path), rows.slice(SECOND))
    steps = [step for step in STEPS if step.we_wrote]

    def outcome(step: Step, column: str, kind: str, detail: str = "") -> IndexOutcome:
        return IndexOutcome(peer.version, variant.name, step, column, kind, detail)

    written, tended = written_rows(variant), tended_rows(variant)
    yield from (outcome(steps[0], *found) for found in _they_ask(peer, path, variant, columns, written))
    _keep(variant.table(variant.rows(THIRD, LAST)), values)
    job = {"kind": "tend_indexed", "path": str(path), "values": str(values), "delete": TENDED}
    error = peer.ask(job)
    if error is not None:
        yield from (outcome(step, column, "not tended", error) for step in steps[1:] for column in columns)
        return
    yield from (outcome(steps[1], *found) for found in _we_ask(path, variant, columns, tended))
    yield from (outcome(steps[2], *found) for found in _they_ask(newest, path, variant, columns, tended))


def _tend(path: Path, variant: Variant) -> None:
    """What `tend_indexed` does, by lance_ops."""
    rows = variant.table(variant.rows(THIRD, LAST))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lo.append(str(path), rows.select(lo.dataset(str(path)).schema.names))
        lo.optimize_indices(str(path))
        lo.delete(str(path), TENDED)
        lo.compact(str(path))


def _we_ask(
    path: Path, variant: Variant, columns: Iterable[str], rows: Sequence[Row]
) -> Iterator[tuple[str, str, str]]:
    for column in columns:
        used = False
        kind, detail = "", ""
        for question in variant.columns[column].questions:
            wanted = question.answer(rows)
            try:
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    found, by_index = _our_answer(lo.dataset(str(path)), question)
            except Exception as failure:  # noqa: BLE001 - anything at all is what this looks for
                kind, detail = "failed", f"{question.name}: {failure!r}"
                break
            used |= by_index
            if caught:
                kind, detail = "with a warning", str(caught[0].message)
            if found != wanted:
                kind, detail = "different", f"{question.name}: {len(found)} rows instead of {len(wanted)}"
                break
        yield column, kind or ("used" if used else "scanned"), detail


def _our_answer(dataset: lo.Dataset, question: Question) -> tuple[list[int], bool]:
    """Ids, and whether an index had a part in them."""
    ask = question.ask
    if "filter" in ask:
        found = dataset.scanner(["id"], ask["filter"]).to_table()["id"].to_pylist()
        return sorted(found), IndexPruner().prune(dataset, dataset.parse_filter(ask["filter"])) is not None
    if "text" in ask:
        options: dict[str, Any] = {"full_text_query": {"query": ask["text"], "columns": [ask["column"]]}}
        found = sorted(dataset.to_table(["id"], limit=LAST, **options)["id"].to_pylist())
    else:
        query = np.array(ask["nearest"], np.float32)
        options = {
            "nearest": {"column": ask["column"], "q": query, "k": NEAR, "nprobes": 100, "refine_factor": 100}
        }
        found = dataset.to_table(["id"], **options)["id"].to_pylist()
    return found, "segment" in dataset.explain(["id"], **options)


def _they_ask(
    peer: Peer, path: Path, variant: Variant, columns: Iterable[str], rows: Sequence[Row]
) -> Iterator[tuple[str, str, str]]:
    answers = path.parent / "answers"
    for column in columns:
        questions = variant.columns[column].questions
        asked = [dict(question.ask) for question in questions]
        job = {"kind": "ask_indexed", "path": str(path), "questions": asked, "answers": str(answers)}
        error = peer.ask({**job, "rows": LAST, "near": NEAR})
        if error is not None:
            yield column, "refused", error
            continue
        kind, detail, used = "", "", False
        for question, answer in zip(questions, json.loads(answers.read_text()), strict=True):
            wanted = question.answer(rows)
            if "error" in answer:
                kind, detail = "refused", answer["error"]
                break
            used |= answer["used"]
            if answer["ids"] != wanted:
                missed = len(set(wanted) - set(answer["ids"]))
                kind = "different"
                detail = f"{question.name}: {len(answer['ids'])} rows, {missed} of {len(wanted)} missing"
                break
        yield column, kind or ("used" if used else "scanned"), detail


def _keep(table: pa.Table, path: Path) -> None:
    with pa.ipc.new_stream(str(path), table.schema) as stream:
        stream.write_table(table)
