"""`lance-ops demo` where there is no demo; `tests/demo` runs it where there is one."""

import sys

import pytest

from tests.support.commands import lance_ops


def test_an_installation_says_where_the_demo_is(monkeypatch: pytest.MonkeyPatch, tmp_path):
    for name in [name for name in sys.modules if name.partition(".")[0] == "examples"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "examples", None)
    done = lance_ops("demo", "--path", tmp_path / "demo", code=2)
    assert "in a checkout" in done.output
