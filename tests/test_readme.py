"""The examples of the README run as they stand, its commands are understood, its pictures are there."""

import re
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lance_ops as lo
from lance_ops.cli import main
from tests.support.commands import lance_ops
from tests.support.spark import run_script

README = Path(__file__).parent.parent / "README.md"
CLAIMS = README.parent / "docs" / "claims.md"
_EXAMPLES = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
ON_SPARK = [example for example in _EXAMPLES if "lance_ops.spark" in example]
PLAIN = [example for example in _EXAMPLES if example not in ON_SPARK]


def test_there_are_examples() -> None:
    assert len(PLAIN) == 2
    assert len(ON_SPARK) == 1


@pytest.mark.parametrize("number", range(len(PLAIN)))
def test_an_example_runs_as_it_stands(tmp_path: Path, number: int) -> None:
    run_script(PLAIN[number], cwd=tmp_path)


@pytest.mark.spark
def test_the_spark_example_runs_on_what_the_first_example_made(tmp_path: Path) -> None:
    run_script(PLAIN[0], cwd=tmp_path)
    run_script(ON_SPARK[0], cwd=tmp_path)
    copied = lo.dataset(tmp_path / "copy.lance")
    assert copied.schema.names == ["id", "kind"]
    assert copied.count_rows() == lo.dataset(tmp_path / "events.lance").count_rows("id > 5") > 0


COMMANDS = [
    shlex.split(line, comments=True)[1:]
    for line in README.read_text(encoding="utf-8").splitlines()
    if line.startswith("lance-ops ")
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_command_of_the_readme_is_understood(arguments: list[str]) -> None:
    name, *rest = arguments
    main.commands[name].make_context(name, rest)


def test_the_commands_of_the_readme_run_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that only say what they would do are run without that, too."""
    monkeypatch.chdir(tmp_path)
    for folder, ids in (("day=2024-05-01", range(40)), ("fixed", range(40)), ("changed", range(30, 50))):
        _input(tmp_path / folder, ids)
    ran = []
    for arguments in COMMANDS:
        if "fleet" in arguments:
            continue
        for given in [arguments, [item for item in arguments if item != "--dry-run"]]:
            if given not in ran:
                ran.append(given)
                lance_ops(*given)
    assert ["compact", "events.lance"] in ran
    assert ran.index(["compact", "events.lance"]) < ran.index(["changes", "events.lance", "--since", "2"])


def _input(folder: Path, ids: range) -> None:
    folder.mkdir()
    columns = {
        "id": pa.array(ids, pa.int64()),
        "day": ["2024-05-01"] * len(ids),
        "country": [("UK", "XX", "DE", "FR")[number % 4] for number in ids],
        "user": pa.array([number * 3 for number in ids], pa.int32()),
    }
    pq.write_table(pa.table(columns), folder / "rows.parquet")


def test_every_claim_has_its_tests() -> None:
    text = README.read_text(encoding="utf-8")
    section = text.partition("## Differences from the official library")[2].partition("\n## ")[0]
    claims = re.findall(r"^- \*\*(.+?)\.\*\*", section, re.MULTILINE)
    lines = CLAIMS.read_text(encoding="utf-8").partition("\n## ")[0].splitlines()
    rows = [line.split("|")[1:4] for line in lines if line.startswith("|") and "`tests/" in line]
    assert [claim.strip() for claim, _, tests in rows if claim.strip() and tests] == claims
    named = [name for *_, tests in rows for name in re.findall(r"`(\S+)`", tests)]
    missing = [name for name in named if not (README.parent / name).is_file()]
    assert missing == []
    assert len(named) > len(claims)


def test_every_feature_of_the_dagster_plugin_has_its_tests() -> None:
    table = CLAIMS.read_text(encoding="utf-8").partition("\n## The Dagster plugin")[2]
    rows = [line.split("|")[1:4] for line in table.splitlines() if line.startswith("|")][2:]
    assert len(rows) == 42
    for feature, state, shown in rows:
        assert feature.strip()
        assert state.strip()
        files = re.findall(r"`(tests/\S+\.py)`(?: \(([^)]*)\))?", shown)
        assert files
        for file, names in files:
            text = (README.parent / file).read_text(encoding="utf-8")
            for name in re.findall(r"\w+", names):
                assert f"def {name}(" in text, f"{file} has no {name}"


def test_pictures_of_the_readme_are_there_and_small() -> None:
    names = re.findall(r'src="(docs/images/[^"]+)"', README.read_text(encoding="utf-8"))
    assert 0 < len(names) <= 5
    for name in names:
        assert 10_000 < (README.parent / name).stat().st_size < 200_000, name
