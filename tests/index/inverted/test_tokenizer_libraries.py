"""Tokenizers of libraries: what is missing is named before anything is written."""

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

import lance_ops as lo
from lance_ops.errors import MissingExtraError, UnreadableIndexError, UnsupportedError
from lance_ops.index.inverted.tokenizers import jieba
from lance_ops.index.inverted.tokenizers.analyzer import Analyzer
from lance_ops.index.inverted.tokenizers.parameters import TextParameters

DICTIONARY = "中国 10 ns\r\n科学院 5 nt\n"
OF_PYLANCE = {
    "小明硕士毕业于中国科学院计算所": [
        ("小明", 0),
        ("硕士", 2),
        ("毕业", 4),
        ("于", 6),
        ("中国", 7),
        ("科学", 9),
        ("学院", 10),
        ("科学院", 9),
        ("中国科学院", 7),
        ("计算", 12),
        ("计算所", 12),
    ],
    "hello, World-1.5 x_y": [
        ("hello", 0),
        (",", 5),
        (" ", 6),
        ("world-1", 7),
        (".", 14),
        ("5", 15),
        (" ", 16),
        ("x", 17),
        ("_", 18),
        ("y", 19),
    ],
}
"""Recorded from release 14.0.2 with the dictionary of jieba."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of models with one for each library."""
    monkeypatch.setenv("LANCE_LANGUAGE_MODEL_HOME", str(tmp_path / "models"))
    for name, content in (
        ("jieba/default/dict.txt", DICTIONARY),
        ("lindera/ipadic/config.yml", "segmenter:"),
    ):
        path = tmp_path / "models" / name
        path.parent.mkdir(parents=True)
        path.write_text(content)
    return tmp_path / "models"


@pytest.fixture
def libraries(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """Stand-ins: jieba finds pairs of characters and, longer, both; Lindera single characters."""

    def pairs(text: str, mode: str, hmm: bool) -> list[tuple[str, int, int]]:
        assert (mode, hmm) == ("search", True)
        found = [(text[at : at + 2], at, at + 2) for at in range(0, len(text), 2)]
        return [*found, (text, 0, len(text))] if len(found) > 1 else found

    class Builder:
        def from_file(self, path: str) -> "Builder":
            assert path == str(home / "lindera/ipadic/config.yml")
            return self

        def build(self) -> "Builder":
            return self

        def tokenize(self, text: str) -> list[SimpleNamespace]:
            return [SimpleNamespace(surface=letter, position=at) for at, letter in enumerate(text)]

    monkeypatch.setitem(sys.modules, "rjieba", SimpleNamespace(tokenize=pairs))
    fake = SimpleNamespace(TokenizerBuilder=Builder, version=lambda: "3.0.7")
    monkeypatch.setitem(sys.modules, "lindera", fake)
    path = home / "jieba/default/dict.txt"
    monkeypatch.setattr(jieba, "_KNOWN", jieba._digest(path, path.stat().st_mtime_ns))


def table(*texts: str) -> pa.Table:
    return pa.table({"id": range(len(texts)), "t": texts})


def ids(uri: str, query: dict[str, object]) -> list[int]:
    return sorted(lo.dataset(uri).to_table(["id"], full_text_query=query)["id"].to_pylist())


@pytest.mark.parametrize(
    ("tokenizer", "module"), [("jieba/default", "rjieba"), ("jieba", "rjieba"), ("lindera/ipadic", "lindera")]
)
def test_a_missing_library_is_named_before_anything_is_written(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, tokenizer: str, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(table("a"), uri)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(MissingExtraError, match=tokenizer.partition("/")[0]) as caught:
        lo.create_index(uri, "t", "INVERTED", parameters={"base_tokenizer": tokenizer})
    assert caught.value.hint == f"pip install 'lance-ops[{tokenizer.partition('/')[0]}]'"
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize(
    ("tokenizer", "file", "content"),
    [
        ("jieba/other", "", ""),
        ("jieba/default", "jieba/default/dict.txt", DICTIONARY + "新词 3 n\n"),
        ("jieba/default", "jieba/default/dict.txt", DICTIONARY.replace("10", "11")),
        ("jieba/default", "jieba/default/config.json", '{"users": ["mine.txt"]}'),
        ("jieba/default", "jieba/default/config.json", '{"main": "missing.txt"}'),
        ("jieba/default", "jieba/default/config.json", "[1]"),
        ("lindera/other", "", ""),
    ],
)
def test_models_that_cannot_be_used_are_refused(home: Path, tokenizer: str, file: str, content: str) -> None:
    if file:
        (home / file).write_text(content)
    with pytest.raises(UnsupportedError, match=tokenizer) as caught:
        TextParameters(base_tokenizer=tokenizer).require_known()
    assert caught.value.field == "base_tokenizer"


@pytest.mark.usefixtures("libraries")
def test_user_dictionaries_are_refused_before_anything_is_written(tmp_path: Path, home: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(table("科学", "中国科学"), uri)
    config = home / "jieba/default/config.json"
    config.write_text('{"users": ["mine.txt"]}')
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UnsupportedError, match=r"user dictionaries \(\['mine.txt'\]\)"):
        lo.create_index(uri, "t", "INVERTED", parameters={"base_tokenizer": "jieba/default"})
    assert sorted(tmp_path.rglob("*")) == before
    config.unlink()
    lo.create_index(uri, "t", "INVERTED", parameters={"base_tokenizer": "jieba/default"})
    config.write_text('{"users": ["mine.txt"]}')
    before = sorted(tmp_path.rglob("*"))
    assert "user dictionaries" in lo.optimize_indices(uri, rebuild=True).skipped[0]
    with pytest.raises(UnreadableIndexError, match="user dictionaries"):
        lo.create_index(uri, "t", "INVERTED", replace=True)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.usefixtures("libraries")
def test_another_release_of_lindera_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    TextParameters(base_tokenizer="lindera/ipadic").require_known()
    monkeypatch.setattr(sys.modules["lindera"], "version", lambda: "6.2.0")
    with pytest.raises(UnsupportedError, match=r"6\.2\.0 is installed"):
        TextParameters(base_tokenizer="lindera/ipadic").require_known()


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("tokenizer", ["jieba/default", "jieba", "lindera/ipadic"])
def test_words_are_searched_and_found_before_and_after_a_refresh(tmp_path: Path, tokenizer: str) -> None:
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(table("中国科学院所", "小明中国", "硕士"), uri)
    parameters = {"base_tokenizer": tokenizer, "with_position": True}
    lo.create_index(uri, "t", "INVERTED", name="x", parameters=parameters)
    lo.append(uri, pa.table({"id": [3, 4], "t": ["中国科学院所", None]}))
    for _ in range(2):
        assert ids(uri, {"match": {"column": "t", "terms": "中国"}}) == [0, 1, 3]
        assert ids(uri, {"match": {"column": "t", "terms": "中国科学", "operator": "AND"}}) == [0, 3]
        assert ids(uri, {"phrase": {"column": "t", "terms": "中国科学院所"}}) == [0, 3]
        assert lo.optimize_indices(uri).skipped == ()
    assert lo.describe_indices(lo.dataset(uri))[0].num_rows_unindexed == 0
    assert lo.fsck(uri, deep=True).ok


@pytest.mark.usefixtures("libraries")
def test_an_index_whose_library_is_gone_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = str(tmp_path / "t.lance")
    lo.write_dataset(table("中国", "小明"), uri, max_rows_per_file=1)
    lo.create_index(uri, "t", "INVERTED", name="x", parameters={"base_tokenizer": "jieba/default"})
    monkeypatch.setitem(sys.modules, "rjieba", None)
    lo.append(uri, table("中国"))
    with pytest.raises(MissingExtraError):
        ids(uri, {"match": {"column": "t", "terms": "中国"}})
    (skipped,) = lo.optimize_indices(uri).skipped
    assert "rjieba" in skipped
    assert lo.compact(uri).indices_remapped == 1
    assert lo.fsck(uri, deep=True).ok


def test_the_library_cuts_as_pylance_does_or_is_missing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = home / "jieba/default/dict.txt"
    monkeypatch.setattr(jieba, "_KNOWN", jieba._digest(path, path.stat().st_mtime_ns))
    parameters = TextParameters(base_tokenizer="jieba/default", stem=False, remove_stop_words=False)
    if importlib.util.find_spec("rjieba") is None:
        with pytest.raises(MissingExtraError):
            Analyzer(parameters)
        return
    for text, words in OF_PYLANCE.items():
        assert list(Analyzer(parameters).query_words(text)) == words
