"""Two processes upsert the same new keys at once: one row for each key, whoever was faster."""

import subprocess
import sys

import pyarrow as pa

import lance_ops as lo

WORKER = """
import sys
import pyarrow as pa
import lance_ops as lo

uri, name = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
conflicts = 0
for start in range(0, 60, 20):
    data = pa.table({"id": range(start, start + 25), "by": [name] * 25})
    clauses = {"when_matched": "update_all", "when_not_matched": "insert_all"}
    done = lo.merge_insert(uri, data, "id", **clauses, max_replans=50)
    conflicts += len(done.conflicts)
print(conflicts)
"""


def test_processes_that_upsert_the_same_keys_leave_one_row_for_each(tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.append(uri, pa.table({"id": range(1000, 1010), "by": ["start"] * 10}))
    running = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, uri, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("one", "two")
    ]
    for process in running:
        assert process.stdout.readline() == "ready\n"
    for process in running:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in running:
        process.communicate()
        assert process.returncode == 0
    found = lo.dataset(uri).to_table()
    assert sorted(found["id"].to_pylist()) == [*range(65), *range(1000, 1010)]
    assert set(found["by"].to_pylist()) <= {"start", "one", "two"}
    assert lo.dataset(uri).version == 7
    assert lo.fsck(uri, deep=True).ok
