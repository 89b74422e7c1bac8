import pytest

from benchmarks.report import Table, keep_text

HEADER = ("| case | ours | ratio |", "|---|---:|---:|")


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "README.md"
    path.write_text(
        "# Title\n\n<!-- cases: written by a run with `--write` -->\n\n## Next\n\nprose, | with a bar\n"
    )
    return path


def rows(page):
    return [line for line in page.read_text().splitlines() if line.startswith("| ")][1:]


def test_a_run_of_one_case_leaves_the_rows_of_others_and_their_days(page):
    table = Table("cases", HEADER, path=page)
    table.keep(["| append | 1 | **2.0x** |", "| scan | 3 | **1.0x** |"], how="5 pairs, clock")
    before = rows(page)

    table.keep(["| scan | 2 | **1.5x** |"], how="9 pairs, processor")

    after = rows(page)
    assert after[0] == before[0]
    assert after[1].startswith("| scan | 2 | **1.5x** |")
    assert "9 pairs, processor, load" in after[1]
    assert page.read_text().endswith("\n## Next\n\nprose, | with a bar\n")
    assert page.read_text().count("| case | ours | ratio | measured |") == 1


def test_rows_stand_in_the_order_of_the_cases_and_those_of_former_cases_go(page):
    table = Table("cases", HEADER, path=page)
    table.keep(["| gone | 1 | 1 |", "| second | 1 | 1 |"], how="1 pair")

    table.keep(["| first | 1 | 1 |"], ["first", "second"], how="1 pair")

    assert [row.split(" | ")[0] for row in rows(page)] == ["| first", "| second"]


def test_rows_may_be_told_apart_by_several_cells(page):
    table = Table("cases", HEADER, keys=2, path=page)
    table.keep(["| a | 1 | x |", "| a | 2 | x |"], how="1 pair")
    table.keep(["| a | 2 | y |"], how="1 pair")
    assert [row.split(" | ")[1:3] for row in rows(page)] == [["1", "x"], ["2", "y"]]


def test_a_page_without_the_marker_is_not_changed(page):
    before = page.read_text()
    with pytest.raises(ValueError, match="other"):
        Table("other", HEADER, path=page).keep(["| a | 1 | 1 |"], how="1 pair")
    with pytest.raises(ValueError, match="other"):
        keep_text("other", ["line"], page)
    assert page.read_text() == before


def test_text_replaces_what_stands_up_to_the_next_heading(page):
    keep_text("cases", ["one"], page)
    keep_text("cases", ["two"], page)
    text = page.read_text()
    assert "one" not in text
    assert text.endswith("\ntwo\n\n## Next\n\nprose, | with a bar\n")
