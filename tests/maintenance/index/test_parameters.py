"""Parameters of indices as keyword arguments of `create_index`: typed, for each kind its own."""

import numpy as np
import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import InvalidArgumentError, UnknownArgumentError
from lance_ops.file.schema.model import Schema
from lance_ops.index.inverted.tokenizers.parameters import CODE
from lance_ops.index.registry import kind_by_name
from lance_ops.maintenance.index import operation

TABLE = pa.table(
    {
        "id": range(300),
        "s": [f"word{number} and" for number in range(300)],
        "v": pa.FixedSizeListArray.from_arrays(
            np.random.default_rng(1).random(300 * 8, np.float32).astype(np.float32), 8
        ),
    }
)


@pytest.fixture(scope="module")
def uri(tmp_path_factory):
    uri = str(tmp_path_factory.mktemp("parameters") / "t.lance")
    lo.append(uri, TABLE)
    return uri


def planned(uri, column, kind, **options):
    plan = lo.create_index(uri, column, kind, dry_run=True, **options)
    return plan.segments[0].parameters


def test_parameters_are_keyword_arguments_by_the_names_of_pylance(uri):
    given = {"num_partitions": 64, "metric": "cosine", "num_sub_vectors": 2}
    assert planned(uri, "v", "IVF_PQ", **given) == planned(uri, "v", "IVF_PQ", parameters=given)
    assert planned(uri, "v", "IVF_PQ", num_partitions=64)["num_partitions"] == 64
    assert planned(uri, "v", "IVF_FLAT", distance_type="dot", max_iterations=7) == planned(
        uri, "v", "IVF_FLAT", parameters={"metric": "dot", "max_iters": 7}
    )
    assert planned(uri, "s", "INVERTED", stem=False, with_position=True)["with_position"] is True
    assert planned(uri, "id", "ZONEMAP", rows_per_zone=100) == {"rows_per_zone": 100}
    assert planned(uri, "id", "BLOOMFILTER", probability=0.1, parameters={"number_of_items": 9}) == {
        "number_of_items": 9,
        "probability": 0.1,
    }


def test_an_index_with_keyword_parameters_is_built(uri):
    given = {"num_partitions": 2, "metric": "cosine", "num_sub_vectors": 2}
    done = lo.create_index(uri, "v", "IVF_PQ", name="pq", **given)
    assert done.rows_indexed == 300
    found = lo.index_statistics(uri, "pq")
    assert found["indices"][0]["metric_type"] == "cosine"


@pytest.mark.parametrize(
    ("kind", "options", "error", "message"),
    [
        ("IVF_PQ", {"num_partition": 4}, UnknownArgumentError, "did you mean 'num_partitions'"),
        ("INVERTED", {"with_positions": True}, UnknownArgumentError, "did you mean 'with_position'"),
        ("BTREE", {"num_partitions": 4}, InvalidArgumentError, "BTREE has no parameter 'num_partitions'"),
        ("ZONEMAP", {"probability": 0.1}, InvalidArgumentError, "ZONEMAP has no parameter 'probability'"),
        ("ZONEMAP", {"rows_per_zone": "a"}, InvalidArgumentError, "rows_per_zone"),
        (
            "ZONEMAP",
            {"rows_per_zone": 5, "parameters": {"rows_per_zone": 5}},
            InvalidArgumentError,
            "'rows_per_zone' twice",
        ),
    ],
)
def test_a_parameter_that_the_kind_does_not_have_is_refused(uri, kind, options, error, message):
    column = {"IVF_PQ": "v", "INVERTED": "s"}.get(kind, "id")
    with pytest.raises(error, match=message):
        lo.create_index(uri, column, kind, dry_run=True, **options)


FIELDS = Schema.from_arrow(TABLE.schema).fields
# What follows from the kind or the files, not from the user.
DERIVED = {"index_type", "vocabulary"}
TYPED = {
    "INVERTED": (operation.InvertedParameters, 1, {"base_tokenizer": CODE}),
    "ZONEMAP": (operation.ZoneMapParameters, 0, {}),
    "BLOOMFILTER": (operation.BloomFilterParameters, 0, {}),
    "RTREE": (operation.RTreeParameters, 0, {}),
    "JSON": (operation.JsonParameters, 1, {"path": "a"}),
    "BTREE": (operation.BTreeParameters, 0, {}),
}


@pytest.mark.parametrize("kind", TYPED)
def test_the_typed_keywords_are_those_that_the_kind_takes(kind):
    typed, field, given = TYPED[kind]
    found = set(kind_by_name(kind).parameters(FIELDS[field], given))
    assert found - DERIVED == set(getattr(typed, "__annotations__", ()))


def test_the_typed_keywords_of_vectors_are_those_that_some_kind_takes():
    kinds = ("IVF_FLAT", "IVF_SQ", "IVF_PQ", "IVF_RQ", "IVF_HNSW_PQ")
    found = set().union(*(kind_by_name(kind).parameters(FIELDS[2], {}) for kind in kinds))
    assert found - DERIVED == set(operation.VectorParameters.__annotations__)
