"""SQL of maintenance: the examples of the connector for the JVM, and what they do here."""

from datetime import UTC, datetime
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
import lance_ops.spark.sql.run as sql_run
from lance_ops.errors import AlreadyExistsError, InvalidArgumentError, UnsupportedError, VersionNotFoundError
from lance_ops.spark.runner import SparkRunner
from lance_ops.spark.sql import results
from lance_ops.spark.sql.parse import parse_statement
from lance_ops.spark.sql.run import open_rows
from lance_ops.spark.sql.statements import (
    AddColumnsFrom,
    CreateIndex,
    CreateRef,
    Delete,
    MaintainIndex,
    Merge,
    Optimize,
    SetProperties,
    Source,
    Update,
    Vacuum,
)
from lance_ops.spark.sql.tables import TableRef, Tables

USERS = ("lance", "db", "users")
UPSERT = """
    MERGE INTO users t USING (SELECT 1 AS id) AS s ON t.id = s.id
    WHEN MATCHED AND s.x > t.x THEN UPDATE SET *
    WHEN NOT MATCHED THEN INSERT *
    WHEN NOT MATCHED BY SOURCE AND t.old THEN DELETE
"""
NAMED_COLUMNS = """
    MERGE INTO users USING news ON (users.a = news.a AND news.b = users.b)
    WHEN MATCHED THEN UPDATE SET users.a = news.a, users.b = news.b, users.c = news.c
    WHEN NOT MATCHED THEN INSERT (a, b, c) VALUES (news.a, news.b, news.c)
"""
FULL_TEXT = """
    fts (word) WITH (base_tokenizer = 'simple', language = 'English', max_token_length = 40,
        lower_case = true, stem = false, remove_stop_words = false, ascii_folding = false,
        with_position = true)
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A namespace with one table of four fragments."""
    for start in range(0, 40, 10):
        ids = list(range(start, start + 10))
        rows = {"id": ids, "name": [f"name {n}" for n in ids], "word": ["the quick fox" for _ in ids]}
        lo.append(str(tmp_path / "users.lance"), pa.table(rows))
    return tmp_path


def run(root: Path, statement: str, **more) -> list[dict]:
    return lo.sql(statement, root=str(root), **more).to_pylist()


def users(root: Path, version: int | None = None) -> lo.Dataset:
    return lo.dataset(str(root / "users.lance"), version=version)


def test_a_query_runs_on_the_session_of_a_runner(spark, root):
    statement = (
        "WITH few AS (SELECT * FROM users WHERE id < 3) SELECT few.id, u.word FROM few JOIN `{}` u USING (id)"
    )
    query = statement.format(root / "users.lance")
    with open_rows(query, root=str(root), runner=SparkRunner(spark)) as rows:
        assert sorted(rows.read_all()["id"].to_pylist()) == [0, 1, 2]
    assert not [table.name for table in spark.catalog.listTables() if table.name.startswith("_lance_ops")]


# Parsing: examples of the documentation of the connector


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("OPTIMIZE lance.db.users;", Optimize(USERS)),
        (
            "OPTIMIZE lance.db.users WITH (target_rows_per_fragment = 1000000, materialize_deletions = TRUE)",
            Optimize(USERS, {"target_rows_per_fragment": 1_000_000, "materialize_deletions": True}),
        ),
        (
            "ALTER TABLE lance.db.users CREATE INDEX idx_id_zoned USING btree (id) WITH (zone_size = 2048);",
            CreateIndex(USERS, "idx_id_zoned", "btree", (("id",),), {"zone_size": 2048}),
        ),
        ("ALTER TABLE lance.db.users REFRESH INDEX i WITH (NUM_SEGMENTS = 8)",
            MaintainIndex(USERS, "i", "refresh", {"num_segments": 8})),
        (
            "ALTER TABLE lance.db.users CREATE BRANCH IF NOT EXISTS b AS OF BRANCH a VERSION 3",
            CreateRef(USERS, "branch", "b", Source(3, "a"), if_not_exists=True),
        ),
        (
            "alter table lance.db.users create tag `v 5` as of tag release",
            CreateRef(USERS, "tag", "v 5", Source(tag="release")),
        ),
        ("DELETE FROM users -- all of them", Delete(("users",), None)),
        (
            "DELETE FROM users u WHERE u.id = 4 AND name = 'u.x'",
            Delete(("users",), "id = 4 AND name = 'u.x'"),
        ),
        (
            "UPDATE users SET name = concat(users.name, ', ', 'Jr'), age = (ONE + 1) WHERE id IN (4, 5)",
            Update(("users",), {"name": "((name) || (', ') || ('Jr'))", "age": "(ONE + 1)"}, "id IN (4, 5)"),
        ),
        (
            "DELETE FROM users WHERE id <=> 4L AND name = \"it's\" OR name <=> 'a\\\\d\\'' AND f < 2.50BD",
            Delete(
                ("users",),
                "id IS NOT DISTINCT FROM 4 AND name = 'it''s' OR name IS NOT DISTINCT FROM 'a\\d'''"
                " AND f < CAST('2.50' AS DECIMAL(3, 2))",
            ),
        ),
        (
            "UPDATE users SET f = 1.5F, g = 2D, name = r'\\d+', s = -1S, flag = users.a <=> NULL",
            Update(
                ("users",),
                {
                    "f": "CAST(1.5 AS FLOAT)",
                    "g": "CAST(2 AS DOUBLE)",
                    "name": "'\\d+'",
                    "s": "-1",
                    "flag": "a IS NOT DISTINCT FROM NULL",
                },
                None,
            ),
        ),
        (
            UPSERT,
            Merge(("users",), "SELECT 1 AS id", ("id",), "update", "source.x > target.x", True, "old"),
        ),
        (
            NAMED_COLUMNS,
            Merge(("users",), ("news",), ("a", "b"), "update", None, True, None, ("a", "b", "c")),
        ),
        # Words and names as they are written, whatever they mean elsewhere.
        ("optimize `a``b`.date.End;;", Optimize(("a`b", "date", "End"))),
        (
            "VACUUM t WITH (a = -1, B = 1e5, c = 'it''s', d = \"x\"\"y\", e = word, f = -0.5,)",
            Vacuum(("t",), {"a": -1, "b": 1e5, "c": "it's", "d": 'x"y', "e": "word", "f": -0.5}),
        ),
        (
            "ALTER TABLE t CREATE BRANCH a/b/c AS OF BRANCH 'x y'/z VERSION 3",
            CreateRef(("t",), "branch", "a/b/c", Source(3, "x y/z")),
        ),
        ("ALTER TABLE t SET TBLPROPERTIES (a.b = TRUE)", SetProperties(("t",), {"a.b": "true"})),
        # Comments, and what looks like one; none of them nests.
        ("DELETE /* a /* b */ FROM t -- c\r d\n WHERE a = '--' /**/", Delete(("t",), "a = '--'")),
        (
            "UPDATE t SET `ä b` = '日本;', date = DATE '2024-01-01', case = end-1e-5 WHERE a=-1 AND b<=>c",
            Update(
                ("t",),
                {"ä b": "'日本;'", "date": "DATE '2024-01-01'", "case": "end-1e-5"},
                "a=-1 AND b IS NOT DISTINCT FROM c",
            ),
        ),
        ("DELETE FROM t WHERE a = r'it\\' AND b = 'C:\\\\'", Delete(("t",), "a = 'it\\' AND b = 'C:\\'")),
        ("DELETE FROM t WHERE a = 'x''y'\"z\"", Delete(("t",), "a = 'x''y' 'z'")),
        ("SELECT 1", None),
        ("SELECT 'not closed", None),
        ("SELECT 1 /* not closed", None),
        ("SHOW TABLES", None),
        ("ALTER TABLE t RENAME TO u", None),
    ],
)  # fmt: skip
def test_a_statement_is_what_it_says(statement, expected):
    assert parse_statement(statement) == expected


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("OPTIMIZE", "the name of a table at 'the end'"),
        ("VACUUM t WITH (before_version 3)", "'='"),
        ("VACUUM t RETAIN 5 HOURS", "the end at 'RETAIN 5 HOURS'"),
        ("ALTER TABLE t CREATE INDEX i (a)", "USING"),
        ("ALTER TABLE t CREATE TAG x AS OF VERSION 'a'", "is not a version number"),
        ("UPDATE t SET a = ", "an expression"),
        ("DELETE FROM t WHERE regexp_like(a, '\\d')", "two backslashes"),
        ("DELETE FROM t WHERE a = 1 AND b = 'x", 'closed quotes and comments at "\'x"'),
        ("DELETE FROM t WHERE a = 1 /* AND b = 2", "closed quotes and comments at '/\\* AND b"),
        ("DELETE FROM t {# WHERE a = 1", "closed quotes and comments at '{#"),
        ("DELETE FROM t {# WHERE a = 1 #}", "closed quotes and comments at '{#"),
        (f"DELETE FROM t WHERE {'trim(' * 3000}a{')' * 3000}", "nested less deeply"),
        (
            "MERGE INTO t USING s ON t.a = s.a WHEN NOT MATCHED THEN INSERT (a, b) VALUES (s.a)",
            "',' at '\\)'",
        ),
        ("OPTIMIZE ``", "the name of a table at '``'"),
        ("UPDATE t SET a == 1", "'=' at '== 1'"),
        ("MERGE INTO t USING s ON t.a = s.a", "needs a WHEN"),
        ("DELETE t WHERE a", None),
    ],
)
def test_what_does_not_parse_says_where(statement, message):
    if message is None:
        assert parse_statement(statement) is None
        return
    with pytest.raises(InvalidArgumentError, match=message):
        parse_statement(statement)


@pytest.mark.parametrize(
    "clauses",
    [
        "ON t.a > s.a WHEN MATCHED THEN DELETE",
        "ON t.a = s.b WHEN MATCHED THEN DELETE",
        "ON t.a = s.a WHEN MATCHED THEN UPDATE SET b = s.b + 1",
        "ON t.a = s.a WHEN MATCHED THEN UPDATE SET b = s.b WHEN NOT MATCHED THEN INSERT *",
        "ON t.a = s.a WHEN MATCHED AND s.x THEN DELETE",
        "ON t.a = s.a WHEN MATCHED THEN DELETE WHEN MATCHED THEN UPDATE SET *",
        "ON t.a = s.a WHEN NOT MATCHED AND s.x THEN INSERT *",
    ],
)
def test_merges_beyond_the_operation_are_refused_before_anything_happens(clauses):
    with pytest.raises(UnsupportedError):
        parse_statement(f"MERGE INTO t USING s {clauses}")


# Layout


def test_optimize_and_vacuum_tell_what_went(root):
    done = run(root, "OPTIMIZE users WITH (target_rows_per_fragment = 20, num_threads = 4)")
    assert done == [{"fragments_removed": 4, "fragments_added": 2, "files_removed": 4, "files_added": 2}]
    version = users(root).version
    removed = run(root, f"VACUUM users WITH (before_version = {version})")
    assert removed[0]["old_versions"] == version - 1
    assert removed[0]["bytes_removed"] > 0
    assert [item.version for item in users(root).versions()] == [version]
    assert lance.dataset(str(root / "users.lance")).count_rows() == 40


def test_vacuum_by_time_keeps_tagged_versions_and_can_refuse_them(root):
    run(root, "ALTER TABLE users CREATE TAG keep AS OF VERSION 2")
    now = int(datetime.now(UTC).timestamp() * 1000) + 1000
    with pytest.raises(InvalidArgumentError, match="keep"):
        run(
            root,
            f"VACUUM users WITH (before_timestamp_millis = {now}, error_if_tagged_old_versions = 'true')",
        )
    assert run(root, f"VACUUM users WITH (before_timestamp_millis = {now})")[0]["old_versions"] == 2
    assert [item.version for item in users(root).versions()] == [2, 4]
    assert run(root, "VACUUM users")[0] == {"bytes_removed": 0, "old_versions": 0}
    with pytest.raises(InvalidArgumentError, match="unknown option: retain"):
        run(root, "VACUUM users WITH (retain = 3)")


# Indices


@pytest.mark.parametrize(
    ("using", "kind"),
    [
        ("btree (id)", "btree"),
        ("btree (id) WITH (zone_size = 2048, build_mode = 'range', rows_per_range = 10)", "btree"),
        ("zonemap (id) WITH (rows_per_zone = 2048)", "zonemap"),
        ("bitmap (id)", "bitmap"),
        (FULL_TEXT, "inverted"),
    ],
)
def test_indices_are_made_refreshed_shown_and_dropped(root, using, kind):
    made = run(root, f"ALTER TABLE users CREATE INDEX idx USING {using}")
    assert made == [{"fragments_indexed": 4, "index_name": "idx"}]
    lo.append(str(root / "users.lance"), pa.table({"id": [99], "name": ["x"], "word": ["fox"]}))
    (shown,) = run(root, "SHOW INDEXES FROM users")
    assert (shown["name"], shown["index_type"], shown["num_unindexed_fragments"]) == ("idx", kind, 1)
    assert (shown["num_indexed_rows"], shown["num_unindexed_rows"]) == (40, 1)
    done = run(root, "ALTER TABLE users REFRESH INDEX idx WITH (num_segments = 8)")
    assert done == [{"fragments_indexed": 1, "segments_added": 1, "index_name": "idx"}]
    again = run(root, "ALTER TABLE users REFRESH INDEX idx")
    assert again == [{"fragments_indexed": 0, "segments_added": 0, "index_name": "idx"}]
    (kept,) = run(root, "ALTER TABLE users OPTIMIZE INDEX idx")
    assert kept["fragments_indexed"] == 0
    assert kept["segments_before"] >= kept["segments_after"] >= 1
    dropped = run(root, "ALTER TABLE users DROP INDEX idx")
    assert dropped == [{"index_name": "idx", "status": "dropped"}]
    assert run(root, "SHOW INDEX IN users") == []


def test_an_index_of_the_same_name_is_replaced_and_unknown_ones_are_named(root):
    run(root, "ALTER TABLE users CREATE INDEX idx USING btree (id)")
    run(root, "ALTER TABLE users CREATE INDEX idx USING bitmap (id)")
    assert [item["index_type"] for item in run(root, "SHOW INDEXES IN users")] == ["bitmap"]
    with pytest.raises(InvalidArgumentError, match="index 'gone' does not exist"):
        run(root, "ALTER TABLE users REFRESH INDEX gone")
    with pytest.raises(UnsupportedError, match="one column"):
        run(root, "ALTER TABLE users CREATE INDEX two USING btree (id, name)")


# Tags and branches


def test_tags_name_versions(root):
    assert run(root, "ALTER TABLE users CREATE TAG rc") == [{"name": "rc"}]
    run(root, "ALTER TABLE users CREATE TAG IF NOT EXISTS rc AS OF VERSION 1")
    run(root, "ALTER TABLE users CREATE TAG copy AS OF TAG rc")
    with pytest.raises(AlreadyExistsError):
        run(root, "ALTER TABLE users CREATE TAG rc")
    shown = {row["name"]: row for row in run(root, "SHOW TAGS FROM users")}
    assert {name: (row["version"], row["branch"]) for name, row in shown.items()} == {
        "rc": (4, None),
        "copy": (4, None),
    }
    assert shown["rc"]["created_at"] > 0
    assert shown["rc"]["manifest_size"] > 0
    assert run(root, "ALTER TABLE users DROP TAG rc") == [{"name": "rc"}]
    run(root, "ALTER TABLE users DROP TAG IF EXISTS rc")
    with pytest.raises(VersionNotFoundError):
        run(root, "ALTER TABLE users DROP TAG rc")


def test_branches_begin_anywhere(root):
    run(root, "ALTER TABLE users CREATE BRANCH a")
    run(root, "ALTER TABLE users CREATE BRANCH b AS OF VERSION 2")
    run(root, "ALTER TABLE users CREATE BRANCH c AS OF BRANCH b")
    run(root, "ALTER TABLE users CREATE TAG t AS OF BRANCH b VERSION 2")
    run(root, "ALTER TABLE users CREATE BRANCH d AS OF TAG t")
    shown = {
        row["name"]: (row["parent_branch"], row["parent_version"])
        for row in run(root, "SHOW BRANCHES IN users")
    }
    assert shown == {"a": (None, 4), "b": (None, 2), "c": ("b", 2), "d": ("b", 2)}
    run(root, "ALTER TABLE users DROP BRANCH IF EXISTS a")
    run(root, "ALTER TABLE users DROP BRANCH IF EXISTS a")
    assert {row["name"] for row in run(root, "SHOW BRANCH FROM users")} == {"b", "c", "d"}


# Rows and columns


def test_rows_are_deleted_updated_and_merged(root):
    assert run(root, "DELETE FROM users AS u WHERE u.id >= 30") == [{"num_affected_rows": 10}]
    done = run(root, "UPDATE users SET name = 'Updated Name', word = concat(name, '!') WHERE id = 4")
    assert done == [{"num_affected_rows": 1}]
    row = users(root).to_table(filter="id = 4").to_pylist()
    assert row == [{"id": 4, "name": "Updated Name", "word": "name 4!"}]
    lo.append(
        str(root / "news.lance"), pa.table({"id": [4, 100], "name": ["four", "new"], "word": ["a", "b"]})
    )
    merged = run(
        root,
        "MERGE INTO users AS t USING news AS s ON t.id = s.id"
        " WHEN MATCHED AND t.id > 3 THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    )
    assert merged == [
        {"num_affected_rows": 2, "num_updated_rows": 1, "num_deleted_rows": 0, "num_inserted_rows": 1}
    ]
    assert users(root).to_table(["name"], "id IN (4, 100)")["name"].to_pylist() == ["four", "new"]
    gone = run(
        root,
        "MERGE INTO users t USING news s ON t.id = s.id WHEN NOT MATCHED BY SOURCE AND t.id < 10 THEN DELETE",
    )
    assert gone[0]["num_deleted_rows"] == 9
    run(root, "UPDATE users SET name = NULL WHERE id = 100L")
    assert run(root, 'DELETE FROM users WHERE name <=> NULL OR name = "four"') == [{"num_affected_rows": 2}]
    assert run(root, "DELETE FROM users") == [{"num_affected_rows": 20}]
    assert users(root).count_rows() == 0


def test_some_columns_are_merged_alone(root):
    lo.append(str(root / "news.lance"), pa.table({"id": [1], "name": ["one"], "word": ["never"]}))
    run(
        root,
        "MERGE INTO users USING news ON users.id = news.id WHEN MATCHED THEN UPDATE SET name = news.name",
    )
    row = users(root).to_table(filter="id = 1").to_pylist()
    assert row == [{"id": 1, "name": "one", "word": "the quick fox"}]


def test_columns_come_by_the_addresses_of_rows(root, monkeypatch):
    lo.delete(str(root / "users.lance"), "id = 3")
    addresses = users(root).to_table(["_rowaddr", "id"])
    some = addresses.filter(pa.compute.not_equal(addresses["id"], 5)).sort_by([("id", "descending")])
    values = pa.array([f"hash {n}" for n in some["id"].to_pylist()])
    source = pa.table({"_rowaddr": some["_rowaddr"], "name_hash": values})

    monkeypatch.setattr(sql_run, "source_rows", lambda tables, name, columns: source.select(columns))
    sql_run.run_statement(AddColumnsFrom(("users",), ("name_hash",), ("view",)), Tables(root=str(root)))
    found = users(root).to_table(["id", "name_hash"]).to_pylist()
    assert len(found) == 39
    assert all(row["name_hash"] == (None if row["id"] == 5 else f"hash {row['id']}") for row in found)


@pytest.mark.parametrize("stale", ["compacted", "updated"])
def test_values_for_addresses_of_rows_that_moved_are_refused(root, stale, monkeypatch):
    given = users(root).to_table(["_rowaddr", "name"]).rename_columns(["_rowaddr", "alias"])
    lo.compact(users(root)) if stale == "compacted" else lo.update(users(root), {"word": "'b'"}, "id = 15")
    before = users(root)

    # The name is looked up when a statement runs: the second one gets other rows.
    monkeypatch.setattr(sql_run, "source_rows", lambda tables, name, columns: given.select(columns))
    tables = Tables(root=str(root))
    statement = AddColumnsFrom(("users",), ("alias",), ("view",))
    with pytest.raises(InvalidArgumentError, match=r"do not exist in version"):
        sql_run.run_statement(statement, tables)
    given = given.slice(0, 1)
    given = pa.concat_tables([given, given])
    with pytest.raises(InvalidArgumentError, match="occurs twice"):
        sql_run.run_statement(statement, tables)
    assert users(root).version == before.version
    assert users(root).schema.names == ["id", "name", "word"]


def test_addresses_of_another_dataset_are_not_those_of_the_table(root):
    lo.append(str(root / "news.lance"), pa.table({"id": [3, 2, 1], "alias": ["c", "b", "a"]}))
    before = users(root).version
    with pytest.raises(UnsupportedError, match="addresses of another dataset"):
        run(root, "ALTER TABLE users ADD COLUMNS alias FROM news")
    assert users(root).version == before


def test_storage_options_that_spark_hides_are_asked_for(monkeypatch):
    from lance_ops.spark.sql import tables as module

    hidden = {"secret_access_key": "*********(redacted)", "region": "eu"}
    monkeypatch.setattr(module, "_in_catalog", lambda *_: TableRef("s3://b/t.lance", hidden))
    with pytest.raises(UnsupportedError, match="secret_access_key"):
        Tables(spark=object()).find(("t",))
    found = Tables(spark=object(), storage_options={"secret_access_key": "k"}).find(("t",))
    assert found.storage_options == {"secret_access_key": "k", "region": "eu"}


def test_columns_and_properties_change(root):
    run(root, "ALTER TABLE users RENAME COLUMN name TO full_name")
    run(root, "ALTER TABLE users DROP COLUMNS IF EXISTS (word, gone)")
    run(root, "ALTER TABLE users SET TBLPROPERTIES ('team' = 'data-eng', 'lance.x' = true)")
    run(root, "ALTER TABLE users UNSET TBLPROPERTIES ('team')")
    assert users(root).schema.names == ["id", "full_name"]
    assert users(root).config["lance.x"] == "true"
    assert "team" not in users(root).config


# Names


def test_tables_are_found_by_path_name_or_root(root, tmp_path):
    uri = str(root / "users.lance")
    assert lo.sql(f"SHOW TAGS FROM `{uri}`").num_rows == 0
    assert lo.sql(f"SHOW TAGS FROM lance.`{uri}`").schema == results.SHOW_TAGS
    assert lo.sql("SHOW TAGS FROM a.b", tables={"a.b": uri}).num_rows == 0
    with pytest.raises(InvalidArgumentError, match=r"unknown table a\.b"):
        lo.sql("SHOW TAGS FROM a.b")
    # A folder has no databases: the last part alone may be another table.
    for unknown in ("nosuchdb.users", "lance.db.users"):
        with pytest.raises(InvalidArgumentError, match="unknown table"):
            run(root, f"DELETE FROM {unknown}")
    assert users(root).count_rows() == 40
    assert lo.sql("SELECT 1 AS one").to_pylist() == [{"one": 1}]


def test_a_path_without_a_folder_is_one_from_here(root, monkeypatch):
    monkeypatch.chdir(root)
    for name in ("`users.lance`", "lance.`users.lance`", "`./users.lance`"):
        assert lo.sql(f"SHOW BRANCHES FROM {name}").num_rows == 0
    with pytest.raises(InvalidArgumentError, match=r"unknown table x\.users\.lance"):
        # A database and a table, not a path.
        lo.sql("SHOW TAGS FROM x.`users.lance`")
    lo.append("news.lance", pa.table({"id": [0, 99], "name": ["new", "new"], "word": ["a", "b"]}))
    merge = (
        "USING `news.lance` AS n ON u.id = n.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert lo.sql(f"MERGE INTO `users.lance` AS u {merge}").to_pylist()[0]["num_affected_rows"] == 2


NAMES = ["a b", "select", "ä"]
OF_EARLIER_TABLES = ["back`tick", "``"]
"""New columns are not called so; those of pylance and of earlier versions keep their names."""


def make_tables(root, name):
    made = pa.table({name: [1, 2, 3], "other": [1, 1, 1]})
    news = pa.table({name: [3, 4], "other": [7, 8]})
    for table, file in ((made, "odd.lance"), (news, "news.lance")):
        if name in OF_EARLIER_TABLES:
            lance.write_dataset(table, str(root / file))
        else:
            lo.append(str(root / file), table)


@pytest.mark.peer
@pytest.mark.parametrize("name", [*NAMES, *OF_EARLIER_TABLES])
def test_names_in_backticks_are_those_of_columns(root, name):
    column, uri = f"`{name.replace('`', '``')}`", str(root / "odd.lance")
    make_tables(root, name)
    run(root, f"ALTER TABLE odd CREATE INDEX i USING btree ({column})")
    assert run(root, f"DELETE FROM odd WHERE odd.{column} = 1") == [{"num_affected_rows": 1}]
    run(root, f"UPDATE odd SET {column} = {column} + 10 WHERE {column} = 2")
    merge = f"MERGE INTO odd t USING news s ON (t.{column} = s.{column})"
    values = f"({column}, other) VALUES (s.{column}, s.other)"
    run(root, f"{merge} WHEN MATCHED THEN UPDATE SET other = s.other WHEN NOT MATCHED THEN INSERT {values}")
    assert sorted(map(tuple, (row.values() for row in lo.dataset(uri).to_table().to_pylist()))) == [
        (3, 7),
        (4, 8),
        (12, 1),
    ]
    run(root, f"ALTER TABLE odd RENAME COLUMN {column} TO plain")
    if name in OF_EARLIER_TABLES:
        with pytest.raises(InvalidArgumentError, match="contains a backtick"):
            run(root, f"ALTER TABLE odd RENAME COLUMN plain TO {column}")
        column = "plain"
    else:
        run(root, f"ALTER TABLE odd RENAME COLUMN plain TO {column}")
    run(root, f"ALTER TABLE odd DROP COLUMN IF EXISTS {column}, nosuch")
    assert lo.dataset(uri).schema.names == ["other"]


@pytest.mark.spark
def test_what_is_no_table_of_the_format_is_named(spark, root, monkeypatch):
    monkeypatch.chdir(root)
    spark.sql("CREATE TABLE sql_parquet (id BIGINT, Provider STRING) USING parquet")
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW sql_view AS SELECT 1 AS id")
    try:
        for statement in (
            "DELETE FROM {}",
            "UPDATE {} SET id = 1",
            "OPTIMIZE {}",
            "VACUUM {}",
            "MERGE INTO {} t USING sql_view s ON t.id = s.id WHEN MATCHED THEN DELETE",
            "SHOW TAGS FROM {}",
        ):
            with pytest.raises(UnsupportedError, match="sql_parquet has format parquet, expected lance"):
                lo.sql(statement.format("sql_parquet"), spark)
            with pytest.raises(UnsupportedError, match="sql_view is a view"):
                lo.sql(statement.format("sql_view"), spark)
            with pytest.raises(InvalidArgumentError, match="unknown table sql_nosuch"):
                lo.sql(statement.format("sql_nosuch"), spark)
        assert lo.sql("DELETE FROM `users.lance` WHERE id < 3", spark).first().num_affected_rows == 3
    finally:
        spark.sql("DROP TABLE sql_parquet")


@pytest.mark.spark
def test_a_table_that_has_no_rows_yet_is_one_without_rows(spark, root, monkeypatch):
    monkeypatch.chdir(root)
    for statement in (
        "DELETE FROM sql_fresh",
        "OPTIMIZE sql_fresh",
        "MERGE INTO sql_fresh t USING `users.lance` s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
    ):
        spark.sql("CREATE TABLE sql_fresh (id BIGINT, name STRING, word STRING) USING lance")
        try:
            lo.sql(statement, spark)
            expected = 40 if "MERGE" in statement else 0
            assert spark.table("sql_fresh").count() == expected
        finally:
            spark.sql("DROP TABLE sql_fresh")


@pytest.mark.spark
def test_a_session_brings_tables_views_and_executors(spark, root):
    uri = str(root / "users.lance")
    spark.sql(f"CREATE TABLE sql_users USING lance LOCATION '{uri}'")
    try:
        assert lo.sql("SELECT count(*) AS n FROM sql_users", spark).first().n == 40
        assert lo.sql("OPTIMIZE sql_users", spark).first().fragments_added == 1
        spark.sql(
            "CREATE OR REPLACE TEMPORARY VIEW addressed USING lance"
            f" OPTIONS (path '{uri}', columns 'id, name, _rowaddr')"
        )
        spark.sql(
            "CREATE OR REPLACE TEMPORARY VIEW hashed AS"
            " SELECT _rowaddr, length(name) AS name_length FROM addressed WHERE id <> 7"
        )
        lo.sql("ALTER TABLE sql_users ADD COLUMNS name_length FROM hashed", spark)
        found = spark.sql("SELECT * FROM sql_users WHERE id IN (7, 12) ORDER BY id").collect()
        assert [row.name_length for row in found] == [None, 7]
        merged = lo.sql(
            "MERGE INTO sql_users t USING (SELECT id, upper(name) AS name FROM sql_users WHERE id < 3) s"
            " ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = s.name",
            spark,
        )
        assert merged.first().num_updated_rows == 3
        assert spark.sql("SELECT name FROM sql_users WHERE id = 2").first().name == "NAME 2"
        kept = spark.sql("SELECT count(*) AS n FROM sql_users WHERE id < 10").first().n
        lo.sql(
            "REPLACE sql_users WHERE id >= 10 AS SELECT id + 90L AS id, name, word, name_length"
            " FROM sql_users WHERE id < 5",
            spark,
        )
        assert spark.sql("SELECT count(*) AS n FROM sql_users WHERE id < 10").first().n == kept
        assert spark.sql("SELECT count(*) AS n FROM sql_users WHERE id >= 10").first().n == 5
        lo.sql("REPLACE sql_users WHERE id >= 10 AS SELECT * FROM sql_users WHERE false", spark)
        assert spark.sql("SELECT count(*) AS n FROM sql_users").first().n == kept
    finally:
        spark.sql("DROP TABLE sql_users")


def test_double_quotes_are_no_texts_where_spark_reads_names_in_them(tmp_path):
    class Session:
        class conf:  # noqa: N801 - as the session has it
            @staticmethod
            def get(name, default=None):
                return "true" if "ansi" in name else default

    uri = str(tmp_path / "t.lance")
    lo.write_dataset(pa.table({"a": ["x", "y"]}), uri)
    # To Spark it is a column here, so that a row is kept; the text would select all rows.
    with pytest.raises(UnsupportedError, match="double quotes"):
        sql_run.sql("""DELETE FROM t WHERE "a" <> 'x'""", Session(), tables={"t": uri})
    assert lo.dataset(uri).count_rows() == 2


@pytest.mark.parametrize("divisor", ["2", "0.0", "0D", "id", "(2.0)", "2L"])
def test_divisions_that_mean_something_else_in_spark_are_refused(root, divisor):
    with pytest.raises(UnsupportedError, match="a division has another result"):
        run(root, f"DELETE FROM users WHERE id = 7 / {divisor}")
    assert users(root).count_rows() == 40


def test_a_division_by_a_constant_fraction_is_done(root):
    assert run(root, "DELETE FROM users WHERE id / 2.0 = 3.5 OR id / 4D = 0.25") == [{"num_affected_rows": 2}]


def test_names_of_columns_are_read_in_any_case(root):
    uri = str(root / "cased.lance")
    lo.append(uri, pa.table({"Id": [1, 2], "Name": ["a", "b"]}))
    lo.append(str(root / "news.lance"), pa.table({"iD": [2, 3], "nAME": ["x", "y"]}))
    run(root, "UPDATE cased SET NAME = 'A' WHERE id = 1")
    merge = "MERGE INTO cased t USING news s ON t.ID = s.id WHEN MATCHED THEN UPDATE SET"
    run(root, f"{merge} * WHEN NOT MATCHED THEN INSERT *")
    run(root, f"{merge} name = s.NAME")
    assert sorted(map(tuple, (row.values() for row in lo.dataset(uri).to_table().to_pylist()))) == [
        (1, "A"),
        (2, "x"),
        (3, "y"),
    ]
    run(root, "ALTER TABLE cased CREATE INDEX i USING btree (ID)")
    for statement in ("ADD COLUMNS (ID INT)", "RENAME COLUMN name TO ID"):
        with pytest.raises(InvalidArgumentError, match="column 'Id' already exists"):
            run(root, f"ALTER TABLE cased {statement}")
    run(root, "ALTER TABLE cased RENAME COLUMN NAME TO NAME")
    run(root, "ALTER TABLE cased DROP COLUMN IF EXISTS name")
    assert lo.dataset(uri).schema.names == ["Id"]


@pytest.mark.parametrize(
    "options", ["before_timestamp_millis = 99999999999999999", "before_version = 1.5", "before_version = 'x'"]
)
def test_options_that_cannot_be_read_are_refused(root, options):
    with pytest.raises(InvalidArgumentError, match="before_"):
        run(root, f"VACUUM users WITH ({options})")


@pytest.mark.spark
def test_conditions_on_padded_texts_are_written_trimmed(spark):
    spark.sql("CREATE TABLE sql_padded (c CHAR(4), n INT) USING lance")
    try:
        spark.sql("INSERT INTO sql_padded VALUES ('ab', 1), ('cd', 2), (NULL, 3)")
        for statement in (
            "DELETE FROM sql_padded WHERE c = 'ab'",
            "UPDATE sql_padded t SET n = 5 WHERE t.C IN ('ab') AND n = 1",
        ):
            with pytest.raises(UnsupportedError, match="rtrim"):
                lo.sql(statement, spark)
        assert lo.sql("DELETE FROM sql_padded WHERE rtrim(c) = 'ab'", spark).first()[0] == 1
        assert lo.sql("DELETE FROM sql_padded WHERE c IS NULL", spark).first()[0] == 1
        assert lo.sql("UPDATE sql_padded SET n = 7 WHERE n = 2", spark).first()[0] == 1
    finally:
        spark.sql("DROP TABLE sql_padded")
