"""Every form of the maintenance verbs in the documentation of the connector for the JVM, by page, in turn.

A page begins with the same table: six versions of one row each, a tag and a branch. Each statement has
the columns of its result behind it.
"""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, LanceOpsError, UnsupportedError

T = "lance.db.people"
OPTIMIZED = ["fragments_removed", "fragments_added", "files_removed", "files_added"]
VACUUMED = ["bytes_removed", "old_versions"]
CREATED = ["fragments_indexed", "index_name"]
REFRESHED = ["fragments_indexed", "segments_added", "index_name"]
MAINTAINED = ["index_name", "fragments_indexed", "segments_before", "segments_after"]
INDEXES = [
    "name",
    "fields",
    "index_type",
    "num_indexed_fragments",
    "num_indexed_rows",
    "num_unindexed_fragments",
    "num_unindexed_rows",
    "num_segments",
]
TAGS = ["name", "branch", "version", "created_at", "updated_at", "manifest_size"]
BRANCHES = ["name", "parent_branch", "parent_version", "created_at", "manifest_size"]
AFFECTED = ["num_affected_rows"]
KEY = ["status", "primary_key_columns"]
TOKENS = (
    "base_tokenizer = 'simple', language = 'English', max_token_length = 40, lower_case = true, "
    "stem = false, remove_stop_words = false, ascii_folding = false, with_position = true"
)
MADE_BY_B = f"ALTER TABLE {T} CREATE INDEX by_id USING btree (id)"

PAGES: dict[str, list[tuple[str, list[str]]]] = {
    "optimize": [
        (f"OPTIMIZE {T};", OPTIMIZED),
        (f"OPTIMIZE {T} WITH (target_rows_per_fragment = 1000000);", OPTIMIZED),
        (
            (
                f"OPTIMIZE {T} WITH (target_rows_per_fragment = 1000000, max_rows_per_group = 10000, "
                "materialize_deletions = TRUE, num_threads = 4);"
            ),
            OPTIMIZED,
        ),
        (
            (
                f"OPTIMIZE {T} WITH (max_bytes_per_file = 1000000, materialize_deletions_threshold = 0.2, "
                "batch_size = 1024, defer_index_remap = false, max_source_fragments = 10)"
            ),
            OPTIMIZED,
        ),
    ],
    "vacuum": [
        (f"VACUUM {T};", VACUUMED),
        (f"VACUUM {T} WITH (before_version = 2);", VACUUMED),
        (f"VACUUM {T} WITH (before_timestamp_millis = 1704067200000);", VACUUMED),
        (f"VACUUM {T} WITH (before_version = 4, delete_unverified = TRUE);", VACUUMED),
        (f"VACUUM {T} WITH (before_version = 4, error_if_tagged_old_versions = true);", VACUUMED),
    ],
    "create-index": [
        (f"{MADE_BY_B};", CREATED),
        (f"ALTER TABLE {T} CREATE INDEX zoned USING btree (id) WITH (zone_size = 2048);", CREATED),
        (
            f"ALTER TABLE {T} CREATE INDEX r USING btree (id) WITH (build_mode='range', rows_per_range=9)",
            CREATED,
        ),
        (f"ALTER TABLE {T} CREATE INDEX zones USING zonemap (id);", CREATED),
        (f"ALTER TABLE {T} CREATE INDEX zones USING zonemap (id) WITH (rows_per_zone = 2048);", CREATED),
        (f"ALTER TABLE {T} CREATE INDEX words USING fts (name) WITH ({TOKENS});", CREATED),
    ],
    "refresh-index": [
        (MADE_BY_B, CREATED),
        (f"ALTER TABLE {T} REFRESH INDEX by_id;", REFRESHED),
        (f"ALTER TABLE {T} REFRESH INDEX by_id WITH (num_segments = 8);", REFRESHED),
        (f"ALTER TABLE {T} CREATE INDEX z USING zonemap (id) WITH (rows_per_zone = 2048);", CREATED),
        (f"OPTIMIZE {T};", OPTIMIZED),
        (f"ALTER TABLE {T} REFRESH INDEX z WITH (rows_per_zone = 2048);", REFRESHED),
        (f"SHOW INDEXES FROM {T};", INDEXES),
    ],
    "optimize-index": [
        (MADE_BY_B, CREATED),
        (f"ALTER TABLE {T} OPTIMIZE INDEX by_id;", MAINTAINED),
        (
            f"ALTER TABLE {T} OPTIMIZE INDEX by_id WITH (num_indices_to_merge = 0, retrain = false);",
            MAINTAINED,
        ),
    ],
    "show-indexes": [
        (f"SHOW {word} {way} {T};", INDEXES) for word in ("INDEXES", "INDEX") for way in ("FROM", "IN")
    ],
    "create-scalar-index": [
        (f"ALTER TABLE {T} CREATE INDEX b USING bitmap (code) WITH (num_segments = 8);", CREATED),
        (f"ALTER TABLE {T} CREATE INDEX l USING label_list (tags) WITH (num_segments = 8);", CREATED),
        (f"ALTER TABLE {T} CREATE INDEX n USING ngram (name) WITH (num_segments = 8);", CREATED),
        (
            (
                f"ALTER TABLE {T} CREATE INDEX m USING bloomfilter (id) WITH (number_of_items = 16384, "
                "probability = 0.001, num_segments = 8);"
            ),
            CREATED,
        ),
        (
            f"ALTER TABLE {T} CREATE INDEX g USING rtree (place) WITH (page_size = 2048, num_segments = 8);",
            CREATED,
        ),
        (f"ALTER TABLE {T} CREATE INDEX w USING inverted (name) WITH ({TOKENS}, num_segments = 8);", CREATED),
        (f"ALTER TABLE {T} CREATE INDEX late USING zonemap (id) WITH (train = false);", CREATED),
        (f"ALTER TABLE {T} CREATE INDEX late USING zonemap (id);", CREATED),
    ],
    "create-vector-index": [
        (f"ALTER TABLE {T} CREATE INDEX v USING ivf_flat (vector);", CREATED),
        (
            (
                f"ALTER TABLE {T} CREATE INDEX v USING ivf_pq (vector) WITH (num_partitions = 2, "
                "num_sub_vectors = 4, num_bits = 4, distance_type = 'cosine');"
            ),
            CREATED,
        ),
        (
            f"ALTER TABLE {T} CREATE INDEX v USING ivf_sq (vector) WITH (num_partitions = 2, num_bits = 8);",
            CREATED,
        ),
        (
            (
                f"ALTER TABLE {T} CREATE INDEX v USING ivf_hnsw_pq (vector) WITH (num_partitions = 2, "
                "num_sub_vectors = 4, num_bits = 4, m = 20, ef_construction = 150, max_level = 7);"
            ),
            CREATED,
        ),
        (
            (
                f"ALTER TABLE {T} CREATE INDEX v USING ivf_hnsw_sq (vector) WITH (num_partitions = 2, "
                "num_bits = 8, m = 20, ef_construction = 150, prefetch_distance = 2);"
            ),
            CREATED,
        ),
        (
            (
                f"ALTER TABLE {T} CREATE INDEX v USING ivf_flat (vector) WITH (num_partitions = 2, "
                "num_segments = 8, sample_rate = 256, max_iters = 50);"
            ),
            CREATED,
        ),
    ],
    "deferred-index": [
        (f"ALTER TABLE {T} CREATE INDEX late USING zonemap (id) WITH (train = false);", CREATED),
        (f"SHOW INDEXES FROM {T};", INDEXES),
        (f"ALTER TABLE {T} REFRESH INDEX late;", REFRESHED),
    ],
    "drop-index": [(MADE_BY_B, CREATED), (f"ALTER TABLE {T} DROP INDEX by_id;", ["index_name", "status"])],
    "create-tag": [
        (f"ALTER TABLE {T} CREATE TAG rc;", ["name"]),
        (f"ALTER TABLE {T} CREATE TAG IF NOT EXISTS rc_5 AS OF VERSION 5;", ["name"]),
        (f"ALTER TABLE {T} CREATE TAG snap AS OF BRANCH trial;", ["name"]),
        (f"ALTER TABLE {T} CREATE TAG snap_6 AS OF BRANCH trial VERSION 6;", ["name"]),
        (f"ALTER TABLE {T} CREATE TAG twin AS OF TAG release;", ["name"]),
        (f"SHOW TAGS FROM {T};", TAGS),
        (f"ALTER TABLE {T} DROP TAG rc;", ["name"]),
        (f"ALTER TABLE {T} DROP TAG IF EXISTS rc;", ["name"]),
    ],
    "create-branch": [
        (f"ALTER TABLE {T} CREATE BRANCH feature;", ["name"]),
        (f"ALTER TABLE {T} CREATE BRANCH IF NOT EXISTS at_5 AS OF VERSION 5;", ["name"]),
        (f"ALTER TABLE {T} CREATE BRANCH b AS OF BRANCH trial;", ["name"]),
        (f"ALTER TABLE {T} CREATE BRANCH b_6 AS OF BRANCH trial VERSION 6;", ["name"]),
        (f"ALTER TABLE {T} CREATE BRANCH mend AS OF TAG release;", ["name"]),
        (f"SHOW BRANCHES FROM {T};", BRANCHES),
        (f"ALTER TABLE {T} DROP BRANCH feature;", ["name"]),
        (f"ALTER TABLE {T} DROP BRANCH IF EXISTS feature;", ["name"]),
    ],
    "alter-table": [
        (f"ALTER TABLE {T} SET TBLPROPERTIES ('team' = 'data-eng', 'env' = 'production');", []),
        (f"ALTER TABLE {T} SET TBLPROPERTIES ('env' = 'staging');", []),
        (f"ALTER TABLE {T} UNSET TBLPROPERTIES ('env');", []),
        (f"ALTER TABLE {T} UNSET TBLPROPERTIES ('team', 'env');", []),
        (f"ALTER TABLE {T} ADD COLUMN age INT;", []),
        (f"ALTER TABLE {T} ADD COLUMNS (size DECIMAL(12, 2), email STRING);", []),
        (f"ALTER TABLE {T} DROP COLUMN age;", []),
        (f"ALTER TABLE {T} DROP COLUMN IF EXISTS age;", []),
        (f"ALTER TABLE {T} RENAME COLUMN name TO full_name;", []),
        (f"ALTER TABLE {T} ALTER COLUMN id DROP NOT NULL;", []),
    ],
    "primary-key": [(f"ALTER TABLE {T} SET UNENFORCED PRIMARY KEY (id);", KEY)],
    "primary-key-of-two": [(f"ALTER TABLE {T} SET UNENFORCED PRIMARY KEY (id, code);", KEY)],
    "update": [
        (
            (
                f"UPDATE {T} SET metadata = named_struct('source', 'ios', 'version', 1, 'processed_at', "
                "timestamp'2024-01-15 13:00:00') WHERE id = 1;"
            ),
            AFFECTED,
        ),
        (
            (
                f"UPDATE {T} SET metadata = named_struct('source', metadata.source, 'version', 2, "
                "'processed_at', timestamp'2024-01-15 13:00:00') WHERE id = 1;"
            ),
            AFFECTED,
        ),
        (f"UPDATE {T} SET tags = ARRAY('ios', 'mobile') WHERE id = 1;", AFFECTED),
        (f"UPDATE {T} SET name = 'Updated Name' WHERE id = 4;", AFFECTED),
        (f"DELETE FROM {T} WHERE id = 4;", AFFECTED),
        (f"DELETE FROM {T};", AFFECTED),
    ],
}


@pytest.fixture
def uri(tmp_path: Path) -> str:
    path = str(tmp_path / "people.lance")
    fields = [pa.field("id", pa.int64(), nullable=False), pa.field("code", pa.string(), nullable=False)]
    metadata = pa.struct(
        [("source", pa.string()), ("version", pa.int32()), ("processed_at", pa.timestamp("us", "UTC"))]
    )
    point = pa.struct([("x", pa.float64()), ("y", pa.float64())])
    schema = pa.schema(
        [
            *fields,
            pa.field("name", pa.string()),
            pa.field("tags", pa.list_(pa.string())),
            pa.field("metadata", metadata),
            pa.field("vector", pa.list_(pa.float32(), 8)),
            pa.field("place", point, metadata={"ARROW:extension:name": "geoarrow.point"}),
        ]
    )
    for number in range(6):
        row = {
            "id": number,
            "code": f"c{number}",
            "name": f"name {number}",
            "tags": ["web"],
            "metadata": {"source": "web", "version": 0},
            "vector": [float(number * place) for place in range(8)],
            "place": {"x": float(number), "y": 0.5},
        }
        lo.append(path, pa.Table.from_pylist([row], schema=schema))
    lo.create_tag(path, "release")
    lo.create_branch(path, "trial")
    return path


@pytest.mark.parametrize("page", PAGES)
def test_each_form_on_a_page_of_the_connector_runs_and_answers_with_its_columns(uri, page):
    for statement, columns in PAGES[page]:
        found = lo.sql(statement, tables={T: uri})
        assert found.schema.names == columns, statement
        assert found.num_rows >= (1 if columns and "SHOW INDEX" not in statement else 0), statement
    assert lo.fsck(uri).ok


def test_a_primary_key_is_declared_once_and_a_merge_takes_it(uri):
    declare = f"ALTER TABLE {T} SET UNENFORCED PRIMARY KEY"
    for columns, why in (("(name)", "is nullable"), ("(id, id)", "duplicate column"), ("(gone)", "gone")):
        with pytest.raises(LanceOpsError, match=why):
            lo.sql(f"{declare} {columns}", tables={T: uri})
    done = lo.sql(f"{declare} (code, id)", tables={T: uri}).to_pylist()
    assert done == [{"status": "OK", "primary_key_columns": "code,id"}]
    with pytest.raises(InvalidArgumentError, match="already has a primary key: code, id"):
        lo.sql(f"{declare} (id)", tables={T: uri})
    rows = [{"id": 3, "code": "c3", "name": "new"}, {"id": 3, "code": "other", "name": "more"}]
    source = pa.Table.from_pylist(rows, schema=lo.dataset(uri).schema)
    merged = lo.merge_insert(uri, source, when_matched="update_all", when_not_matched="insert_all")
    assert (merged.on, merged.rows_updated, merged.rows_inserted) == (("code", "id"), 1, 1)


def test_columns_that_are_added_are_null_and_have_their_types(uri):
    lo.sql(f"ALTER TABLE {T} ADD COLUMNS (a DECIMAL(12, 2), b timestamp, c TINYINT)", tables={T: uri})
    added = lo.dataset(uri).to_table(["a", "b", "c"])
    assert added.schema.types == [pa.decimal128(12, 2), pa.timestamp("us", "UTC"), pa.int8()]
    assert [column.null_count for column in added.columns] == [6, 6, 6]
    lo.sql(f"ALTER TABLE {T} ALTER COLUMN code DROP NOT NULL", tables={T: uri})
    assert lo.dataset(uri).schema.field("code").nullable


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        # What the documentation has and no operation here does: said before anything happens.
        (f"ALTER TABLE {T} CREATE INDEX two USING btree (id, name);", "one column"),
        (f"ALTER TABLE {T} UPDATE COLUMNS name FROM news;", "MERGE INTO"),
        (f"ALTER TABLE {T} ADD COLUMN more ARRAY", "lance_ops.add_columns"),
        (f"ALTER TABLE {T} ADD COLUMN age INT FIRST", "comes last"),
        (f"ALTER TABLE {T} ADD COLUMNS (age INT AFTER id, size INT)", "comes last"),
        (f"ALTER TABLE {T} ADD COLUMN age INT DEFAULT 3", "comes last and is null"),
        (
            f"ALTER TABLE {T} CREATE INDEX v USING ivf_flat (vector) WITH (train = false)",
            "be trained on rows",
        ),
        (f"REPLACE {T} WHERE id = 3 AS SELECT 3", "spark=..."),
    ],
)
def test_forms_that_have_no_operation_here_say_what_to_do_instead(uri, statement, message):
    before = lo.dataset(uri).version
    with pytest.raises(UnsupportedError, match=message):
        lo.sql(statement, tables={T: uri})
    assert lo.dataset(uri).version == before


@pytest.mark.parametrize("option", ["train = false", "build_mode = 'range'", "rows_per_range = 9"])
def test_a_refresh_takes_no_option_of_a_whole_build(uri, option):
    lo.sql(MADE_BY_B, tables={T: uri})
    with pytest.raises(InvalidArgumentError, match="unknown option"):
        lo.sql(f"ALTER TABLE {T} REFRESH INDEX by_id WITH ({option})", tables={T: uri})


def test_an_index_that_is_not_trained_covers_nothing_before_it_is_refreshed(uri):
    def run(statement):
        return lo.sql(statement, tables={T: uri}).to_pylist()

    create = f"ALTER TABLE {T} CREATE INDEX late USING zonemap (id) WITH"
    with pytest.raises(InvalidArgumentError, match="no segments yet"):
        run(f"{create} (train = false, num_segments = 8)")
    assert run(f"{create} (train = false, rows_per_zone = 2)") == [
        {"fragments_indexed": 0, "index_name": "late"}
    ]
    (shown,) = run(f"SHOW INDEXES FROM {T}")
    assert (shown["num_indexed_rows"], shown["num_unindexed_fragments"]) == (0, 6)
    assert lo.dataset(uri).count_rows("id = 4") == 1
    assert lance.dataset(uri).count_rows("id = 4") == 1
    (refreshed,) = run(f"ALTER TABLE {T} REFRESH INDEX late")
    assert (refreshed["fragments_indexed"], refreshed["segments_added"]) == (6, 1)
    (shown,) = run(f"SHOW INDEXES FROM {T}")
    assert (shown["num_indexed_rows"], shown["num_unindexed_fragments"]) == (6, 0)


def test_updates_write_structs_and_lists(uri):
    for values, condition in (
        ("metadata = named_struct('source', 'ios', 'version', 1, 'processed_at', NULL)", "id = 1"),
        ("metadata = named_struct('version', id, 'processed_at', NULL, 'source', metadata.source)", "id = 2"),
        ("tags = ARRAY('ios', name), vector = ARRAY(1, 2, 3, 4, 5, 6, 7, 8.5)", "id = 3"),
    ):
        lo.sql(f"UPDATE {T} SET {values} WHERE {condition}", tables={T: uri})
    for found in (lo.dataset(uri), lance.dataset(uri)):
        rows = {row["id"]: row for row in found.to_table().to_pylist()}
        assert rows[1]["metadata"] == {"source": "ios", "version": 1, "processed_at": None}
        assert rows[2]["metadata"] == {"source": "web", "version": 2, "processed_at": None}
        assert rows[3]["tags"] == ["ios", "name 3"]
        assert rows[3]["vector"] == [1, 2, 3, 4, 5, 6, 7, 8.5]
    before = lo.dataset(uri).version
    for value in ("named_struct('source', 'x')", "named_struct('source', 1, 'version', 'x')", "ARRAY(1)"):
        with pytest.raises(LanceOpsError):
            lo.sql(f"UPDATE {T} SET metadata = {value}", tables={T: uri})
    with pytest.raises(LanceOpsError, match=r"no int32|no struct"):
        lo.sql(
            f"UPDATE {T} SET metadata = named_struct('source', name, 'version', 3000000000,"
            " 'processed_at', NULL) WHERE id = 1",
            tables={T: uri},
        )
    assert lo.dataset(uri).version == before
