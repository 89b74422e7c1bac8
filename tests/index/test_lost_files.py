"""Files of an index that are gone or cut short: the answer of a scan and a warning, whatever the kind.

Each index has two segments, one of which is damaged: what is left of the other is used.
"""

import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import lance
import pytest

import lance_ops as lo
from lance_ops.errors import UnreadableIndexWarning
from tests.fuzz.index_corpus import CASES, Case, Question, rows_of

pytestmark = pytest.mark.peer

COVERED, ROWS = 48, 72
DAMAGE = ("folder", "one", "cut", "empty")
ASKED = [
    pytest.param(case, by_peer, id=f"{case.kind}-{case.column}-{'peer' if by_peer else 'us'}-{number}")
    for number, case in enumerate(CASES)
    for by_peer in (False, True)
    if (case.theirs is not None if by_peer else case.ours) and case.questions
]


def _table(path: Path, case: Case, *, by_peer: bool) -> None:
    rows = rows_of(range(ROWS)).select(["id", case.column])
    options = {"enable_stable_row_ids": case.stable, "data_storage_version": "2.2"}
    lo.write_dataset(rows.slice(0, COVERED), path, max_rows_per_file=24, **options)
    if by_peer and case.theirs is not None:
        case.theirs(lance.dataset(str(path)))
    else:
        lo.create_index(path, case.column, case.kind, parameters=dict(case.parameters))
    lo.append(path, rows.slice(COVERED))
    lo.optimize_indices(path, num_indices_to_merge=0)


def _ask(path: Path, question: Question) -> tuple[object, bool]:
    """An answer as far as an index has no say in it, and whether there was a warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = lo.dataset(path).to_table(**question)
    warned = any(issubclass(item.category, UnreadableIndexWarning) for item in caught)
    ids = found["id"].to_pylist()
    # What codes make of distances orders rows otherwise, as what is not covered by an index scores otherwise.
    return sorted(ids), warned


def _damaged(path: Path, way: str) -> Iterator[tuple[str, bool]]:
    """Damage a segment in turn, and mend it; what was done, and whether all of it is lost."""
    for folder in sorted((path / "_indices").iterdir()):
        kept = path.parent / "kept"
        shutil.copytree(folder, kept)
        files = sorted(file.name for file in folder.iterdir())
        for names in [files] if way == "folder" else [[name] for name in files]:
            if way == "folder":
                shutil.rmtree(folder)
            for name in names if way != "folder" else ():
                data = (folder / name).read_bytes()
                if way == "one":
                    (folder / name).unlink()
                else:
                    (folder / name).write_bytes(data[: len(data) // 2] if way == "cut" else b"")
            yield f"{way} {names}", way == "folder"
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(kept, folder)
        shutil.rmtree(kept)


def _exactly(question: Question) -> Question:
    """A question whose answer does not depend on how near to the truth an index comes."""
    if "nearest" not in question:
        return question
    return {**question, "nearest": {**question["nearest"], "nprobes": 99, "refine_factor": 99}}


@pytest.mark.parametrize(("case", "by_peer"), ASKED)
@pytest.mark.parametrize("way", DAMAGE)
def test_what_is_lost_of_an_index_changes_no_answer(tmp_path: Path, case: Case, by_peer: bool, way: str):
    path = tmp_path / "t.lance"
    _table(path, case, by_peer=by_peer)
    questions = [_exactly(question) for question in case.questions]
    expected = [_ask(path, question) for question in questions]
    assert not any(warned for _, warned in expected)
    warnings_seen = 0
    for done, everything in _damaged(path, way):
        for question, (ids, _) in zip(questions, expected, strict=True):
            found, warned = _ask(path, question)
            assert found == ids, (done, question)
            assert warned or not everything, (done, question)
            warnings_seen += warned
    assert warnings_seen


@pytest.mark.parametrize(("case", "by_peer"), ASKED)
def test_an_index_without_any_file_is_a_scan(tmp_path: Path, case: Case, by_peer: bool):
    path = tmp_path / "t.lance"
    _table(path, case, by_peer=by_peer)
    questions = [_exactly(question) for question in case.questions]
    expected = [_ask(path, question) for question in questions]
    shutil.rmtree(path / "_indices")
    for question, (ids, _) in zip(questions, expected, strict=True):
        assert _ask(path, question) == (ids, True), question
