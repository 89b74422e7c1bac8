"""The generator tells a stale module from a current one."""

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def generator(monkeypatch: pytest.MonkeyPatch):
    """tools/generate_protos.py as a module."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("generate_protos")


def test_equal_files_differ_in_nothing(generator) -> None:
    committed = generator.generated_files(ROOT / "lance_ops" / "pb")
    assert "table_pb2.py" in committed
    assert "table_pb2.pyi" in committed
    assert generator.differences(dict(committed), committed) == []


@pytest.mark.parametrize(
    ("fresh", "committed"),
    [
        ({"a_pb2.py": "x = 2\n"}, {"a_pb2.py": "x = 1\n"}),
        ({"a_pb2.py": "x = 1\n", "b_pb2.py": "y = 1\n"}, {"a_pb2.py": "x = 1\n"}),
        ({}, {"a_pb2.py": "x = 1\n"}),
    ],
    ids=["changed", "missing", "left over"],
)
def test_stale_files_are_named(generator, fresh: dict[str, str], committed: dict[str, str]) -> None:
    changes = generator.differences(fresh, committed)
    assert any(line.startswith("--- lance_ops/pb/") for line in changes)


def test_committed_modules_do_not_check_the_protobuf_release_again(generator) -> None:
    for name, text in generator.generated_files(ROOT / "lance_ops" / "pb").items():
        assert "ValidateProtobufRuntimeVersion" not in text, name
        assert generator.VERSION_CHECK.sub("", text) == text
