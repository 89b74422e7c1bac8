"""`lance-ops sql`."""

import pyarrow as pa

import lance_ops as lo
from tests.support.commands import lance_ops, lance_ops_json


def test_a_statement_prints_its_rows(tmp_path):
    uri = str(tmp_path / "users.lance")
    for start in (0, 10):
        lo.append(uri, pa.table({"id": range(start, start + 10)}))
    done = lance_ops_json("sql", f"DELETE FROM `{uri}` WHERE id = 3")
    assert done == {"rows": [{"num_affected_rows": 1}]}
    shown = lance_ops("sql", "OPTIMIZE users", "--root", tmp_path).stdout
    assert "fragments_removed" in shown
    assert len(lo.dataset(uri).fragments) == 1
    assert lance_ops("sql", "SHOW TAGS FROM u", "--table", f"u={uri}").stdout == ""
    lance_ops("sql", "ALTER TABLE u CREATE INDEX i USING btree (id)", "--table", f"u={uri}")
    (row,) = lance_ops_json("sql", "SHOW INDEXES FROM u", "--table", f"u={uri}")["rows"]
    assert (row["fields"], row["num_indexed_rows"]) == (["id"], 19)


def test_a_mistake_is_said_with_its_place():
    assert "expected '='" in lance_ops("sql", "OPTIMIZE t WITH (a 1)", code=1).stderr
