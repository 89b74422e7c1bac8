from examples.demo.report import _fate


def test_the_last_column_says_which_versions_of_a_row_are_kept():
    kept = {74, 75, 76, 80}
    assert _fate(65, 75, kept) == "74-75 kept"
    assert _fate(60, 64, kept) == "cleaned up"
    assert _fate(74, 76, kept) == "kept"
    assert _fate(76, 76, kept) == "kept"
    assert _fate(77, 80, kept) == "80 kept"
    assert _fate(76, 80, kept) == "76, 80 kept"
