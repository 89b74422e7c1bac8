"""The suite's lists of its own files: a file that moves does not fall out of them unseen."""

from itertools import chain
from pathlib import Path

import pytest

from tests.support.side_by_side import TOGETHER, unit_of
from tests.support.unit import NOT_UNIT

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("path", sorted({*NOT_UNIT, *chain(*TOGETHER.values())}))
def test_every_file_and_folder_of_the_lists_is_there(path):
    assert (ROOT / path).exists()
    assert (ROOT / path).is_dir() == path.endswith("/")


def test_what_shares_a_session_is_one_unit_and_every_other_file_its_own():
    assert unit_of("tests/spark/test_types.py::test_a[1]") == unit_of("tests/demo/test_demo.py::test_b")
    assert unit_of("tests/pb/test_modules.py::TestA::test_b[a::b]") == "tests/pb/test_modules.py"
