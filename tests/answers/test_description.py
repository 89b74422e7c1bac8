"""describe: a dataset on one screen."""

import json

import pyarrow as pa

import lance_ops as lo


def test_a_dataset_is_described_on_one_screen(tmp_path):
    uri = str(tmp_path / "t.lance")
    schema = pa.schema(
        [pa.field("id", pa.int64(), nullable=False), pa.field("k", pa.string(), metadata={"a": "b"})]
    )
    lo.write_dataset(pa.table({"id": range(10), "k": ["x"] * 10}, schema=schema), uri)
    lo.create_index(uri, "id")
    lo.create_tag(uri, "first", 1)
    lo.delete(uri, "id < 5")
    found = lo.describe(uri)
    assert [(item.name, item.type, item.nullable) for item in found.columns] == [
        ("id", "int64", False),
        ("k", "string", True),
    ]
    assert found.columns[1].metadata == {"a": "b"}
    assert (found.health.rows, found.health.live_versions, found.version) == (5, 3, 3)
    text = str(found)
    for part in ("id_idx", "first = 1", "5 (5 deleted ones are still stored)", "compact", "50.0% of rows"):
        assert part in text
    assert len(text.splitlines()) < 24
    assert json.loads(json.dumps(found.to_dict()))["maintenance"]["compact"]["due"] is True


def test_a_healthy_dataset_and_an_old_version_are_described(tmp_path):
    uri = str(tmp_path / "t.lance")
    lo.append(uri, pa.table({"id": [1]}))
    lo.append(uri, pa.table({"id": [2]}))
    assert "nothing is due" in str(lo.describe(lo.dataset(uri, 1)))
    assert lo.describe(lo.dataset(uri, 1)).health.rows == 1
