"""contains_tokens(column, 'words') as a filter: narrowed by a full-text index, with the answers of a scan."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_ops as lo

TEXTS = [
    "The quick brown fox",
    "a quick-brown dog",
    "quickly",
    None,
    "",
    "Fox, quick! der Fuchs",
    "ΦΟΞ quick a\u0301b",
]
ASKED = ("quick", "Fox", "fox", "quick brown", "the", "quick-brown", "nothing", "", "!", "quick zebra", "ΦΟΞ")

pytestmark = pytest.mark.peer


def answers(dataset: lo.Dataset, words: str, **options: bool) -> list[int]:
    return dataset.to_table(columns=["id"], filter=f"contains_tokens(s, '{words}')", **options)[
        "id"
    ].to_pylist()


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "row ids"])
@pytest.mark.parametrize(
    "parameters",
    [{}, {"stem": True, "remove_stop_words": True}, {"lower_case": False}, {"base_tokenizer": "whitespace"}],
    ids=str,
)
def test_an_index_gives_what_a_scan_gives_and_the_peer(tmp_path: Path, parameters, stable) -> None:
    uri = tmp_path / "t.lance"
    # Words of most rows are better looked for by a scan.
    texts = [*TEXTS, *["something else"] * 20]
    rows = pa.table({"id": range(len(texts)), "s": texts})
    lo.write_dataset(rows, uri, enable_stable_row_ids=stable)
    lo.create_index(uri, "s", "INVERTED", parameters={"with_position": False, **parameters})
    lo.append(uri, pa.table({"id": [1000], "s": ["a Fox came late, quick"]}))
    lo.delete(uri, "id = 5")
    dataset, peer = lo.dataset(uri), lance.dataset(str(uri))
    for words in ASKED:
        found = answers(dataset, words)
        assert found == answers(dataset, words, use_scalar_index=False), words
        expected = peer.to_table(
            columns=["id"], filter=f"contains_tokens(s, '{words}')", use_scalar_index=False
        )
        assert found == expected["id"].to_pylist(), words


def test_the_plan_says_that_the_index_is_asked_and_rows_are_looked_at_again(tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    lo.write_dataset(pa.table({"s": [*TEXTS, *["something else"] * 20]}), uri)
    lo.create_index(uri, "s", "INVERTED", parameters={"with_position": False})
    plan = lo.dataset(uri).explain(filter="contains_tokens(s, 'Fuchs')")
    assert "INVERTED" in plan
    assert "INVERTED" not in lo.dataset(uri).explain(filter="contains_tokens(s, '!')")
