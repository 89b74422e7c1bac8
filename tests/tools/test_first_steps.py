"""The page of the first steps is run step by step, with times; the other pages run with it elsewhere."""

from pathlib import Path

import pytest

from tools import first_steps

PAGE = """
# Page

## Rows

```python
from pathlib import Path

Path("rows.csv").write_text("id\\n1\\n2\\n")
```

```console
$ not run
```

## A table

```sh
lance-ops append rows.lance rows.csv
lance-ops count \\
    rows.lance
```
"""


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    monkeypatch.setattr(first_steps, "PAGE", page)
    return page


def test_the_page_covers_the_way_from_files_to_a_report() -> None:
    steps = list(first_steps.read_steps(first_steps.PAGE.read_text(encoding="utf-8"), "python"))
    assert len(steps) >= 12
    shown = "\n".join(line for step in steps for line, _ in step.commands)
    for command in ("append", "index", "query", "sql", "export", "maintain", "fleet run", "fleet report"):
        assert f"lance-ops {command}" in shown


@pytest.mark.usefixtures("page")
def test_each_step_is_shown_with_its_output_and_time(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first_steps.main(["--folder", str(tmp_path / "work")])
    told = capfd.readouterr().out
    assert "2. A table\n$ lance-ops append rows.lance rows.csv\nappend: created with 2 rows" in told
    assert "not run" not in told
    assert [line.split("  ")[0] for line in told.splitlines()[-3:]] == ["Rows", "A table", "Together"]
    assert (tmp_path / "work" / "rows.lance" / "_versions").is_dir()


def test_a_failing_step_ends_the_run(tmp_path: Path, page: Path, capfd: pytest.CaptureFixture[str]) -> None:
    page.write_text(PAGE.replace("rows.lance rows.csv", "rows.lance nope.csv"), encoding="utf-8")
    with pytest.raises(SystemExit, match="failed with exit code 1"):
        first_steps.main(["--folder", str(tmp_path / "work")])
    assert "no such input file" in capfd.readouterr().out


def test_a_folder_with_files_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        first_steps.main(["--folder", str(Path(__file__).parent)])
    assert "is not empty" in capsys.readouterr().err
