"""Kinds of indices are found by name and by entry, and no modules of other kinds are imported."""

import subprocess
import sys
import textwrap

import pytest

from lance_ops.errors import InvalidArgumentError
from lance_ops.index.registry import FAMILIES, all_kinds, kind_by_name, rank_of


def test_the_table_of_families_says_what_their_kinds_say() -> None:
    for family in FAMILIES:
        kinds = family.load()
        assert {kind.type_url.rsplit(".", 1)[-1].lower() for kind in kinds} == {family.type_name}
        if family.names:
            assert tuple(kind.name.upper() for kind in kinds) == family.names


def test_each_kind_is_found_by_its_name_and_is_one_object() -> None:
    for kind in all_kinds():
        assert kind_by_name(kind.name.lower()) is kind
    assert rank_of(kind_by_name("BTREE")) < rank_of(kind_by_name("BITMAP")) < rank_of(kind_by_name("JSON"))


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidArgumentError, match="no index kind 'TREE'") as refused:
        kind_by_name("TREE")
    assert "BTREE" in str(refused.value.hint)


def test_modules_of_other_kinds_are_not_imported() -> None:
    code = """
        import sys
        from lance_ops.index.registry import kind_by_name
        kind_by_name("BTREE")
        others = ("inverted", "vector", "bitmap", "ngram", "rtree", "json")
        assert not [name for name in others if f"lance_ops.index.{name}.kind" in sys.modules]
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)
