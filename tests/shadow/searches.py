"""Vector and full-text search, with and without indices, filters and deletions."""

import lance
import numpy as np
import pyarrow as pa
from lance.query import (
    BooleanQuery,
    BoostQuery,
    FullTextOperator,
    MatchQuery,
    MultiMatchQuery,
    Occur,
    PhraseQuery,
)

ROWS = 600
VECTORS = np.random.default_rng(3).normal(size=(ROWS, 16)).astype("float32")
TEXTS = [f"red apple {n % 7} word{n % 13}" if n % 3 else f"green pear {n % 5}, an apple" for n in range(ROWS)]
QUERIES = [
    "apple",
    "word3 pear",
    MatchQuery("aple", "text", fuzziness=1),
    MatchQuery("red pear", "text", operator=FullTextOperator.AND, boost=2.0),
    BoostQuery(MatchQuery("apple", "text"), MatchQuery("word3", "text"), negative_boost=0.2),
    BooleanQuery([(Occur.MUST, MatchQuery("apple", "text")), (Occur.MUST_NOT, MatchQuery("word3", "text"))]),
    MatchQuery("pear", "text") | MatchQuery("word5", "text"),
    MultiMatchQuery("apple word4", ["text"], boosts=[1.5]),
    {"query": "apple", "columns": ["text"]},
]


def nearest(dataset: lance.LanceDataset) -> None:
    for metric in ("l2", "cosine", "dot"):
        query = {"column": "vector", "q": VECTORS[3], "k": 7, "metric": metric}
        dataset.to_table(columns=["id", "_distance"], nearest=query)
        dataset.to_table(columns=["id", "_distance"], nearest=query, filter="id < 100", prefilter=True)
        dataset.to_table(columns=["id", "_distance"], nearest=query, filter="id < 300", with_row_id=True)
    several = {"column": "vector", "q": VECTORS[:3], "k": 4}
    dataset.scanner(columns=["id", "_distance"], nearest=several).to_table()
    far = {"column": "vector", "q": VECTORS[9], "distance_range": (1.0, 20.0), "refine_factor": 2}
    dataset.to_table(columns=["id", "_distance"], nearest=far, fast_search=True)


def words(dataset: lance.LanceDataset, *more: object) -> None:
    for query in (*QUERIES, *more):
        dataset.to_table(full_text_query=query, columns=["id", "_score"], limit=10)
        dataset.to_table(full_text_query=query, columns=["id", "_score"], filter="id < 90", prefilter=True)
        dataset.scanner(full_text_query=query, columns=["id", "_score"], fast_search=True).to_table()


table = pa.table(
    {
        "id": range(ROWS),
        "text": TEXTS,
        "vector": pa.FixedSizeListArray.from_arrays(VECTORS.reshape(-1), 16),
    }
)
made = lance.write_dataset(table.slice(0, 500), "searches.lance", max_rows_per_file=200)
nearest(made)
made.create_index("vector", "IVF_PQ", num_partitions=2, num_sub_vectors=4)
made.create_scalar_index("text", "INVERTED", with_position=True)
made.insert(table.slice(500))
made.delete("id % 7 = 2")
nearest(made)
words(made, PhraseQuery("red apple", "text"))
made.optimize.optimize_indices()
nearest(made)
