"""Upper and lower case are those of the peer, character by character and in context."""

import random

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.filter import evaluate_values, parse_value
from lance_ops.filter.functions.cases import initcap, lower, upper

lance = pytest.importorskip("lance")
pytestmark = pytest.mark.peer

WORDS = [
    "Straße",
    "ﬁn",
    "İI",
    "ΑΣ",
    "ΑΣ.",
    "ΣΑΣ ΑΣ",
    "ΑΣʹ",
    "Σ",
    "ǆ",
    "ŉa",
    "ΐ",
    "ẞ",
    "\u017f",
    "K",
    "Å",
    "\u0131",
    "abc",
    "",
    None,
]
ODD = "aAΣ\u03c3ςß'İıʹ\u0345\u0301ﬁǅŉ .1_-ⅷ²"
FUNCTIONS = {"upper": upper, "lower": lower, "initcap": initcap}


@pytest.fixture(scope="module")
def texts() -> pa.Array:
    points = [point for point in range(1, 0x110000) if not 0xD800 <= point <= 0xDFFF]
    runs = ["".join(map(chr, points[start : start + 64])) for start in range(0, len(points), 64)]
    rng = random.Random(1)
    mixed = ["".join(rng.choices(ODD, k=rng.randint(1, 9))) for _ in range(2_000)]
    return pa.array([*WORDS, *runs, *mixed])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_character_changes_case_as_with_the_peer(texts, tmp_path, name):
    uri = str(tmp_path / "texts.lance")
    theirs = lance.write_dataset(pa.table({"s": texts}), uri).to_table(columns={"c": f"{name}(s)"})["c"]
    for kind in (pa.string(), pa.large_string())[: 2 if name == "upper" else 1]:
        rows = pa.table({"s": texts.cast(kind)})
        ours = evaluate_values(parse_value(f"{name}(s)", rows.schema), rows)
        assert ours.type == kind
        assert ours.to_pylist() == theirs.to_pylist()
    assert [None if text is None else FUNCTIONS[name](text) for text in WORDS] == theirs.to_pylist()[
        : len(WORDS)
    ]


@pytest.mark.parametrize("kind", [None, "BTREE", "NGRAM"])
def test_a_filter_selects_by_the_full_mapping_with_and_without_an_index(tmp_path, kind):
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(pa.table({"id": range(len(WORDS)), "s": WORDS}), uri)
    if kind:
        lo.create_index(uri, "s", kind)
    peer = lance.dataset(uri)
    for sql in (
        "upper(s) = 'STRASSE'",
        "upper(s) IN ('FIN', 'ŸX')",
        "lower(s) = 'i̇i'",
        "lower(s) = 'ας'",
        "lower(s) LIKE '%ς%'",
        "contains(lower(s), 'σας')",
        "upper(s) <> s",
        "s ILIKE 'straße' OR s ILIKE 'STRASSE'",
        "initcap(s) = 'Ας'",
    ):
        found = lo.dataset(uri).to_table(["id"], sql)["id"].to_pylist()
        assert found == peer.to_table(columns=["id"], filter=sql)["id"].to_pylist(), sql
    assert lo.delete(uri, "upper(s) = 'STRASSE'").rows_deleted == 1
