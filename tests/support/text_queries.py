"""Random texts, and random full-text queries for the peer and for us, compared by rows and scores."""

import random
from typing import Any

import pyarrow as pa
from lance import query as peer_query

from lance_ops.index.inverted import query as our_query
from lance_ops.index.inverted.query import leaves
from tests.support.text_search import same_hits, search_ours, search_peer

WORDS = (
    "cat",
    "cats",
    "dog",
    "running",
    "run",
    "the",
    "over",
    "fox",
    "Ünïcode",
    "x1",
    "ant",
    "bee",
    "big",
    "bug",
)
_UNKNOWN = "zebra"


def random_texts(generator: random.Random, rows: int) -> pa.Array:
    """Short texts, a few long ones, nulls and empty ones."""
    texts: list[str | None] = []
    for _ in range(rows):
        if generator.random() < 0.05:
            texts.append(None)
            continue
        long = generator.random() < 0.03
        texts.append(" ".join(generator.choices(WORDS, k=300 if long else generator.randint(0, 9))))
    return pa.array(texts, pa.string())


def random_query(generator: random.Random, *, positions: bool, depth: int = 0) -> tuple[Any, Any]:
    """The same query for the peer and for us."""
    kind = generator.random() * (1 if depth < 2 else 0.75)
    text = " ".join(generator.choices([*WORDS, _UNKNOWN], k=generator.randint(1, 3)))
    operator = generator.choice(["AND", "OR"])
    theirs = peer_query.FullTextOperator(operator)
    if kind < 0.4 or (0.55 <= kind < 0.75 and not positions):
        boost = generator.choice([1.0, 2.5])
        return (
            peer_query.MatchQuery(text, "t", boost=boost, operator=theirs),
            our_query.MatchQuery(text, "t", boost=boost, operator=operator),
        )
    if kind < 0.55:
        fuzzy = {"fuzziness": generator.choice([1, 2]), "prefix_length": generator.choice([0, 1])}
        return (
            peer_query.MatchQuery(text, "t", operator=theirs, **fuzzy),
            our_query.MatchQuery(text, "t", operator=operator, **fuzzy),
        )
    if kind < 0.75:
        # With slop and three words the peer overlooks rows that it finds where no index covers them.
        slop = generator.choice([0, 1, 2]) if text.count(" ") < 2 else 0
        return peer_query.PhraseQuery(text, "t", slop=slop), our_query.PhraseQuery(text, "t", slop)
    parts = [random_query(generator, positions=positions, depth=depth + 1) for _ in range(4)]
    if kind < 0.85:
        (one, ours), (other, our_other) = parts[:2]
        return (
            peer_query.BoostQuery(one, other, negative_boost=0.4),
            our_query.BoostQuery(ours, our_other, 0.4),
        )
    occur = [peer_query.Occur.SHOULD, *generator.choices(list(peer_query.Occur), k=3)]
    return (
        peer_query.BooleanQuery([(where, part) for where, (part, _) in zip(occur, parts, strict=True)]),
        our_query.BooleanQuery(
            *(
                tuple(part for where, (_, part) in zip(occur, parts, strict=True) if where is wanted)
                for wanted in (peer_query.Occur.MUST, peer_query.Occur.SHOULD, peer_query.Occur.MUST_NOT)
            )
        ),
    )


def check_searches(
    generator: random.Random, uri: str, *, positions: bool, unindexed: bool = False, queries: int = 6
) -> None:
    """Some queries find the same rows with the same scores as in the peer."""
    for _ in range(queries):
        theirs, ours = random_query(generator, positions=positions)
        fuzzy = any(getattr(leaf, "fuzziness", 0) for leaf in leaves(ours))
        if fuzzy and unindexed:
            # The peer looks for words as they are written where no index covers the rows.
            continue
        assert same_hits(search_ours(uri, ours), search_peer(uri, theirs)), ours
