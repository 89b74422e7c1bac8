"""Whole tables, exchanged with every age of pylance in both directions, read by three after each step.

One side writes a table (several fragments of two data files, deleted rows, tags, branches), the other
appends, deletes, updates and compacts, and the first goes on. After each step lance_ops, the release and the
newest pylance read main, every branch and every tag, with and without a filter; all is compared with rows
that follow from their ids. What a release fails at is tried once more with the newest pylance in the place of
lance_ops: then it is known whether the release could have been served better.
"""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from old_peers_index_report import NEWEST, OURS, RELEASE
from old_peers_process import Peer
from old_peers_table_cases import DIRECTIONS, MAIN, TABLE_VARIANTS, Model, Row, Rows, Step, TableVariant
from old_peers_table_report import EQUAL, MAIN_ONLY, NOT_DONE, NOT_TRIED, TableOutcome

import lance_ops as lo

FILTER = "id > 50 and id < 530"
_LOW, _HIGH = 50, 530


def exchange_tables(
    peer: Peer, newest: Peer, variants: Sequence[TableVariant] = TABLE_VARIANTS
) -> Iterator[TableOutcome]:
    """Both directions and all variants, with one release."""
    for variant in variants:
        for writer, tender in DIRECTIONS:
            outcomes = _in_folder(peer, newest, variant, writer, tender)
            if all(one.kind == EQUAL for one in outcomes):
                yield from outcomes
                continue
            # The same steps by the newest in our place: what fails then, too, is not for us to mend.
            parts = (NEWEST if side == OURS else side for side in (writer, tender))
            twins = _in_folder(peer, newest, variant, *parts)
            for one, twin in zip(outcomes, twins, strict=True):
                yield replace(one, twin=twin.kind)


def _in_folder(
    peer: Peer, newest: Peer, variant: TableVariant, writer: str, tender: str
) -> list[TableOutcome]:
    with tempfile.TemporaryDirectory() as folder:
        return _Exchange(peer, newest, variant, Path(folder), writer, tender).run()


class _Exchange:
    def __init__(
        self, peer: Peer, newest: Peer, variant: TableVariant, folder: Path, writer: str, tender: str
    ) -> None:
        self._peers = {RELEASE: peer, NEWEST: newest}
        self._variant = variant
        self._folder = folder
        self._path = str(folder / "path")
        self._writer, self._tender = writer, tender
        self._model = Model()
        self._row_ids: dict[str, dict[int, int]] = {}
        # Whether the release knows no branches.
        self._skipped = False

    def run(self) -> list[TableOutcome]:
        outcomes: list[TableOutcome] = []
        kind, detail, over = "", "", False
        for number, (actor, step) in enumerate(self._variant.steps(self._writer, self._tender)):
            if over:
                kind, detail = NOT_TRIED, ""
            else:
                kind, detail = self._step(actor, step)
                # Without its table or with other rows in it, there is nothing left to compare.
                over = kind not in (EQUAL, MAIN_ONLY, NOT_DONE) or (
                    kind == NOT_DONE and not self._model.lines
                )
            release = self._peers[RELEASE].version
            outcomes.append(
                TableOutcome(
                    release, self._variant.name, self._writer, number, actor, step.name, kind, detail
                )
            )
        return outcomes

    def _step(self, actor: str, step: Step) -> tuple[str, str]:
        if step.line not in {MAIN, *self._model.lines}:
            return NOT_DONE, "there is no branch"
        error = self._act(actor, step)
        if error is not None:
            return (NOT_DONE if actor != OURS else f"refused by {OURS}"), error
        self._model.apply(step)
        problems: dict[str, str] = {}
        for reader in (OURS, RELEASE, NEWEST):
            problem = self._problem(reader, step)
            if problem is not None:
                problems[reader] = problem
        if not problems:
            return MAIN_ONLY if self._skipped else EQUAL, ""
        first = next(iter(problems.values()))
        return "not for " + ", ".join(problems), first

    def _act(self, actor: str, step: Step) -> str | None:
        new = self._model.new_rows(step) if step.count else None
        if actor == OURS:
            try:
                _act(self._path, step, new)
            except Exception as failure:  # noqa: BLE001 - anything at all is what this looks for
                return repr(failure)
            return None
        values = self._folder / "values"
        if new is not None:
            with pa.ipc.new_stream(str(values), new.schema) as stream:
                stream.write_table(new)
        job = {"kind": "act_on_table", "path": self._path, "step": dict(step.job), "values": str(values)}
        return self._peers[actor].ask(job)

    def _problem(self, reader: str, step: Step) -> str | None:
        """What a reader finds that is not as it should be."""
        wanted = {**self._model.lines, **self._model.tags}
        try:
            found = self._read_ours(wanted) if reader == OURS else self._read_theirs(reader)
        except Exception as failure:  # noqa: BLE001 - anything at all is what this looks for
            return f"{type(failure).__name__}: {failure}"
        for name, (rows, filtered) in found.items():
            expected = wanted[name]
            few = {number: row for number, row in expected.items() if _LOW < number < _HIGH}
            for table, rows_wanted, what in ((rows, expected, "rows"), (filtered, few, "rows by a filter")):
                problem = _difference(table, rows_wanted)
                if problem is not None:
                    return f"{what} of {name}: {problem}"
            if self._variant.stable:
                problem = self._check_row_ids(name, rows, step)
                if problem is not None:
                    return f"rows of {name}: {problem}"
        return None

    def _check_row_ids(self, name: str, rows: pa.Table, step: Step) -> str | None:
        now = dict(zip(rows["id"].to_pylist(), rows["_rowid"].to_pylist(), strict=True))
        if len(set(now.values())) < len(now):
            return "two rows have one row id"
        known = self._row_ids.setdefault(name, {})
        # Early releases give updated rows new ids, as the format allows.
        kept = [number for number in now if number in known and not step.chosen(number)]
        moved = [number for number in kept if now[number] != known[number]]
        self._row_ids[name] = now
        return f"{len(moved)} of {len(kept)} row ids are others" if moved else None

    def _read_ours(self, wanted: dict[str, Rows]) -> dict[str, tuple[pa.Table, pa.Table]]:
        found = {}
        for name in wanted:
            version = None if name == MAIN else (name, None) if name in self._model.lines else name
            dataset = lo.dataset(self._path, version)
            rows = dataset.to_table(with_row_id=self._variant.stable)
            if dataset.count_rows() != rows.num_rows:
                raise ValueError(f"{dataset.count_rows()} rows are counted of {rows.num_rows}")
            report = lo.fsck(dataset)
            if not report.ok:
                raise ValueError(str(report))
            found[name] = rows, dataset.to_table(filter=FILTER)
        return found

    def _read_theirs(self, reader: str) -> dict[str, tuple[pa.Table, pa.Table]]:
        names: dict[str, dict[str, str]] = {}
        for kind, group in (("line", self._model.lines), ("tag", self._model.tags)):
            for name in group:
                files = {what: str(self._folder / f"{name}.{what}") for what in ("found", "filtered")}
                names[name] = {"kind": kind, **files}
        job: dict[str, Any] = {"path": self._path, "names": names, "filter": FILTER}
        error = self._peers[reader].ask({**job, "kind": "read_lines", "row_ids": self._variant.stable})
        if error is not None:
            raise ValueError(error)
        read = {name: one for name, one in names.items() if Path(one["found"]).exists()}
        self._skipped |= len(read) < len(names)
        found = {name: (_read(one["found"]), _read(one["filtered"])) for name, one in read.items()}
        for one in read.values():
            Path(one["found"]).unlink()
        return found


def _act(path: str, step: Step, new: pa.Table | None) -> None:
    job = step.job
    target = lo.dataset(path, (step.line, None)) if step.line != MAIN else path
    what = job["do"]
    if what == "create":
        options = {"enable_stable_row_ids": job["stable"], "max_rows_per_file": job["rows_per_file"]}
        lo.write_dataset(new, path, data_storage_version="2.0", **options)
    elif what == "append":
        lo.append(target, new, data_storage_version=job["version"])
    elif what == "add column":
        lo.add_columns(target, {job["column"]: job["expression"]})
    elif what == "delete":
        lo.delete(target, job["where"])
    elif what == "update":
        lo.update(target, job["set"], job["where"])
    elif what == "compact":
        lo.compact(target)
    elif what == "tag":
        lo.create_tag(target, job["name"])
    else:
        lo.create_branch(path, job["name"])


def _read(path: str) -> pa.Table:
    with pa.ipc.open_stream(path) as stream:
        return stream.read_all()


def _difference(table: pa.Table, expected: Rows) -> str | None:
    columns = sorted(set().union(*expected.values())) if expected else []
    if missing := set(columns) - set(table.column_names):
        return f"no column {', '.join(sorted(missing))}"
    found: dict[int, Row] = {row["id"]: row for row in table.select(columns or ["id"]).to_pylist()}
    if len(found) != table.num_rows:
        return "a row is there twice"
    if found.keys() != expected.keys():
        more, less = len(found.keys() - expected.keys()), len(expected.keys() - found.keys())
        return f"{more} too many, {less} of {len(expected)} missing"
    wrong = {name for number, row in expected.items() for name in row if row[name] != found[number][name]}
    return f"other values of {', '.join(sorted(wrong))}" if wrong else None
