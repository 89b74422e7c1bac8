"""External manifest stores from all entry points, with real processes, and without their secrets."""

import json
import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

import lance_ops as lo
from lance_ops.cli import main
from lance_ops.errors import InvalidArgumentError, LanceOpsError, StorageError
from lance_ops.fleet.stores.metered import meter
from lance_ops.storage import open_store
from lance_ops.storage.external import external_of
from lance_ops.table.commit.committer import committer_for
from tests.support.manifest_stores import POSTGRES

ROOT = Path(__file__).resolve().parents[3]
_WRITER = """
import sys, json
import pyarrow as pa
import lance_ops as lo
uri, options, first = json.loads(sys.argv[1])
for number in range(first, first + 100):
    lo.append(uri, pa.table({"id": [number]}), storage_options=options)
    print(number, flush=True)
"""


@pytest.fixture(params=["sqlite", POSTGRES])
def options(request, tmp_path):
    if request.param == "sqlite":
        return {"manifest_store": f"sqlite:///{tmp_path / 'manifests.db'}"}
    return {"manifest_store": request.getfixturevalue("postgres_url")}


def test_processes_that_are_killed_lose_and_double_nothing(tmp_path, options):
    uri = str(tmp_path / "t.lance")
    lo.append(uri, pa.table({"id": [-1]}), storage_options=options)
    acknowledged = [-1]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, json.dumps([uri, options, 1000 * at])],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for at in range(2)
    ]
    try:
        for at, process in enumerate(processes):
            for _ in range(4 + at):
                line = process.stdout.readline()
                assert line
                acknowledged.append(int(line))
            process.send_signal(signal.SIGKILL)
            acknowledged += [int(line) for line in process.stdout]
            process.wait()
    finally:
        for process in processes:
            process.kill()
            process.wait()
            process.stdout.close()
    lo.append(uri, pa.table({"id": [-2]}), storage_options=options)
    found = lo.dataset(uri, storage_options=options).to_table()["id"].to_pylist()
    assert len(found) == len(set(found))
    # Each writer may have committed one row whose acknowledgement it could not send any more.
    assert set(acknowledged) | {-2} <= set(found)
    assert len(found) <= len(acknowledged) + 1 + len(processes)
    assert lo.fsck(uri, storage_options=options).findings == ()


def _run(*arguments):
    result = CliRunner().invoke(main, list(arguments))
    assert result.exit_code == 0, result.output
    return result.output


def test_the_command_line_moves_a_dataset_in_and_out(tmp_path):
    uri, database = str(tmp_path / "t.lance"), f"sqlite:///{tmp_path / 'manifests.db'}"
    lo.append(uri, pa.table({"id": [1]}))
    option = ("--storage-option", f"manifest_store={database}")
    assert "1 row written" in _run("migrate-store", uri, "--into", database)
    lo.append(uri, pa.table({"id": [2]}), storage_options={"manifest_store": database})
    assert json.loads(_run("compact", uri, *option, "--json"))["version"] > 2
    (tmp_path / "manifests.db").unlink()
    lost = CliRunner().invoke(main, ["compact", uri, *option])
    assert lost.exit_code != 0
    assert "--rebuild" in lost.output
    assert json.loads(_run("migrate-store", uri, "--rebuild", *option, "--json"))["direction"] == "rebuild"
    assert "deleted" in _run("migrate-store", uri, "--out", *option)
    assert lo.dataset(uri).count_rows() == 2


def test_passwords_of_databases_are_not_shown(tmp_path):
    secret = "s3cr3t-p4ssw0rd"
    options = {"manifest_store": f"postgresql+psycopg2://someone:{secret}@127.0.0.1:1/db?sslkey={secret}x"}
    store = open_store(tmp_path / "t.lance", options)
    shown = [repr(store), store.manifests.name, str(store.manifests.server)]
    for call in (
        lambda: lo.append(tmp_path / "t.lance", pa.table({"id": [1]}), storage_options=options),
        lambda: lo.dataset(tmp_path / "t.lance", storage_options=options),
        lambda: lo.migrate_store(tmp_path / "t.lance", out=True, storage_options=options),
    ):
        with pytest.raises(LanceOpsError) as caught:
            call()
        shown += [str(caught.value), repr(caught.value), str(caught.value.__cause__)]
    for wrong in (f"://{secret}", f"postgres//{secret}", f"nosuch+driver://x:{secret}@h/db"):
        with pytest.raises(InvalidArgumentError) as caught:
            lo.dataset(tmp_path / "t.lance", storage_options={"manifest_store": wrong})
        shown.append(str(caught.value))
    assert not [text for text in shown if secret in text]


@pytest.mark.parametrize("address", ["sqlite://", "sqlite:///manifests.db", "sqlite:///:memory:"])
def test_a_file_of_sqlite_that_depends_on_the_process_is_refused(tmp_path, address):
    with pytest.raises(InvalidArgumentError, match="absolute path"):
        lo.dataset(tmp_path / "t.lance", storage_options={"manifest_store": address})


def test_a_database_that_cannot_be_opened_is_an_error_of_ours(tmp_path):
    options = {"manifest_store": f"sqlite:///{tmp_path / 'no such folder' / 'm.db'}"}
    with pytest.raises(StorageError, match="database failed"):
        lo.append(tmp_path / "t.lance", pa.table({"id": [1]}), storage_options=options)
    (tmp_path / "text.db").write_text("no database " * 1000)
    options = {"manifest_store": f"sqlite:///{tmp_path / 'text.db'}"}
    with pytest.raises(StorageError, match="database failed"):
        lo.append(tmp_path / "t.lance", pa.table({"id": [1]}), storage_options=options)
    assert not (tmp_path / "t.lance" / "_versions").exists()


def test_all_spellings_of_a_local_folder_have_the_same_rows(tmp_path, monkeypatch):
    options = {"manifest_store": f"sqlite:///{tmp_path / 'manifests.db'}"}
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    spellings = [
        tmp_path / "real/t.lance",
        tmp_path / "link/t.lance",
        "real/t.lance",
        f"file://{tmp_path}/link/t.lance",
    ]
    for number, uri in enumerate(spellings):
        lo.append(uri, pa.table({"id": [number]}), storage_options=options)
    for uri in spellings:
        assert lo.dataset(uri, storage_options=options).count_rows() == 4


def test_a_metered_store_is_decided_by_the_same_database(tmp_path):
    options = {"manifest_store": f"sqlite:///{tmp_path / 'manifests.db'}"}
    store = meter(open_store(tmp_path / "t.lance", options))
    assert external_of(store) is not None
    committer_for(store)
    lo.append(store, pa.table({"id": [1]}))
    lo.append(store, pa.table({"id": [2]}))
    assert lo.dataset(tmp_path / "t.lance", storage_options=options).count_rows() == 2


def test_fleets_survey_and_maintain_datasets_of_an_external_manifest_store(tmp_path):
    database = f"sqlite:///{tmp_path / 'manifests.db'}"
    options = {"manifest_store": database}
    for name in ("a", "b"):
        for number in range(12):
            lo.append(tmp_path / f"lake/{name}.lance", pa.table({"id": [number]}), storage_options=options)
    policy = tmp_path / "fleet.yaml"
    policy.write_text(
        "version: 1\nmode: auto\nstores:\n  lake:\n"
        f"    root: {tmp_path / 'lake'}\n    options: {{manifest_store: {database!r}}}\n"
        "classes: {default: {max_small_fragments: 2}}\n"
    )
    _run("fleet", "run", "--policy", str(policy))
    for name in ("a", "b"):
        dataset = lo.dataset(tmp_path / f"lake/{name}.lance", storage_options=options)
        assert sorted(dataset.to_table()["id"].to_pylist()) == list(range(12))
        assert len(dataset.get_fragments()) < 12
        lo.cleanup(dataset, retain_versions=1, older_than=timedelta(0))
        assert lo.fsck(dataset).findings == ()
