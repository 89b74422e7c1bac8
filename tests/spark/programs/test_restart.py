"""A catalogue that outlives the session."""

import pytest

from tests.support.spark import run_script

pytestmark = pytest.mark.spark


@pytest.mark.slow
def test_tables_are_there_after_a_restart(tmp_path):
    """With a catalogue that outlives the session, as every cluster has one."""
    script = f"""
        from lance_ops.spark import build_session
        derby = "jdbc:derby:;databaseName={tmp_path}/db;create=true"
        config = {{
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.javax.jdo.option.ConnectionURL": derby,
            "spark.sql.warehouse.dir": "file:{tmp_path}/warehouse",
        }}
        spark = build_session(master="local[1]", config=config)
        made = spark.catalog.tableExists("kept")
        if not made:
            spark.sql("CREATE TABLE kept USING lance AS SELECT id FROM range(3)")
            spark.sql("CREATE TABLE outside (id BIGINT) USING lance LOCATION '{tmp_path}/o.lance'")
            spark.sql("INSERT INTO outside VALUES (7)")
        print("rows", made, spark.table("kept").count(), spark.table("outside").collect()[0].id)
        spark.stop()
    """
    (tmp_path / "cwd").mkdir()
    said = [run_script(script, cwd=tmp_path / "cwd").stdout for _ in range(2)]
    assert ["rows False 3 7" in said[0], "rows True 3 7" in said[1]] == [True, True]
