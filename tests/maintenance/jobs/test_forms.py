"""Records with a right checksum and wrong fields count as torn: nothing stops at them, nothing is lost."""

import copy
import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import LanceOpsError
from lance_ops.maintenance.jobs.folder import JOBS_DIRECTORY, JobFolder, mark_of
from lance_ops.maintenance.jobs.sealed import seal, unseal
from lance_ops.storage import open_store

TASK = "0123abcd"
GOOD = {
    "job": {
        "key": "k",
        "incarnation": "aaaabbbbcccc",
        "operation": "compact",
        "version": 1,
        "began": "2020-01-01T00:00:00+00:00",
        "options": {},
    },
    "plan": {"version": 1, "groups": [{"fragments": [0, 1], "task": TASK, "bytes": 9}]},
    "done": {
        "files": {"data/x.lance": 5},
        "values": {
            "fragments": [""], "sources": 2, "rows": 2, "bytes": 9, "purged": 0, "copied": True,
            "doubt": None,
        },
    },
    "commit": {"version": 1, "results": [f"done-{TASK}.0"]},
    "closed": {"head": 1, "since": 1, "segments": []},
}  # fmt: skip
NAMES = {"plan": "plan-aa-1", "done": f"done-{TASK}.0", "commit": "commit-me-1", "closed": "closed"}
WRONG = [
    None, True, -1, 1 << 64, 1.5, float("inf"), "", "x", "\ud800", "2020-01-01", "never", "../..", "a/b", [],
    [1], [None], {}, {"": 1}, {"../x": 1}, ["data/"], [{"task": 1}],
    [{"task": "t", "bytes": "x"}], {"data/x": -1},
]  # fmt: skip


def _wrong():
    for kind, values in GOOD.items():
        for field, good in values.items():
            yield kind, field, "missing", None
            for number, value in enumerate(WRONG):
                if type(value) is not type(good) or value not in ([], {}):
                    yield kind, field, f"value {number}", value


def _broken(kind, field, how, value):
    values = copy.deepcopy(GOOD[kind])
    if how == "missing":
        del values[field]
    else:
        values[field] = value
    return values


def _table(root: Path, records) -> str:
    """A table with a job of which these records are there."""
    uri = str(root / "t.lance")
    for at in range(3):
        lo.append(uri, pa.table({"id": [at]}))
    folder = Path(uri) / JOBS_DIRECTORY / mark_of("k")
    for kind, values in records.items():
        path = folder / "job" if kind == "job" else folder / "aaaabbbbcccc" / NAMES[kind]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(seal(kind, values))
    return uri


def test_what_is_of_no_form_is_read_as_torn():
    for kind, values in GOOD.items():
        assert unseal(kind, seal(kind, values)) == values
    # A name of several characters, an empty text or a date without a zone is of the form of some fields.
    allowed = 0
    for kind, field, how, value in _wrong():
        values = _broken(kind, field, how, value)
        found = unseal(kind, seal(kind, values))
        allowed += found is not None
        if found is not None:
            assert (kind, field) in {
                ("job", "key"), ("job", "operation"), ("job", "incarnation"), ("job", "options"),
                ("commit", "results"), ("closed", "segments"), ("done", "files"),
            } or how == "missing", (kind, field, value)  # fmt: skip
    assert allowed < 30


@pytest.mark.parametrize("kind", GOOD)
def test_nothing_stops_at_a_record_with_a_wrong_field_and_no_row_is_lost(tmp_path, kind):
    cases = [case for case in _wrong() if case[0] == kind]
    uri = _table(tmp_path, GOOD)
    store = open_store(uri)
    for _, field, how, value in cases[:: max(1, len(cases) // 12)]:
        values = _broken(kind, field, how, value)
        job = JobFolder(store, mark_of("k"), "aaaabbbbcccc")
        path = job.header_path if kind == "job" else f"{job.path}/{NAMES[kind]}"
        for other, good in GOOD.items():
            store.put(job.header_path if other == "job" else f"{job.path}/{NAMES[other]}", seal(other, good))
        store.put(path, seal(kind, values))
        lo.list_jobs(uri)
        lo.cleanup(uri, retain_versions=1, older_than=dt.timedelta(0))
        try:
            lo.cancel_job(uri, "k", force=True)
        except LanceOpsError as error:
            assert kind == "job", error  # noqa: PT017 - any typed error will do
        assert sorted(lo.dataset(uri).to_table()["id"].to_pylist()) == [0, 1, 2], (field, how, value)
    assert lo.fsck(uri, deep=True).ok


def test_a_record_that_names_live_files_as_remains_has_none_removed(tmp_path):
    uri = _table(tmp_path, {})
    lo.create_index(uri, "id")
    (segment,) = [path.name for path in (Path(uri) / "_indices").iterdir()]
    for segments in (
        [f"_indices/{segment}/"],
        ["data/"],
        ["_versions/"],
        ["_indices/"],
        ["_indices/../data/"],
    ):
        records = {**GOOD, "closed": {"head": 1, "since": 1, "segments": segments}}
        for kind in ("commit", "closed"):
            path = Path(uri) / JOBS_DIRECTORY / mark_of("k") / "aaaabbbbcccc" / NAMES[kind]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(seal(kind, records[kind]))
        # Back to where nothing uses the segment: a version without it is the newest.
        lo.cancel_job(uri, "k", force=True)
        assert lo.dataset(uri).count_rows("id = 1") == 1
        assert (Path(uri) / "_indices" / segment).is_dir()
    assert lo.fsck(uri, deep=True).ok
