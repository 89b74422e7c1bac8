"""Job keys among all else that happens to a table, by us and by the peer, against a model of what is done."""

import shutil
import tempfile
from collections import Counter
from datetime import timedelta
from pathlib import Path
from unittest import mock

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lance_ops as lo
from lance_ops.errors import JobUnprovenError
from lance_ops.table.commit.jobs import job_record
from lance_ops.table.transaction.operations import JOBS_ENTRY, MapUpdate, UpdateConfig
from tests.safety.profile import examples
from tests.support.table_actions import commit
from tests.table.commit.jobs.test_earlier_record import extract

KEYS = "aCG"
ACTORS = st.sampled_from(["us", "the peer"])
STEP = st.one_of(
    st.tuples(st.just("job"), st.sampled_from(KEYS), st.just("us")),
    st.tuples(st.just("job"), st.sampled_from(KEYS), st.just("us")),
    st.tuples(st.just("replace by a job"), st.sampled_from(KEYS), st.just("us")),
    st.tuples(st.just("append"), st.none(), ACTORS),
    st.tuples(st.just("overwrite"), st.none(), ACTORS),
    st.tuples(st.just("delete"), st.sampled_from(KEYS), ACTORS),
    st.tuples(st.just("compact"), st.none(), ACTORS),
    st.tuples(st.just("restore"), st.integers(0, 20), ACTORS),
    st.tuples(st.just("tag"), st.integers(0, 20), ACTORS),
    st.tuples(st.just("cleanup"), st.integers(1, 3), ACTORS),
    st.tuples(st.just("config"), st.none(), ACTORS),
    st.tuples(st.just("copy"), st.none(), st.just("us")),
)


def rows(value: str) -> pa.Table:
    return pa.table({"k": [value]})


class Table:
    """A table, and for each version its rows and the jobs that are done in it."""

    def __init__(self, folder: str, *, is_old: bool) -> None:
        self.folder = folder
        self.copies = 0
        self.uri = f"{folder}/t.lance"
        self.tags = 0
        self.may_be_unproven = False
        # Written by an earlier release, whose record of jobs cleanups of the peer can leave without proof.
        self.is_old = is_old
        if not is_old:
            lo.write_dataset(rows("start"), self.uri)
            self.rows = {1: Counter(["start"])}
            self.done: dict[int, frozenset[str]] = {1: frozenset()}
            return
        extract(Path(folder))
        self.rows = {7: Counter("ABD")}
        for version, add in enumerate(["E", "F", "", "G", "epoch 0", "epoch 1", "epoch 2"], 8):
            before = self.rows[8 if version == 10 else version - 1]
            self.rows[version] = before + Counter([add] if add else [])
        self.done = {version: frozenset(kept) for version, kept in self.rows.items()}

    @property
    def head(self) -> int:
        return max(self.rows)

    def made(self, version: int, rows: Counter[str], done: frozenset[str]) -> None:
        # Compactions reserve ids first.
        assert version > self.head
        for number in range(self.head + 1, version):
            self.rows[number], self.done[number] = self.rows[self.head], self.done[self.head]
        self.rows[version], self.done[version] = rows, done

    def do(self, what: str, argument: object, actor: str) -> None:
        ours = actor == "us"
        before, done = self.rows[self.head], self.done[self.head]
        if what in ("job", "replace by a job"):
            self.job(str(argument), overwrite=what != "job")
        elif what == "append":
            if ours:
                lo.append(self.uri, rows("x"))
            else:
                lance.write_dataset(rows("x"), self.uri, mode="append")
            self.made(self.version(), before + Counter("x"), done)
        elif what == "overwrite":
            write = lo.write_dataset if ours else lance.write_dataset
            write(rows("new"), self.uri, mode="overwrite")
            self.made(self.version(), Counter(["new"]), done)
        elif what == "delete":
            if ours:
                lo.delete(self.uri, f"k = '{argument}'")
            else:
                lance.dataset(self.uri).delete(f"k = '{argument}'")
            if self.version() > self.head:
                kept = Counter({key: count for key, count in before.items() if key != argument})
                self.made(self.version(), kept, done)
        elif what == "compact":
            if ours:
                lo.compact(self.uri, target_rows_per_fragment=100)
            else:
                lance.dataset(self.uri).optimize.compact_files(target_rows_per_fragment=100)
            if self.version() > self.head:
                self.made(self.version(), before, done)
        elif what == "restore":
            version = self.existing(argument)
            if ours:
                lo.restore(self.uri, version)
            else:
                lance.dataset(self.uri, version=version).restore()
            self.made(self.version(), self.rows[version], self.done[version])
        elif what == "tag":
            self.tags += 1
            version = self.existing(argument)
            if ours:
                lo.create_tag(self.uri, f"t{self.tags}", version)
            else:
                lance.dataset(self.uri).tags.create(f"t{self.tags}", version)
        elif what == "config":
            if ours:
                update = MapUpdate({"x": str(self.head)}, replace=True)
                commit(self.uri, UpdateConfig(update))
            else:
                lance.dataset(self.uri).update_config({"y": str(self.head)})
            self.made(self.version(), before, done)
        elif what == "cleanup":
            if ours:
                lo.cleanup(self.uri, retain_versions=argument)
                if self.version() > self.head:
                    # It took over the record of the earlier release.
                    self.made(self.version(), before, done)
            else:
                lance.dataset(self.uri).cleanup_old_versions(
                    older_than=timedelta(0), error_if_tagged_old_versions=False
                )
                # Nothing tells a table that lost its record from one that went back to before its first job.
                self.may_be_unproven |= self.is_old or (
                    any(self.done.values()) and JOBS_ENTRY not in lo.dataset(self.uri).config
                )
        else:
            self.copies += 1
            uri = f"{self.folder}/t{self.copies}.lance"
            shutil.copytree(self.uri, uri)
            self.uri = uri

    def job(self, key: str, *, overwrite: bool) -> None:
        before, done = self.rows[self.head], self.done[self.head]
        try:
            if overwrite:
                result = lo.write_dataset(rows(key), self.uri, mode="overwrite", job_key=key)
            else:
                result = lo.append(self.uri, rows(key), job_key=key)
        except JobUnprovenError:
            assert self.may_be_unproven
            assert self.version() == self.head
            return
        assert result.already_committed is (key in done)
        if result.already_committed:
            assert self.version() == self.head
            return
        self.made(result.version, Counter(key) if overwrite else before + Counter(key), done | {key})

    def version(self) -> int:
        return lo.dataset(self.uri).version

    def existing(self, place: object) -> int:
        versions = [info.version for info in lo.dataset(self.uri).versions()]
        assert isinstance(place, int)
        return versions[place % len(versions)]

    def check(self) -> None:
        dataset = lo.dataset(self.uri)
        assert dataset.version == self.head
        assert Counter(dataset.to_table()["k"].to_pylist()) == self.rows[self.head]


@pytest.mark.peer
@pytest.mark.parametrize("is_old", [False, True], ids=["", "of an earlier release"])
@examples(60)
@given(steps=st.lists(STEP, min_size=3, max_size=14))
def test_a_job_is_done_exactly_when_its_commit_is_in_the_lineage_of_the_head(is_old, steps):
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(job_record, "RECENT", 2):
        table = Table(folder, is_old=is_old)
        for step in steps:
            table.do(*step)
            table.check()
        for key in KEYS:
            table.job(key, overwrite=False)
        table.check()
        assert lance.dataset(table.uri).count_rows() == table.rows[table.head].total()
        assert lo.fsck(table.uri).ok
